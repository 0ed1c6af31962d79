"""Folders of images as people have them, each with the options that pack it: the rows of docs/folders.md."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, NamedTuple

import cv2
import numpy as np
import tifffile
from PIL import Image

from support import annotations as tools
from support import miniatures, volumes
from support.miniatures import gray, make_image, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIZE = (24, 32)


class RawFolder(NamedTuple):
    """One folder as people have it.

    Attributes:
        what: in words.
        tree: some of its files.
        make: writes a small one into a folder.
        options: of `penstock pack`, after the folder and -o.
        task: what is learnt from it.
    """

    what: str
    tree: str
    make: Callable[[Path], object]
    options: str = ""
    task: str = "segmentation"


def square(values=(0, 1), size=SIZE, at=4):
    """A mask with a square of the second value in the first one."""
    ids = np.full(size, values[0], np.uint8)
    ids[at : at + 10, at : at + 12] = values[1]
    return ids


def encoded(pixels, form, **options):
    done = io.BytesIO()
    Image.fromarray(pixels).save(done, form, **options)
    return done.getvalue()


def npy(ids):
    done = io.BytesIO()
    np.save(done, ids)
    return done.getvalue()


def _pixels(seed):
    noise = np.random.default_rng(seed).integers(0, 256, (*SIZE, 3), np.uint8)
    return cv2.blur(noise, (5, 5))


def images_of(root, pattern, count=3, form="JPEG", first=0):
    for number in range(first, first + count):
        write(root / pattern.format(number), encoded(_pixels(number), form))


def _masks(image, mask, form="JPEG", encode=gray, values=(0, 1)):
    def make(root):
        images_of(root, image, form=form)
        for number in range(3):
            write(root / mask.format(number), encode(square(values, at=2 + number)))

    return make


def _two_views(root):
    _masks("left/{}.jpg", "truth/{}.png")(root)
    for number in range(3):
        write(root / f"right/{number}.jpg", encoded(_pixels(60 + number), "JPEG"))


def _patients(image, mask):
    def make(root):
        for patient in range(1, 4):
            for number in range(2):
                write(root / image.format(patient, number), encoded(_pixels(10 * patient + number), "JPEG"))
                write(root / mask.format(patient, number), gray(square(at=2 + number)))

    return make


def _listed(root):
    _masks("images/{}.jpg", "masks/{}.png")(root)
    write(root / "train.txt", "0\n1\n")
    write(root / "val.txt", "2\n")


def _label_lists(root):
    images_of(root, "images/{}.jpg", 4)
    write(root / "train.txt", "0.jpg cat\n1.jpg dog\n")
    write(root / "val.txt", "2.jpg cat\n3.jpg dog\n")


def _run_lengths(root):
    """A square of ten columns, each a run of ten pixels."""
    images_of(root, "train_images/{}.jpg")
    cell = " ".join(f"{column * SIZE[0] + 5} 10" for column in range(4, 14))
    write(root / "train.csv", "ImageId,ClassId,EncodedPixels\n" + "".join(f"{n}.jpg,fish,{cell}\n" for n in range(3)))


def _labelmap(root):
    """Colours of CVAT: those of labelmap.txt."""
    images_of(root, "JPEGImages/{}.jpg")
    colors = np.array([(0, 0, 0), (250, 50, 83)], np.uint8)
    for number in range(3):
        write(root / f"SegmentationClass/{number}.png", encoded(colors[square()], "PNG"))
    write(root / "ImageSets/Segmentation/train.txt", "0\n1\n")
    write(root / "ImageSets/Segmentation/val.txt", "2\n")
    write(root / "labelmap.txt", "# label:color_rgb:parts:actions\nbackground:0,0,0::\ncat:250,50,83::\n")


def _several(pattern, places):
    """Several masks of 0 and 1 for each image, with squares at places by name."""

    def make(root):
        images_of(root, "images/{}.jpg")
        for number in range(3):
            for name, at in places.items():
                write(root / pattern.format(number, name), gray(square(at=at)))

    return make


def cells(count, size=SIZE):
    """A mask that numbers so many squares, from the last one to the first."""
    numbers = np.zeros(size, np.uint16)
    for number in range(count):
        y, x = 1 + 5 * (number // 6), 1 + 5 * (number % 6)
        numbers[y : y + 4, x : x + 3] = count - number
    return numbers


def numbered(image="images/{}.tif", mask="masks/{}.tif", counts=(7, 10, 14)):
    """Images and masks that number their objects."""

    def make(root):
        images_of(root, image, form="TIFF")
        for number, count in enumerate(counts):
            write(root / mask.format(number), encoded(cells(count), "TIFF"))

    return make


def _classes(pattern, form="JPEG"):
    def make(root):
        for number, name in enumerate(("cat", "dog")):
            images_of(root, pattern.replace("CLASS", name), form=form, first=10 * number)

    return make


def _dates(*places):
    def make(root):
        for place in places:
            _classes(f"{place}/CLASS/{place}_{{}}.jpg")(root)

    return make


def _table(name, text, image="images/{}.jpg"):
    def make(root):
        images_of(root, image, count=4)
        write(root / name, text)

    return make


def _boxes(image, text, name, extra=()):
    def make(root):
        images_of(root, image)
        for number in range(3):
            write(root / name.format(number), text.format(name=f"{number}.jpg"))
        for path, content in extra:
            write(root / path, content)

    return make


XML = (
    "<annotation><size><width>32</width><height>24</height></size><object><name>dog</name><bndbox><xmin>3</xmin>"
    "<ymin>4</ymin><xmax>20</xmax><ymax>18</ymax></bndbox></object></annotation>"
)


def _colored(root):
    images_of(root, "images/{}.jpg")
    for number in range(3):
        ids = square(at=2 + number)
        write(root / f"masks/{number}.png", encoded(np.array([(0, 0, 0), (128, 64, 128)], np.uint8)[ids], "PNG"))
    write(root / "class_dict.csv", "name,r,g,b\nvoid,0,0,0\nroad,128,64,128\n")


def _roboflow_table(root):
    for split in ("train", "valid", "test"):
        images_of(root, split + "/{}.jpg", count=2, first={"train": 0, "valid": 10, "test": 20}[split])
        first = {"train": 0, "valid": 10, "test": 20}[split]
        rows = [f"{number}.jpg,32,24,dog,3,4,20,18" for number in (first, first + 1)]
        header = "filename,width,height,class,xmin,ymin,xmax,ymax"
        write(root / split / "_annotations.csv", "\n".join([header, *rows]))


def _roboflow_classes(root):
    for number, split in enumerate(("train", "valid")):
        images_of(root, split + "/{}.jpg", count=2, first=10 * number)
        rows = [f"{10 * number}.jpg,0,1", f"{10 * number + 1}.jpg,1,0"]
        write(root / split / "_classes.csv", "\n".join(["filename, cat, dog", *rows]))


def _labels_for_hugging_face(root):
    for number, split in enumerate(("train", "validation")):
        images_of(root, split + "/{}.png", count=2, form="PNG", first=10 * number)
        lines = [{"file_name": f"{10 * number + each}.png", "label": ("cat", "dog")[each]} for each in (0, 1)]
        write(root / split / "metadata.jsonl", "\n".join(map(json.dumps, lines)))


def _choices(root):
    tasks = []
    images_of(root, "{}.jpg", count=4)
    for number in range(4):
        result = [{"type": "choices", "value": {"choices": [("day", "night")[number % 2]]}}]
        image = f"/data/upload/1/0123abcd-{number}.jpg"
        tasks.append({"id": number, "data": {"image": image}, "annotations": [{"result": result}]})
    write(root / "export.json", json.dumps(tasks))


def _mattes(root):
    images_of(root, "images/{}.jpg")
    for number in range(3):
        write(root / f"alphas/{number}.png", gray(cv2.blur(square((0, 255), at=2 + number), (3, 3))))


def pets(root):
    """Oxford-IIIT Pet: two breeds, trimaps, heads."""
    lines = {"trainval": [], "test": []}
    for number, (breed, species) in enumerate((("Abyssinian", 1), ("beagle", 2))):
        for index in range(1, 5):
            name = f"{breed}_{index}"
            split = "test" if index == 4 else "trainval"
            write(root / f"images/{name}.jpg", make_image(SIZE, 10 * number + index))
            trimap = square((2, 1), at=2 + index)
            trimap[0] = 3
            write(root / f"annotations/trimaps/{name}.png", gray(trimap))
            lines[split].append(f"{name} {number + 1} {species} 1")
            if split == "trainval":
                write(root / f"annotations/xmls/{name}.xml", XML.replace("dog", ("cat", "dog")[species - 1]))
    for split, text in lines.items():
        write(root / f"annotations/{split}.txt", "\n".join(text))
    write(
        root / "annotations/list.txt",
        "#Image CLASS-ID SPECIES BREED ID\n" + "\n".join(lines["trainval"] + lines["test"]),
    )


def penn_fudan(root):
    """Two pedestrians in each mask, numbered 1 and 2."""
    for number in range(1, 4):
        name = f"FudanPed{number:05d}"
        write(root / f"PNGImages/{name}.png", encoded(_pixels(number), "PNG"))
        ids = np.zeros(SIZE, np.uint8)
        ids[3:15, 2:8], ids[5:20, 15 : 20 + number] = 1, 2
        write(root / f"PedMasks/{name}_mask.png", gray(ids))
        write(root / f"Annotation/{name}.txt", "# Compatible with PASCAL Annotation Version 1.00")


def isic(root):
    for number, split in enumerate(("Training", "Validation")):
        for index in range(3):
            name = f"ISIC_{100 * number + index:07d}"
            write(root / f"ISIC2018_Task1-2_{split}_Input/{name}.jpg", make_image(SIZE, 10 * number + index))
            mask = gray(square((0, 255), at=2 + index))
            write(root / f"ISIC2018_Task1_{split}_GroundTruth/{name}_segmentation.png", mask)
        write(root / f"ISIC2018_Task1-2_{split}_Input/LICENSE.txt", "CC-0")


def isic_classes(root):
    for number, split in enumerate(("Training", "Validation")):
        rows = []
        for index in range(4):
            name = f"ISIC_{100 * number + index:07d}"
            write(root / f"ISIC2018_Task3_{split}_Input/{name}.jpg", make_image(SIZE, 10 * number + index))
            rows.append(f"{name},{index % 2}.0,{1 - index % 2}.0")
        table = "\n".join(["image,MEL,NV", *rows])
        write(root / f"ISIC2018_Task3_{split}_GroundTruth/ISIC2018_Task3_{split}_GroundTruth.csv", table)


def kvasir(root):
    """Masks as JPEG, whose black and white is not exact; boxes in a JSON file of its own."""
    _masks("images/{}.jpg", "masks/{}.jpg", encode=lambda ids: encoded(ids, "JPEG"), values=(0, 255))(root)
    box = {
        "height": SIZE[0],
        "width": SIZE[1],
        "bbox": [{"label": "polyp", "xmin": 1, "ymin": 2, "xmax": 9, "ymax": 9}],
    }
    write(root / "kavsir_bboxes.json", json.dumps({str(number): box for number in range(3)}))


def carvana(root):
    for number in range(3):
        write(root / f"train/{number}_01.jpg", make_image(SIZE, number))
        image = Image.fromarray(square(at=2 + number)).convert("P")
        image.putpalette([0, 0, 0, 255, 255, 255])
        done = io.BytesIO()
        image.save(done, "GIF", optimize=False)
        write(root / f"train_masks/{number}_01_mask.gif", done.getvalue())
    write(root / "test/9_01.jpg", make_image(SIZE, 9))
    write(root / "train_masks.csv", "img,rle_mask\n" + "".join(f"{n}_01.jpg,1 3\n" for n in range(3)))
    write(root / "metadata.csv", "id,year,make\n0,2012,Kia\n")


def _kaggle(root):
    images_of(root, "train/{}.jpg", count=4)
    images_of(root, "test/{}.jpg", count=2, first=20)
    write(root / "train.csv", "id,breed\n0,pug\n1,boxer\n2,pug\n3,boxer\n")
    write(root / "test.csv", "id\n20\n21\n")
    write(root / "sample_submission.csv", "id,pug,boxer\n20,0.5,0.5\n")


def _splits_of_tables(root):
    for number, split in enumerate(("train", "val")):
        images_of(root, split + "/{}.jpg", count=2, first=10 * number)
        write(root / f"{split}.csv", f"image,label\n{10 * number}.jpg,cat\n{10 * number + 1}.jpg,dog\n")


def _object_detection(root):
    miniatures.object_detection(root)
    for path in sorted(root.glob("val*")):
        path.rename(path.with_name(path.name.replace("val", "train", 1)))


def _planes(seed, count, dtype=np.uint16):
    noise = np.random.default_rng(seed).integers(500, 4000, (*SIZE, count)).astype(dtype)
    return cv2.blur(noise, (5, 5)).reshape(*SIZE, count)


def tiff(pixels, **options):
    done = io.BytesIO()
    tifffile.imwrite(done, pixels, photometric="minisblack", **options)
    return done.getvalue()


def _deep(root):
    for number in range(3):
        write(root / f"images/{number}.png", encoded(_planes(number, 1)[..., 0], "PNG"))
        write(root / f"masks/{number}.png", gray(square(at=2 + number)))


def _bands(root):
    for number in range(3):
        write(root / f"images/{number}.tif", tiff(_planes(number, 6), planarconfig="contig"))
        write(root / f"masks/{number}.tif", tiff(square(at=2 + number)))


def _stacks(root):
    for number in range(3):
        write(root / f"images/{number}.tif", tiff(np.moveaxis(_planes(number, 4, np.uint8), 2, 0)))
        write(root / f"masks/{number}.png", gray(square(at=2 + number)))


def _dicom(root):
    for number in range(3):
        for name in ("cat", "dog"):
            done = io.BytesIO()
            volumes.dicom_file(_planes(number + 10 * (name == "dog"), 1)[..., 0]).save_as(
                done, enforce_file_format=True
            )
            write(root / f"{name}/{number}.dcm", done.getvalue())


def _heights(root):
    for number in range(3):
        values = _planes(number, 1)[..., 0].astype(np.float32) / 10 - 5
        write(root / f"images/{number}.tif", tiff(values))
        write(root / f"masks/{number}.png", gray(square(at=2 + number)))


def _fiftyone_masks(root):
    tools.fiftyone_samples(root, objects=False)


def object_masks(root, *, size=SIZE, missing=False):
    """The Object Detection API's records with a PNG for every object."""
    write(root / "label_map.pbtxt", "item { id: 1 name: 'square' }\n")
    found = []
    for number in range(3):
        masks = [
            gray(cv2.resize(square(at=2 + 4 * each), size[::-1], interpolation=cv2.INTER_NEAREST)) for each in range(2)
        ]
        left = [(2.0 + 4 * each) / SIZE[1] for each in range(2)]
        top = [(2.0 + 4 * each) / SIZE[0] for each in range(2)]
        edges = {
            "xmin": left,
            "ymin": top,
            "xmax": [each + 12 / SIZE[1] for each in left],
            "ymax": [each + 10 / SIZE[0] for each in top],
        }
        fields = {f"image/object/bbox/{edge}": values for edge, values in edges.items()}
        fields |= {"image/encoded": make_image(seed=number), "image/filename": f"{number}.jpg"}
        fields["image/object/mask"] = masks[:1] if missing and number == 2 else masks
        found.append({**fields, "image/object/class/label": [1, 1], "image/object/class/text": [b"square"] * 2})
    miniatures.shard(root / "train.record", found)


