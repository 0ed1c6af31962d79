from __future__ import annotations

import shutil

import numpy as np
from support import miniatures
from support.commands import call
from support.layouts import pack_skipping

from penstock.datasets import FolderDataset
from penstock.records.schema import decode_segmentation


def test_a_validation_split_is_set_aside_and_the_same_whenever_asked(raw, tmp_path, capsys):
    flat = tmp_path / "flat"
    for kind in ("images", "masks"):
        shutil.copytree(raw / kind / "train", flat / kind)
    assert "note: no val split: pack with --validation 0.1" in call("inspect", flat, capsys=capsys)[1]
    for name in ("a", "b"):
        code, out, _ = call("pack", flat, "-o", tmp_path / name, "--validation", "0.2", capsys=capsys)
        assert (code, out.splitlines()[:2]) == (0, ["train: 17 records in 1 shard", "val: 4 records in 1 shard"])
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


def test_what_inspect_notes_pack_notes(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.masks(raw)
    miniatures.write(raw / "images/train/b.jpg", miniatures.make_image(seed=77))
    miniatures.write(raw / "masks/train/b.png", miniatures.gray(np.zeros((24, 32), np.uint8)))
    miniatures.write(raw / "images/train/c.doc", b"RIFF")
    out = pack_skipping(tmp_path, capsys)

    assert "left out, not images: 1 file (images/train/c.doc)\n" in out
    assert "(note) masks/train/b.png: expected more than one class, found only the id 0." in out
