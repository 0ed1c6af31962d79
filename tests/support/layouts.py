"""What inspecting and packing say of a folder."""

from __future__ import annotations

import json

from penstock.datasets import FolderDataset, LayoutOptions, inspect, pack
from penstock.errors import DatasetError
from penstock.kinds.fields import decode_detection
from support import miniatures
from support.commands import call
from support.datasets import records


def pack_skipping(root, capsys, *more):
    """What packing says when it leaves out what is wrong."""
    code, out, err = call("pack", root / "raw", "-o", root / "data", "--skip-bad", *more, capsys=capsys)
    assert code == 0, err
    return out


def names_of(root, decode, split="train"):
    return sorted(decode(record).name for record in records(FolderDataset.open(root / "data"), split))


def notes(folder, layout=""):
    """The notes on a folder that has no problems."""
    found = inspect(folder, how=LayoutOptions(layout))
    assert not found.fatal, found.fatal
    return [problem.message for problem in found.problems]


def outside(name):
    return f"{name}: expected an image in train, val or test, found it outside. Move it there, or leave it out."


def boxes(root, split="train"):
    """Boxes by image, as they are in the records."""
    decoded = (decode_detection(record) for record in records(FolderDataset.open(root / "data"), split))
    return {
        each.name: [(box.label, *map(round, (box.left, box.top, box.right, box.bottom))) for box in each.objects]
        for each in decoded
    }


def words(folder, how=None, **options):
    """What is said of a folder: its fatal problems, or the error."""
    try:
        found = inspect(folder, how=how or LayoutOptions(), **options)
    except DatasetError as error:
        return [str(error)]
    return [problem.message for problem in found.fatal]


def changed_coco(root, change, split="train2017"):
    """COCO's miniature with something changed in its JSON."""
    miniatures.coco(root)
    path = root / f"annotations/instances_{split}.json"
    tree = json.loads(path.read_text())
    change(tree)
    path.write_text(json.dumps(tree))
    return path


def pack_miniature(name, tmp_path, how=None, **options):
    miniatures.MINIATURES[name](tmp_path / "raw", **options)
    return pack(inspect(tmp_path / "raw", how=how or LayoutOptions()), tmp_path / "data")
