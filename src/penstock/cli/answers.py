"""Where predictions go, never over what something else has written, and how their tables and ids are written."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock import files
from penstock.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from penstock.datasets.description import Description

_LIST: Final = ".penstock-predictions"


def own_folder(output: Path, answers: Iterable[Path]) -> None:
    """Make a folder for predictions, and note the names of those, so that later ones may take their place.

    Raises:
        DatasetError: an answer would take the place of a file that is not noted: labels, perhaps, or pictures.
    """
    noted = output / _LIST
    names = set(noted.read_text(errors="surrogateescape").splitlines()) if noted.exists() else set()
    wanted = {path.relative_to(output).as_posix() for path in answers}
    if there := next((name for name in sorted(wanted - names) if (output / name).exists()), None):
        raise DatasetError(
            str(output / there),
            expected="no file, or one that an earlier predict wrote",
            found=f"one that is not in {noted}",
            remedy="Choose another folder with -o",
        )
    text = "\n".join(sorted(names | wanted)) + "\n"
    files.replace_whole(noted, text.encode(errors="surrogateescape"))


def write_table(path: Path, rows: Iterable[Iterable[str]]) -> None:
    """Write CSV; names that are no UTF-8 keep their bytes."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    files.replace_whole(path, text.getvalue().encode("utf-8", "surrogateescape"))


def written_ids(described: Description, *, original: bool) -> NDArray[np.uint8]:
    """What is written for every id, uint8 (256,): itself, or the one that its class had in the raw masks."""
    ids = np.arange(256, dtype=np.uint8)
    if original:
        ids[: len(described.original)] = described.original
    return ids
