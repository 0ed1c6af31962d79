"""The boxes of tables: which columns hold them, and whether they are corners, or a corner and a size."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from penstock.errors import PenstockError
from penstock.images import probe
from penstock.images.formats import stored
from penstock.kinds.items import Box, Problem, named
from penstock.progress import counted

Row = Mapping[str, str]

_CORNERS: Final = (
    ("xmin", "ymin", "xmax", "ymax"), ("x_min", "y_min", "x_max", "y_max"), ("x1", "y1", "x2", "y2"),
    ("x0", "y0", "x1", "y1"), ("left", "top", "right", "bottom"), ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2"),
    ("bbox_xmin", "bbox_ymin", "bbox_xmax", "bbox_ymax"), ("start_x", "start_y", "end_x", "end_y"),
    ("tl_x", "tl_y", "br_x", "br_y"), ("x", "y", "x2", "y2"),
)  # fmt: skip
_SIDES: Final = (("bbox_width", "bbox_height"), ("bbox_w", "bbox_h"), ("w", "h"), ("width", "height"))
_SIZES: Final = tuple(
    (*names[:2], *sides) for names in (("x", "y"), ("bbox_x", "bbox_y"), *_CORNERS) for sides in _SIDES
)
_MIDDLES: Final = tuple(
    (x, y, *sides)
    for x, y in (("cx", "cy"), ("xc", "yc"), ("x_center", "y_center"), ("center_x", "center_y"), ("xcenter", "ycenter"))
    for sides in _SIDES
)
_GEOMETRY: Final = re.compile(
    r"(.*[_ ])?([xywh]\d?|[xy][_ ]?(min|max|center|start|end|left|right|top|bottom)|left|right|top|bottom|width|height)"
    r"([_ ].*)?"
)
_SIDE: Final = re.compile(r"((im(age|g)?|orig(inal)?|frame|photo)[-_ ]?)*(?P<side>height|width|(?<=[_ -])[hw])")
_FOUR: Final = 4  # numbers of a box
_NUMBER: Final = r"-?\d+(\.\d*)?(e[-+]?\d+)?"
_LIST: Final = re.compile(
    rf"{_NUMBER}([\s,;]+{_NUMBER}){{3}}|[\[(][\s\[(]*{_NUMBER}([\s,;\[\]()]+{_NUMBER}){{3,}}[\s\])]*"
)
_KEYS: Final = re.compile(r"[\"'](\w+)[\"']\s*:")
_ONE: Final = {"bbox": "", "bbox_xyxy": "corners", "bbox_xywh": "sizes"}
MIXED: Final = "boxes of either kind"
_SLIGHTLY: Final = 0.1  # beyond 1 by rounding, or by an object at the image's edge
_SLIPS: Final = 0.05  # of all boxes: as few as those may be turned inside out, or the others may be large


class Edges(NamedTuple):
    """Boxes by line; how they were read, and by which name; whether in fractions; how many are ambiguous."""

    edges: Mapping[int, tuple[float, float, float, float]]
    how: str
    read: Literal["", "xyxy", "xywh"]
    relative: bool
    mixed: int = 0


def size_in(row: Row, edges: Sequence[str] = (), boxes: Sequence[Box] = ()) -> tuple[int, int]:
    """The (height, width) that a row states of its image; 0 where it states none, or that of its box."""
    sides = {
        match["side"][0]: cell for name, cell in row.items() if name not in edges and (match := _SIDE.fullmatch(name))
    }
    height, width = (sides.get(side, "") for side in "hw")
    if not (height.isdecimal() and width.isdecimal()):
        return 0, 0
    size = int(height), int(width)
    of_box = any(size == (round(each.bottom - each.top), round(each.right - each.left)) for each in boxes)
    return (0, 0) if of_box else size


def columns_of_boxes(columns: list[str]) -> tuple[str, ...]:
    """Those that hold boxes."""
    four = next((names for names in (*_CORNERS, *_SIZES, *_MIDDLES) if set(names) <= set(columns)), ())
    return four or tuple(name for name in _ONE if name in columns)[:1]


def unread_boxes(place: str, rows: Mapping[int, Row], columns: list[str]) -> list[Problem]:
    """The problem of columns that are not read, and called as those of boxes, or hold several numbers in each cell."""
    for name in columns:
        cells = [cell for row in rows.values() if (cell := row.get(name, ""))]
        if cells and all(map(_are_numbers, cells)):
            return [_of_numbers(place, name, cells[0])]
    called = [name for name in columns if _GEOMETRY.fullmatch(name)]
    numbers = [name for name in called if all(_is_number(row.get(name, "")) for row in rows.values())]
    if len(numbers) < _FOUR:
        return []
    edges = " ".join(f"--field {edge}=COLUMN" for edge in _CORNERS[0])
    message = (
        f"{place}: expected columns of boxes with known names, found {', '.join(numbers)}. Rename them to "
        f"{', '.join(_CORNERS[0])} or x, y, width, height, or name the corners with {edges}. If they are no boxes, "
        "rename or remove them."
    )
    return [Problem("columns that may be boxes", place, message, whole=True)]


def _are_numbers(cell: str) -> bool:
    """Whether a cell holds four numbers, a list of more, or a box by the names of its edges."""
    edges = [name for name in _KEYS.findall(cell) if _GEOMETRY.fullmatch(name.lower())]
    return len(edges) >= _FOUR or _LIST.fullmatch(cell) is not None


def _of_numbers(place: str, column: str, cell: str) -> Problem:
    message = (
        f"{place}: expected boxes in a column with a known name, found {column}, whose cells hold numbers such as "
        f"{cell[:40]}. If they are boxes, write them as four numbers in a column bbox_xyxy (left, top, right, bottom) "
        "or bbox_xywh (left, top, width, height). If the images are to be classified without them, remove the column."
    )
    return Problem("columns that may be boxes", place, message, whole=True)


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"-?\d*\.?\d*", cell) is not None


def read_edges(lines: Mapping[int, Row], names: tuple[str, ...]) -> Edges | None:
    """The left, top, right and bottom edge of the box in every line, and how they were read; None without boxes."""
    if not names:
        return None
    found = {number: edges for number, row in lines.items() if (edges := _numbers(row, names)) is not None}
    known = [edge for edges in found.values() for edge in edges if math.isfinite(edge)]
    relative = bool(known) and all(-_SLIGHTLY <= edge <= 1 + _SLIGHTLY for edge in known)
    unit = "; as none of them is beyond 1, they are fractions of the image's size" * relative
    if names in _MIDDLES:
        how = f"boxes are read as a middle and a size (x, y, width, height): their columns say so{unit}"
        middles = {key: (x - w / 2, y - h / 2, x + w / 2, y + h / 2) for key, (x, y, w, h) in found.items()}
        return Edges(middles, how, "", relative)
    below = sum(edges[2] <= edges[0] or edges[3] <= edges[1] for edges in found.values())
    stated = "corners" if names in _CORNERS else "sizes" if names in _SIZES else _ONE[names[0]]
    if stated == "corners" or (not stated and below <= _SLIPS * len(found)):
        rarely = f"the third or fourth number is below the first or second in {below:,} of {len(found):,} only"
        never = "the third or fourth number is never below the first or second"
        told = "their columns say so" if stated else rarely if below else never
        how = f"boxes are read as corners (left, top, right, bottom): {told}{unit}"
        return Edges(found, how, "" if stated else "xyxy", relative, 0 if stated else below)
    told = "their columns say so" if stated else f"the third or fourth number is below the first or second in {below:,}"
    how = f"boxes are read as a corner and a size (left, top, width, height): {told}{unit}"
    return Edges(
        {key: (x, y, x + w, y + h) for key, (x, y, w, h) in found.items()}, how, "" if stated else "xywh", relative
    )


def _numbers(row: Row, names: tuple[str, ...]) -> tuple[float, float, float, float] | None:
    words = [row[name] for name in names] if len(names) > 1 else re.findall(r"[-+.\deE]+", row[names[0]])
    try:
        a, b, c, d = (float(word) for word in words)
    except ValueError:
        return None
    return a, b, c, d


def boxless(folder: Path, path: Path, number: int, image: Path, cells: Mapping[str, str]) -> Problem:
    """The problem of a row that has something else where its box should be."""
    place = f"{path.relative_to(folder).as_posix()}, line {number}"
    found = ", ".join(filter(None, cells.values())) or "nothing"
    message = f"{place}: expected four numbers in {', '.join(cells)}, found {found}. Fix the row, or remove it."
    return Problem("row without a box", named(image, folder), message)


def undecided(folder: Path, path: Path, column: str, read: Edges, images: Mapping[int, Path]) -> list[Problem]:
    """The problem of boxes that are read as corners, but would all lie inside their images as corners and sizes too."""
    sizes: dict[Path, tuple[float, float]] = {}
    for number, image in images.items():
        left, top, right, bottom = read.edges[number]
        if image not in sizes:
            sizes[image] = (1.0, 1.0) if read.relative else _size(image)
        height, width = sizes[image]
        if left + right > width + 1 or top + bottom > height + 1:
            return []
    if not images:
        return []
    name = path.relative_to(folder).as_posix()
    message = (
        f"{name}: expected boxes that can be read in one way, found {counted(len(images), 'box')} in column {column} "
        "that lie inside their images as corners (left, top, right, bottom) and as a corner and a size (left, top, "
        "width, height). Say which they are with --boxes xyxy or --boxes xywh, or name the column bbox_xyxy or "
        "bbox_xywh."
    )
    return [Problem(MIXED, name, message, whole=True)]


def _size(image: Path) -> tuple[float, float]:
    """(height, width); of what cannot be read nothing, which decides nothing."""
    try:
        return probe(stored(image.read_bytes(), image.name), image.name).size
    except (PenstockError, OSError):
        return math.inf, math.inf


def mixed(folder: Path, path: Path, column: str, read: Edges) -> list[Problem]:
    """The problem of boxes that are neither all corners nor all sizes."""
    name = path.relative_to(folder).as_posix()
    message = (
        f"{name}: expected corners or sizes in column {column}, found {read.mixed:,} of {len(read.edges):,} "
        "boxes whose third or fourth number is below the first or second: too many for corners, too few for sizes. "
        "Say which they are with --boxes xyxy or --boxes xywh, or name the column bbox_xyxy or bbox_xywh."
    )
    return [Problem(MIXED, name, message, whole=True)]
