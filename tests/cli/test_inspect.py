from __future__ import annotations

import cv2
import numpy as np
from support import miniatures
from support.commands import call
from support.images import array_png

from penstock.datasets import FolderDataset, checks, scenes
from penstock.datasets.describing import grouped
from penstock.kinds.items import Problem


def test_inspect_says_what_and_why(raw, capsys):
    code, out, _ = call("inspect", raw, capsys=capsys)

    assert code == 0
    assert out.splitlines()[:6] == [
        f"{raw}: segmentation, image and mask folders",
        "  because images/ is divided into train, val",
        "  because masks are found by name in masks/",
        "classes (6): ground, disk, box, triangle, star, ring",
        "ignore label: 255",
        "train: 21 images, height x width 64 x 96 (21)",
    ]
    assert out.endswith("no problems found\n")


def test_inspect_exits_with_1_where_pack_refuses(tmp_path, capsys):
    scenes.write_folder(tmp_path / "raw", {"train": 3, "val": 1}, (24, 32))
    (tmp_path / "raw" / "masks" / "train" / "scene-00001.png").unlink()
    code, out, _ = call("inspect", tmp_path / "raw", capsys=capsys)
    assert code == 1
    assert "PROBLEMS: 1 x mask missing\n  images/train/scene-00001.jpg: expected a mask " in out
    assert "train: 3 images, 1 without a mask, height x width 24 x 32 (3)\n" in out
    assert call("pack", tmp_path / "raw", "-o", tmp_path / "d", capsys=capsys)[0] == 2
    code, out, _ = call("pack", tmp_path / "raw", "-o", tmp_path / "d", "--skip-bad", capsys=capsys)
    assert code == 0
    assert "skipped: images/train/scene-00001.jpg" in out
    assert "skipped 1 of 4 images" in out


def test_inspect_shows_what_the_options_of_pack_make(tmp_path, capsys):
    scenes.write_folder(tmp_path / "raw", {"train": 20}, (24, 32))
    (tmp_path / "raw" / "masks" / "train" / "scene-00001.png").unlink()
    code, out, _ = call("inspect", tmp_path / "raw", "--skip-bad", "--validation", 0.2, capsys=capsys)
    inspected = [line for line in out.splitlines() if line.startswith(("skipped", "train", "val"))]

    assert code == 0
    assert inspected == [
        "skipped: images/train/scene-00001.jpg (mask missing)",
        "skipped 1 of 20 images",
        "train: 15 images, height x width 24 x 32 (15)",
        "val: 4 images, height x width 24 x 32 (4)",
    ]
    call("pack", tmp_path / "raw", "-o", tmp_path / "d", "--skip-bad", "--validation", 0.2, capsys=capsys)
    assert {n: split.records for n, split in FolderDataset.open(tmp_path / "d").description.splits.items()} == {
        "train": 15,
        "val": 4,
    }


def test_many_problems_of_a_kind_are_grouped():
    problems = [Problem("size mismatch", f"{i}.png", f"{i}.png is wrong.") for i in range(9)]
    problems.append(Problem("only background", "x.png", "x.png is empty.", fatal=False))

    assert grouped(problems, 4) == [
        "0.png is wrong.",
        "1.png is wrong.",
        "2.png is wrong.",
        "... and 6 more of this kind (size mismatch): 3.png, 4.png, 5.png, 6.png, ...",
        "(note) x.png is empty.",
    ]


def test_the_layout_that_is_said_is_the_one_that_is_inspected(tmp_path, capsys):
    """Images of classes in folders called images and masks: nothing but a word tells that they are no masks."""
    for number, name in enumerate(("images", "masks")):
        for count in range(2):
            path = tmp_path / name / f"{count}.png"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(array_png(np.full((20, 20, 3), 10 + 60 * number + count, np.uint8)))

    assert call("inspect", tmp_path, capsys=capsys)[0] == 1
    code, out, _ = call("inspect", tmp_path, "--layout", "folders", capsys=capsys)
    assert (code, "each folder with images is a class; found 2" in out) == (0, True)


class TestBeforeImagesAreRead:
    def test_what_the_annotations_show_is_said_first(self, tmp_path, capsys, monkeypatch):
        miniatures.coco(tmp_path)
        (tmp_path / "train2017/000000000001.jpg").unlink()
        read = []
        check = checks.check_item

        def checked(folder, item, **more):
            read.append(capsys.readouterr().out)
            return check(folder, item, **more)

        monkeypatch.setattr(checks, "check_item", checked)
        code, _, _ = call("inspect", tmp_path, "--threads", 1, capsys=capsys)
        assert code == 1
        assert read[0] == "problems before any image is read: 1 x image missing\n"
        assert len(read) == 5

    def test_nothing_is_said_of_sound_annotations(self, tmp_path, capsys):
        miniatures.coco(tmp_path)
        assert "before any image" not in call("inspect", tmp_path, capsys=capsys)[1]


class TestDuplicates:
    def made(self, root, seed):
        noise = np.random.default_rng(1).integers(0, 256, (6, 8, 3), np.uint8)
        other = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
        for split, small, quality in (("train", noise, 95), ("val", other, 40)):
            pixels = cv2.resize(small, (128, 96), interpolation=cv2.INTER_CUBIC)
            encoded = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()
            miniatures.write(root / f"images/{split}/{split}.jpg", encoded)
            miniatures.write(root / f"masks/{split}/{split}.png", miniatures.gray(np.eye(96, 128, dtype=np.uint8)))

    def test_they_are_drawn_side_by_side(self, tmp_path, capsys):
        self.made(tmp_path / "raw", 1)
        code, out, err = call("inspect", tmp_path / "raw", "--draw-duplicates", tmp_path / "pairs.png", capsys=capsys)
        assert (code, out.splitlines()[-1]) == (0, f"drawn {tmp_path}/pairs.png (1 of 1 pair)"), err
        drawn = cv2.imread(str(tmp_path / "pairs.png"))[..., ::-1]
        sides = [cv2.imread(str(tmp_path / f"raw/images/{split}/{split}.jpg"))[..., ::-1] for split in ("val", "train")]
        large = [side.repeat(2, axis=0).repeat(2, axis=1) for side in sides]
        assert np.array_equal(drawn[12:204, 12:268], large[0])
        assert np.array_equal(drawn[12:204, 274:530], large[1])

    def test_there_may_be_none(self, tmp_path, capsys):
        self.made(tmp_path / "raw", 2)
        out = call("inspect", tmp_path / "raw", "--draw-duplicates", tmp_path / "pairs.png", capsys=capsys)[1]
        assert out.splitlines()[-1] == "no image outside train looks nearly like a training image: nothing is drawn"
        assert not (tmp_path / "pairs.png").exists()


def test_leaving_out_all_leaves_nothing(tmp_path, capsys):
    for name in ("cat", "dog"):
        (tmp_path / "raw" / name).mkdir(parents=True)
        (tmp_path / "raw" / name / "a.jpg").write_bytes(b"no image")
    code, out, _ = call("inspect", tmp_path / "raw", "--skip-bad", capsys=capsys)

    assert code == 1
    assert out.splitlines()[-1] == "nothing is left to pack"
