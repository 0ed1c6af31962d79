"""Where predictions go: never over what something else has written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_MARK: Final = ".penstock-predictions"


def own_folder(output: Path, answers: Iterable[Path]) -> None:
    """Make a folder for predictions and mark it, so that later ones may take their place.

    Raises:
        DatasetError: it is not marked, and an answer would take the place of a file: labels, perhaps, or pictures.
    """
    if not (output / _MARK).exists() and (there := next((path for path in answers if path.exists()), None)):
        raise DatasetError(
            str(there),
            expected="no file, or one that an earlier predict wrote",
            found=f"one of something else, as {output} has no {_MARK}",
            remedy="Choose another folder with -o",
        )
    output.mkdir(parents=True, exist_ok=True)
    (output / _MARK).touch()
