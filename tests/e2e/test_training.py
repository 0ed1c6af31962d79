from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import threading
import time

import numpy as np
import pytest
import torch
from support.commands import call
from support.datasets import records
from support.shaking import Looks
from support.training import Stop, recipe
from support.watching import Given
from torch.nn import functional
from torch.nn import functional as F  # noqa: N812

from penstock.assembly import open_experiment
from penstock.config import apply, dump, load
from penstock.datasets import inspect, pack
from penstock.errors import NonFiniteError, SchemaError
from penstock.images import decode_mask
from penstock.kinds.fields import decode_segmentation
from penstock.kinds.items import Labels
from penstock.records.example import encode
from penstock.seeds import key
from penstock.session import Checkpoint, CheckpointStore, Hook
from penstock.sources import FilesSource, waiting
from penstock.tasks import Segmentation
from penstock.training import resume, train
from penstock.values import Record


def around(places, size=21):
    """How many successive places of a circle hold all of some."""
    ordered = sorted(places)
    gaps = [(b - a) % size for a, b in zip(ordered, [*ordered[1:], ordered[0]], strict=True)]
    return size + 1 - max(gaps)


class TestTraining:
    @pytest.mark.parametrize("setting", ["class_weights=[0.1, 1.0, 2.0, 3.0, 4.0, 0.5]", "ohem_ratio=0.25"])
    def test_a_loss_is_what_pytorch_makes_of_what_the_step_saw(self, packed, tmp_path, setting):
        looks = Looks()
        chosen = apply(recipe(packed.folder, steps=2, evaluate_every=2), [f"loss.{setting}"])
        train(chosen, tmp_path, hooks=[looks])
        task = open_experiment(chosen).task
        weight = torch.tensor([0.1, 1.0, 2.0, 3.0, 4.0, 0.5]) if "weights" in setting else None
        for batch, model, loss in zip(looks.batches, looks.models, looks.losses, strict=True):
            logits, mask = model.train()(task.inputs(batch)), batch["mask"].long()
            each = functional.cross_entropy(logits, mask, weight, ignore_index=255, reduction="none").flatten(1)
            if weight is None:
                counts = [-(-int(valid) // 4) for valid in (mask != 255).flatten(1).sum(dim=1)]
                rows = zip(each, counts, strict=True)
                expected = sum(row.topk(count).values.sum() for row, count in rows) / sum(counts)
            else:
                expected = each.sum() / weight[mask[mask != 255]].sum()
            assert loss == pytest.approx(expected.item(), rel=1e-4)
            plain = functional.cross_entropy(logits, mask, ignore_index=255).item()
            assert loss != pytest.approx(plain, rel=1e-2)

    def test_what_lies_outside_is_the_mean(self, packed, tmp_path):
        """The mean of this backbone is 128; an image of 64 x 96 in a crop of 128 x 128 leaves half of it."""
        looks = Looks()
        settings = ["augment.crop=[128, 128]", "augment.view.scale=[1.0, 1.0]", "augment.flip=0.0"]
        train(apply(recipe(packed.folder, steps=1, evaluate_every=9), settings), tmp_path, hooks=[looks])
        (batch,) = looks.batches
        outside = batch["mask"] == 255

        assert outside.flatten(1).sum(dim=1).tolist() == [128 * 128 - 64 * 96] * 4
        assert (batch["image"][outside] == 128).all()

    def test_the_order_follows_from_the_seed_and_is_none_of_the_shards(self, packed, tmp_path):
        """All records in an epoch, far from their neighbours, and another order for every seed and every epoch."""
        orders = {}
        names = [f"{shard.name}#{number}" for shard in packed.split("train").shards for number in range(shard.records)]
        for seed in (3, 4):
            chosen = dataclasses.replace(recipe(packed.folder, steps=21, batch=2, evaluate_every=99), seed=seed)
            folder, _ = train(apply(chosen, ["data.block=0", "data.validation="]), tmp_path)
            lines = (folder.path / "origins.jsonl").read_text().splitlines()
            found = [name for line in lines for name in json.loads(line)["origins"]]
            orders[seed] = [names.index(name) for name in found]
        first, second = orders[3][:21], orders[3][21:]

        assert sorted(first) == sorted(second) == list(range(21))
        assert len({tuple(each) for each in (first, second, orders[4][:21], range(21))}) == 4
        following = sum(b == (a + 1) % 21 for a, b in itertools.pairwise(first))
        assert following < 6  # one of twenty, by chance; all of them in natural order
        assert max(around(each[:5]) for each in (first, second, orders[4][:21])) > 12  # they come from everywhere

    def test_as_many_threads_as_the_recipe_says(self, packed, tmp_path, monkeypatch):
        from penstock.feed import feed

        made, pool = [], feed.ThreadPoolExecutor
        monkeypatch.setattr(
            feed, "ThreadPoolExecutor", lambda many, *a, **k: (made.append(many), pool(many, *a, **k))[1]
        )
        train(recipe(packed.folder, steps=2, evaluate_every=2, num_threads=5), tmp_path)

        assert made == [5, 5]

    def test_a_record_of_another_class_ends_it_with_its_name(self, packed, tmp_path):
        from penstock.errors import LabelError

        fewer = dataclasses.replace(packed.description, classes=packed.description.classes[:2])
        data = dataclasses.replace(packed, description=dataclasses.replace(fewer, content=""))
        feed = dataclasses.replace(open_experiment(recipe(packed.folder)), dataset=data).training_feed()
        with (
            pytest.raises(
                LabelError, match=r"^train-\d+-of-\d+\.tfrecord#\d+ \(mask\): expected class ids from 0 to 1"
            ),
            contextlib.closing(feed.batches()) as batches,
        ):
            next(batches)

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_gradients_that_are_no_numbers_end_it_though_the_loss_is_one(self, packed, tmp_path, value):
        class Spoils(Hook):
            def after_backward(self, session):
                if session.step == 2:
                    next(p.grad for p in session.model.parameters() if p.grad is not None).fill_(value)

        with pytest.raises(NonFiniteError, match=f"found loss [0-9.]+, gradient norm {value}, from "):
            train(recipe(packed.folder, steps=4, save_every=1, evaluate_every=9), tmp_path, hooks=[Spoils()])
        (folder,) = tmp_path.iterdir()
        assert (folder / "checkpoints/last").resolve().name == "step-00000002"

    def test_losses_that_are_no_numbers_end_it_though_gradients_are(self, packed, tmp_path, monkeypatch):
        class Spoils(Hook):
            def before_step(self, session):
                if session.step == 2:
                    monkeypatch.setattr(Segmentation, "loss", lambda *words: loss(*words) + float("nan"))

        loss = Segmentation.loss
        with pytest.raises(NonFiniteError, match=r"found loss nan, gradient norm [0-9.]+, from "):
            train(recipe(packed.folder, steps=4, save_every=1, evaluate_every=9), tmp_path, hooks=[Spoils()])
        (folder,) = tmp_path.iterdir()
        assert (folder / "checkpoints/last").resolve().name == "step-00000002"

    def test_an_error_leaves_no_threads_behind(self, packed, tmp_path):
        """Though its traceback, which somebody may keep, holds all that was there."""

        class Fails(Hook):
            def after_step(self, session):
                raise KeyError("oh")

        with pytest.raises(KeyError, match="oh") as caught:
            train(recipe(packed.folder, steps=40), tmp_path, hooks=[Fails()])
        left = [thread.name for thread in threading.enumerate() if thread.name.startswith("penstock-feed")]

        assert caught.tb
        assert left == []

    def test_as_many_checkpoints_are_kept_as_asked(self, packed, tmp_path):
        chosen = recipe(packed.folder, steps=6, keep=4, save_every=1, evaluate_every=9)
        folder, _ = train(chosen, tmp_path)

        assert CheckpointStore(folder.checkpoints).names() == [f"step-{step:08d}" for step in (3, 4, 5, 6)]

    def test_what_is_said_beside_a_recipe_goes_before_it(self, packed, tmp_path, capsys):
        chosen = recipe(packed.folder, steps=3, evaluate_every=9)
        (tmp_path / "mine.toml").write_text(dump(chosen))
        words = [
            "--steps",
            1,
            "--batch",
            2,
            "--seed",
            9,
            "--set",
            "optimizer.momentum=0.5",
            "--runs",
            tmp_path / "runs",
        ]
        assert call("train", tmp_path / "mine.toml", *words, capsys=capsys)[0] == 0
        (run,) = (tmp_path / "runs").iterdir()

        settings = ["train.steps=1", "train.batch=2", "seed=9", "optimizer.momentum=0.5"]
        assert load(run / "recipe.toml") == apply(chosen, settings)

    def test_a_record_without_a_mask_is_named(self):
        payload = encode({"image/encoded": b"x"})
        with pytest.raises(SchemaError) as caught:
            decode_segmentation(Record("here#3", payload))

        assert str(caught.value).startswith(
            "here#3: expected field image/segmentation/class/encoded (bytes_list), found only image/encoded."
        )

    def test_a_signal_while_data_is_waited_for_saves_what_nothing_else_would(self, packed, tmp_path, monkeypatch):
        """A source that does not answer any more, as a broker that is away."""
        away, read = threading.Event(), FilesSource.read

        def stalls(source, *place):
            while away.is_set():
                waiting.check()
                time.sleep(0.01)
            return read(source, *place)

        class Stalls(Hook):
            def after_step(self, session):
                if session.step == 2:
                    away.set()
                    threading.Timer(3.0, os.kill, (os.getpid(), signal.SIGINT)).start()
                    threading.Timer(25.0, away.clear).start()  # so that a training that is deaf ends too

        monkeypatch.setattr(FilesSource, "read", stalls)
        chosen = recipe(packed.folder, steps=1000, save_every=999, evaluate_every=999, num_threads=1)
        folder, outcome = train(chosen, tmp_path, hooks=[Stalls()])

        assert outcome.status == "interrupted"
        assert away.is_set()
        assert 2 <= outcome.step < 20
        assert CheckpointStore(folder.checkpoints).names() == [f"step-{outcome.step:08d}"]

    @pytest.mark.parametrize("function", ["rename", "replace"])
    def test_the_last_checkpoint_is_whole_wherever_a_save_is_cut_short(self, tmp_path, monkeypatch, function):
        """An audit hook would count every rename, but it stays, and Python 3.11 then loses threads under coverage."""

        class Cut(Exception):
            pass

        real = getattr(os, function)

        def cut(source, *arguments, **options):
            left[0] -= 1
            if left[0] == 0:
                raise Cut
            return real(source, *arguments, **options)

        left, ended = [0], False
        monkeypatch.setattr(os, function, cut)
        for number in range(1, 20):
            store = CheckpointStore(tmp_path / str(number), keep=1)
            store.folder.mkdir()
            store.save(Checkpoint(1, {"model": {"a": torch.ones(3)}}, {"of": 1}))
            left[0] = number
            try:
                store.save(Checkpoint(2, {"model": {"a": 2 * torch.ones(3)}}, {"of": 2}))
                ended = True
            except Cut:
                pass
            left[0] = 0
            found = store.load()
            assert found.state["of"] == found.step == found.tensors["model"]["a"][0], number
            if ended:
                break
        assert ended
        assert number > 1


def pixels_in_records(dataset, split):
    """How many pixels of every id the masks of a split have."""
    masks = [decode_mask(decode_segmentation(record).mask, "x") for record in records(dataset, split)]
    return sum(np.bincount(mask.ravel(), minlength=256) for mask in masks)


def test_what_a_dataset_ignores_is_neither_learnt_nor_scored(raw, tmp_path):
    """The ground, 0, which is most of every image, and not the usual 255."""
    dataset = pack(inspect(raw, Labels(ignore=0)), tmp_path / "data")
    given = Given()
    folder, _ = train(recipe(dataset.folder, steps=2, ema_decay=0.0), tmp_path / "runs", hooks=[given])
    found = json.loads((folder.path / "evaluations" / "step-00000002.json").read_text())["confusion"]

    for batch, logits, loss in zip(given.batches, given.outputs, given.losses, strict=True):
        assert loss == pytest.approx(F.cross_entropy(logits, batch["mask"].long(), ignore_index=0).item(), rel=1e-5)
    assert [sum(row) for row in found] == [0, *pixels_in_records(dataset, "val")[1:6].tolist()]


@pytest.mark.parametrize(
    "settings",
    [
        ["loss.cross_entropy=0.5", "loss.dice=2.0"],
        ["loss.cross_entropy=0.0", "loss.dice=1.0"],
        ["loss.cross_entropy=0.0", "loss.jaccard=1.0"],
        ["loss.class_weights=[0.1, 1.0, 2.0, 3.0, 4.0, 5.0]", "loss.label_smoothing=0.1"],
        ["loss.ohem_ratio=0.25"],
    ],
    ids=["sum", "dice alone", "jaccard alone", "weights and smoothing", "hardest"],
)
def test_a_training_minds_the_losses_of_its_recipe(packed, tmp_path, settings):
    """Each loss worked out from logits and labels alone, and divided by its own count."""
    chosen, given = apply(recipe(packed.folder, steps=1), settings), Given()
    train(chosen, tmp_path, hooks=[given])
    logits, target = given.outputs[0], given.batches[0]["mask"].long()
    loss, weights = chosen.loss, chosen.loss.class_weights
    plain = F.cross_entropy(
        logits,
        target,
        None if weights == "none" else torch.tensor(weights),
        ignore_index=255,
        label_smoothing=loss.label_smoothing,
        reduction="none" if loss.ohem_ratio < 1 else "mean",
    )
    if loss.ohem_ratio < 1:
        hardest = []
        for image, label in zip(plain, target, strict=True):
            own = sorted(image[label != 255].tolist(), reverse=True)
            hardest += own[: -(-len(own) // 4)]
        plain = torch.tensor(hardest).mean()
    dice, jaccard = [], []
    for prediction, label in zip(logits.softmax(dim=1), target, strict=True):
        valid = label != 255
        present = [c for c in range(6) if (label == c).any()]
        overlaps = [
            2 * prediction[c][label == c].sum() / (prediction[c][valid].sum() + (label == c).sum()) for c in present
        ]
        dice.append(1 - torch.stack(overlaps).mean())
        jaccard.append(1 - torch.stack([each / (2 - each) for each in overlaps]).mean())
    regions = loss.dice * torch.stack(dice).mean() + loss.jaccard * torch.stack(jaccard).mean()
    expected = loss.cross_entropy * plain + regions

    assert given.losses[0] == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize(("name", "mean", "std"), [("test_resnet", 0.5, 0.5), ("resnet10t", 0.485, 0.229)])
def test_a_network_is_given_images_as_its_backbone_expects_them(packed, tmp_path, name, mean, std):
    """The first of three channels by its own mean and deviation."""
    given = Given()
    train(apply(recipe(packed.folder, steps=1), [f"model.name=unet:{name}"]), tmp_path, hooks=[given])
    expected = (given.batches[0]["image"][..., 0].float() / 255 - mean) / std

    torch.testing.assert_close(given.inputs[0][:, 0], expected, rtol=1e-5, atol=1e-5)


def test_what_is_random_inside_a_model_follows_from_seed_and_step(packed, tmp_path):
    """Dropout, for example: drawn where a restart draws it too."""

    class Draws(Hook):
        def on_start(self, session):
            session.model.register_forward_pre_hook(
                lambda module, _: found.append(torch.rand(3).tolist()) if module.training else None
            )

    found = []
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path, hooks=[Draws(), Stop(2)])
    resume(folder.path, hooks=[Draws()])
    seeds = [int.from_bytes(key(3, "model", step, 0), "little") % 2**63 for step in range(4)]

    assert found == [torch.rand(3, generator=torch.Generator().manual_seed(seed)).tolist() for seed in seeds]


def test_initial_weights_follow_from_the_seed(packed):
    def begun(seed):
        torch.rand(seed + 1)  # whatever was drawn before
        return open_experiment(dataclasses.replace(recipe(packed.folder), seed=seed)).model().state_dict()

    one, again, other = begun(3), begun(3), begun(4)

    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not any(torch.equal(one[name], other[name]) for name in one if one[name].ndim == 4)


class Drawn:
    """Keeps the first number that a sample is given."""

    fields = None

    def __init__(self):
        from penstock.feed import Field

        self.fields = {"drawn": Field((), "float64")}

    def __call__(self, record, generator, out):
        out["drawn"][...] = generator.uniform()


def test_augmentation_follows_from_seed_and_position(packed):
    from penstock.seeds import Generator

    feed = dataclasses.replace(open_experiment(recipe(packed.folder)).training_feed(), prepare=Drawn())
    batches = feed.batches()
    found = [value for _ in range(3) for value in next(batches).tensors["drawn"].tolist()]
    batches.close()

    assert found == [Generator(key(3, "augment", position)).uniform() for position in range(12)]


def test_a_training_is_shuffled_anew_in_every_epoch_and_by_its_seed(packed):
    plans = [open_experiment(dataclasses.replace(recipe(packed.folder), seed=seed)).plan for seed in (3, 4)]
    epochs = [[plan.at(21 * epoch + place) for place in range(21)] for plan in plans for epoch in range(3)]

    assert len({tuple(sorted(epoch)) for epoch in epochs}) == 1
    assert len({tuple(epoch) for epoch in [*epochs, sorted(epochs[0])]}) == 7
