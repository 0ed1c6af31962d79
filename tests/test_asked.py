"""What issues asked for in words that no test had yet, and mistakes that a reading found: data and commands."""

from __future__ import annotations

import dataclasses
import json
import re

import cv2
import miniatures
import numpy as np
import pytest
import torch
from test_cli import call
from test_download import ARCHIVES, Shelf, download, shelf  # noqa: F401 - a fixture
from test_layouts import records
from training import recipe

from penstock import files
from penstock.assembly import open_parts
from penstock.config import apply
from penstock.datasets import FolderDataset, How, Labels, PackOptions, inspect, pack, publishing
from penstock.datasets.packing import JOURNAL
from penstock.datasets.topic_format import About
from penstock.errors import DatasetError, SourceError
from penstock.images import geometry
from penstock.models import build_detector, build_segmenter
from penstock.records.schema import decode_detection
from penstock.sources.kafka import Address, FakeLog
from penstock.sources.kafka.ranges import parse_range
from penstock.tasks import Detection, Segmentation
from penstock.training import train


class TestBoxes:
    """Corners, or a corner and a size: told from the numbers, by the columns' names, or said."""

    def table(self, root, rows):
        for number in range(len(rows)):
            miniatures.write(root / f"{number}.png", cv2.imencode(".png", np.zeros((60, 80, 3), np.uint8))[1].tobytes())
        lines = [f'{number}.png,cat,"{row}"' for number, row in enumerate(rows)]
        miniatures.write(root / "boxes.csv", "\n".join(["file,class,bbox", *lines]) + "\n")

    def edges(self, root, boxes):
        found = inspect(root, how=How(boxes=boxes))
        assert not found.fatal, found.fatal
        order = sorted(found.facts, key=lambda fact: int(fact.item.name))
        return [(b.left, b.top, b.right, b.bottom) for fact in order for b in fact.item.boxes], found.layout.reasons[1]

    def test_of_a_table_as_people_say(self, tmp_path):
        self.table(tmp_path, ["1 2 30 40", "5 6 20 30"])

        assert self.edges(tmp_path, "") == (
            [(1, 2, 30, 40), (5, 6, 20, 30)],
            "boxes are read as corners (left, top, right, bottom): the third or fourth number is never below the first "
            "or second",
        )
        assert self.edges(tmp_path, "xywh") == (
            [(1, 2, 31, 42), (5, 6, 25, 36)],
            "boxes are read as a corner and a size (left, top, width, height): --boxes says so",
        )

    def test_what_cannot_be_told_can_be_said(self, tmp_path):
        self.table(tmp_path, ["1 2 30 40"] * 29 + ["30 20 10 20"])
        (problem,) = [each for each in inspect(tmp_path).fatal if each.whole]
        assert problem.message.endswith(
            "Say which they are with --boxes xyxy or --boxes xywh, or name the column bbox_xyxy or bbox_xywh."
        )
        assert self.edges(tmp_path, "xywh")[0][-1] == (30, 20, 40, 40)

    def test_of_coco_with_corners(self, tmp_path, capsys):
        miniatures.coco(tmp_path)
        for path in (tmp_path / "annotations").glob("instances_*.json"):
            tree = json.loads(path.read_bytes())
            for each in tree["annotations"]:
                x, y, width, height = each["bbox"]
                each["bbox"] = [x, y, x + width, y + height]
            path.write_text(json.dumps(tree))
        found = inspect(tmp_path, how=How(task="detection", boxes="xyxy"))
        date = found.splits["train"][0].item.boxes[0]

        assert not found.fatal
        assert (date.left, date.top, date.right, date.bottom) == (8, 4, 18, 16)
        code, out, _ = call(
            "pack", tmp_path, "--task", "detection", "--boxes", "xyxy", "-o", tmp_path / "d", capsys=capsys
        )
        assert (code, "--boxes says so" in out) == (0, True)

    def test_of_what_names_its_edges_are_as_they_are(self, tmp_path, capsys):
        miniatures.voc_(tmp_path)
        assert call("inspect", tmp_path, "--task", "detection", "--boxes", "xywh", capsys=capsys)[2] == (
            "error: --boxes: expected boxes of four numbers without names: a CSV's column bbox, or COCO's JSON, found "
            "Pascal VOC boxes. Leave it out.\n"
        )

    @pytest.mark.parametrize(("kept", "side", "count"), [(None, 19, 1), (None, 21, 0), (0.2, 21, 1), (0.3, 19, 0)])
    def test_a_quarter_of_a_box_must_be_left_unless_said_otherwise(self, tmp_path, kept, side, count):
        """The stated rule: of a box of 19 pixels 28 % are in the crop, of one of 21 pixels 23 %."""
        miniatures.write(tmp_path / "raw/a.png", cv2.imencode(".png", np.zeros((100, 100, 3), np.uint8))[1].tobytes())
        miniatures.write(
            tmp_path / "raw/boxes.csv", f"file,class,x1,y1,x2,y2\na.png,cat,40,40,{40 + side},{40 + side}\n"
        )
        dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
        augment = dataclasses.replace(
            recipe("x").augment, crop=(50, 50), **({} if kept is None else {"min_visibility": kept})
        )
        prepare = Detection("ssd:test_resnet", ("cat",), 4, augment).prepare(train=True)
        view = geometry.whole((100, 100), (50, 50))
        (record,) = dataset.source("train").read("train-00000-of-00001.tfrecord", 0, 1)
        out = {name: np.zeros(field.shape, field.dtype) for name, field in prepare.fields.items()}
        object.__setattr__(prepare, "_view", lambda *_: view)
        prepare(record, None, out)

        assert int((out["label"] >= 0).sum()) == count

    def test_difficult_objects_stay_so_when_records_are_packed_again(self, tmp_path):
        miniatures.tfds_boxes(tmp_path / "one", **{"objects/is_difficult": [1, 0]})
        dataset = pack(inspect(tmp_path / "one"), tmp_path / "packed")
        (record,) = map(decode_detection, records(dataset, "train"))
        assert [(o.crowd, o.difficult) for o in record.objects] == [(False, True), (True, False)]

        for path in (tmp_path / "packed").glob("*.tfrecord"):
            miniatures.write(tmp_path / "bare" / path.name, path.read_bytes())
        dataset = pack(inspect(tmp_path / "bare"), tmp_path / "again")
        (record,) = map(decode_detection, records(dataset, "train"))
        assert [(o.crowd, o.difficult) for o in record.objects] == [(False, True), (True, False)]


