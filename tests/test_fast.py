"""What the fast recipe for CIFAR-10 brings: filters of unit norm, mirrors by turns, reflected borders."""

from __future__ import annotations

import itertools
from dataclasses import replace

import cv2
import miniatures
import numpy as np
import pytest
import torch
from training import Stop, recipe, state

from penstock import seeds
from penstock.assembly import open_parts
from penstock.config import Recipe, apply, default_recipe
from penstock.config.effects import check_effects
from penstock.datasets import inspect, pack
from penstock.errors import RecipeError
from penstock.feed import Feed
from penstock.images import warp_image
from penstock.images.geometry import Affine
from penstock.models import build_classifier
from penstock.order import Plan, Shuffle
from penstock.records.schema import ClassificationRecord, encode_classification
from penstock.session import OptimizerSpec
from penstock.session.optimizer import make_optimizer
from penstock.sources import MemorySource
from penstock.tasks import Augment, Classification, Volumes
from penstock.tasks.classification import PrepareClassification
from penstock.training import resume, train
from penstock.values import Cursor, Record, Share

GRAY = (7, 7, 7)


def encoded(pixels, label=0):
    data = cv2.imencode(".png", pixels[..., ::-1])[1].tobytes()
    return encode_classification(ClassificationRecord(data, label, f"{label}.png", "png", *pixels.shape[:2]))


class TestMuon:
    def one_step(self, **settings):
        """A network's parameters before and after a step without gradients, as the session takes it."""
        model = build_classifier("test_resnet", 3, "none")
        optimizer = make_optimizer(OptimizerSpec("muon", 0.1, **settings), model)
        before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * group["share"]
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        return before, {name: parameter.detach() for name, parameter in model.named_parameters()}

    def test_filters_may_be_kept_at_unit_norm_in_place_of_decay(self):
        before, after = self.one_step(unit_filters=True, weight_decay=0.5)
        filters = [name for name, parameter in before.items() if parameter.ndim == 4]

        assert len(filters) > 5
        for name in filters:
            squares = before[name].flatten(1).square().sum(dim=1)
            assert torch.allclose(after[name], before[name] / squares.mean().sqrt(), rtol=1e-5)
            assert float(after[name].flatten(1).square().sum(dim=1).mean()) == pytest.approx(1, abs=1e-5)
        assert torch.allclose(after["head.weight"], before["head.weight"] * 0.95)

    def test_what_multiplies_a_rate_does_not_multiply_its_decay(self):
        before, after = self.one_step(weight_decay=0.5, head_lr_mult=7.0, bias_lr_mult=3.0)
        for name, parameter in before.items():
            assert torch.allclose(after[name], parameter * (0.95 if parameter.ndim > 1 else 1.0)), name

    def test_biases_decay_where_they_are_to(self):
        before, after = self.one_step(weight_decay=0.5, bias_lr_mult=3.0, decay_biases=True)

        assert any(parameter.ndim == 1 and parameter.any() for parameter in before.values())
        for name, parameter in before.items():
            assert torch.allclose(after[name], parameter * 0.95), name

    def test_filters_and_the_rest_have_momenta_of_their_own(self):
        model = build_classifier("test_resnet", 3, "none")
        optimizer = make_optimizer(OptimizerSpec("muon", 0.1, momentum=0.6, sgd_momentum=0.85), model)

        assert {(group["orthogonal"], group["momentum"]) for group in optimizer.param_groups} == {
            (True, 0.6),
            (False, 0.85),
        }

    def test_a_head_that_does_not_learn_does_not_decay(self):
        before, after = self.one_step(weight_decay=0.5, head_lr_mult=0.0)

        assert torch.equal(after["head.weight"], before["head.weight"])


