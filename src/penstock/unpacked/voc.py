"""Pascal VOC: http://host.robots.ox.ac.uk/pascal/VOC/voc2012/htmldoc. Names of files hold no folder in it."""

from __future__ import annotations

import io
from typing import Any, ClassVar
from xml.etree import ElementTree as ET

from PIL import Image

from penstock.images import drawing
from penstock.unpacked.base import FolderWriter, LabelledImage, shortest
from penstock.values import Object, Pixels


class _Voc(FolderWriter):
    """`JPEGImages/NAME`, and lists of names by split below `ImageSets/`.

    Attributes:
        lists: the folder of the lists.
    """

    flat: ClassVar[bool] = True
    lists: ClassVar[str]

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._names: dict[str, list[str]] = {}

    @property
    def palette(self) -> Pixels:
        """A colour for each id, uint8 (256, 3): the data's own, or VOC's where two of those are equal."""
        own = self.colors if len(set(self.colors)) == len(self.classes) else ()
        colors = drawing.palette_of("voc", self.ignore)
        if own:
            colors[: len(own)] = own
        return colors

    def write_image(self, image: LabelledImage) -> str:
        """Write the image as it was packed, list it, and give its name."""
        name = self.name(image)
        self.write(f"JPEGImages/{name}{image.suffix}", image.data)
        self._names.setdefault(image.split, []).append(name)
        return name

    def close(self) -> None:
        """The lists, and the classes in the order of their ids: labelmap.txt, with their colours, and classes.txt."""
        for split, names in self._names.items():
            self.write(f"ImageSets/{self.lists}/{split}.txt", "".join(f"{name}\n" for name in names))
        colors = self.palette.tolist()
        rows = [f"{name}:{','.join(map(str, colors[i]))}::" for i, name in enumerate(self.classes)]
        self.write("labelmap.txt", "".join(f"{row}\n" for row in rows))
        self.write_classes()


class VocBoxes(_Voc):
    """`Annotations/NAME.xml`. Edges are counted from 1, and belong to the box."""

    lists: ClassVar[str] = "Main"
    forbidden: ClassVar[str] = ":"

    def add(self, image: LabelledImage) -> None:
        """The image and the XML of its boxes."""
        name = self.write_image(image)
        tree = ET.Element("annotation")
        ET.SubElement(tree, "filename").text = f"{name}{image.suffix}"
        size = ET.SubElement(tree, "size")
        for key, value in (("width", image.size[1]), ("height", image.size[0]), ("depth", 3)):
            ET.SubElement(size, key).text = str(value)
        for each in image.label:
            self._add_object(tree, each, image)
            self.lost["objects marked as crowd"] += each.crowd
        ET.indent(tree)
        self.write(f"Annotations/{name}.xml", ET.tostring(tree, encoding="unicode") + "\n")

    def _add_object(self, tree: ET.Element, each: Object, image: LabelledImage) -> None:
        height, width = image.size
        found = ET.SubElement(tree, "object")
        ET.SubElement(found, "name").text = self.classes[each.label]
        ET.SubElement(found, "difficult").text = str(int(each.difficult))
        box = ET.SubElement(found, "bndbox")
        edges = {
            "xmin": shortest(each.left, width) + 1,
            "ymin": shortest(each.top, height) + 1,
            "xmax": shortest(each.right, width),
            "ymax": shortest(each.bottom, height),
        }
        for key, value in edges.items():
            ET.SubElement(box, key).text = f"{value:.9g}"


class VocMasks(_Voc):
    """`SegmentationClass/NAME.png`: palette PNGs whose indices are class ids, in the colours of labelmap.txt."""

    lists: ClassVar[str] = "Segmentation"
    forbidden: ClassVar[str] = ":"

    def add(self, image: LabelledImage) -> None:
        """The image and its mask."""
        name = self.write_image(image)
        height, width = image.label.shape
        mask = Image.frombytes("P", (width, height), image.label.tobytes())
        mask.putpalette(self.palette.tobytes())
        encoded = io.BytesIO()
        mask.save(encoded, "PNG")
        self.write(f"SegmentationClass/{name}.png", encoded.getvalue())
