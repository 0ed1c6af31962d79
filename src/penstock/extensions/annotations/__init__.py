"""What annotation tools write: outlines, boxes, painted pixels and classes, with the images that they are about.

labelme.py        LabelMe JSON
cvat.py           CVAT XML
label_studio.py   Label Studio JSON
brush.py          pixels that were painted with Label Studio's brush
supervisely.py    Supervisely projects
via.py            VGG Image Annotator JSON
createml.py       Create ML JSON
fiftyone.py       FiftyOne exports
hugging_face.py   metadata.jsonl of Hugging Face's imagefolder
open_images.py    Open Images CSV
"""

from typing import Final

from penstock.datasets.layouts.catalogue import KnownLayout

LAYOUTS: Final = {
    "cvat": KnownLayout(f"{__name__}.cvat:recognise", "annotations.xml  images/a.jpg"),
    "supervisely": KnownLayout(
        f"{__name__}.supervisely:recognise", "meta.json  ds/img/a.jpg  ds/ann/a.jpg.json", keys="size, objects"
    ),
    "label-studio": KnownLayout(
        f"{__name__}.label_studio:recognise", "export.json  images/a.jpg", keys="a list with data, annotations"
    ),
    "createml": KnownLayout(
        f"{__name__}.createml:recognise",
        "train/a.jpg  train/_annotations.createml.json",
        keys="a list with image, annotations",
    ),
    "via": KnownLayout(
        f"{__name__}.via:recognise",
        "train/a.jpg  train/via_region_data.json, or via_project.json  a.jpg",
        keys="regions, filename",
    ),
    "fiftyone": KnownLayout(f"{__name__}.fiftyone:recognise", "data/a.jpg  labels.json, or data/a.jpg  samples.json"),
    "hugging-face": KnownLayout(
        f"{__name__}.hugging_face:recognise", "train/a.jpg  train/metadata.jsonl (file_name, and label or objects)"
    ),
    "open-images": KnownLayout(
        f"{__name__}.open_images:recognise", "train-annotations-bbox.csv  class-descriptions-boxable.csv  train/a.jpg"
    ),
    "labelme": KnownLayout(
        f"{__name__}.labelme:recognise",
        "a.jpg  a.json, or images/a.jpg  annotations/a.json",
        keys="version, shapes, imagePath",
    ),
}
"""The layouts that it brings, by name."""