class TestLayouts:
    @pytest.mark.parametrize("name", ["latest", "retrieval", "interval"])
    def test_a_splits_name_is_a_word(self, tmp_path, name):
        miniatures.coco(tmp_path)
        (tmp_path / "annotations/instances_val2017.json").unlink()
        (tmp_path / "annotations/instances_train2017.json").rename(tmp_path / f"annotations/{name}.json")
        (tmp_path / "train2017").rename(tmp_path / "images")

        assert list(inspect(tmp_path, how=How(task="detection")).splits) == ["train"]

    def test_own_ids_are_changed_before_the_layouts(self, tmp_path):
        """ADE20K counts from 1: what is said of raw ids leaves all others what they are."""
        miniatures.ade20k(tmp_path / "raw")
        plain = pack(inspect(tmp_path / "raw"), tmp_path / "plain").split("train").per_class
        mapped = pack(inspect(tmp_path / "raw", Labels(mapping={21: 255, 5: 6})), tmp_path / "mapped").split("train")
        expected = list(plain)
        expected[20], expected[4], expected[5] = 0, 0, plain[4] + plain[5]

        assert list(mapped.per_class) == expected

    def test_pictures_beside_classes_are_named(self, tmp_path, capsys):
        miniatures.folders(tmp_path)
        miniatures.write(tmp_path / "train/stray.jpg", miniatures.picture())
        out = call("inspect", tmp_path, capsys=capsys)[1]

        assert (
            "train/stray.jpg: expected an image in the folder of a class, found it beside them: it is left out." in out
        )
        assert "neither JPEG nor PNG" not in out

    def test_coarse_masks_of_cityscapes(self, tmp_path):
        miniatures.cityscapes_(tmp_path)
        extra = "train_extra/ulm/ulm_000000_000099"
        picture = next((tmp_path / "leftImg8bit/val").rglob("*.png")).read_bytes()
        miniatures.write(tmp_path / f"leftImg8bit/{extra}_leftImg8bit.png", picture[:-1] + picture[-1:])
        miniatures.write(
            tmp_path / f"gtCoarse/{extra}_gtCoarse_labelIds.png", miniatures.gray(np.full((16, 40), 7, np.uint8))
        )
        found = inspect(tmp_path)
        assert {name: len(facts) for name, facts in found.splits.items()} == {"train": 1, "train_extra": 1, "val": 1}
        assert found.splits["train_extra"][0].item.mask.name == "ulm_000000_000099_gtCoarse_labelIds.png"

        (tmp_path / "gtFine").rename(tmp_path / "gone")
        missing = [problem.message for problem in inspect(tmp_path).fatal if problem.kind == "mask missing"]
        assert [" ".join(message.split()[4:7]) for message in missing] == [
            f"gtCoarse/{stem}_gtCoarse_labelIds.png, found none."
            for stem in ("train/ulm/ulm_000000_000010", "val/bonn/bonn_000000_000011")
        ]
        assert missing[0].endswith("Extract gtCoarse.zip beside leftImg8bit.")

    @pytest.mark.parametrize(
        ("val", "said"),
        [
            (True, "expected the 10,582 images of the published list, found 3."),
            (False, "expected val.txt beside it, whose images are left out of it, found none."),
        ],
    )
    def test_another_list_than_the_published_train_aug_is_noted(self, tmp_path, val, said):
        miniatures.voc_(tmp_path, augmented=True)
        if not val:
            (tmp_path / "ImageSets/Segmentation/val.txt").unlink()
        notes = [problem.message for problem in inspect(tmp_path).problems if not problem.fatal]

        assert f"ImageSets/Segmentation/train_aug.txt: {said}" in notes

    def test_the_published_train_aug_has_10_582_pictures_without_those_of_val(self, tmp_path):
        """The lists alone: of 12,031 names, 1,449 are val's, as DeepLab's README counts them."""
        names = [f"2008_{number:06d}" for number in range(12_031)]
        miniatures.voc_(tmp_path, augmented=True)
        lists = tmp_path / "ImageSets/Segmentation"
        (lists / "train_aug.txt").write_text("\n".join(names) + "\n")
        (lists / "val.txt").write_text("\n".join(names[:1449]) + "\n")
        for name in names:
            (tmp_path / f"JPEGImages/{name}.jpg").touch()
            (tmp_path / f"SegmentationClassAug/{name}.png").touch()
        from penstock.datasets.layouts import voc

        layout = voc.recognise_masks(tmp_path)
        train = {item.name for item in layout.items if item.split == "train"}

        assert (len(train), train & set(names[:1449])) == (10_582, set())
        assert layout.reasons[1] == "train is train_aug.txt: 10,582 images, 1,449 of val left out"
        assert "another train_aug" not in {problem.kind for problem in layout.problems}

    def test_names_of_slims_records_are_read(self, tmp_path):
        miniatures.slim(tmp_path)
        assert inspect(tmp_path).labels.classes == ("daisy", "rose")


