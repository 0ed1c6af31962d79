"""Mistakes that reading found and no test had: each as a user met it."""

from __future__ import annotations

import csv
import dataclasses
import json

import cv2
import miniatures
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from test_cli import call
from test_detect import learning
from training import Stop, recipe, state

from penstock.assembly import open_parts
from penstock.config import apply, default_recipe, load
from penstock.config.checks import check_new
from penstock.datasets import FolderDataset, inspect, pack
from penstock.datasets.packing import refuse_others
from penstock.errors import DatasetError, RecipeError
from penstock.images import volumes
from penstock.inference import Trained, load_model
from penstock.inference.export import export
from penstock.inference.inputs import find
from penstock.inference.writing import write_table
from penstock.losses import Focal
from penstock.metrics import Segments
from penstock.models import DeepLab, build_classifier, build_detector, build_segmenter
from penstock.session import CheckpointStore, Hook, OptimizerSpec
from penstock.session.optimizer import make_optimizer
from penstock.sources.kafka import Address, admin
from penstock.tasks import Classification, Detection
from penstock.training import resume, train
from penstock.training.compatibility import check_optimizer


def refused(function, *arguments, message, **named):
    with pytest.raises((RecipeError, DatasetError)) as caught:
        function(*arguments, **named)
    assert str(caught.value) == message


def classes(folder):
    """What learns to tell a few images of two classes apart."""
    miniatures.folders(folder / "raw")
    dataset = pack(inspect(folder / "raw"), folder / "data")
    begun = default_recipe("classification", "test_resnet")
    begun = dataclasses.replace(begun, data=dataclasses.replace(begun.data, path=str(dataset.folder), validation=""))
    settings = ["train.steps=1", "train.batch=2", "augment.crop=[32, 32]", "train.device=cpu", "model.weights=none"]
    return apply(begun, settings)


class TestResume:
    def test_from_an_earlier_checkpoint_and_killed_before_the_next(self, packed, tmp_path):
        """What came after the earlier one is undone at once, so that the next resume finds a run that fits together."""
        chosen = recipe(packed.folder, keep=9)
        whole, _ = train(chosen, tmp_path / "whole")
        folder, _ = train(chosen, tmp_path / "run")

        class Killed(Hook):
            def before_step(self, session):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            resume(folder.path, hooks=[Killed()], checkpoint="step-00000006")
        assert CheckpointStore(folder.checkpoints).names() == ["step-00000003", "step-00000004", "step-00000006"]
        assert (folder.checkpoints / "best").is_symlink()
        assert (folder.checkpoints / "best").resolve().name <= "step-00000006"
        resume(folder.path)

        assert state(folder.path) == state(whole.path)

    def test_a_hook_may_end_training_once_it_knows_the_scores(self, packed, tmp_path):
        class Enough(Hook):
            def after_eval(self, session, scores, loss):
                session.request_stop("good enough")

        _, outcome = train(recipe(packed.folder), tmp_path, hooks=[Enough()])

        assert (outcome.status, outcome.step, outcome.reason) == ("stopped", 4, "good enough")

    def test_what_a_checkpoint_holds_by_now_cannot_be_named_anew(self, packed, tmp_path):
        first, _ = train(recipe(packed.folder, steps=2), tmp_path)
        second, _ = train(recipe(packed.folder, steps=2), tmp_path)
        refused(
            resume,
            second.path,
            [f"init={json.dumps(str(first.path))}"],
            message=f"{second.path}: init: expected , as the run was started with, found {first.path}. Leave it, or start a "
            "new run from these weights with --init.",
        )

    def test_momentum_may_begin_late(self, packed, tmp_path):
        chosen = apply(recipe(packed.folder, steps=2), ["optimizer.name=rmsprop", "optimizer.momentum=0.0"])
        folder, _ = train(chosen, tmp_path)
        _, outcome = resume(folder.path, ["optimizer.momentum=0.9", "train.steps=3"])

        assert (outcome.status, outcome.step) == ("finished", 3)

    def test_what_is_refused_leaves_no_run(self, tmp_path):
        chosen = apply(classes(tmp_path), ["train.batch=3", "train.accumulate=2", "regularize.mixup=0.2"])
        with pytest.raises(RecipeError, match="as images are mixed in pairs"):
            train(chosen, tmp_path / "runs")

        assert not (tmp_path / "runs").exists()


