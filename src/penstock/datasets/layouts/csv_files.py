"""CSV files: the names of their columns, and their rows."""

from __future__ import annotations

import contextlib
import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec

from penstock.datasets import listing
from penstock.datasets.layouts.lookup import plain
from penstock.errors import DatasetError
from penstock.progress import counted

Row = Mapping[str, str]

BEYOND: Final = ""
"""The name of cells that have no column."""
SUBMISSION: Final = "submission"
"""What the names of tables hold that are an example of what Kaggle wants back."""
_SEPARATOR: Final = re.compile(r"sep=.\s*")  # Excel's first line, which is none of the table
_LONGEST: Final = 1 << 20  # bytes of a first line
_LARGEST: Final = 1 << 30  # bytes of a table, whose rows are held in memory
_MAX_COLUMNS: Final = 10_000
_FEW: Final = 8  # files of JSON
_JSON: Final = frozenset({".json", ".jsonl"})
_LARGEST_JSON: Final = 1 << 26  # bytes; COCO's is larger, and no table


def check_columns(path: Path, columns: Sequence[str]) -> None:
    """Refuse a table with two columns of one name, as it is not known which of them is meant.

    Raises:
        DatasetError: there are such columns.
    """
    twice = [name for name, count in Counter(columns).items() if name and count > 1]
    if twice:
        raise DatasetError(
            f"{path}, line 1",
            expected="columns of different names",
            found=f"the column {twice[0]} {counted(columns.count(twice[0]), 'time')}",
            remedy="Rename or remove all but one of them",
        )


def columns_of(path: Path) -> list[str]:
    """The columns that the first line of a file names, in lower case; they need not be those of a table of images."""
    if path.suffix.lower() in _JSON:
        return [name.lower() for name in _entries(path)[1]]
    with path.open(encoding=listing.encoding_of(path), errors="replace") as handle:
        line = handle.readline(_LONGEST)
        line = handle.readline(_LONGEST) if _SEPARATOR.fullmatch(line) else line
    words = line.split(_delimiter(line))
    return [word.strip().strip('"').strip().lower() for word in words]


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)


def read_rows(path: Path) -> tuple[dict[int, Row], list[str]]:
    """The rows by the line that they end in, and the names of the columns; of JSON the entries by their numbers."""
    if path.suffix.lower() in _JSON:
        return _entries(path)
    with _opened(path) as handle:
        start, first = 0, handle.readline()
        if _SEPARATOR.fullmatch(first):
            start, first = handle.tell(), handle.readline()
        handle.seek(start)
        reader = csv.DictReader(handle, delimiter=_delimiter(first), strict=True)
        if len(reader.fieldnames or ()) > _MAX_COLUMNS:
            expected, found = f"a table of at most {_MAX_COLUMNS:,} columns", f"{len(reader.fieldnames or ()):,}"
            raise DatasetError(str(path), expected=expected, found=found, remedy="Move it away, or leave columns out")
        return dict(_numbered(reader)), [name.strip() for name in reader.fieldnames or ()]


def json_tables(folder: Path) -> list[Path]:
    """The few JSON files of a folder that may be tables; many are annotations of an image each."""
    paths = listing.plain(folder, "*.json")
    return [path for path in paths if len(paths) <= _FEW and _entries(path)[1]]


def _entries(path: Path) -> tuple[dict[int, Row], list[str]]:
    """The rows of a list of flat tables, of such lists by split, or of labels by the names of images; none of another
    structure.
    """
    tree: Any = None
    with contextlib.suppress(OSError, msgspec.DecodeError, RecursionError):
        decode = msgspec.json.Decoder().decode_lines if path.suffix.lower() == ".jsonl" else msgspec.json.decode
        tree = decode(path.read_bytes()) if path.stat().st_size <= _LARGEST_JSON else None
    entries = tree if isinstance(tree, list) else []
    if isinstance(tree, dict) and tree and all(isinstance(value, str | int) for value in tree.values()):
        entries = [{"file": name, "label": label} for name, label in tree.items()]
    elif isinstance(tree, dict):
        lists = {listing.split_of(key): value for key, value in tree.items() if isinstance(value, list)}
        lists.pop("", None)
        entries = [{**each, "split": split} for split in lists for each in lists[split] if isinstance(each, dict)]
    if not entries or not all(isinstance(each, dict) and _is_flat(each) for each in entries):
        return {}, []
    rows = [{str(key): str(value) for key, value in each.items()} for each in entries]
    named = [key for key, cell in rows[0].items() if listing.is_image(Path(plain(cell)))]
    columns = list(dict.fromkeys(key for row in rows for key in row)) if len(named) == 1 else []  # two are pairs
    return {n: _cleaned({key: row.get(key, "") for key in columns}) for n, row in enumerate(rows, 1)}, columns


def _is_flat(entry: Mapping[str, Any]) -> bool:
    return all(isinstance(value, str | int | float) for value in entry.values())


def read_cells(path: Path) -> list[list[str]]:
    """The cells of each row of a file whose columns have no names."""
    with _opened(path) as handle:
        return list(csv.reader(handle, strict=True))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """A file to read rows from."""
    if path.stat().st_size > _LARGEST:
        expected, remedy = f"a table of at most {_LARGEST:,} bytes", "Divide it, for example by splits"
        raise DatasetError(str(path), expected=expected, found=f"{path.stat().st_size:,}", remedy=remedy)
    try:
        with path.open(newline="", encoding=listing.encoding_of(path)) as handle:
            yield handle
    except UnicodeError as error:
        raise DatasetError(
            str(path), expected="CSV in UTF-8", found=str(error), remedy="Save the file in UTF-8"
        ) from None
    except csv.Error as error:
        raise DatasetError(str(path), expected="CSV", found=str(error), remedy="Fix the file, or remove it") from None


def readable(folder: Path, *patterns: str) -> Iterator[tuple[Path, dict[int, Row], list[str]]]:
    """The tables directly in a folder, with rows and columns, without damaged ones and sample submissions."""
    for path in listing.plain(folder, *patterns):
        if SUBMISSION in path.stem.lower():
            continue
        try:
            rows, header = read_rows(path)
        except DatasetError:
            continue
        yield path, rows, header


def _numbered(reader: csv.DictReader[str]) -> Iterator[tuple[int, Row]]:
    for row in reader:
        yield reader.line_num, _cleaned(row)


def _cleaned(row: Mapping[str | None, str | list[str] | None]) -> Row:
    """Cells by column; those beyond the columns, which are of no use unless they are empty, by no name."""
    beyond = ", ".join(cell.strip() for cell in row.get(None) or () if cell.strip())
    return {BEYOND: beyond, **{str(key).strip().lower(): _cell(str(row[key] or "")) for key in row if key}}


def _cell(text: str) -> str:
    """What a cell says; nothing where pandas has written that a value is missing."""
    said = listing.composed(text.strip())
    return "" if said.lower() == "nan" else said