class TestSplits:
    def test_several_are_trained_on_together(self, tmp_path):
        miniatures.folders(tmp_path / "raw")
        dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
        both, parts = dataset.split("train+val"), [dataset.split(name) for name in ("train", "val")]

        assert both.records == sum(part.records for part in parts) == len(dataset.source("train+val").snapshot())
        assert both.per_class == tuple(map(sum, zip(*(part.per_class for part in parts), strict=True)))
        for wrong in ("train+none", "train+train", "+"):
            with pytest.raises(DatasetError, match=re.escape(f"expected a split named {wrong}, found train, val")):
                dataset.split(wrong)

    def test_through_a_training_and_its_answers(self, packed, tmp_path, capsys):
        chosen = apply(recipe(packed.folder, steps=7), ["data.train=train+val"])
        folder, outcome = train(chosen, tmp_path)
        origins = [json.loads(line)["origins"] for line in (folder.path / "origins.jsonl").read_text().splitlines()]

        assert outcome.step == 7
        assert len({name for batch in origins for name in batch}) == 28  # 21 and 7, each once in an epoch
        assert call("evaluate", folder.path, "--split", "train+val", capsys=capsys)[0] == 0
        assert call("replay", folder.path, "--step", 7, capsys=capsys)[0] == 0

    def test_a_split_may_be_called_test(self, tmp_path, capsys):
        """DeepLab's reader had no label for it."""
        for split in ("train", "test"):
            miniatures.write(tmp_path / f"raw/images/{split}/a.jpg", miniatures.picture(seed=len(split)))
            ids = np.random.default_rng(len(split)).integers(0, 3, (24, 32), np.uint8)
            miniatures.write(tmp_path / f"raw/masks/{split}/a.png", miniatures.gray(ids))
        dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
        settings = ["data.validation=", "train.batch=1", "train.freeze_bn=true"]
        folder, _ = train(apply(recipe(dataset.folder, steps=1), settings), tmp_path / "runs")

        assert call("evaluate", folder.path, "--split", "test", capsys=capsys)[0] == 0
        found = json.loads((folder.path / "evaluations/test-00000001.json").read_text())
        assert sum(map(sum, found["confusion"])) == 24 * 32