class TestLearning:
    def test_focal_loss_below_one_has_a_slope_where_pixels_are_right(self):
        logits = torch.tensor([[100.0, 0.0], [-100.0, 0.0]]).view(1, 2, 1, 2).requires_grad_()
        Focal(0.5).sum(logits, torch.tensor([[[0, 1]]]), 255).backward()

        assert bool(logits.grad.isfinite().all())
        assert bool(logits.grad[..., 1].abs().min() > 0)

    def test_two_ways_to_choose_pixels_are_refused(self):
        refused(
            check_new,
            apply(recipe("data"), ["loss.ohem_threshold=0.7", "loss.ohem_ratio=0.25"]),
            message="loss.ohem_threshold: expected one way to choose pixels, found 0.7 and loss.ohem_ratio=0.25. Leave one "
            "of the two out.",
        )

    @pytest.mark.parametrize("backbone", ["mobilenetv3_small_050", "xception41"])
    def test_multi_grid_needs_a_row_of_blocks(self, backbone):
        with pytest.raises(
            RecipeError, match=r"model\.deeplab\.multi_grid: expected a backbone whose last stage is a row"
        ):
            build_segmenter(f"deeplab:{backbone}", 2, "none", DeepLab(multi_grid=(1, 2, 4)))

    def test_multi_grid_dilates_convnexts_blocks_one_by_one(self):
        plain, model = (
            build_segmenter("deeplab:convnext_atto", 2, "none", DeepLab(multi_grid=factors)).encoder
            for factors in ((), (1, 2))
        )
        rates = [
            [
                layer.dilation[0]
                for layer in list(each.children())[-1].blocks.modules()
                if getattr(layer, "groups", 1) > 1
            ]
            for each in (plain, model)
        ]

        assert len(rates[0]) == 2
        assert rates[1] == [rates[0][0], 2 * rates[0][1]]

    def test_positions_of_transformers_do_not_decay(self):
        model = build_classifier("test_vit", 3, "none")
        optimizer = make_optimizer(OptimizerSpec("adamw", weight_decay=0.1), model)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        spared = {names[id(p)] for g in optimizer.param_groups if not g["weight_decay"] for p in g["params"]}

        assert {"encoder.pos_embed", "encoder.cls_token"} <= spared

    def test_nothing_that_pspnet_does_not_reach_learns(self):
        model = build_segmenter("pspnet:mobilenetv3_small_050", 2, "none").train()
        model(torch.zeros(2, 3, 64, 64)).sum().backward()
        still = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]

        assert still
        assert [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None] == []

    def test_detectors_have_a_backbone(self):
        model = build_detector("ssd:test_resnet", 2, "none")
        optimizer = make_optimizer(OptimizerSpec("muon", 0.1, head_lr_mult=10), model)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        filters = {names[id(p)] for g in optimizer.param_groups if g.get("orthogonal") for p in g["params"]}
        faster = {names[id(p)] for g in optimizer.param_groups if g["share"] == 10 for p in g["params"]}

        assert filters
        assert all(name.startswith("network.backbone.encoder.") for name in filters)
        assert not any(name.startswith("network.backbone.encoder.") for name in faster)

    def test_what_has_no_backbone_is_told_so(self):
        model = torch.nn.Linear(2, 2)
        chosen = default_recipe("volumes")
        refused(
            check_optimizer,
            apply(chosen, ["optimizer.name=muon"]),
            model,
            message="optimizer.name: expected another, as unet3d has no backbone, whose filters it is for, found muon. Use "
            "adamw.",
        )
        refused(
            check_optimizer,
            apply(chosen, ["optimizer.head_lr_mult=10"]),
            model,
            message="optimizer.head_lr_mult: expected 1, as unet3d has no backbone, found 10. Leave it out.",
        )

    def test_networks_without_weights_take_no_file_of_them(self):
        refused(
            build_classifier,
            "cifar10-fast",
            10,
            "w.pth",
            message="model.weights: expected none, as cifar10-fast begins at random, found w.pth. Leave it out.",
        )


