"""Where predictions go: never over what something else has written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock import files
from penstock.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

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