class TestPacking:
    def test_shards_of_a_pack_that_was_given_up_go(self, raw, tmp_path):
        """Killed with other shards on the way: what the glob of a reader would find twice."""
        found = inspect(raw)
        whole = pack(found, tmp_path / "whole", PackOptions(shard_bytes=20_000))
        out = tmp_path / "cut"
        (out / JOURNAL).mkdir(parents=True)
        names = [shard.name for shard in whole.split("train").shards]
        for name in names:
            for each in (name, f"{name}.index"):
                if (whole.folder / each).exists():
                    (out / each).write_bytes((whole.folder / each).read_bytes())
            (out / JOURNAL / name).write_text("another key")
        again = pack(found, out, PackOptions(shard_bytes=1 << 30))

        assert len(names) > 1
        assert sorted(path.name for path in out.glob("*.tfrecord")) == sorted(
            shard.name for split in again.description.splits.values() for shard in split.shards
        )
        assert not [path for path in out.iterdir() if path.name.startswith(names[0])]

    def test_a_full_disk_is_named_with_its_file(self, tmp_path):
        full = tmp_path / "full"
        full.symlink_to("/dev/full")
        for write in (
            lambda: files.write_synced(full, b"x" * 100_000),
            lambda: _write_through(full),
        ):
            with pytest.raises(OSError, match=r"No space left on device") as caught:
                write()
            assert caught.value.filename == str(full)

    def test_a_sheet_of_a_recipe_that_leaves_the_shuffle_open(self, packed, tmp_path, capsys):
        words = ["--augmented", "--set", "data.block=0", "--count", 2, "-o", tmp_path / "sheet.png"]
        code, _, err = call("show", packed.folder, *words, capsys=capsys)

        assert (code, err, (tmp_path / "sheet.png").is_file()) == (0, "", True)


def _write_through(path):
    with files.named(path), path.open("wb") as handle:
        handle.write(b"x" * 100_000)


class TestTopics:
    def test_ranges_of_partitions_that_are_not_there_are_refused(self):
        log = FakeLog("t", 2)
        for words, found in (("0:1,5:9", "0, 5"), ("1:1,1:9", "1, 1")):
            with pytest.raises(SourceError) as caught:
                parse_range(log, "", words)
            assert str(caught.value) == (
                f"--until {words}: expected each partition of t once at most: 0, 1, found {found}. Name those."
            )

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["publish", "DATA", "kafka://h:1/t", "--partitions", 8, "--retention", 24],
             "--partitions, --retention: expected --create, as they are about a new topic, found none. Add it, or change "
             "the topic with Kafka's own tools."),
            (["pull", "kafka://h:1/t", "--split", "val", "--from", "0:1", "-o", "o"],
             "--from, --until: expected the split train alone, whose topic they are about, found val. Pull the other "
             "splits by themselves, whole."),
            (["inspect", "kafka://h:1/t", "--classes", "a,b", "--boxes", "xyxy"],
             "--classes, --boxes: expected none, as a topic says what lies in it, found them. Leave out what is for "
             "folders."),
        ],
    )  # fmt: skip
    def test_options_without_effect_are_refused(self, packed, capsys, words, message):
        words = [str(packed.folder) if word == "DATA" else word for word in words]
        assert call(*words, capsys=capsys)[::2] == (2, f"error: {message}\n")

    def test_the_most_boxes_of_a_picture_are_said(self):
        about = About("detection", ("a",), objects=600)
        assert json.loads(about.encoded())["objects"] == 600
        assert "objects" not in json.loads(About("detection", ("a",)).encoded())

    def test_other_shards_than_were_packed_are_not_published(self, packed, tmp_path, monkeypatch):
        for path in packed.folder.iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        first, second = packed.split("train").shards[:2]
        (tmp_path / first.name).write_bytes((packed.folder / second.name).read_bytes())
        (tmp_path / f"{first.name}.index").unlink(missing_ok=True)
        monkeypatch.setattr(publishing, "KafkaLog", lambda _: pytest.fail("it was asked"))
        with pytest.raises(DatasetError, match=re.escape(f"{first.name}: expected the {first.records} records that")):
            publishing.publish(FolderDataset.open(tmp_path), Address("h:1", "t"), "train")


