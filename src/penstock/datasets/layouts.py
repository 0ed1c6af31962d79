"""Which layout a folder has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.datasets import classification, segmentation
from penstock.errors import DatasetError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datasets.items import Layout


def recognise(folder: Path) -> Layout:
    """The layout of a folder, from the names in it.

    Raises:
        DatasetError: there is no such folder, or nothing in it that we know.
    """
    if not folder.is_dir():
        raise DatasetError(
            str(folder),
            expected="a folder of pictures",
            found="a file" if folder.exists() else "nothing",
            remedy="Check the path",
        )
    found = segmentation.recognise(folder) or classification.recognise(folder)
    if found is None:
        entries = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in folder.iterdir())
        raise DatasetError(
            str(folder),
            expected="images/ and masks/ (with or without train/, val/ and test/ in them), or one folder per class",
            found=", ".join(entries[:8]) + (", ..." if len(entries) > 8 else "") or "an empty folder",  # noqa: PLR2004
            remedy="Arrange the files so, or name the folder one level up or down",
        )
    if not found.items:
        raise DatasetError(
            str(folder),
            expected="at least one JPEG or PNG picture",
            found=f"none in its {found.name}",
            remedy="Check that the files are there and end in .jpg, .jpeg or .png",
        )
    return found
