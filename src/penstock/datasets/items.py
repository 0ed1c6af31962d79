"""The values of this package."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_HIGHEST: Final = 255

Task = Literal["segmentation", "classification"]


@dataclass(frozen=True, slots=True)
class Item:
    """One picture with its label: a mask file, or the index of a class."""

    split: str
    name: str
    image: Path
    mask: Path | None = None
    label: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with the data.

    Attributes:
        kind: a short name, the same for all problems of a sort.
        file: the file it is about, relative to the folder where it lies in it.
        message: the whole sentence, file and remedy included.
        fatal: whether packing is refused; else it is only worth a look.
        whole: whether it is about the whole folder, and the file only an example; leaving it out mends nothing.
    """

    kind: str
    file: str
    message: str
    fatal: bool = True
    whole: bool = False


@dataclass(frozen=True)
class Labels:
    """What masks mean.

    Attributes:
        classes: names by id; empty lets them be told from the masks.
        ignore: the id that does not count.
        mapping: ids to change, old to new, before anything else looks at them.
        palette: whether palette PNGs are accepted, their indices being the ids.
    """

    classes: tuple[str, ...] = ()
    ignore: int = 255
    mapping: Mapping[int, int] = field(default_factory=dict)
    palette: bool = False

    def __post_init__(self) -> None:
        ids = (self.ignore, *self.mapping, *self.mapping.values())
        if not all(0 <= i <= _HIGHEST for i in ids) or len(self.classes) > _HIGHEST + 1:
            message = f"class ids are bytes, 0 to {_HIGHEST}: {len(self.classes)} classes, ids {sorted(set(ids))}"
            raise ValueError(message)


@dataclass(frozen=True)
class Layout:
    """What lies in a folder.

    Attributes:
        task: what can be learnt from it.
        name: the layout's name.
        reasons: why we think so, as sentences.
        items: all pictures with their labels, sorted by split and name.
        classes: names that the folder itself states; may be empty.
        problems: what the names of the files alone show.
        ignored: files that are no pictures and were left out.
    """

    task: Task
    name: str
    reasons: tuple[str, ...]
    items: tuple[Item, ...]
    classes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    ignored: tuple[str, ...] = ()
