from __future__ import annotations

import shutil

import numpy as np
import pytest
from support import miniatures, raw_folders
from support.commands import call
from support.datasets import records
from support.layouts import pack_skipping

from penstock.datasets import FolderDataset
from penstock.images import decode_mask
from penstock.kinds.fields import decode_classification, decode_detection, decode_segmentation


def test_a_validation_split_is_set_aside_and_the_same_whenever_asked(raw, tmp_path, capsys):
    flat = tmp_path / "flat"
    for kind in ("images", "masks"):
        shutil.copytree(raw / kind / "train", flat / kind)
    assert "note: no val split: pack with --validation 0.1" in call("inspect", flat, capsys=capsys)[1]
    for name, option in (("a", "--validation"), ("b", "--val")):
        code, out, _ = call("pack", flat, "-o", tmp_path / name, option, "0.2", capsys=capsys)
        assert (code, out.splitlines()[1:3]) == (0, ["train: 17 records in 1 shard", "val: 4 records in 1 shard"])
    names = [
        {
            decode_segmentation(r).name
            for r in FolderDataset.open(tmp_path / "a").source(split).read(f"{split}-00000-of-00001.tfrecord", 0, n)
        }
        for split, n in (("train", 17), ("val", 4))
    ]
    assert len(names[0] | names[1]) == 21
    assert (tmp_path / "a/dataset.json").read_bytes() == (tmp_path / "b/dataset.json").read_bytes()
    assert call("pack", raw, "-o", tmp_path / "c", "--validation", "0.2", capsys=capsys)[0] == 2


def test_it_says_what_it_packs(tmp_path, capsys):
    miniatures.coco(tmp_path / "raw")
    out = call("pack", tmp_path / "raw", "-o", tmp_path / "data", capsys=capsys)[1]

    assert out.splitlines()[:3] == [
        "detection from COCO, 2 classes: fig, date",
        "note: --task segmentation takes it for segmentation: COCO masks, 6 images with labels",
        "note: --task instances takes it for instances: COCO instances, 4 images with labels",
    ]


def test_it_says_that_nothing_is_left_of_a_split(tmp_path, capsys):
    for number, name in enumerate(("train/cat/a", "train/dog/a", "val/cat/a")):
        miniatures.write(tmp_path / f"raw/{name}.jpg", miniatures.make_image(seed=number))
    (tmp_path / "raw/val/cat/a.jpg").write_bytes(b"no image")
    out = pack_skipping(tmp_path, capsys)

    assert "note: nothing is left of val, which had 1 image with problems\n" in out


class TestClipBoxes:
    @pytest.fixture
    def raw(self, tmp_path):
        """A box that reaches outside its image on three sides."""
        miniatures.yolo(tmp_path / "raw")
        miniatures.write(tmp_path / "raw/labels/train/a.txt", "1 0.5 0.5 1.5 0.5\n0 0.25 0.0 0.5 1.0\n")
        return tmp_path / "raw"

    def test_boxes_that_reach_outside_are_a_problem(self, raw, tmp_path, capsys):
        code, _, err = call("pack", raw, "-o", tmp_path / "data", capsys=capsys)
        assert code == 2
        assert (
            "images/train/a.jpg: expected box 1 inside the image of 24 x 32 (height x width), found -8, 6 to 40, 18 "
            "(x, y). Fix it, cut boxes at the edges with --clip-boxes, or leave the image out with --skip-bad."
        ) in err

    def test_they_are_cut_and_said(self, raw, tmp_path, capsys):
        assert call("inspect", raw, "--clip-boxes", capsys=capsys)[0] == 0
        code, out, _ = call("pack", raw, "-o", tmp_path / "data", "--clip-boxes", capsys=capsys)
        assert code == 0
        assert [line for line in out.splitlines() if "cut at" in line] == [
            "(note) images/train/a.jpg: box 1 reaches outside the image of 24 x 32 (height x width): -8, 6 to 40, 18 "
            "(x, y). It is cut at the edge.",
            "(note) images/train/a.jpg: box 2 reaches outside the image of 24 x 32 (height x width): 0, -12 to 16, 12 "
            "(x, y). It is cut at the edge.",
        ]
        stored = map(decode_detection, records(FolderDataset.open(tmp_path / "data"), "train"))
        (found,) = (each.objects for each in stored if each.objects)
        edges = [(each.left, each.top, each.right, each.bottom) for each in found]
        assert np.allclose(edges, [(0, 6, 32, 18), (0, 0, 16, 12)], atol=1e-4)

    def test_a_box_with_nothing_inside_stays_a_problem(self, raw, tmp_path, capsys):
        miniatures.write(raw / "labels/train/a.txt", "1 1.5 0.5 0.5 0.5\n")
        code, _, err = call("pack", raw, "-o", tmp_path / "data", "--clip-boxes", capsys=capsys)
        assert code == 2
        assert (
            "images/train/a.jpg: expected box 1 inside the image of 24 x 32 (height x width), found 40, 6 to 56, 18 "
            "(x, y). Fix it, or leave the image out with --skip-bad."
        ) in err