class TestBoxes:
    def test_half_of_the_digits_do_not_move_boxes(self):
        torch.manual_seed(0)
        model = build_detector("ssd:test_resnet", 2, "none").eval()
        task = Detection("ssd:test_resnet", ("a", "b"), 4)
        pixels = np.random.default_rng(0).integers(0, 255, (320, 512, 3), np.uint8)
        found = task.predict(model, pixels, device=torch.device("cpu"), precision="bfloat16")

        assert found.boxes.dtype == np.float32
        assert len(found.boxes) > 0
        rounded = torch.from_numpy(found.boxes).bfloat16().float().numpy()
        assert (np.abs(rounded - found.boxes) > 0.01).any()  # finer than bfloat16 could tell

    def test_small_true_boxes_are_scored(self, tmp_path):
        rows = ["file,class,split,xmin,ymin,xmax,ymax"]
        for number in range(4):
            rows.append(f"p{number}.png,a,{'train' if number < 2 else 'val'},10,10,13,60")
            pixels = np.full((100, 100, 3), 40 * number, np.uint8)
            miniatures.write(tmp_path / f"raw/p{number}.png", cv2.imencode(".png", pixels)[1].tobytes())
        miniatures.write(tmp_path / "raw/boxes.csv", "\n".join(rows) + "\n")
        dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
        task, feed = open_parts(apply(learning(dataset), ["augment.resize_range=[20, 20]"])).evaluation("val")

        assert all((sample.arrays["label"] >= 0).sum() == 1 for sample in (feed[0], feed[1]))
        assert task.augment.fitted((100, 100)) == (20, 20)

    def test_more_classes_than_colours_have_a_legend(self):
        from penstock.images import drawing
        from penstock.images.drawing import legend

        assert legend([f"c{n}" for n in range(300)], drawing.palette(-1), 600).shape[1] == 600


def test_a_boundary_is_as_wide_as_the_picture_wants_it():
    """Not as the canvas does, which is as large as the split's largest image."""
    draw = np.random.default_rng(0)
    small = torch.from_numpy(cv2.resize(draw.integers(0, 3, (6, 8), np.uint8), (64, 48), interpolation=0))[None]
    found = torch.from_numpy(cv2.resize(draw.integers(0, 3, (6, 8), np.uint8), (64, 48), interpolation=0))[None]
    alone, padded = Segments(3, 255), Segments(3, 255)
    alone.update(found, small)
    canvas = torch.full((1, 480, 640), 255, dtype=torch.uint8)
    wide = canvas.clone()
    canvas[:, :48, :64], wide[:, :48, :64] = small, found
    padded.update(wide, canvas, torch.tensor([[48, 64]]))

    assert torch.equal(alone.counts, padded.counts)


@pytest.fixture(scope="module")
def run(packed, tmp_path_factory):
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path_factory.mktemp("runs"))
    return folder.path


