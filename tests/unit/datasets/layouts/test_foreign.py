"""Formats that no layout reads are called by their name, not taken for another one."""

from __future__ import annotations

import numpy as np
import pytest
from support.layouts import words
from support.miniatures import gray, make_image, write

from penstock.datasets import LayoutOptions, inspect
from penstock.datasets.layouts import foreign

OWN = "describe the layout in a file of your own with --layout FILE.py:NAME (docs/layouts.md)"
EXPORT = f"Export the data as COCO from the tool that has written it, or {OWN}."
LABELME = "<annotation><filename>a.jpg</filename><object><name>x</name><polygon><pt><x>1</x></pt></polygon></object></annotation>"
PANOPTIC = '{"images": [], "annotations": [{"segments_info": []}], "categories": []}'
KITTI = "Car 0.00 0 -1.57 599.41 156.40 629.75 189.25 2.85 2.63 12.34 0.47 1.49 69.44 -1.56\n"


@pytest.mark.parametrize(
    ("image", "file", "text", "name", "remedy"),
    [
        ("images/train/a.jpg", "annotations/train.json", '{"dm_format_version":"1.0"}', "Datumaro's JSON", EXPORT),
        ("train/data/a.jpg", "train/labels.json", '[{"name": "a.jpg", "labels": [{"category": "car", "box2d": {"x1": 1}}]}]', "BDD100K's JSON", EXPORT),
        ("images/a.jpg", "output.manifest", '{"source-ref": "s3://b/images/a.jpg", "labels": {"annotations": []}}', "SageMaker Ground Truth's manifest", EXPORT),
        ("images/a.jpg", "export.ndjson", '{"data_row": {"external_id": "a.jpg"}, "projects": {}}', "Labelbox's export", EXPORT),
        ("images/a.jpg", "train.jsonl", '{"image_url": "AmlDatastore://x/a.jpg", "label": []}', "Azure's labels", EXPORT),
        ("train/image/a.jpg", "train/annos/a.json", '{"source": "user", "item1": {"category_name": "trousers"}}', "DeepFashion2's JSON", EXPORT),
        ("train/1.jpg", "annotations.json", '{"types": ["pl80"], "imgs": {"1": {"path": "train/1.jpg", "objects": []}}}', "TT100K's JSON", EXPORT),
        ("images/a.jpg", "a.jpg___objects.json", '{"metadata": {"name": "a.jpg"}, "instances": [{"type": "bbox", "className": "car"}]}', "SuperAnnotate's JSON", EXPORT),
        ("images/a.jpg", "export.json", '{"project_name": "x", "label_classes": [], "images": []}', "Hasty's JSON", EXPORT),
        ("samples/a.jpg", "v1.0/sample_data.json", '[{"token": "1", "sample_token": "2", "filename": "samples/a.jpg"}]', "the tables of nuScenes", EXPORT),
        ("Images/a.jpg", "annotation_train.odgt", '{"ID": "a", "gtboxes": [{"tag": "person", "fbox": [1, 2, 3, 4]}]}', "CrowdHuman's .odgt", EXPORT),
        ("images/a.jpg", "annotations/panoptic_train.json", PANOPTIC, "COCO's panoptic JSON", EXPORT),
        ("Images/train/a.jpg", "Annotations/train/a.xml", LABELME, "the XML of LabelMe's website", EXPORT),
        ("training/image_2/a.png", "training/label_2/a.txt", KITTI, "KITTI's boxes", f"Convert them to COCO or YOLO, or {OWN}."),
        ("images/a.png", "labelTxt/a.txt", "1 2 3 2 3 4 1 4 ship 0\n", "DOTA's rotated boxes", f"Boxes that are turned have no task. Write upright ones as COCO or YOLO, or {OWN}."),
        ("x/images/a.jpg", "x/annotations/a.txt", "684,8,273,116,0,0,0,0\n406,119,265,70,1,4,0,0\n", "VisDrone's boxes", f"Write the boxes as COCO or YOLO, or {OWN}."),
        (
            "val/images/val_0.JPEG", "val/val_annotations.txt", "val_0.JPEG\tn01443537\t0\t32\t44\t62\n",
            "the list of Tiny ImageNet's validation images",
            "Move each validation image into val/CLASS/images/, as the list says, and give --pattern "
            "'(?P<split>train|val)/(?P<label>[^/]+)/images/' --skip-bad, which leaves out images without a class.",
        ),
        ("a.jpg", "via.csv", 'filename,file_size,file_attributes,region_count,region_id,region_shape_attributes,region_attributes\na.jpg,1,"{}",1,0,"{}","{}"\n', "the CSV of VGG Image Annotator", f"Export the annotations as JSON there, or {OWN}."),
        ("images/0.jpg", "annotations.xml", '<?xml version="1.0"?>\n<annotations><version>1.1</version><track id="0" label="car"/></annotations>', "CVAT's XML of videos", f"Export it as 'CVAT for images' there, which comes with the frames, or {OWN}."),
        ("WIDER_train/images/a/a.jpg", "wider_face_split/wider_face_train_bbx_gt.txt", "a/a.jpg\n1\n1 2 3 4\n", "WIDER FACE", f"Write the boxes as COCO or YOLO, or {OWN}."),
        ("data/train/a.jpg", "marks/train/a.txt", "0 0.5 0.5 0.25 1\n", "a text file of YOLO's boxes", "Put the images into images/ and the text files, by the same names, into labels/."),
        ("images/a.jpg", "train.txt", "images/a.jpg 9,14,17,34,0 1,2,3,4,1\n", "a list of boxes, as keras-yolo3 has them", f"Write them as a table with the columns file, xmin, ymin, xmax, ymax and label, or {OWN}."),
        ("ch4_training_images/img_1.jpg", "ch4_gt/gt_img_1.txt", "\ufeff377,117,463,117,465,130,378,130,Genaxis\n", "ICDAR's words as quadrilaterals", f"Boxes that are turned have no task. Write upright ones as COCO or YOLO, or {OWN}."),
        ("MOT17-02/img1/000001.jpg", "MOT17-02/gt/gt.txt", "1,1,912,484,97,109,0,7,1\n", "MOTChallenge's tracks", f"Tracks have no task. Write the boxes of each frame as COCO or YOLO, or {OWN}."),
        (
            "images/a.jpg", "project-1.csv",
            'annotation_id,annotator,id,image,label\n1,1,1,a.jpg,"[{""x"": 1, ""rectanglelabels"": [""cat""]}]"\n',
            "Label Studio's CSV of boxes or outlines", f"Export the annotations as JSON there, or {OWN}.",
        ),
        ("images/train/a.jpg", "annotations/train-annotations-object-segmentation.csv", "MaskPath,ImageID,LabelName\na_m.png,a,/m/1\n", "masks of Open Images", f"Write them as COCO, or {OWN}."),
        ("JPEGImages/a.jpg", "ImageSets/Main/cat_train.txt", "a -1\n", "Pascal VOC's lists of the images of a class", f"Images may have several of these classes, which has no task. Write a table of one class each, or {OWN}."),
        ("", "mnist_train.csv", "label," + ",".join(f"p{i}" for i in range(784)), "a table of pixels, as MNIST is passed on in CSV", "Write the images to a folder for each class."),
        ("", "batches.meta", b"\x80\x04\x95label_names", "CIFAR's pickles, which can hold code", "Download the binary version (cifar-10-binary.tar.gz), or write the images to a folder for each class."),
    ],
)  # fmt: skip
def test_a_format_is_called_by_its_name(tmp_path, image, file, text, name, remedy):
    if image:
        write(tmp_path / image, make_image())
    write(tmp_path / file, text)
    (said,) = words(tmp_path)

    assert said.startswith(f"{tmp_path / file}: this is {name}, which no layout reads. {remedy}"), said