def test_what_inspect_notes_pack_notes(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.masks(raw)
    miniatures.write(raw / "images/train/b.jpg", miniatures.make_image(seed=77))
    miniatures.write(raw / "masks/train/b.png", miniatures.gray(np.zeros((24, 32), np.uint8)))
    miniatures.write(raw / "images/train/c.doc", b"RIFF")
    out = pack_skipping(tmp_path, capsys)

    assert "left out, not images: 1 file (images/train/c.doc)\n" in out
    assert "(note) masks/train/b.png: expected more than one class, found only the id 0." in out


class TestFields:
    """TFRecords whose fields have names of their own."""

    def test_those_that_nobody_knows_are_listed_with_what_to_do(self, tmp_path, capsys):
        raw_folders.own_fields(tmp_path / "raw")
        code, _, err = call("pack", tmp_path / "raw", "-o", tmp_path / "data", capsys=capsys)

        assert code == 2
        assert err == (
            f"error: {tmp_path}/raw: 1 TFRecord file with the fields id (1 x bytes), kind (1 x int64), pic (1 x bytes), "
            "weight (2 x float), whose meaning is not known. Say which fields hold image and label for classes; image and "
            "mask for masks of ids; or image, label, xmin, ymin, xmax and ymax for boxes: for example --field image=NAME "
            "--field label=NAME.\n"
        )

    def test_those_that_somebody_names_are_packed(self, tmp_path, capsys):
        raw_folders.own_fields(tmp_path / "raw")
        words = ["--field", "image=pic", "--field", "label=kind", "--classes", "cat,dog"]
        code = call("pack", tmp_path / "raw", "-o", tmp_path / "data", *words, capsys=capsys)[0]
        dataset = FolderDataset.open(tmp_path / "data")
        found = [decode_classification(record) for record in records(dataset, "train")]

        assert code == 0
        assert sorted((record.label, record.text) for record in found) == [(0, "cat")] * 2 + [(1, "dog")] * 2
        assert {record.image for record in found} == {miniatures.make_image(seed=i) for i in range(4)}

    def test_boxes_in_pixels_and_masks(self, tmp_path, capsys):
        edges = {"x0": [2, 4], "y0": [3, 5], "x1": [12, 20], "y1": [13, 15]}
        ids = np.eye(24, 32, dtype=np.uint8)
        fields = [
            {"pic": miniatures.make_image(seed=i), "what": [0, 1], **edges, "ids": miniatures.gray(ids)}
            for i in range(2)
        ]
        miniatures.shard(tmp_path / "raw/train.tfrecord", fields)
        boxes = ["label=what", "xmin=x0", "ymin=y0", "xmax=x1", "ymax=y1"]
        for name, more in (("boxes", boxes), ("masks", ["mask=ids"])):
            words = [word for each in ["image=pic", *more] for word in ("--field", each)]
            assert call("pack", tmp_path / "raw", "-o", tmp_path / name, *words, capsys=capsys)[0] == 0
        found = [decode_detection(r) for r in records(FolderDataset.open(tmp_path / "boxes"), "train")]
        masks = [decode_segmentation(r) for r in records(FolderDataset.open(tmp_path / "masks"), "train")]

        edges = [[tuple(round(e, 4) for e in (o.left, o.top, o.right, o.bottom)) for o in r.objects] for r in found]
        assert edges == [[(2, 3, 12, 13), (4, 5, 20, 15)]] * 2
        assert all((decode_mask(each.mask, "m") == ids).all() for each in masks)

    @pytest.mark.parametrize(
        ("given", "found"),
        [
            (["image=pic"], "image=pic"),
            (["image=picture", "label=kind"], "image=picture"),
            (["image=pic", "label=kind", "xmin=weight"], "image=pic, label=kind, xmin=weight"),
        ],
    )
    def test_names_that_do_not_fit_are_refused(self, tmp_path, capsys, given, found):
        raw_folders.own_fields(tmp_path / "raw")
        words = [word for each in given for word in ("--field", each)]
        code, _, err = call("inspect", tmp_path / "raw", *words, capsys=capsys)

        assert code == 2
        assert err == (
            f"error: {tmp_path}/raw: --field: expected image and label for classes; image and mask for masks of ids; or image, "
            f"label, xmin, ymin, xmax and ymax for boxes, found {found}. The records have the fields id (1 x bytes), kind (1 "
            "x int64), pic (1 x bytes), weight (2 x float).\n"
        )

    def test_what_is_no_pair_is_refused(self, tmp_path, capsys):
        raw_folders.own_fields(tmp_path / "raw")
        assert call("inspect", tmp_path / "raw", "--field", "pic", capsys=capsys)[2] == (
            "error: --field: expected WHAT=NAME, found pic. Write for example --field image=img.\n"
        )


def test_it_says_that_images_are_written_anew(raw, tmp_path, capsys):
    code, out, _ = call("pack", raw, "-o", tmp_path / "data", "--seekable", capsys=capsys)

    assert code == 0
    assert "note: images are written anew: JPEG with their own quality, with restart markers" in out.splitlines()