class TestCommands:
    def test_predictions_take_no_others_place(self, run, raw, tmp_path, capsys):
        labels = tmp_path / "labels"
        labels.mkdir()
        (labels / "scene-00000.png").write_bytes(b"labels")
        picture = next(path for path in (raw / "images").rglob("*") if path.stem == "scene-00000")
        code, _, err = call("predict", run, picture, "-o", labels, capsys=capsys)

        assert (code, err) == (
            2,
            f"error: {labels}/scene-00000.png: expected no file, or one that an earlier predict wrote, found one that is not "
            f"in {labels}/.penstock-predictions. Choose another folder with -o.\n",
        )
        assert (labels / "scene-00000.png").read_bytes() == b"labels"
        for _ in range(2):  # its own it replaces
            assert call("predict", run, picture, "-o", tmp_path / "out", capsys=capsys)[0] == 0

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["predict", "RUN", "x.jpg", "-o", "o", "--overlap", 0.5],
             "--overlap: expected --window, whose it is, found none. Name the window's side."),
            (["train", "DATA", "--from", "earliest"],
             "--from: expected a topic, part of which they name, found shards in DATA, which are read whole. Leave them out."),
            (["train", "DATA", "--checkpoint", "best"],
             "--checkpoint: expected --resume RUN, to say from where, found a new run. Leave it out; --init takes the best "
             "weights of a run."),
        ],
    )  # fmt: skip
    def test_options_without_effect_are_refused(self, run, packed, capsys, words, message):
        names = {"RUN": str(run), "DATA": str(packed.folder)}
        code, _, err = call(*(names.get(word, word) for word in words), capsys=capsys)

        assert (code, err) == (2, f"error: {message.replace('DATA', names['DATA'])}\n")

    def test_a_table_is_there_whoever_ends_it(self, tmp_path, capsys, monkeypatch):
        folder, _ = train(classes(tmp_path), tmp_path / "runs")
        predict, seen = Trained.predict, []

        def interrupted(trained, pixels):
            seen.append(pixels)
            if len(seen) == 3:
                raise KeyboardInterrupt
            return predict(trained, pixels)

        monkeypatch.setattr(Trained, "predict", interrupted)
        code, _, _ = call("predict", folder.path, tmp_path / "raw", "-o", tmp_path / "out", capsys=capsys)

        assert code == 130
        assert len((tmp_path / "out/predictions.csv").read_text().splitlines()) == 3

    def test_names_that_are_no_utf_8_keep_their_bytes(self, tmp_path):
        write_table(tmp_path / "predictions.csv", [["file"], ["caf\udce9.jpg"]])

        assert (tmp_path / "predictions.csv").read_bytes() == b"file\r\ncaf\xe9.jpg\r\n"

    def test_a_place_without_a_scheme_is_no_address(self, tmp_path, capsys):
        code, _, err = call("download", "cifar10", "-o", tmp_path, "--url", "host/c.tar.gz", capsys=capsys)

        assert (code, err.splitlines()[-1]) == (
            2,
            "error: host/c.tar.gz: expected the archive, found no address: begin it with https://, or file:// for a file of "
            "this machine. Run the command again: it goes on where it broke off. Or download c.tar.gz by hand into the folder.",
        )

    def test_a_property_that_kafka_does_not_know_is_named(self, capsys, monkeypatch):
        pytest.importorskip("confluent_kafka")
        monkeypatch.setenv("PENSTOCK_KAFKA_KEY_DESERIALIZER", "text")
        code, _, err = call("verify", "kafka://localhost:1/topic", capsys=capsys)

        assert (code, err.splitlines()[-1]) == (
            2,
            "error: the settings of Kafka: expected properties that librdkafka knows, found No such configuration property: "
            '"key.deserializer". Fix the file that PENSTOCK_KAFKA_PROPERTIES names, or the PENSTOCK_KAFKA_... variable.',
        )

    @pytest.mark.parametrize(
        ("masks", "pictures"),
        [("alphas", "images"), ("gtFine", "leftImg8bit"), ("valannot", "val"), ("SegmentationObject", "JPEGImages")],
    )
    def test_masks_of_every_layout_are_no_pictures(self, tmp_path, masks, pictures):
        for folder in (masks, pictures):
            miniatures.write(
                tmp_path / folder / "a.png", cv2.imencode(".png", np.zeros((8, 8, 3), np.uint8))[1].tobytes()
            )

        assert [each.place.parent.name for each in find([tmp_path])] == [pictures]

    def test_a_size_that_a_network_cannot_take_is_refused(self, tmp_path):
        task = Classification("cifar10-fast", ("a", "b"), default_recipe("classification", "cifar10-fast").augment)
        with pytest.raises(
            RecipeError, match="--size: expected a size of images that the network takes, found 50 x 50"
        ):
            export(task, task.model().eval(), tmp_path / "a.pt2", (50, 50))

    def test_only_a_pack_goes_on_in_a_folder(self, packed):
        refuse_others(packed.folder)
        with pytest.raises(DatasetError, match="expected an empty folder"):
            refuse_others(packed.folder, begun=False)


@pytest.mark.parametrize("name", ["FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE"])
def test_a_topic_is_asked_again_while_its_leaders_move(monkeypatch, name):
    """Not all brokers hear of an election at once: a resume just after a kill met this."""
    kafka = pytest.importorskip("confluent_kafka")
    answers = [kafka.KafkaException(kafka.KafkaError(getattr(kafka.KafkaError, name))), "the topic"]

    def described(*_):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(admin, "_describe", described)

    assert admin.describe(None, Address("localhost:1", "t"), 5.0) == "the topic"
    assert answers == []


