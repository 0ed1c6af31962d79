"""`SPLIT/CLASS/NAME`, as ImageNet has it."""

from __future__ import annotations

from typing import Any, ClassVar

from penstock.unpacked.base import FolderWriter, LabelledImage


class ClassFolders(FolderWriter):
    """The class of an image is the folder that it lies in; classes.txt keeps their order."""

    forbidden: ClassVar[str] = "/\\"

    def can_hold(self, name: str) -> bool:
        """Whether a folder can have the name; one that begins with a dot is hidden."""
        return super().can_hold(name) and not name.startswith(".")

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._splits: set[str] = set()

    def add(self, image: LabelledImage) -> None:
        """The image in its class's folder. Empty classes get folders too, as readers number them in each split."""
        if image.split not in self._splits:
            self._splits.add(image.split)
            for name in self.classes:
                (self.folder / image.split / name).mkdir(parents=True, exist_ok=True)
        folder = self.classes[image.label]
        self.write(f"{image.split}/{folder}/{self.name(image, folder)}{image.suffix}", image.data)

    def close(self) -> None:
        """classes.txt: a line for each id."""
        self.write_classes()