class TestDownloads:
    def test_progress_is_told_in_mebibytes(self, shelf, tmp_path):  # noqa: F811 - a fixture
        Shelf.data += bytes(3 << 20)
        seen = []
        with pytest.raises(DatasetError, match="expected an archive with MD5"):
            download(shelf, tmp_path, lambda done, total: seen.append((done, total)))

        assert len(seen) > 3
        assert seen == sorted(seen)
        assert seen[-1] == (len(Shelf.data) >> 20, len(Shelf.data) >> 20)

    def test_both_archives_are_those_of_their_authors(self):
        """https://www.cs.toronto.edu/~kriz/cifar.html gives these MD5 sums of the binary versions."""
        assert {name: (archive.url.rpartition("/")[2], archive.md5) for name, archive in ARCHIVES.items()} == {
            "cifar10": ("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d13530"),
            "cifar100": ("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
        }


class TestNames:
    """Layers are called as they are: checkpoints of before are to be loaded."""

    def test_of_deeplab(self):
        model = build_segmenter(
            "deeplab:test_resnet", 3, "none", dataclasses.replace(recipe("x").model.deeplab, rates=(6,), auxiliary=0.4)
        )
        names = [name for name in model.state_dict() if not name.startswith("encoder.") and name.endswith("weight")]

        assert names == DEEPLAB

    @pytest.mark.parametrize(
        ("build", "name", "parts"),
        [
            (build_segmenter, "unet:test_resnet", ["encoder", "decoder", "segmentation_head"]),
            (build_segmenter, "deeplabv3plus:test_resnet", ["encoder", "decoder", "segmentation_head"]),
            (build_segmenter, "manet:test_resnet", ["encoder", "decoder", "segmentation_head"]),
            (build_detector, "ssd:test_resnet", ["network.backbone.encoder", "network.backbone.neck", "network.head"]),
            (build_detector, "retinanet:test_resnet", ["network.backbone.encoder", "network.backbone.neck", "network.head"]),
            (build_detector, "fcos:test_resnet", ["network.backbone.encoder", "network.backbone.neck", "network.head"]),
            (build_detector, "fasterrcnn:test_resnet",
             ["network.backbone.encoder", "network.backbone.neck", "network.rpn", "network.roi_heads"]),
        ],
    )  # fmt: skip
    def test_of_others(self, build, name, parts):
        names = list(build(name, 3, "none").state_dict())

        assert all(any(each.startswith(f"{part}.") for part in parts) for each in names), names[:5]
        assert all(any(each.startswith(f"{part}.") for each in names) for part in parts)


DEEPLAB = [
    "aspp.point.0.weight",
    "aspp.point.1.weight",
    "aspp.atrous.0.0.weight",
    "aspp.atrous.0.1.weight",
    "aspp.atrous.0.3.weight",
    "aspp.atrous.0.4.weight",
    "aspp.pooling.0.weight",
    "aspp.pooling.1.weight",
    "aspp.project.0.0.weight",
    "aspp.project.0.1.weight",
    "decoder.skip.0.weight",
    "decoder.skip.1.weight",
    "decoder.refine.0.0.weight",
    "decoder.refine.0.1.weight",
    "decoder.refine.0.3.weight",
    "decoder.refine.0.4.weight",
    "decoder.refine.1.0.weight",
    "decoder.refine.1.1.weight",
    "decoder.refine.1.3.weight",
    "decoder.refine.1.4.weight",
    "logits.weight",
    "auxiliary.0.0.weight",
    "auxiliary.0.1.weight",
    "auxiliary.2.weight",
]


def test_padding_is_nothing_to_the_network(packed):
    """What lies outside an image becomes 0 up to the rounding of a byte, as the same mean is taken from it."""
    task = Segmentation("unet:resnet18", ("a", "b", "c", "d", "e", "f"), canvas=(128, 128))
    sample = dataclasses.replace(open_parts(recipe(packed.folder)).training_feed(), prepare=task.prepare(train=False))[
        0
    ]
    image = torch.from_numpy(np.asarray(sample.arrays["image"])).unsqueeze(0)
    seen = task.inputs({"image": image})[0]
    step = 1 / 255 / min(task.normalization.std)

    assert sample.arrays["image"].shape == (128, 128, 3)
    assert seen[:, 64:].abs().max() <= step / 2 + 1e-6
    assert seen[:, :, 96:].abs().max() <= step / 2 + 1e-6
    assert seen[:, :64, :96].abs().max() > 1