class TestVolumes:
    @pytest.fixture(autouse=True)
    def extra(self):
        self.nibabel = pytest.importorskip("nibabel")

    def write(self, path, array):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.nibabel.save(self.nibabel.Nifti1Image(array, np.eye(4)), path)
        return path

    def test_modalities_may_have_a_lone_fourth_axis(self, tmp_path):
        draw = np.random.default_rng(0)
        arrays = [draw.normal(100, 10, (6, 7, 8, 1)).astype(np.float32) for _ in range(2)]
        paths = [self.write(tmp_path / f"a_000{n}.nii.gz", array) for n, array in enumerate(arrays)]

        assert np.array_equal(volumes.read_volume(paths).voxels, np.stack([array[..., 0] for array in arrays]))

    def test_cases_may_end_in_four_digits(self, tmp_path):
        draw = np.random.default_rng(0)
        for number in range(1, 4):
            self.write(tmp_path / f"images/p_{number:04d}.nii.gz", draw.normal(100, 10, (6, 7, 8)).astype(np.float32))
            self.write(tmp_path / f"labels/p_{number:04d}.nii.gz", draw.integers(0, 2, (6, 7, 8)).astype(np.uint8))
        found = inspect(tmp_path)

        assert found.fatal == []
        assert {item.group for item in found.layout.items} == {"p_0001", "p_0002", "p_0003"}

    def test_a_case_may_be_named_by_its_folder(self, tmp_path):
        from penstock.datasets.layouts.nifti import cases

        for name in ("t1", "flair"):
            self.write(tmp_path / f"c1/c1_{name}.nii.gz", np.ones((4, 4, 4), np.float32))
        for name in ("001", "002"):
            self.write(tmp_path / f"case/case_{name}.nii.gz", np.ones((4, 4, 4), np.float32))

        assert [(case.name, len(case.images)) for case in cases(tmp_path / "c1")] == [("c1", 2)]
        assert [(case.name, len(case.images)) for case in cases(tmp_path / "case")] == [
            ("case_001", 1),
            ("case_002", 1),
        ]

    def test_labels_are_scored_and_written_by_their_raw_ids(self, tmp_path, capsys):
        """Raw ids 2 and 4 became one class, and 9 does not count."""
        draw = np.random.default_rng(0)
        for number in range(3):
            raw = np.zeros((8, 8, 6), np.uint8)
            raw[2:6, 2:4], raw[2:6, 4:6], raw[0] = 2, 4, 9
            scan = draw.normal(100, 5, raw.shape) + 100 * (raw == 2) + 100 * (raw == 4)
            self.write(tmp_path / f"raw/images/c{number}.nii.gz", scan.astype(np.float32))
            self.write(tmp_path / f"raw/labels/c{number}.nii.gz", raw)
        words = ["--map", "2=1", "--map", "4=1", "--map", "9=255", "--classes", "ground,thing"]
        assert call("pack", tmp_path / "raw", "-o", tmp_path / "data", *words, capsys=capsys)[0] == 0
        dataset = FolderDataset.open(tmp_path / "data")
        assert dataset.description.of_raw == {2: 1, 4: 1, 9: 255}
        chosen = apply(recipe(dataset.folder, steps=1), ["data.validation=''", "augment.crop=[32, 32]"])
        folder, _ = train(chosen, tmp_path / "runs")
        trained = load_model(folder.path, device="cpu")
        answer = np.zeros((8, 8, 6), np.uint8)
        answer[2:6, 2:6], answer[0, 0] = 1, 1  # the truth, and something where nothing counts
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Trained, "predict_volume", lambda *_: answer)
            out = ["-o", tmp_path / "out", "--labels", tmp_path / "raw/labels", "--ids", "original"]
            code, _, _ = call("predict", folder.path, tmp_path / "raw/images", *out, capsys=capsys)
        rows = list(csv.reader((tmp_path / "out/dice.csv").read_text().splitlines()))
        written = np.asarray(self.nibabel.load(tmp_path / "out/c0.nii.gz").dataobj)

        assert (code, trained.parts.dataset.description.of_raw) == (0, {2: 1, 4: 1, 9: 255})
        assert rows == [["case", "thing"], *([f"c{number}", "1.000000"] for number in range(3))]
        assert np.array_equal(written, np.where(answer == 1, 2, 0))


def test_weights_of_a_run_are_those_of_its_average(packed, tmp_path):
    """What `--init` begins with."""
    folder, _ = train(recipe(packed.folder, steps=2), tmp_path)
    average = load_file(folder.checkpoints / "last" / "ema.safetensors")

    assert load(folder.path / "recipe.toml").train.ema_decay == 0.9
    weights = load_model(folder.path, device="cpu").model.state_dict()
    assert all(torch.equal(weights[name], average[name]) for name in average)


def test_a_stop_after_a_rewind_is_a_run_like_others(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, keep=9), tmp_path)
    resume(folder.path, hooks=[Stop(7)], checkpoint="step-00000006")

    assert CheckpointStore(folder.checkpoints).names()[-1] == "step-00000007"
