"""Classification: what is learnt, mixed, scored and predicted, held against definitions and other implementations."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json

import cv2
import miniatures
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from test_cli import call
from training import Stop, state

from penstock import seeds
from penstock.assembly import open_parts
from penstock.config import Data, Model, Recipe, Train, apply, default_recipe
from penstock.datasets import inspect, pack
from penstock.errors import LabelError, RecipeError
from penstock.feed import Feed
from penstock.images import geometry
from penstock.losses import SoftCrossEntropy
from penstock.metrics import Answers
from penstock.models import FastNetwork, Normalization, build_classifier
from penstock.models.cifar import TutorialNetwork
from penstock.order import Plan
from penstock.records.schema import ClassificationRecord, encode_classification
from penstock.session import OptimizerSpec
from penstock.session.muon import Muon, orthogonal
from penstock.session.optimizer import make_optimizer
from penstock.tasks import Augment, Classification, Objective, Regularize, regularize
from penstock.tasks.classification import NOTHING
from penstock.training import resume, train
from penstock.values import Record

MIXED = Regularize(mixup=0.4, cutmix=1.0, random_erasing=0.5)


@pytest.fixture(scope="module")
def colors(tmp_path_factory):
    """Three classes of plain colours with noise: 24 training images, 9 to validate, 40 x 36."""
    root = tmp_path_factory.mktemp("colors")
    noise = np.random.default_rng(0)
    for split, count in (("train", 8), ("val", 3)):
        for name, color in (("red", (200, 30, 30)), ("green", (30, 200, 30)), ("blue", (30, 30, 200))):
            for number in range(count):
                pixels = np.clip(noise.normal(color, 25, (40, 36, 3)), 0, 255).astype(np.uint8)
                miniatures.write(
                    root / "raw" / split / name / f"{number}.png", cv2.imencode(".png", pixels[..., ::-1])[1].tobytes()
                )
    return pack(inspect(root / "raw"), root / "data")


def learning(dataset, **changes):
    settings = {"steps": 8, "batch": 4, "evaluate_every": 4, "save_every": 3, "device": "cpu", "log_origins": True}
    return Recipe(
        seed=3,
        data=Data(str(dataset.folder)),
        model=Model("test_resnet", "none"),
        augment=Augment((32, 32), "resized-crop"),
        regularize=changes.pop("regularize", Regularize()),
        loss=changes.pop("loss", Objective()),
        optimizer=changes.pop("optimizer", OptimizerSpec(lr=0.05)),
        train=Train(**{**settings, **changes}),
    )


def random_draws(count, seed=0):
    return torch.from_numpy(np.stack([MIXED.draw(seeds.generator(seed, "x", i)) for i in range(count)]))


class TestScores:
    def counted(self, classes=7, samples=500):
        generator = torch.Generator().manual_seed(1)
        probabilities = (3 * torch.randn((samples, classes), generator=generator)).softmax(dim=1)
        target = torch.randint(0, classes, (samples,), generator=generator)
        answers = Answers(classes)
        for part in torch.arange(samples).split(64):
            answers.update(probabilities[part], target[part])
        return answers.scores([f"c{i}" for i in range(classes)]), probabilities, target

    def test_they_are_those_of_torchmetrics(self):
        functional = pytest.importorskip("torchmetrics.functional.classification")
        scores, probabilities, target = self.counted()
        every = functional.multiclass_accuracy(probabilities, target, 7, average=None)
        precision = functional.multiclass_precision(probabilities, target, 7, average=None)

        assert scores.top1 == pytest.approx(
            float(functional.multiclass_accuracy(probabilities, target, 7, average="micro"))
        )
        assert scores.top5 == pytest.approx(
            float(functional.multiclass_accuracy(probabilities, target, 7, average="micro", top_k=5))
        )
        assert scores.recall == pytest.approx(every.tolist())
        assert scores.precision == pytest.approx(precision.tolist())
        expected = float(functional.multiclass_calibration_error(probabilities, target, 7, n_bins=15, norm="l1"))
        assert scores.calibration_error == pytest.approx(expected, abs=1e-6)

    def test_ranks_add_up_to_the_same_integers(self):
        _, probabilities, target = self.counted()
        whole = Answers(7)
        whole.update(probabilities, target)
        for ranks in (2, 3):
            parts = [Answers(7) for _ in range(ranks)]
            for rank, part in enumerate(parts):
                part.update(probabilities[rank::ranks], target[rank::ranks])
            assert torch.equal(sum(part.counts for part in parts), whole.counts)

    def test_the_five_likeliest_of_five_classes_are_no_score(self):
        assert set(self.counted(5)[0].as_json()) == set(self.counted(6)[0].as_json()) - {"top5"}

    def test_padding_does_not_count_and_absent_classes_are_named(self):
        answers = Answers(3)
        answers.update(torch.tensor([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1]]), torch.tensor([0, -1]))
        scores = answers.scores(["a", "b", "c"])

        assert (scores.true, scores.absent, scores.recall) == ([1, 0, 0], ["b", "c"], [1.0, None, None])


class TestMixing:
    def test_pictures_are_mixed_as_defined(self):
        images, draws = torch.randn(6, 3, 16, 12), random_draws(6)
        found = regularize.mixed(images, draws)
        for i, (own, *edges) in enumerate(draws[:, :9].tolist()):
            other = images[i ^ 1]
            expected = own * images[i] + (1 - own) * other
            for (top, bottom, left, right), patch in ((edges[:4], other), (edges[4:], torch.zeros_like(other))):
                rows = slice(round(top * 16), round(bottom * 16))
                columns = slice(round(left * 12), round(right * 12))
                expected[:, rows, columns] = patch[:, rows, columns]
            assert torch.allclose(found[i], expected, atol=1e-6)

    def test_labels_are_mixed_by_the_pixels_that_each_gives(self):
        draws = random_draws(64)
        images = torch.arange(64).view(-1, 1, 1, 1).expand(-1, 3, 32, 32).float() % 2  # every pair: one of 0, one of 1
        unerased = draws.clone()
        unerased[:, 5:9] = 0
        ones = regularize.mixed(images, unerased).mean(dim=(1, 2, 3))
        targets = regularize.mixed_targets(F.one_hot(torch.arange(64) % 2).float(), draws, (32, 32))

        assert torch.allclose(targets[:, 1], ones, atol=1e-5)
        assert torch.allclose(targets.sum(dim=1), torch.ones(64))
        assert int(((targets[:, 1] > 0) & (targets[:, 1] < 1)).sum()) > 0

    def test_draws_have_their_distributions(self):
        mixup = np.stack([Regularize(mixup=0.4).draw(seeds.generator(1, "x", i)) for i in range(4000)])
        cutmix = np.stack([Regularize(cutmix=1.0).draw(seeds.generator(1, "x", i)) for i in range(4000)])
        erase = np.stack([Regularize(random_erasing=0.25).draw(seeds.generator(1, "x", i)) for i in range(4000)])

        assert mixup[:, 0].mean() == pytest.approx(0.5, abs=0.03)
        assert mixup[:, 0].var() == pytest.approx(1 / (4 * (2 * 0.4 + 1)), rel=0.1)  # of Beta(a, a)
        areas = (cutmix[:, 2] - cutmix[:, 1]) * (cutmix[:, 4] - cutmix[:, 3])
        assert 0.2 < areas.mean() < 0.5
        there = (erase[:, 6] > erase[:, 5]).mean()
        assert there == pytest.approx(0.25, abs=0.03)
        shares = (erase[:, 6] - erase[:, 5]) * (erase[:, 8] - erase[:, 7])
        assert shares.max() <= 1 / 3 + 1e-6

    def test_tones_are_tensorflows(self):
        pixels, draws = 255 * torch.rand(3, 3, 8, 8), torch.from_numpy(np.stack([NOTHING] * 3))
        draws[:, 9], draws[:, 10] = torch.tensor([10.0, -20, 0]), torch.tensor([0.5, 1.8, 1.0])
        found = regularize.toned(pixels, draws)
        for i in range(3):
            mean = pixels[i].mean(dim=(1, 2), keepdim=True)  # adjust_contrast: about each channel's mean
            assert torch.allclose(found[i], (pixels[i] - mean) * draws[i, 10] + mean + draws[i, 9], atol=1e-4)
        assert torch.allclose(found[2], pixels[2], atol=1e-4)

    def test_one_without_a_partner_is_its_own(self):
        assert regularize.partners(5, torch.device("cpu")).tolist() == [1, 0, 3, 2, 4]

    @pytest.mark.parametrize("weights", [(), (1.0, 2.0, 0.5)])
    def test_the_loss_is_that_of_pytorch(self, weights):
        logits, target = torch.randn(6, 3), torch.rand(6, 3).softmax(dim=1)
        expected = F.cross_entropy(
            logits, target, torch.tensor(weights) if weights else None, label_smoothing=0.1, reduction="sum"
        )

        assert torch.allclose(SoftCrossEntropy(weights, 0.1).sum(logits, target), expected)

    @pytest.mark.parametrize("mix", [Regularize(), MIXED])
    def test_pieces_have_the_same_gradients(self, colors, mix):
        """Micro-batches and ranks of whole pairs do the mathematics of one batch."""
        parts = open_parts(
            learning(colors, regularize=mix, loss=Objective(class_weights=(1.0, 2.0, 3.0), label_smoothing=0.1))
        )
        task, model = parts.task, parts.model().eval()
        (batch,) = itertools.islice(dataclasses.replace(parts.training_feed(), batch=8).walk(), 1)

        def gradients(pieces):
            model.zero_grad()
            count = task.count(batch.tensors)
            for part in torch.arange(8).split(8 // pieces):
                tensors = {name: tensor[part] for name, tensor in batch.tensors.items()}
                (task.loss(model(task.inputs(tensors)), tensors) / count).sum().backward()
            return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

        whole = gradients(1)
        assert whole.abs().sum() > 0
        for pieces in (2, 4):
            assert torch.allclose(gradients(pieces), whole, atol=1e-6)

    def test_holes_are_mixed_with_nothing(self, colors):
        task = open_parts(learning(colors, regularize=MIXED)).task
        tensors = {
            "image": torch.zeros(4, 8, 8, 3, dtype=torch.uint8),
            "label": torch.tensor([0, 1, 2, 0]),
            "draws": random_draws(4),
        }
        masked = task.mask_padding(tensors, torch.tensor([1.0, 0, 1, 1]))

        assert masked["label"].tolist() == [0, -1, 2, 0]
        assert masked["draws"][:2, :5].tolist() == [[1, 0, 0, 0, 0]] * 2
        assert torch.equal(masked["draws"][:, 5:], tensors["draws"][:, 5:]), "what is erased, and tones, stay"
        assert torch.equal(masked["draws"][2:], tensors["draws"][2:])
        assert task.count(masked).tolist() == [3.0]


class TestTraining:
    @pytest.mark.parametrize("optimizer", ["sgd", "muon"])
    def test_a_run_that_is_stopped_at_any_step_ends_the_same(self, colors, tmp_path, optimizer):
        chosen = learning(colors, regularize=MIXED, optimizer=OptimizerSpec(optimizer, 0.05), ema_decay=0.9)
        whole, _ = train(chosen, tmp_path / "whole")
        kept = {"state.json", "manifest.json"}  # the hook that stops is in them
        expected = {name: data for name, data in state(whole.path).items() if name not in kept}
        for step in range(1, 8):
            stopped, _ = train(chosen, tmp_path / f"stopped{step}", hooks=[Stop(step)])
            resume(stopped.path)
            assert {name: data for name, data in state(stopped.path).items() if name not in kept} == expected, step

    def test_it_learns(self, colors, tmp_path, capsys):
        folder, _ = train(learning(colors, steps=24, evaluate_every=24), tmp_path)
        last = folder.lines("metrics.jsonl")[-1]["evaluation"]
        words = ["--flip", "--shift", "1", "--checkpoint", "last"]
        code, out, _ = call("evaluate", folder.path, *words, capsys=capsys)

        assert last["top1"] > 0.8
        assert code == 0
        looked = json.loads((folder.path / "evaluations" / "val-00000024-x1-flip-shift1.json").read_text())
        assert looked["tta"] == {"scales": [1.0], "flip": True, "shift": 1}
        assert looked["top1"] > 0.8
        assert "class         accuracy  precision      images" in out
        assert "calibration" in out

    def test_pictures_are_moved_by_less_than_their_size(self, colors, tmp_path, capsys):
        folder, _ = train(learning(colors, steps=1), tmp_path)

        assert call("evaluate", folder.path, "--shift", 31, capsys=capsys)[0] == 0
        assert call("evaluate", folder.path, "--shift", 32, capsys=capsys) == (
            2,
            "",
            "error: --shift: expected fewer pixels than the crop's 32, as what moves in is the mirror of what is there, "
            "found 32. Move them by less; airbench does by 1.\n",
        )

    def test_predictions_are_a_table(self, colors, tmp_path, capsys):
        folder, _ = train(learning(colors, steps=24), tmp_path / "runs")
        raw = colors.folder.parent / "raw" / "val"
        code, _, _ = call("predict", folder.path, raw, "-o", tmp_path / "out", capsys=capsys)
        rows = list(csv.DictReader((tmp_path / "out" / "predictions.csv").read_text().splitlines()))

        assert code == 0
        assert len(rows) == 9
        assert sum(row["class1"] in row["file"] for row in rows) >= 7
        assert all(
            sum(float(row[f"probability{rank}"]) for rank in (1, 2, 3)) == pytest.approx(1, abs=1e-5) for row in rows
        )

    def test_what_does_not_fit_a_label_a_picture_is_refused(self, colors, packed):
        cases = {
            "loss.dice=1": "loss: expected cross_entropy or focal, for one label an image, found loss.dice=1.0. Leave out "
            "the others.",
            "loss.ohem_ratio=0.5": "loss: expected cross_entropy or focal, for one label an image, found loss.ohem_ratio=0.5. "
            "Leave out the others.",
            "augment.crop=[0, 4]": "the settings: augment.crop: expected a number above 0, found 0. Choose a larger one.",
        }
        for setting, message in cases.items():
            with pytest.raises(RecipeError) as caught:
                _ = open_parts(apply(learning(colors), [setting])).task
            assert str(caught.value) == message
        with pytest.raises(
            RecipeError,
            match="Mixing, erasing and toning images is not supported for segmentation",
        ):
            _ = open_parts(
                dataclasses.replace(learning(packed, regularize=MIXED), model=Model("unet:test_resnet", "none"))
            ).task

    def test_the_tutorials_network_is_for_its_size(self, colors):
        chosen = dataclasses.replace(learning(colors), model=Model("cifar10-tutorial", "none"))
        with pytest.raises(RecipeError) as caught:
            open_parts(chosen).model()

        assert str(caught.value) == (
            "augment.crop: expected 24 x 24, which cifar10-tutorial is made for, found 32 x 32. Use --crop 24 24."
        )

    def test_looking_at_other_sizes_is_refused(self, colors, tmp_path, capsys):
        folder, _ = train(learning(colors, steps=1), tmp_path)
        capsys.readouterr()

        assert call("evaluate", folder.path, "--scales", "0.5", "1", capsys=capsys) == (
            2,
            "",
            "error: Test-time augmentation at other scales is not supported for classification. Remove --scales.\n",
        )

    def test_a_label_outside_the_classes_is_named(self, colors):
        prepare = open_parts(learning(colors)).task.prepare(train=False)
        record = Record(
            "s#1", encode_classification(ClassificationRecord(miniatures.picture(), 3, "a", "jpeg", 24, 32))
        )
        with pytest.raises(LabelError) as caught:
            prepare(record, None, {})

        assert str(caught.value) == (
            "s#1: expected a class from 0 to 2, found 3. Check the classes in dataset.json, or pack the data again."
        )


class TestViews:
    def test_a_margin_moves_whole_pixels(self, colors):
        parts = open_parts(
            apply(
                learning(colors),
                ["augment.method=pad-crop", "augment.margin=3", "augment.crop=[40, 36]", "augment.flip=0"],
            )
        )
        plain = Feed(
            Plan(parts.plan.snapshot), colors.source("train"), parts.task.prepare(train=False), batch=1, augment=False
        )
        places = set()
        for position in range(24):
            moved = parts.training_feed()[position].arrays["image"].astype(int)
            own = next(
                plain[i].arrays["image"] for i in range(24) if plain[i].origin == parts.training_feed()[position].origin
            ).astype(int)
            fits = [
                (y, x)
                for y, x in itertools.product(range(-3, 4), repeat=2)
                if (moved[max(0, -y) : 40 - max(0, y), max(0, -x) : 36 - max(0, x)]
                    == own[max(0, y) : 40 + min(0, y), max(0, x) : 36 + min(0, x)]).all()
            ]  # fmt: skip
            assert len(fits) == 1
            places |= set(fits)
        assert len(places) > 12

    def test_the_middle_is_the_middle(self):
        view = geometry.middle((100, 200), (50, 50), 0.8)
        assert view.affine.point(0, 0) == (60, 10)
        assert view.affine.point(50, 50) == (140, 90)

    def test_a_crop_larger_than_all_is_centred(self):
        assert geometry.pad_and_crop((20, 20), (32, 32), 2, (0.3, 0.9)).affine.point(6, 6) == (0, 0)


class TestCifar:
    def test_the_tutorials_network_has_its_parameters(self):
        model = TutorialNetwork(10)

        assert sum(parameter.numel() for parameter in model.parameters()) == 1_068_298
        assert model(torch.zeros(2, 3, 24, 24)).shape == (2, 10)

    def test_local_response_is_tensorflows(self):
        """tf.nn.lrn(x, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75): over four channels on either side."""
        x = torch.randn(2, 64, 5, 5)
        found = TutorialNetwork(10).encoder["norm"](x)
        for channel in (0, 3, 30, 63):
            window = x[:, max(0, channel - 4) : channel + 5]
            expected = x[:, channel] / (1 + 0.001 / 9 * (window**2).sum(dim=1)) ** 0.75
            assert torch.allclose(found[:, channel], expected, atol=1e-6)

    def test_its_decay_is_on_the_hidden_layers_alone(self):
        model, spec = TutorialNetwork(10), default_recipe("classification", "cifar10-tutorial").optimizer
        decayed = {
            name
            for group in make_optimizer(spec, model).param_groups
            for parameter in group["params"]
            for name, own in model.named_parameters()
            if own is parameter and group["weight_decay"] == 0.004
        }

        assert decayed == {"encoder.local3.weight", "encoder.local4.weight"}

    def test_its_recipe_is_the_published_one(self):
        chosen = default_recipe("classification", "cifar10-tutorial")

        assert (chosen.train.batch, chosen.train.ema_decay, chosen.optimizer.momentum) == (128, 0.9999, 0.0)
        assert [chosen.optimizer.rate(step, 10**6) for step in (0, 136_717)] == [0.1, 0.1]
        assert chosen.optimizer.rate(136_718, 10**6) == pytest.approx(0.01)
        augment, tones = chosen.augment, chosen.regularize
        assert (augment.crop, augment.method, augment.margin, augment.flip) == ((24, 24), "pad-crop", 0, 0.5)
        assert (tones.brightness, tones.contrast) == (63, (0.2, 1.8))

    def test_pictures_are_standardised_one_by_one(self):
        """tf.image.per_image_standardization: (x - mean) / max(stddev, 1 / sqrt(number of values))."""
        pixels = 255 * torch.rand(2, 3, 24, 24)
        pixels[1] = 7.0
        found = Normalization((0.5,) * 3, (1,) * 3, alone=True).apply(pixels.clone())

        assert torch.allclose(found[0], (pixels[0] - pixels[0].mean()) / pixels[0].std(correction=0), atol=1e-4)
        assert not found[1].any()

    def test_the_first_layer_whitens(self):
        model, images = FastNetwork(10), torch.randn(64, 3, 32, 32).cumsum(dim=3)
        model.whiten(images)
        first = model.encoder[0]
        with torch.no_grad():
            answers = first(images)[:, :12].transpose(0, 1).flatten(1)
        second = answers @ answers.T / answers.shape[1]

        assert not first.weight.requires_grad
        assert torch.allclose(second, torch.eye(12), atol=0.02)
        assert model(images).shape == (64, 10)

    @pytest.mark.parametrize("name", ["cifar10-tutorial", "cifar10-fast"])
    def test_both_are_trained_from_the_binary_format_by_their_name(self, tmp_path, capsys, name):
        miniatures.cifar10(tmp_path / "raw")
        assert call("pack", tmp_path / "raw", "-o", tmp_path / "data", capsys=capsys)[0] == 0
        words = [
            "--model",
            name,
            "--steps",
            2,
            "--batch",
            4,
            "--set",
            "data.validation=test",
            "--runs",
            tmp_path / "runs",
        ]
        code, out, _ = call("train", tmp_path / "data", *words, capsys=capsys)
        (run,) = (tmp_path / "runs").iterdir()

        assert code == 0
        assert "evaluation  loss" in out
        assert call("replay", run, "--step", 2, capsys=capsys)[0] == 0
        again = call("train", "--resume", run, "--steps", 3, capsys=capsys)
        assert again[0] == 0


class TestMuon:
    def test_updates_are_nearly_orthogonal(self):
        torch.manual_seed(0)
        for shape in ((8, 40), (40, 8), (16, 16)):
            matrix = torch.randn(shape)
            values = torch.linalg.svdvals(orthogonal(matrix)) / max(1, shape[0] / shape[1]) ** 0.5
            assert float(values.min()) > 0.5
            assert float(values.max()) < 1.3

    def test_filters_are_orthogonal_and_the_rest_is_sgd(self):
        model = build_classifier("test_resnet", 3, "none")
        optimizer = make_optimizer(OptimizerSpec("muon", 0.1, weight_decay=0.01), model)
        twin = build_classifier("test_resnet", 3, "none")
        twin.load_state_dict(model.state_dict())
        plain = torch.optim.SGD(
            [{"params": [p], "weight_decay": 0.0} for p in twin.parameters()], lr=0.1, momentum=0.9, nesterov=True
        )
        images = torch.randn(4, 3, 32, 32)
        for _ in range(3):
            for network, own in ((model, optimizer), (twin, plain)):
                own.zero_grad()
                network(images).square().sum().backward()
            before = {name: p.detach().clone() for name, p in model.named_parameters()}
            for (name, p), q in zip(model.named_parameters(), twin.parameters(), strict=True):
                q.grad.copy_(p.grad)
                assert torch.equal(before[name], p)
            optimizer.step()
            plain.step()
        bias = "head.bias"

        assert isinstance(optimizer, Muon)
        assert torch.allclose(dict(model.named_parameters())[bias], dict(twin.named_parameters())[bias], atol=1e-6)
        filters = [p for group in optimizer.param_groups if group["orthogonal"] for p in group["params"]]
        assert len(filters) > 5
        assert all(p.ndim == 4 for p in filters)


def test_a_classifiers_names_are_systematic():
    names = set(build_classifier("resnet18", 5, "none").state_dict())

    assert {"head.weight", "head.bias", "encoder.conv1.weight"} <= names
    assert all(name.startswith(("encoder.", "head.")) for name in names)


def test_an_unknown_classifier_is_answered_with_the_nearest():
    with pytest.raises(RecipeError) as caught:
        Classification("resnet5O", ("a", "b")).model()

    assert "expected a timm model, or one of cifar10-tutorial, cifar10-fast, found resnet5O. Did you mean" in str(
        caught.value
    )
