"""What lies in a folder: a layout's name, and all items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from penstock.kinds import find_kind
from penstock.kinds.base import Kind
from penstock.kinds.items import Item, Labels, Problem


@dataclass(frozen=True)
class Layout:
    """What lies in a folder.

    Attributes:
        task: the name of the kind of its records, which says what can be learnt from it; or a custom kind.
        name: the layout's name.
        reasons: why the folder was recognised as this layout, as sentences.
        items: all images with their labels, sorted by split and name.
        labels: what the layout states of classes and masks; may be nothing.
        problems: what the names of the files alone show.
        ignored: files that are no images and were left out.
        channels: of the images; 4 keeps the alpha of RGBA PNGs, as a fourth modality.
        modalities: of volumes; 0 where the images are none.
        boxes: how the four numbers of boxes were read, as corners or as a corner and a size; "" where they have names.
        others: what else the folder can be read as: the same data for other tasks, or other layouts that fit.
        nameless: whether its classes have only numbers for names, so that somebody may name them.
        complete: whether the number of classes is final, even if --classes renames them.
        names_masks: whether its masks are drawn from annotations that name their classes, so that nobody else can.
        value_range: the values of TIFF and DICOM images that become 0 and 65535; None takes them as they are.
        raters: the same images with the masks of each rater, by name, where several have drawn them.
        option: the command line option that chooses this layout, if it is one of the `others`.
    """

    task: str | Kind
    name: str
    reasons: tuple[str, ...]
    items: tuple[Item, ...]
    labels: Labels = Labels()  # noqa: RUF009 - frozen
    problems: tuple[Problem, ...] = ()
    ignored: tuple[str, ...] = ()
    channels: int = 3
    modalities: int = 0
    boxes: Literal["", "xyxy", "xywh"] = ""
    others: tuple[Layout, ...] = ()
    option: str = ""
    nameless: bool = False
    complete: bool = False
    value_range: tuple[float, float] | None = None
    names_masks: bool = False
    raters: Mapping[str, tuple[Item, ...]] = field(default_factory=dict)

    @property
    def labelled(self) -> int:
        """How many images have a label."""
        return sum(item.label is not None and self.kind.objects(item) != 0 for item in self.items)

    @property
    def kind(self) -> Kind:
        """The kind of its records."""
        return find_kind(self.task) if isinstance(self.task, str) else self.task