def own_fields(root):
    """TFRecords of somebody's own."""
    fields = [{"pic": make_image(seed=i), "kind": i % 2, "id": f"{i}".encode(), "weight": [0.5, 0.5]} for i in range(4)]
    miniatures.shard(root / "train-00000-of-00001.tfrecord", fields)


def _coco(annotations, images):
    """One JSON of COCO, as tools export it: no splits, and names of files alone."""

    def make(root):
        for number in range(3):
            write(root / images / f"{number:012d}.jpg", make_image(seed=number))
        write(root / annotations, json.dumps(miniatures.coco_tree()))

    return make


def _labelme_apart(root):
    tools.labelme(root / "tmp")
    for path in sorted((root / "tmp").rglob("*")):
        if path.is_file():
            folder = "images" if path.suffix == ".jpg" else "annotations"
            (root / folder).mkdir(exist_ok=True)
            path.rename(root / folder / path.name)
    for path in sorted((root / "tmp").rglob("*"), reverse=True):
        path.rmdir()
    (root / "tmp").rmdir()


YOLO = (("data.yaml", "names: [dog]\n"),)
FOLDERS = (
    RawFolder("images and masks in two folders", "images/0.jpg masks/0.png", _masks("images/{}.jpg", "masks/{}.png")),
    RawFolder(
        "images and masks in each split", "train/images/0.jpg train/masks/0.png val/...",
        lambda root: [_masks(f"{s}/images/{{}}.jpg", f"{s}/masks/{{}}.png")(root) for s in ("train",)],
    ),
    RawFolder("masks of 0 and 255", "images/0.jpg masks/0.png", _masks("images/{}.jpg", "masks/{}.png", values=(0, 255)), "--map 255=1"),
    RawFolder("masks as JPEG", "images/0.jpg masks/0.jpg", _masks("images/{}.jpg", "masks/{}.jpg", encode=lambda ids: encoded(ids, "JPEG"), values=(0, 255)), "--mask-threshold 128"),
    RawFolder("masks in colour with a legend", "images/0.jpg masks/0.png class_dict.csv", _colored),
    RawFolder("images and masks in folders of any name", "RGB/0.jpg GT/0.png, or x_train/0.jpg y_train/0.png", _masks("RGB/{}.jpg", "GT/{}.png")),
    RawFolder("the same, where several folders fit", "left/0.jpg right/0.jpg truth/0.png", _two_views, "--images left --masks truth"),
    RawFolder("a folder for each patient", "p1/images/0.jpg p1/masks/0.png p2/images/0.jpg", _patients("p{}/images/{}.jpg", "p{}/masks/{}.png"), "--validation 0.4"),
    RawFolder("patients in the names of files", "images/p1_0.jpg masks/p1_0.png", _patients("images/p{}_{}.jpg", "masks/p{}_{}.png"), "--validation 0.4 --group p[0-9]+"),
    RawFolder("lists of images for each split", "images/0.jpg masks/0.png train.txt val.txt", _listed),
    RawFolder("a mask for each class", "images/0.jpg masks/cell/0.png masks/nucleus/0.png", _several("masks/{1}/{0}.png", {"cell": 2, "nucleus": 12})),
    RawFolder("a mask for each object", "images/0.png masks/0/1.png masks/0/2.png", _several("masks/{0}/{1}.png", {"1": 2, "2": 12}), task="instances"),
    RawFolder("masks of several raters", "images/0.jpg masks/0_rater1.png masks/0_rater2.png", _several("masks/{0}_{1}.png", {"rater1": 2, "rater2": 3, "rater3": 3}), "--rater majority"),
    RawFolder("masks that number the objects of an image", "images/0.tif masks/0.tif", numbered(), task="instances"),
    RawFolder("masks of Cellpose, of which the class is named", "0.tif 0_cp_masks.tif", numbered("{}.tif", "{}_cp_masks.tif"), "--classes cell", task="instances"),
    RawFolder("masks beside the images", "0.jpg 0_mask.png", _masks("{}.jpg", "{}_mask.png")),
    RawFolder("TIFF images and TIFF masks", "images/0.tif masks/0.tif", _masks("images/{}.tif", "masks/{}.tif", form="TIFF", encode=lambda ids: encoded(ids, "TIFF"))),
    RawFolder("PNG images of 16 bits", "images/0.png masks/0.png", _deep),
    RawFolder("TIFF images of many bands", "images/0.tif masks/0.tif", _bands),
    RawFolder("TIFF stacks, a page for each channel", "images/0.tif masks/0.png", _stacks),
    RawFolder("TIFF images of floats", "images/0.tif masks/0.png", _heights, "--value-range -5 400"),
    RawFolder("WebP images, BMP masks", "images/0.webp masks/0.bmp", _masks("images/{}.webp", "masks/{}.bmp", form="WEBP", encode=lambda ids: encoded(ids, "BMP"))),
    RawFolder("AVIF images, masks of NumPy", "images/0.avif masks/0.npy", _masks("images/{}.avif", "masks/{}.npy", form="AVIF", encode=npy)),
    RawFolder("images and alpha mattes", "images/0.jpg alphas/0.png", _mattes, task="matting"),
    RawFolder("a folder for each class", "cat/0.jpg dog/0.jpg", _classes("CLASS/{}.jpg"), task="classification"),
    RawFolder("classes in each split", "train/cat/0.jpg val/cat/0.jpg", miniatures.folders, task="classification"),
    RawFolder("a folder for each class, BMP", "cat/0.bmp dog/0.bmp", _classes("CLASS/{}.bmp", "BMP"), task="classification"),
    RawFolder("classes in folders of dates", "2026-03-01/cat/0.jpg 2026-03-02/cat/0.jpg", _dates("2026-03-01", "2026-03-02"), task="classification"),
    RawFolder("classes in folders of anything else", "street/cat/0.jpg garden/cat/0.jpg", _dates("street", "garden"), "--pattern (?P<label>[^/]+)/[^/]+$", task="classification"),
    RawFolder("the class in the name", "cat_0.jpg dog_0.jpg", _classes("CLASS_{}.jpg"), "--pattern (?P<label>[a-z]+)_", task="classification"),
    RawFolder("a CSV of classes", "labels.csv images/0.jpg", _table("labels.csv", "file,label\n0.jpg,cat\n1.jpg,dog\n2.jpg,cat\n3.jpg,dog\n"), task="classification"),
    RawFolder("lists of images with a label each", "train.txt val.txt images/0.jpg", _label_lists, task="classification"),
    RawFolder("a CSV with semicolons", "labels.csv 0.jpg", _table("labels.csv", "image;class\n0;cat\n1;dog\n2;cat\n3;dog\n", "{}.jpg"), task="classification"),
    RawFolder("a CSV with columns of other names", "export.csv 0.jpg", _table("export.csv", "No;Photo;Animal\n1;0.jpg;cat\n2;1.jpg;dog\n3;2.jpg;cat\n4;3.jpg;dog\n", "{}.jpg"), "--field label=Animal", task="classification"),
    RawFolder("a CSV of one-hot classes", "labels.csv images/0.jpg", _table("labels.csv", "image,cat,dog\n0,1,0\n1,0,1\n2,1,0\n3,0,1\n"), task="classification"),
    RawFolder("classes in JSON", "labels.json images/0.jpg", _table("labels.json", '{"0.jpg": "cat", "1.jpg": "dog", "2.jpg": "cat", "3.jpg": "dog"}'), task="classification"),
    RawFolder("a CSV of boxes", "boxes.csv images/0.jpg", _table("boxes.csv", "filename,class,xmin,ymin,xmax,ymax\n0.jpg,dog,3,4,20,18\n1.jpg,cat,3,4,20,18\n"), task="detection"),
    RawFolder("a CSV of boxes in one column", "train.csv train/0.jpg", _table("train.csv", 'image_id,label,bbox\n0,dog,"[3, 4, 20, 10]"\n1,cat,"[20, 4, 5, 9]"\n2,cat,"[20, 4, 5, 9]"\n', "train/{}.jpg"), task="detection"),
    RawFolder("a CSV for each split", "train.csv val.csv train/0.jpg", _splits_of_tables, task="classification"),
    RawFolder("a Kaggle competition", "train.csv test.csv sample_submission.csv train/0.jpg", _kaggle, task="classification"),
    RawFolder("LabelImg, XML in a folder", "images/0.jpg annotations/0.xml", _boxes("images/{}.jpg", XML, "annotations/{}.xml"), task="detection"),
    RawFolder("LabelImg, XML beside the images", "0.jpg 0.xml", _boxes("{}.jpg", XML, "{}.xml"), task="detection"),
    RawFolder("YOLO", "images/0.jpg labels/0.txt data.yaml", _boxes("images/{}.jpg", "0 0.5 0.5 0.4 0.4\n", "labels/{}.txt", YOLO), task="detection"),
    RawFolder("YOLO polygons, as masks", "images/train/0.jpg labels/train/0.txt data.yaml", tools.yolo_outlines, "--task segmentation"),
    RawFolder("YOLO polygons, as boxes", "images/train/0.jpg labels/train/0.txt data.yaml", tools.yolo_outlines, task="detection"),
    RawFolder("YOLO polygons, as instances", "images/train/0.jpg labels/train/0.txt data.yaml", tools.yolo_outlines, "--task instances", task="instances"),
    RawFolder("COCO JSON, boxes", "annotations/instances_train2017.json train2017/0.jpg", miniatures.coco, task="detection"),
    RawFolder("COCO JSON, masks", "annotations/instances_train2017.json train2017/0.jpg", miniatures.coco, "--task segmentation"),
    RawFolder("COCO JSON, instances", "annotations/instances_train2017.json train2017/0.jpg", miniatures.coco, "--task instances", task="instances"),
    RawFolder("COCO JSON of Label Studio", "result.json images/0.jpg", _coco("result.json", "images"), task="detection"),
    RawFolder("COCO JSON of CVAT", "annotations/instances_default.json images/default/0.jpg", _coco("annotations/instances_default.json", "images/default"), task="detection"),
    RawFolder("LabelMe polygons, beside the images", "train/a.jpg train/a.json", tools.labelme),
    RawFolder("LabelMe polygons, in a folder", "images/a.jpg annotations/a.json", _labelme_apart),
    RawFolder("LabelMe polygons, as instances", "train/a.jpg train/a.json", tools.labelme, "--task instances", task="instances"),
    RawFolder("LabelMe rectangles alone, as boxes", "train/a.jpg train/a.json", lambda root: tools.labelme(root, rectangles=True), task="detection"),
    RawFolder("CVAT for images", "annotations.xml images/train/a.jpg", tools.cvat),
    RawFolder("Label Studio, polygons", "project.json train/a.jpg", tools.label_studio),
    RawFolder("Label Studio, brushes", "project.json train/a.jpg", tools.brushes),
    RawFolder("Label Studio, choices", "export.json 0.jpg", _choices, task="classification"),
    RawFolder("Supervisely", "meta.json train/img/a.jpg train/ann/a.jpg.json", tools.supervisely),
    RawFolder("VGG Image Annotator", "train/via_region_data.json train/a.jpg", tools.via),
    RawFolder("FiftyOne", "train/labels.json train/data/a.jpg", tools.fiftyone, task="detection"),
    RawFolder("FiftyOne, masks", "samples.json data/a.jpg fields/ground_truth/a.png", _fiftyone_masks),
    RawFolder("FiftyOne, masks of objects", "samples.json data/a.jpg", tools.fiftyone_samples, "--task instances", task="instances"),
    RawFolder("Hugging Face imagefolder, classes", "train/metadata.jsonl train/0.png", _labels_for_hugging_face, task="classification"),
    RawFolder("Hugging Face imagefolder, boxes", "train/metadata.jsonl train/a.jpg", tools.hugging_face, task="detection"),
    RawFolder("Roboflow, Create ML", "train/_annotations.createml.json train/a.jpg", tools.createml, task="detection"),
    RawFolder("Roboflow, a CSV of boxes in each split", "train/_annotations.csv train/0.jpg valid/...", _roboflow_table, task="detection"),
    RawFolder("Roboflow, one-hot classes in each split", "train/_classes.csv train/0.jpg valid/...", _roboflow_classes, task="classification"),
    RawFolder("TFRecords of TensorFlow Datasets", "flowers/1.0.0/flowers-train.tfrecord-00000-of-00002", miniatures.tfds, task="classification"),
    RawFolder("TFRecords of the Object Detection API", "train.record label_map.pbtxt", _object_detection, task="detection"),
    RawFolder("TFRecords of the Object Detection API with masks", "train.record label_map.pbtxt", object_masks, "--task instances", task="instances"),
    RawFolder("TFRecords with fields of other names", "train-00000-of-00001.tfrecord", own_fields, "--field image=pic --field label=kind", task="classification"),
    RawFolder("NIfTI scans", "images/a_0000.nii.gz labels/a.nii.gz", volumes.write_cases, task="slices"),
    RawFolder("DICOM images, a folder for each class", "cat/0.dcm dog/0.dcm", _dicom, task="classification"),
    RawFolder("DICOM series with labels in NIfTI", "images/CASE/IM001.dcm labels/CASE.nii.gz", volumes.series_with_labels, task="slices"),
    RawFolder("Oxford-IIIT Pet, breeds", "images/ annotations/trainval.txt annotations/trimaps/", pets, task="classification"),
    RawFolder("Oxford-IIIT Pet, masks", "images/ annotations/trainval.txt annotations/trimaps/", pets, "--task segmentation"),
    RawFolder("Penn-Fudan", "PNGImages/ PedMasks/ Annotation/", penn_fudan),
    RawFolder("Penn-Fudan, instances", "PNGImages/ PedMasks/ Annotation/", penn_fudan, "--task instances", task="instances"),
    RawFolder("DeepGlobe", "train/0_sat.jpg train/0_mask.png", _masks("train/{}_sat.jpg", "train/{}_mask.png", values=(0, 255)), "--map 255=1"),
    RawFolder("CVAT, segmentation masks in colour", "JPEGImages/ SegmentationClass/ ImageSets/Segmentation/ labelmap.txt", _labelmap),
    RawFolder("Kaggle's run lengths", "train.csv (ImageId,ClassId,EncodedPixels) train_images/0.jpg", _run_lengths),
    RawFolder("Kaggle's run lengths, as instances", "train.csv (ImageId,EncodedPixels) train_images/0.jpg", _run_lengths, "--task instances", task="instances"),
    RawFolder("Carvana", "train/0_01.jpg train_masks/0_01_mask.gif", carvana, "--map 255=1"),
    RawFolder("ISIC 2018, masks", "ISIC2018_Task1-2_Training_Input/ ISIC2018_Task1_Training_GroundTruth/", isic, "--map 255=1"),
    RawFolder("ISIC 2018, classes", "ISIC2018_Task3_Training_Input/ ISIC2018_Task3_Training_GroundTruth/", isic_classes, task="classification"),
    RawFolder("Kvasir-SEG", "images/ masks/ kavsir_bboxes.json", kvasir, "--mask-threshold 128"),
    RawFolder("Cityscapes", "leftImg8bit/train/CITY/ gtFine/train/CITY/", miniatures.cityscapes_),
    RawFolder("ADE20K", "images/training/ annotations/training/ objectInfo150.txt", miniatures.ade20k),
    RawFolder("Pascal VOC", "JPEGImages/ SegmentationClass/ ImageSets/Segmentation/", miniatures.voc_),
    RawFolder("Open Images", "train-annotations-bbox.csv class-descriptions-boxable.csv train/", tools.open_images, task="detection"),
    RawFolder("BraTS", "BraTS_001/BraTS_001_t1.nii.gz BraTS_001/BraTS_001_seg.nii.gz", volumes.brats, task="slices"),
    RawFolder("CIFAR-10, binary version", "data_batch_1.bin test_batch.bin", miniatures.cifar10, task="classification"),
    RawFolder("MNIST", "train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz", miniatures.mnist, task="classification"),
)  # fmt: skip


def rows():
    """The rows of docs/folders.md."""
    for folder in FOLDERS:
        command = f"penstock pack FOLDER -o data {folder.options}".strip()
        if "(" in command:
            command = command.replace("(?P", "'(?P") + "'"
        yield f"| {folder.what} | `{folder.tree}` | `{command}` |"
