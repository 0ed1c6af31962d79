"""The note and the tags of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from penstock import files
from penstock.errors import RunError
from penstock.runs.folder import RunFolder

_NOTE: Final = "note.txt"
_TAGS: Final = "tags.txt"
_LONGEST: Final = 1 << 20  # letters of either


def read_note(folder: RunFolder) -> str:
    """The note of a run; "" for nothing."""
    path = folder.path / _NOTE
    return _text(path).strip()


def write_note(folder: RunFolder, text: str) -> None:
    """Keep a note of a run, in place of the one before; an empty one removes it.

    Raises:
        RunError: it cannot be written in UTF-8.
    """
    path = folder.path / _NOTE
    if text.strip():
        files.write_atomically(path, _in_utf8("the note", f"{text.strip()}\n"))
    else:
        path.unlink(missing_ok=True)


def _in_utf8(what: str, text: str) -> bytes:
    """Text as it is kept; a word of the command line that was none holds surrogates."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise RunError(
            what, expected="text in UTF-8", found=ascii(text.strip()), remedy="Type it in a terminal that uses UTF-8"
        ) from None


def read_tags(folder: RunFolder) -> tuple[str, ...]:
    """The words that a run is put under, in alphabetical order."""
    return tuple(sorted(set(_text(folder.path / _TAGS).split())))


def _text(path: Path) -> str:
    """The beginning of a file; "" where there is none."""
    if not path.is_file():
        return ""
    with path.open(errors="replace") as handle:
        return handle.read(_LONGEST)


def change_tags(folder: RunFolder, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
    """Put a run under some words, and under others no longer.

    Raises:
        RunError: a tag is empty, has spaces in it or cannot be written in UTF-8, or one that is to go is not there.
    """
    with files.held(folder.checkpoints):  # two commands at once lose no tag
        _change_tags(folder, [*add], [*remove])


def _change_tags(folder: RunFolder, wanted: Sequence[str], remove: Sequence[str]) -> None:
    tags = set(read_tags(folder))
    for tag in wanted:
        if tag.split() != [tag]:
            raise RunError(
                "--tag", expected="a word without spaces", found=repr(tag), remedy="Give several tags one by one"
            )
    for tag in remove:
        if tag not in tags:
            found = ", ".join(sorted(tags)) or "no tag"
            raise RunError(
                f"{folder.path}: --untag", expected=f"the tag {tag}", found=found, remedy="Name one of its tags"
            )
        tags.remove(tag)
    lines = "".join(f"{tag}\n" for tag in sorted(tags | set(wanted)))
    if lines:
        files.write_atomically(folder.path / _TAGS, _in_utf8("--tag", lines))
    else:
        (folder.path / _TAGS).unlink(missing_ok=True)