class TestTurns:
    N = 9
    LEFT = np.repeat(np.array([255] * 4 + [0] * 4, np.uint8), 3).reshape(1, 8, 3).repeat(8, axis=0)

    def mirrored(self, epochs, *, share=Share(), batch=3, start=0):  # noqa: B008
        """Whether an image was mirrored, by epoch and image."""
        source = MemorySource({"a": [encoded(self.LEFT, i) for i in range(self.N)]})
        prepare = PrepareClassification(self.N, GRAY, Augment((8, 8), "pad-crop", alternating_flip=True), train=True)
        feed = Feed(Plan(source.snapshot(), 5, Shuffle()), source, prepare, batch=batch, share=share)
        found = {}
        for number, given in enumerate(
            itertools.islice(feed.batches(Cursor(start)), (self.N * epochs - start) // batch)
        ):
            epoch = (start + number * batch) // self.N
            for image, label in zip(given.tensors["image"], given.tensors["label"], strict=True):
                assert image[:, :4].unique().numel() == image[:, 4:].unique().numel() == 1
                found[epoch, int(label)] = not image[0, 0, 0]
        return found

    def test_two_epochs_in_a_row_show_every_picture_both_ways(self):
        found = self.mirrored(4)
        first = [bool(found[0, label]) for label in range(self.N)]

        assert len(found) == 4 * self.N
        assert set(first) == {True, False}
        for epoch in range(4):
            assert [bool(found[epoch, label]) for label in range(self.N)] == [one ^ (epoch % 2 == 1) for one in first]

    def test_turns_are_the_same_on_any_rank_and_after_any_restore(self):
        whole = self.mirrored(3)
        for rank in range(3):
            part = self.mirrored(3, share=Share(rank, 3))
            assert part.items() <= whole.items()
            assert len(part) == self.N
        for start in range(0, 3 * self.N, 3):
            rest = self.mirrored(3, start=start)
            assert rest == {key: value for key, value in whole.items() if key in rest}
            assert len(rest) == 3 * self.N - start


class TestBorders:
    PIXELS = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)

    def shown(self, margin, number):
        augment = Augment((8, 8), "pad-crop", margin=margin, border="reflect")
        out = {"image": np.empty((8, 8, 3), np.uint8), "label": np.empty((), np.int64)}
        record = Record("a:0", encoded(self.PIXELS))
        Classification("test_resnet", ("a",), augment).prepare(train=True)(record, seeds.generator(0, "x", number), out)
        return out["image"]

    @pytest.mark.parametrize("margin", [1, 2, 4])
    def test_what_is_around_a_picture_may_be_its_mirror(self, margin):
        padded = np.pad(self.PIXELS, ((margin, margin), (margin, margin), (0, 0)), "reflect")
        moves = range(2 * margin + 1)
        windows = {padded[y : y + 8, x : x + 8][:, ::step].tobytes() for y in moves for x in moves for step in (1, -1)}
        seen = {self.shown(margin, number).tobytes() for number in range(600)}

        assert seen <= windows
        assert len(seen) > 0.9 * len(windows)

    def test_evaluation_reflects_what_is_larger_than_the_picture(self):
        augment = Augment((12, 10), "pad-crop", border="reflect")
        out = {"image": np.empty((12, 10, 3), np.uint8), "label": np.empty((), np.int64)}
        Classification("test_resnet", ("a",), augment).prepare(train=False)(
            Record("a:0", encoded(self.PIXELS)), None, out
        )

        assert np.array_equal(out["image"], np.pad(self.PIXELS, ((2, 2), (1, 1), (0, 0)), "reflect"))

    @pytest.mark.parametrize(
        "affine", [Affine(xx=0.8, xy=-0.6, yx=0.6, yy=0.8), Affine(x0=9.0), Affine(x0=-0.5, y0=0.25)]
    )
    def test_turned_pictures_are_reflected_too(self, affine):
        out, more = np.full((8, 8, 3), 99, np.uint8), np.full((8, 8, 3), 99, np.uint8)
        warp_image(self.PIXELS, affine, None, out)
        padded = np.pad(self.PIXELS, ((14, 14), (14, 14), (0, 0)), "reflect")
        warp_image(padded, affine.then(Affine(x0=14.0, y0=14.0)), GRAY, more)

        assert np.abs(out.astype(int) - more).max() <= 1

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                ["augment.border=reflect"],
                "A reflected border is not supported for segmentation. Remove augment.border.",
            ),
            (["augment.alternating_flip=true"], ""),
        ],
    )
    def test_masks_know_no_border(self, packed, changes, message):
        chosen = apply(recipe(packed.folder), changes)
        if not message:
            open_parts(chosen).model()
            return
        with pytest.raises(RecipeError) as caught:
            open_parts(chosen).model()
        assert str(caught.value) == message


def test_volumes_are_not_mirrored_by_turns():
    augment = Augment((16, 16), slices=16, alternating_flip=True)
    with pytest.raises(RecipeError) as caught:
        check_effects(Recipe(augment=augment), Volumes, Recipe(augment=replace(augment, alternating_flip=False)))

    assert str(caught.value) == ("Alternating flip is not supported for volumes. Remove augment.alternating_flip.")


@pytest.mark.parametrize("name", ["cifar10-tutorial", "cifar10-fast"])
def test_a_run_stopped_after_every_step_is_the_same(tmp_path, name):
    """The first layer of the fast one is told from the data at the start, and must not learn after a resume."""
    miniatures.cifar10(tmp_path / "raw")
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    settings = ["train.steps=4", "train.batch=4", "train.device=cpu", "data.validation=test", "train.log_origins=true"]
    plain = default_recipe("classification", name)
    chosen = apply(replace(plain, data=replace(plain.data, path=str(tmp_path / "data"))), settings)
    whole, _ = train(chosen, tmp_path / "whole")

    stopped, _ = train(chosen, tmp_path / "stopped", hooks=[Stop(1)])
    for step in (2, 3):
        resume(stopped.path, hooks=[Stop(step)])
    resume(stopped.path)

    assert state(stopped.path) == state(whole.path)


def test_the_recipe_passes_over_all_pictures_eight_times():
    recipe = default_recipe("classification", "cifar10-fast")

    assert recipe.train.steps * recipe.train.batch == 8 * 50_000
    assert (recipe.augment.border, recipe.augment.alternating_flip) == ("reflect", True)
    assert (recipe.optimizer.unit_filters, recipe.optimizer.decay_biases) == (True, True)
