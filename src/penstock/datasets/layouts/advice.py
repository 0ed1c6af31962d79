"""What to say of a folder that has no layout that is known: what lies in it, and which layouts come near."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from penstock.datasets import listing
from penstock.datasets.layouts import jsons, yolo
from penstock.datasets.layouts.csv_files import read_rows
from penstock.errors import DatasetError
from penstock.progress import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TREES: Final[dict[str, str]] = {
    "masks": "images/train/a.jpg  masks/train/a.png  images/val/b.jpg  masks/val/b.png  classes.txt",
    "numbered-masks": "images/a.tif  masks/a.tif, or a.tif  a_masks.tif, with a number for each object",
    "named-masks": "train/a.jpg  train_masks/a_mask.png, or a.jpg  a_mask.png",
    "folders": "train/cat/a.jpg  train/dog/b.jpg  val/cat/c.jpg, or cat/a.jpg  dog/b.jpg",
    "mattes": "images/train/a.jpg  alphas/train/a.png",
    "csv": "labels.csv (file,label,split)  images/a.jpg",
    "run-lengths": "train.csv (ImageId,ClassId,EncodedPixels)  train_images/a.jpg",
    "run-lengths-instances": "train.csv (ImageId,EncodedPixels)  train_images/a.jpg",
    "yolo": "images/train/a.jpg  labels/train/a.txt  data.yaml",
    "labelimg": "images/a.jpg  annotations/a.xml, or train/a.jpg  train/a.xml",
    "voc": "JPEGImages/a.jpg  SegmentationClass/a.png  ImageSets/Segmentation/train.txt",
    "voc-boxes": "JPEGImages/a.jpg  Annotations/a.xml  ImageSets/Main/train.txt",
    "coco": "annotations/instances_train2017.json  train2017/a.jpg, or train/_annotations.coco.json  train/a.jpg",
    "coco-classes": "annotations/labels_train.json  images/train/a.jpg",
    "coco-instances": (
        "annotations/instances_train2017.json  train2017/a.jpg, or train/_annotations.coco.json  train/a.jpg"
    ),
    "coco-masks": "annotations/instances_train2017.json  train2017/a.jpg, or train/_annotations.coco.json  train/a.jpg",
    "cityscapes": "leftImg8bit/train/CITY/a_leftImg8bit.png  gtFine/train/CITY/a_gtFine_labelIds.png",
    "ade20k": "images/training/a.jpg  annotations/training/a.png  objectInfo150.txt",
    "camvid": "train/a.png  trainannot/a.png  val/b.png  valannot/b.png",
    "oxford-pets": "images/a_1.jpg  annotations/trainval.txt  annotations/trimaps/a_1.png  annotations/xmls/a_1.xml",
    "penn-fudan": "PNGImages/a.png  PedMasks/a_mask.png",
    "cifar10": "data_batch_1.bin  test_batch.bin  batches.meta.txt",
    "cifar100": "train.bin  test.bin  fine_label_names.txt",
    "cifar100-coarse": "train.bin  test.bin  coarse_label_names.txt",
    "mnist": "train-images-idx3-ubyte.gz  train-labels-idx1-ubyte.gz",
    "nifti": "images/a_0000.nii.gz  labels/a.nii.gz, or CASE/CASE_t1.nii.gz  CASE/CASE_seg.nii.gz",
    "nifti-volumes": "images/a_0000.nii.gz  labels/a.nii.gz, or imagesTr/  labelsTr/",
    "labelme": "a.jpg  a.json, or images/a.jpg  annotations/a.json",
    "cvat": "annotations.xml  images/a.jpg",
    "label-studio": "export.json  images/a.jpg",
    "supervisely": "meta.json  ds/img/a.jpg  ds/ann/a.jpg.json",
    "via": "train/a.jpg  train/via_region_data.json, or via_project.json  a.jpg",
    "createml": "train/a.jpg  train/_annotations.createml.json",
    "fiftyone": "data/a.jpg  labels.json, or data/a.jpg  samples.json",
    "hugging-face": "train/a.jpg  train/metadata.jsonl (file_name, and label or objects)",
    "open-images": "train-annotations-bbox.csv  class-descriptions-boxable.csv  train/a.jpg",
    "tfrecords": "train-00000-of-00010.tfrecord  labels.txt",
}
"""Files of every layout, as an example."""

_HINTS: Final = {
    ".zip": "Unpack the archive, and name the folder in it",
    ".tar": "Unpack the archive, and name the folder in it",
    ".gz": "Unpack the archive, and name the folder in it",
    ".tgz": "Unpack the archive, and name the folder in it",
    ".rar": "Unpack the archive, and name the folder in it",
    ".7z": "Unpack the archive, and name the folder in it",
    ".parquet": "Write the images to files",
}
_CONVERT: Final = "Convert the files to JPEG, PNG or TIFF"
_ANNOTATIONS: Final = frozenset({".xml", ".txt", ".json", ".jsonl", ".csv", ".yaml", ".yml", ".md", ".pdf", ""})
_MAX: Final = 3
_KEYS: Final = 6  # of a JSON file, in a line
_JSON: Final = (
    "images, annotations, categories (coco); version, shapes, imagePath (labelme); regions, filename (via); "
    "size, objects (supervisely); or a list with data, annotations (label-studio) or image, annotations (createml)"
)


def without_images(folder: Path) -> DatasetError | None:
    """The error for a folder that holds files, but no image of a known format; None for any other folder."""
    kinds: Counter[str] = Counter()
    for path in listing.files(folder):
        if listing.is_image(path):
            return None
        kinds[path.suffix.lower()] += 1
    telling = [(end, count) for end, count in kinds.most_common() if end not in _ANNOTATIONS]
    if not telling:
        return None
    found = ", ".join(counted(count, f"{end} file") for end, count in telling[:_MAX])
    remedy = _HINTS.get(telling[0][0], _CONVERT)
    message = f"{folder}: no image of a known format was found, but {found}."
    return DatasetError(str(folder), expected="images", found=found, remedy=remedy, message=message)


def tree_of(layout: str) -> str:
    """The files of a layout, as a sentence; nothing for a custom layout."""
    return f" The layout {layout} has these files: {TREES[layout]}." if layout in TREES else ""


def nearest(folder: Path) -> str:
    """The three layouts that come nearest, each with what is there and what is wanted; nothing where there are no
    images.
    """
    found = list(_near(folder))[:_MAX]
    return "".join(f"\n  {line}" for line in found)


def _near(folder: Path) -> Iterator[str]:
    ends: dict[str, Counter[str]] = defaultdict(Counter)
    first: dict[str, Path] = {}
    for path in listing.files(folder):
        kind = "image" if listing.is_image(path) else path.suffix.lower()
        ends[kind][_parent(folder, path)] += 1
        first.setdefault(kind, path)
    images = _places(ends["image"], "image")
    if not ends["image"]:
        return
    if ends[".xml"]:
        wanted = (
            "XML of Pascal VOC, each with the name of its image, in annotations/ beside images/ or beside the image"
        )
        yield f"labelimg: {_places(ends['.xml'], 'XML file')}, {images}. Expected: {wanted}."
    if ends[".json"]:
        said = f"{_places(ends['.json'], 'JSON file')}, {images}. {first['.json'].name} holds {_keys(first['.json'])}"
        yield f"{said}. Expected: {_JSON}."
    if ".txt" in first and yolo.is_box(first[".txt"]):
        wanted = "text files in labels/ with the names of the images in images/"
        yield f"yolo: {_places(ends['.txt'], 'text file')}, {images}. Expected: {wanted}."
    for path in listing.plain(folder, "*.csv"):
        yield _csv(path)
    yield f"masks: {images}. Expected: the images in images/, and masks of the same names in masks/."
    if ends["image"]["the folder itself"]:
        yield f"named-masks: {images}. Expected: a mask a_mask.png beside each image a.jpg."
    yield f"folders: {images}. Expected: a folder for each class, with its images in it."
    yield f"csv: {images}, no table. Expected: a table labels.csv beside them, with the columns file and label."


def _places(places: Counter[str], what: str) -> str:
    """How many there are, by folder."""
    return ", ".join(f"{counted(count, what)} in {name}" for name, count in places.most_common(2))


def _parent(folder: Path, path: Path) -> str:
    inside = path.relative_to(folder).parts
    return f"{inside[0]}/" if len(inside) > 1 else "the folder itself"


def _keys(path: Path) -> str:
    """What a JSON file holds at its top."""
    try:
        found = jsons.read(path)
    except (DatasetError, OSError):
        return "no JSON"
    if isinstance(found, list):
        keys = (
            f"the keys {', '.join(list(found[0])[:_KEYS])}" if found and isinstance(found[0], dict) else "other values"
        )
        return f"a list of {counted(len(found), 'value')} with {keys}"
    return f"the keys {', '.join(list(found)[:_KEYS])}" if isinstance(found, dict) else "a single value"


def _csv(path: Path) -> str:
    """What a CSV file holds that names no images."""
    _, header = read_rows(path)
    return f"csv: {path.name} with the columns {', '.join(header[:_KEYS])}. Expected: columns file and label."
