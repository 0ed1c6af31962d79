"""YOLO, as Ultralytics reads it: https://docs.ultralytics.com/datasets/detect."""

from __future__ import annotations

import json
from typing import Any, Final

from penstock.unpacked.base import FolderWriter, LabelledImage
from penstock.values import Object

_DIGITS: Final = 9  # of a fraction: a millionth of a pixel


class YoloFolder(FolderWriter):
    """`images/SPLIT/NAME`, `labels/SPLIT/NAME.txt`, and `data.yaml` with the names of splits and classes."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._splits: dict[str, None] = {}

    def add(self, image: LabelledImage) -> None:
        """The image as it was packed, and a line for each box: class, centre, width and height as fractions."""
        name = f"{image.split}/{self.name(image)}"
        self.write(f"images/{name}{image.suffix}", image.data)
        self.write(f"labels/{name}.txt", "".join(_line(each, *image.size) for each in image.label))
        self._splits[image.split] = None
        for word in ("crowd", "difficult"):
            self.lost[f"objects marked as {word}"] += sum(getattr(each, word) for each in image.label)

    def close(self) -> None:
        """data.yaml; JSON's strings are YAML's too."""
        splits = [f"{name}: images/{name}" for name in self._splits]
        names = [f"  {number}: {json.dumps(name, ensure_ascii=False)}" for number, name in enumerate(self.classes)]
        self.write("data.yaml", "\n".join([*splits, "names:", *names, ""]))


def _line(box: Object, height: int, width: int) -> str:
    values = (
        (box.left + box.right) / 2 / width,
        (box.top + box.bottom) / 2 / height,
        (box.right - box.left) / width,
        (box.bottom - box.top) / height,
    )
    return f"{box.label} {' '.join(f'{each:.{_DIGITS}f}' for each in values)}\n"