def test_a_layout_that_is_named_is_taken_beside_it(tmp_path):
    write(tmp_path / "train.json", '{"dm_format_version":"1.0"}')
    for name in ("cat", "dog"):
        write(tmp_path / f"{name}/a.jpg", make_image(seed=ord(name[0])))

    assert words(tmp_path)[0].endswith(
        "If the folder is to be packed without it, as one folder per class, use --layout folders."
    )
    assert inspect(tmp_path, how=LayoutOptions("folders")).labels.classes == ("cat", "dog")


def test_a_layout_that_reads_files_is_taken_beside_it(tmp_path):
    write(tmp_path / "annotations/train.json", '{"dm_format_version":"1.0"}')
    write(tmp_path / "a.jpg", make_image())
    write(tmp_path / "labels.csv", "file,label\na.jpg,cat\n")
    write(tmp_path / "images/b.jpg", make_image(seed=1))
    write(tmp_path / "labels/b.txt", "0 0.5 0.5 0.2 0.2\n")
    write(tmp_path / "data.yaml", "names: [cat]\n")

    assert inspect(tmp_path, how=LayoutOptions(task="detection")).layout.name == "YOLO"


def test_masks_are_no_reason_to_read_every_text(tmp_path):
    write(tmp_path / "images/a.jpg", make_image())
    ids = np.zeros((24, 32), np.uint8)
    ids[4:9] = 1
    write(tmp_path / "masks/a.png", gray(ids))
    write(tmp_path / "notes/a.txt", "1 2 3 4\n")

    assert words(tmp_path) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("labels/val/b.txt", "1 0.5 0.5 " + "x" * 65_000 + " 0.2"),
        ("labels/val/b.txt", "dog" + " 1" * 32_000 + " x"),
        ("a.json", '"labels"' * 8000),
        ("a.xml", "<annotations>" * 5000),
        ("a.csv", "annotation_id " * 4600),
        ("a.csv", ("," + " " * 14) * 690 + "\n"),
    ],
)
def test_a_long_line_is_no_format_and_is_looked_at_once(file, text):
    """What goes back over a line again and again takes minutes for these, and ends by pytest's limit."""
    for _ in range(20):
        for known in foreign._FORMATS:
            assert not (known.files.search(file) and known.begins.match(text.encode()))
