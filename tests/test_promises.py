"""What the rows of the CIFAR-10 tutorial and of segmentation_models, and the promises of README.md and docs/design.md,
say, seen from the outside.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
from pathlib import Path

import miniatures
import numpy as np
import processes
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from safetensors.torch import load_file
from test_cli import call
from test_layouts import records
from training import Stop, recipe
from watching import Given

from penstock.assembly import open_parts
from penstock.cli.events import show
from penstock.config import Data, apply, default_recipe, load
from penstock.datasets import inspect, pack
from penstock.events import Events
from penstock.images import decode_image, decode_mask
from penstock.kinds.items import Labels
from penstock.models.cifar import TutorialNetwork
from penstock.ranks import Ranks
from penstock.records.schema import decode_classification, decode_segmentation
from penstock.seeds import key
from penstock.session import CheckpointStore, Hook
from penstock.training import resume, train


def test_cifar_100_pixels_are_those_of_the_file(tmp_path):
    miniatures.cifar100(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    found = {each.name: each for each in map(decode_classification, records(dataset, "train"))}

    for i in range(6):
        pixels = decode_image(found[f"train-{i:05d}"].image, "x")
        assert pixels.tobytes() == miniatures.cifar_pixels(i).transpose(1, 2, 0).tobytes()


def test_the_tutorials_network_is_given_toned_and_standardised_pictures(tmp_path):
    """cifar10_input.py: random_brightness(63), random_contrast(0.2, 1.8), per_image_standardization, in training."""
    miniatures.cifar10(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    chosen = default_recipe("classification", "cifar10-tutorial")
    chosen = dataclasses.replace(chosen, data=Data(str(dataset.folder), validation="test"))
    given = Given()
    train(apply(chosen, ["train.steps=2", "train.batch=6", "train.device=cpu"]), tmp_path / "runs", hooks=[given])

    shifts, factors = set(), set()
    for batch, inputs in zip(given.batches, given.inputs, strict=True):
        assert inputs.shape == (6, 3, 24, 24)
        for pixels, draws, found in zip(batch["image"], batch["draws"], inputs, strict=True):
            x, shift, factor = pixels.movedim(-1, 0).float(), float(draws[9]), float(draws[10])
            mean = x.mean(dim=(1, 2), keepdim=True)
            x = (x - mean) * factor + mean + shift
            expected = (x - x.mean()) / max(float(x.std(correction=0)), x.numel() ** -0.5)
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
            shifts.add(shift)
            factors.add(factor)
    assert len(shifts) == len(factors) == 12
    assert max(map(abs, shifts)) <= 63
    assert 0.2 <= min(factors) < 1 < max(factors) <= 1.8


def test_the_tutorials_network_is_that_of_cifar10_py():
    model, x = TutorialNetwork(10), torch.randn(2, 3, 24, 24)
    own = dict(model.named_parameters())
    for name, spread, bias in (
        ("encoder.conv1", 0.05, 0.0),
        ("encoder.conv2", 0.05, 0.1),
        ("encoder.local3", 0.04, 0.1),
        ("encoder.local4", 0.04, 0.1),
        ("head", 1 / 192, 0.0),
    ):  # a normal distribution that is cut at two deviations has 0.88 of its deviation
        weight = own[f"{name}.weight"].detach()
        assert weight.abs().max() <= 2 * spread
        assert weight.std().item() == pytest.approx(0.88 * spread, rel=0.1)
        assert (own[f"{name}.bias"] == bias).all()

    def pooled(x):
        """tf.nn.max_pool(x, 3, 2, "SAME"): of even sides, one more row and column behind."""
        return F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=-torch.inf), 3, 2)

    def normed(x):
        """tf.nn.lrn(x, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75)."""
        around = F.pad((x**2).movedim(1, -1), (4, 4)).unfold(-1, 9, 1).sum(dim=-1).movedim(-1, 1)
        return x / (1 + 0.001 / 9 * around) ** 0.75

    def layer(name, x):
        weight, bias = own[f"{name}.weight"], own[f"{name}.bias"]
        return F.conv2d(x, weight, bias, padding=2) if weight.ndim == 4 else F.linear(x, weight, bias)

    y = normed(pooled(layer("encoder.conv1", 5 * x).relu()))
    y = pooled(normed(layer("encoder.conv2", y).relu()))
    y = layer("encoder.local4", layer("encoder.local3", y.flatten(1)).relu()).relu()

    torch.testing.assert_close(model(5 * x), layer("head", y), rtol=1e-5, atol=1e-6)


def test_evaluate_scores_the_checkpoint_that_is_named(packed, tmp_path, capsys):
    folder, _ = train(recipe(packed.folder, steps=3, keep=9, save_every=1, evaluate_every=2), tmp_path)
    losses = set()
    for step in (1, 2, 3):
        words = ["evaluate", folder.path, "--checkpoint", f"step-{step:08d}", "--images", 0]
        code, out, _ = call(*words, capsys=capsys)
        assert (code, f"val, with the weights of step {step}: loss" in out) == (0, True)
        losses.add(json.loads((folder.path / "evaluations" / f"val-{step:08d}.json").read_text())["loss"])

    assert len(losses) == 3


def pixels_of(dataset, split):
    """How many pixels of every id the masks of a split have."""
    masks = [decode_mask(decode_segmentation(record).mask, "x") for record in records(dataset, split)]
    return sum(np.bincount(mask.ravel(), minlength=256) for mask in masks)


def test_an_evaluation_counts_every_labelled_pixel_once(packed, tmp_path):
    """Seven images in batches of four: what fills up the second one is no image."""
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
    found = json.loads((folder.path / "evaluations" / "step-00000001.json").read_text())

    assert [sum(row) for row in found["confusion"]] == pixels_of(packed, "val")[:6].tolist()


def test_what_a_dataset_ignores_is_neither_learnt_nor_scored(raw, tmp_path):
    """The ground, 0, which is most of every image, and not the usual 255."""
    dataset = pack(inspect(raw, Labels(ignore=0)), tmp_path / "data")
    given = Given()
    folder, _ = train(recipe(dataset.folder, steps=2, ema_decay=0.0), tmp_path / "runs", hooks=[given])
    found = json.loads((folder.path / "evaluations" / "step-00000002.json").read_text())["confusion"]

    for batch, logits, loss in zip(given.batches, given.outputs, given.losses, strict=True):
        assert loss == pytest.approx(F.cross_entropy(logits, batch["mask"].long(), ignore_index=0).item(), rel=1e-5)
    assert [sum(row) for row in found] == [0, *pixels_of(dataset, "val")[1:6].tolist()]


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
        for picture, label in zip(plain, target, strict=True):
            own = sorted(picture[label != 255].tolist(), reverse=True)
            hardest += own[: -(-len(own) // 4)]
        plain = torch.tensor(hardest).mean()
    dice, jaccard = [], []
    for answer, label in zip(logits.softmax(dim=1), target, strict=True):
        valid = label != 255
        present = [c for c in range(6) if (label == c).any()]
        overlaps = [2 * answer[c][label == c].sum() / (answer[c][valid].sum() + (label == c).sum()) for c in present]
        dice.append(1 - torch.stack(overlaps).mean())
        jaccard.append(1 - torch.stack([each / (2 - each) for each in overlaps]).mean())
    regions = loss.dice * torch.stack(dice).mean() + loss.jaccard * torch.stack(jaccard).mean()
    expected = loss.cross_entropy * plain + regions

    assert given.losses[0] == pytest.approx(expected.item(), rel=1e-4)


class Counts(Hook):
    """The steps of this process."""

    def __init__(self):
        self.steps = []

    def after_step(self, session):
        self.steps.append(session.step)


def test_a_resume_does_the_steps_that_are_left_and_no_others(packed, tmp_path):
    """Stopped where nothing else would have saved: there are saves after steps 3 and 6, evaluations after 4 and 7."""
    folder, _ = train(recipe(packed.folder, steps=7), tmp_path, hooks=[Stop(5)])
    counts = Counts()
    resume(folder.path, hooks=[counts])

    assert counts.steps == [6, 7]
    assert [(line["event"], line["step"]) for line in folder.lines("events.jsonl") if line["event"] != "evaluated"] == [
        ("started", 0), ("stopped", 5), ("resumed", 5), ("finished", 7),
    ]  # fmt: skip
    timings = folder.lines("timings.jsonl")
    assert len(timings) == 7
    assert all(0 <= line["wait"] <= line["seconds"] and line["memory"] > 0 for line in timings)
    assert [line["step"] for line in timings] == list(range(1, 8))


@pytest.mark.parametrize(("name", "mean", "std"), [("test_resnet", 0.5, 0.5), ("resnet10t", 0.485, 0.229)])
def test_a_network_is_given_pictures_as_its_backbone_expects_them(packed, tmp_path, name, mean, std):
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
        return open_parts(dataclasses.replace(recipe(packed.folder), seed=seed)).model().state_dict()

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

    feed = dataclasses.replace(open_parts(recipe(packed.folder)).training_feed(), prepare=Drawn())
    batches = feed.batches()
    found = [value for _ in range(3) for value in next(batches).tensors["drawn"].tolist()]
    batches.close()

    assert found == [Generator(key(3, "augment", position)).uniform() for position in range(12)]


def test_a_training_is_shuffled_anew_in_every_epoch_and_by_its_seed(packed):
    plans = [open_parts(dataclasses.replace(recipe(packed.folder), seed=seed)).plan for seed in (3, 4)]
    epochs = [[plan.at(21 * epoch + place) for place in range(21)] for plan in plans for epoch in range(3)]

    assert len({tuple(sorted(epoch)) for epoch in epochs}) == 1
    assert len({tuple(epoch) for epoch in [*epochs, sorted(epochs[0])]}) == 7


@pytest.fixture
def drawn(monkeypatch):
    """The arrays of all samples that are drawn."""
    from penstock.tasks import Classification, Segmentation

    found = []
    for kind in (Segmentation, Classification):
        own = kind.draw

        def draw(self, arrays, outputs=None, record=None, own=own):
            found.append({name: array.copy() for name, array in arrays.items()})
            return own(self, arrays, outputs, record)

        monkeypatch.setattr(kind, "draw", draw)
    return found


def test_replay_and_show_draw_what_the_model_saw(packed, tmp_path, drawn, capsys):
    given = Given()
    folder, _ = train(recipe(packed.folder, steps=2), tmp_path / "runs", hooks=[given])
    for words, batch in (
        (["replay", folder.path, "--step", 2], given.batches[1]),
        (["show", packed.folder, "--augmented", "--recipe", folder.path / "recipe.toml", "-n", 4], given.batches[0]),
    ):
        drawn.clear()
        assert call(*words, "-o", tmp_path / "sheet.png", capsys=capsys)[0] == 0
        for name in ("image", "mask"):
            assert np.array_equal(np.stack([each[name] for each in drawn]), batch[name].numpy())


def test_replay_draws_mixed_pictures_as_the_model_saw_them(tmp_path, drawn, capsys):
    miniatures.folders(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    settings = [
        "model.name=test_resnet",
        "model.weights=none",
        "augment.crop=[32, 32]",
        "train.steps=1",
        "train.batch=2",
    ]
    settings += [
        "regularize.mixup=0.5",
        "regularize.random_erasing=1.0",
        "regularize.brightness=20",
        "train.device=cpu",
    ]
    chosen, given = dataclasses.replace(default_recipe("classification"), data=Data(str(dataset.folder))), Given()
    folder, _ = train(apply(chosen, settings), tmp_path / "runs", hooks=[given])
    assert call("replay", folder.path, "--step", 1, capsys=capsys)[0] == 0
    normal = open_parts(load(folder.path / "recipe.toml")).task.normalization
    mean, std = (torch.tensor(value).view(3, 1, 1) for value in (normal.mean, normal.std))
    seen = (255 * (given.inputs[0] * std + mean)).clamp(0, 255).movedim(1, -1).numpy()

    assert np.abs(np.stack([each["image"] for each in drawn]) - seen).mean() < 3  # what is beyond 0 to 255 is cut
    assert np.abs(given.batches[0]["image"].numpy() - seen).mean() > 10


def test_the_demo_is_what_the_readme_shows(tmp_path, monkeypatch, capsys):
    import shlex

    ran = []

    def pretended(command, **_):
        words, run = command[3:], tmp_path / "demo/runs/0001-demo"
        ran.append(words)
        if words[0] == "train":
            (run / "checkpoints/step-00000210").mkdir(parents=True)
            (run / "checkpoints/best").symlink_to("step-00000210")
            (run / "evaluations").mkdir()
        if words[0] == "evaluate":
            (run / "evaluations/test-00000210.json").write_text('{"mean_iou": 0.9}')
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("penstock.cli.demo.subprocess.run", pretended)
    code, out, _ = call("demo", capsys=capsys)
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    (block,) = re.findall(r"```\n(\$ penstock scenes .*?)```", readme, re.DOTALL)
    shown = [
        shlex.split(line[11:]) for line in block.replace("\\\n", "").splitlines() if line.startswith("$ penstock ")
    ]

    assert code == 0
    assert [words for words in ran if words != ["show", "demo/data", "-o", "demo/records.png"]] == shown
    assert "demo/runs/0001-demo/report.html" in out
    assert "demo/predictions" in out


def test_a_checkpoint_is_on_disk_before_it_has_a_name_and_is_the_last(tmp_path, monkeypatch):
    from penstock.session.checkpoint import Checkpoint

    events = []
    sync, rename, replace = os.fsync, os.rename, os.replace

    def synced(handle):
        events.append(("sync", Path(f"/proc/self/fd/{handle}").readlink().name))
        sync(handle)

    def renamed(source, target, own):
        assert Path(source).name.startswith(".")
        events.append(("rename", Path(target).name))
        own(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", lambda source, target: renamed(source, target, rename))
    monkeypatch.setattr(os, "replace", lambda source, target: renamed(source, target, replace))
    tensors = {name: {"x": torch.ones(3)} for name in ("model", "ema", "optimizer")}
    CheckpointStore(tmp_path).save(Checkpoint(5, tensors, {"cursor": 20}))
    names = ["model.safetensors", "ema.safetensors", "optimizer.safetensors", "state.json", "manifest.json"]
    place = events.index(("rename", "step-00000005"))

    assert [name for kind, name in events[:place] if kind == "sync"][:5] == names
    assert events[place - 1][1].startswith(".step-00000005.")
    assert events[place + 1 :] == [("sync", tmp_path.name), ("rename", "last"), ("sync", tmp_path.name)]


def test_determinism_is_asked_for_and_only_then_promised_on_a_gpu(packed, tmp_path, monkeypatch):
    from penstock.ranks import Ranks
    from penstock.training.reproducibility import promise

    class Asks(Hook):
        def on_start(self, session):
            found.append(torch.are_deterministic_algorithms_enabled())

    found = []
    for deterministic in (True, False):
        train(recipe(packed.folder, steps=1, deterministic=deterministic), tmp_path, hooks=[Asks()])
    monkeypatch.setattr("penstock.devices.describe", str)
    exact = [
        promise(recipe("x", deterministic=deterministic), torch.device(kind), Ranks())["exact"]
        for kind, deterministic in (("cpu", False), ("cuda", False), ("cuda", True))
    ]

    assert found == [True, False]
    assert [each == "weights, byte for byte" for each in exact] == [True, False, True]


def test_a_resume_says_what_differs(packed, tmp_path, capsys):
    folder, _ = train(recipe(packed.folder, steps=2), tmp_path, hooks=[Stop(1)])
    before = folder.read_json("environment.json")
    folder.write_json("environment.json", {**before, "threads": 77})
    resume(folder.path, on_event=show)

    now = before["threads"]
    assert f"note: threads was 77, is {now}: same records, same order; weights may differ" in capsys.readouterr().out
    assert folder.read_json("environment.json")["then"][0]["threads"] == now


def test_what_starts_from_a_run_has_its_averaged_weights(packed, tmp_path):
    first, _ = train(recipe(packed.folder, steps=3), tmp_path)
    settings = [f"init={first.path}", "optimizer.lr=1e-12"]
    second, _ = train(apply(recipe(packed.folder, steps=1, ema_decay=0.0), settings), tmp_path)
    averaged, plain = (load_file(first.checkpoints / "best" / f"{name}.safetensors") for name in ("ema", "model"))
    found = load_file(second.checkpoints / "last" / "model.safetensors")
    name = "encoder.model.conv1.0.weight" if "encoder.model.conv1.0.weight" in found else "encoder.model.conv1.weight"

    torch.testing.assert_close(found[name], averaged[name])
    assert not torch.allclose(found[name], plain[name])


def test_what_the_readme_says_of_settings_that_nobody_named(capsys):
    import tomllib

    text = call("recipe", capsys=capsys)[1]
    printed = tomllib.loads(text)

    assert "\n# Optimizer steps.\nsteps = 20000\n" in text
    assert printed["model"]["weights"] == "pretrained"
    assert (printed["train"]["save_every"], printed["train"]["save_minutes"]) == (1000, 5.0)


def test_scenes_have_the_size_that_is_asked_for(tmp_path, capsys):
    words = ["scenes", "-o", tmp_path, "--train", 1, "--val", 1, "--test", 1, "--size", 48, 80]
    assert call(*words, capsys=capsys)[0] == 0
    pictures = [*tmp_path.rglob("*.jpg")]

    assert len(pictures) == 3
    assert {decode_image(path.read_bytes(), "x").shape for path in pictures} == {(48, 80, 3)}


def test_what_the_command_line_says_is_what_is_trained(packed, tmp_path, capsys):
    words = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 64, "--batch", 3, "--steps", 1]
    words += [
        "--optimizer",
        "adamw",
        "--lr",
        "2e-3",
        "--seed",
        5,
        "--device",
        "cpu",
        "--runs",
        tmp_path,
        "--name",
        "x",
    ]
    settings = ["--set", "augment.scale=[0.75, 1.25]", "--set", "train.ema_decay=0.98", "--set", "train.log_every=35"]
    assert call("train", packed.folder, *words, *settings, capsys=capsys)[0] == 0
    found = load(tmp_path / "0001-x" / "recipe.toml")

    assert (found.model.name, found.model.weights, found.augment.crop) == ("unet:test_resnet", "none", (32, 64))
    assert (found.train.batch, found.train.steps, found.seed, found.train.device) == (3, 1, 5, "cpu")
    assert (found.optimizer.name, found.optimizer.lr) == ("adamw", 2e-3)
    assert (found.augment.scale, found.train.ema_decay, found.train.log_every) == ((0.75, 1.25), 0.98, 35)


@pytest.mark.parametrize("model", ["unet:test_resnet", "test_resnet"])
def test_a_training_begins_with_the_weights_of_its_file(packed, tmp_path, model):
    import timm

    backbone = timm.create_model("test_resnet", num_classes=0)
    torch.save(backbone.state_dict(), tmp_path / "w.pth")
    dataset, chosen = packed, recipe(packed.folder, steps=1, ema_decay=0.0)
    if model == "test_resnet":
        miniatures.folders(tmp_path / "raw")
        dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
        chosen = apply(default_recipe("classification"), ["augment.crop=[32, 32]", "train.steps=1", "train.batch=2"])
    chosen = dataclasses.replace(chosen, data=Data(str(dataset.folder)))
    settings = [f"model.name={model}", f"model.weights={tmp_path}/w.pth", "optimizer.lr=1e-12"]
    folder, _ = train(apply(chosen, [*settings, "train.device=cpu"]), tmp_path / "runs")
    found = load_file(folder.checkpoints / "last" / "model.safetensors")
    place = "encoder." if model == "test_resnet" else "encoder.model."
    filters = {name: tensor for name, tensor in backbone.state_dict().items() if tensor.ndim == 4}

    assert len(filters) > 5
    for name, tensor in filters.items():
        if place + name in found:  # a decoder leaves the last stages out
            torch.testing.assert_close(found[place + name], tensor, rtol=1e-5, atol=1e-7)
    assert sum(place + name in found for name in filters) > 5


def test_a_batch_is_its_owners_for_as_long_as_it_is_kept(packed):
    feed = open_parts(recipe(packed.folder)).training_feed()
    batches = feed.batches()
    kept = [next(batches) for _ in range(12)]
    batches.close()

    for k, batch in enumerate(kept):
        for row in range(4):
            assert np.array_equal(batch.tensors["image"][row].numpy(), feed[4 * k + row].arrays["image"])


def test_one_feed_begins_at_any_place_as_often_as_it_is_asked(packed):
    feed = open_parts(recipe(packed.folder)).training_feed()
    whole = [(batch.origins, batch.cursor) for batch, _ in zip(feed.batches(), range(6), strict=False)]
    for k in (4, 0, 2):
        batches = feed.batches(whole[k][1])
        assert next(batches).origins == whole[k + 1][0]
        batches.close()


def test_verify_exits_with_1_where_something_is_wrong(packed, tmp_path, capsys):
    import shutil

    shutil.copytree(packed.folder, tmp_path / "data")
    shard = next((tmp_path / "data").glob("train-*.tfrecord"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    code, out, _ = call("verify", tmp_path / "data", capsys=capsys)

    assert code == 1
    assert out.splitlines()[-1].endswith((" fault", " faults"))
    assert not out.splitlines()[-1].endswith(" 0 faults")
    assert shard.name in out


def test_a_training_of_cifar10_fast_begins_with_patches_of_its_data_whitened(tmp_path):
    miniatures.cifar10(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    chosen = dataclasses.replace(default_recipe("classification", "cifar10-fast"), data=Data(str(dataset.folder)))
    first = open_parts(chosen).model().encoder[0]
    pictures = [decode_image(decode_classification(record).image, "x") for record in records(dataset, "train")]
    mean, std = np.array([0.4914, 0.4822, 0.4465]), np.array([0.2470, 0.2435, 0.2616])
    shown = torch.from_numpy(((np.stack(pictures) / 255 - mean) / std).astype(np.float32)).movedim(-1, 1)
    answers = F.conv2d(shown, first.weight)[:, :12].transpose(0, 1).flatten(1)

    torch.testing.assert_close(answers @ answers.T / answers.shape[1], torch.eye(12), rtol=0, atol=0.02)


def test_labels_of_mixed_pictures_are_learnt_in_their_shares(tmp_path):
    """Mixup by hand: the share of its own class and that of its neighbour's, smoothed, against the logits."""
    miniatures.folders(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    settings = [
        "model.name=test_resnet",
        "model.weights=none",
        "augment.crop=[32, 32]",
        "train.steps=2",
        "train.batch=2",
    ]
    settings += ["regularize.mixup=0.5", "loss.label_smoothing=0.1", "train.device=cpu"]
    chosen, given = dataclasses.replace(default_recipe("classification"), data=Data(str(dataset.folder))), Given()
    train(apply(chosen, settings), tmp_path / "runs", hooks=[given])

    for batch, logits, loss in zip(given.batches, given.outputs, given.losses, strict=True):
        own = batch["draws"][:, :1]
        whole = F.one_hot(batch["label"], 2).float()
        target = own * whole + (1 - own) * whole.flip(0)
        assert loss == pytest.approx(F.cross_entropy(logits, target, label_smoothing=0.1).item(), rel=1e-5)


def test_a_cursor_names_the_plan_that_it_counts_in(packed):
    from penstock.errors import PlanError

    feeds = [open_parts(dataclasses.replace(recipe(packed.folder), seed=seed)).training_feed() for seed in (3, 4)]
    batches = feeds[0].batches()
    cursor = next(batches).cursor
    batches.close()

    assert (cursor.position, cursor.plan) == (4, feeds[0].plan.digest)
    with pytest.raises(PlanError, match="expected a cursor of plan"):
        next(feeds[1].batches(cursor))


def test_shards_are_shuffled_globally_where_the_shuffle_is_left_open(packed):
    from penstock.assembly import chosen_shuffle

    data = chosen_shuffle(apply(recipe(packed.folder), ["data.block=0", "data.window=7"])).data

    assert (data.block, data.window) == (1, 1)


def test_predict_looks_as_often_as_it_is_asked_to(packed, raw, tmp_path, capsys):
    from penstock.images.upright import read_upright
    from penstock.inference import load_model
    from penstock.models import TestTimeAugmentation, TTAModel

    chosen = apply(recipe(packed.folder, steps=1, ema_decay=0.0), ["optimizer.lr=1e-12"])
    folder, _ = train(chosen, tmp_path / "runs")  # as it began, which sees everything everywhere
    trained = load_model(folder.path, device="cpu")
    picture = min((raw / "images" / "val").iterdir())
    pixels, cpu = read_upright(picture.read_bytes(), "x"), torch.device("cpu")
    plain = trained.parts.task.predict(trained.model, pixels, device=cpu).mask
    averaged = TTAModel(trained.model, TestTimeAugmentation((0.5, 1.0), flip=True)).eval()
    expected = trained.parts.task.predict(averaged, pixels, device=cpu).mask
    words = ["predict", folder.path, picture, "-o", tmp_path / "out", "--scales", 0.5, 1, "--flip", "--device", "cpu"]
    assert call(*words, capsys=capsys)[0] == 0

    assert (plain != expected).any()
    assert np.array_equal(decode_mask((tmp_path / "out" / f"{picture.stem}.png").read_bytes(), "x"), expected)


def test_the_average_follows_the_weights_after_every_step(packed, tmp_path):
    """average += (1 - decay) * (weights - average), the decay at most (1 + step) / (10 + step), as in TensorFlow."""

    class Follows(Hook):
        def on_start(self, session):
            self.average = session.model.segmentation_head[0].weight.detach().clone()

        def after_step(self, session):
            step = session.step - 1
            share = 1 - min(0.9, (1 + step) / (10 + step))
            self.average += share * (session.model.segmentation_head[0].weight.detach() - self.average)

    hook = Follows()
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path, hooks=[hook])
    found = load_file(folder.checkpoints / "last" / "ema.safetensors")

    torch.testing.assert_close(found["segmentation_head.0.weight"], hook.average, rtol=1e-5, atol=1e-7)


def turned(pixels, orientation):
    """A file that shows an upright image, stored turned: PNG with an EXIF orientation."""
    import io

    from PIL import Image

    stored = {1: pixels, 3: pixels[::-1, ::-1], 6: np.rot90(pixels), 8: np.rot90(pixels, -1)}[orientation]
    image, out = Image.fromarray(np.ascontiguousarray(stored)), io.BytesIO()
    exif = image.getexif()
    exif[274] = orientation
    image.save(out, "png", exif=exif)
    return out.getvalue()


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_a_picture_and_its_mask_go_through_one_map(orientation):
    """Images whose colours are their ids, through training's view: scaled, cropped, mirrored, turned by EXIF."""
    from penstock.records.schema import SegmentationRecord, encode_segmentation
    from penstock.seeds import generator
    from penstock.tasks import Augment, PrepareSegmentation
    from penstock.values import Record

    ids = np.random.default_rng(2).integers(0, 5, (5, 7)).repeat(16, 0).repeat(16, 1).astype(np.uint8)
    picture = np.repeat((50 * ids)[..., None], 3, 2)
    payload = encode_segmentation(
        SegmentationRecord(turned(picture, orientation), turned(ids, orientation), "a", "png", *ids.shape)
    )
    prepare = PrepareSegmentation(5, 255, (7, 7, 7), Augment((64, 96), scale=(0.75, 1.75), scale_step=0.0))
    between, seen = 0, 0
    for draw in range(12):
        out = {"image": np.zeros((64, 96, 3), np.uint8), "mask": np.zeros((64, 96), np.uint8)}
        prepare(Record("x#0", payload), generator(1, "augment", draw), out)
        inside = out["mask"] != 255
        colors = out["image"][..., 0].astype(int)
        assert (out["image"][~inside] == 7).all()
        assert set(np.unique(out["mask"])) <= {0, 1, 2, 3, 4, 255}
        assert (np.abs(colors - 50 * out["mask"].astype(int))[inside] <= 25).mean() > 0.93
        between += int((colors[inside] % 50 != 0).sum())
        seen += int(inside.sum())

    assert 0.02 < between / seen < 0.5  # bilinear: colours between two where they meet


def test_the_best_is_the_newest_with_the_highest_score_and_marked_when_hooks_are_told(packed, tmp_path):
    from test_session import make_session

    from penstock.session import Options

    class Score:
        def __init__(self, value):
            self.value = value

        def summary(self):
            return {"mean_iou": self.value}

    class Told(Hook):
        def after_eval(self, session, scores, loss):
            told.append((session.step, session.is_best, session.saver.store.load("best").step))

    told, scores = [], iter([0.3, 0.5, 0.4, 0.5])
    make_session(
        open_parts(recipe(packed.folder)), tmp_path / "run", Options(steps=4, evaluate_every=1), [Told()],
        evaluate=lambda model, stop: (Score(next(scores)), None),
    ).train()  # fmt: skip

    assert told == [(1, True, 1), (2, True, 2), (3, False, 2), (4, True, 4)]


@pytest.mark.parametrize("name", ["unet", "linknet", "fpn", "pspnet", "manet", "pan", "segformer", "deeplabv3plus"])
def test_an_architecture_is_the_one_of_its_name(name):
    import segmentation_models_pytorch as smp

    from penstock.models import build_segmenter

    (theirs,) = [kind for own, kind in vars(smp).items() if isinstance(kind, type) and own.lower() == name]

    assert type(build_segmenter(f"{name}:test_resnet", 3, "none")) is theirs


def test_volumes_are_answered_as_they_were_scored(tmp_path, capsys):
    import csv

    from test_volumes_whole import brats

    brats(tmp_path / "raw", 3)
    brats(tmp_path / "raw", 2, "val")
    data = tmp_path / "data"
    assert call("pack", tmp_path / "raw", "-o", data, "--layout", "nifti-volumes", capsys=capsys)[0] == 0
    words = ["--steps", 2, "--crop", 16, 16, "--set", "augment.slices=16", "--runs", tmp_path / "runs"]
    assert call("train", data, *words, capsys=capsys)[0] == 0
    (run,) = (tmp_path / "runs").iterdir()
    words = ["-o", tmp_path / "out", "--labels", tmp_path / "raw/val"]
    assert call("predict", run, tmp_path / "raw/val", *words, capsys=capsys)[0] == 0
    rows = list(csv.reader((tmp_path / "out/dice.csv").read_text().splitlines()))[1:]
    columns = [[float(cell) for cell in column if cell] for column in list(zip(*rows, strict=True))[1:]]
    (found,) = (run / "evaluations").glob("step-*.json")
    mean = np.mean([np.mean(column) for column in columns if column])

    assert len(rows) == 2
    assert mean > 0
    assert json.loads(found.read_text())["mean_dice"] == pytest.approx(mean, abs=1e-5)


RANK = """
import json, os, sys
from pathlib import Path

from training import Stop, recipe
from watching import Given

from penstock.config import apply
from penstock.training import train
from penstock.session import Hook


class Follows(Hook):
    def on_start(self, session):
        self.average = session.model.segmentation_head[0].weight.detach().clone()

    def after_step(self, session):
        share = 1 - min(0.9, session.step / (9 + session.step))
        self.average += share * (session.model.segmentation_head[0].weight.detach() - self.average)
        own = session.learner.average.model.segmentation_head[0].weight
        self.told = [session.cursor.position, float((own - self.average).abs().max())]


rank, follows = os.environ.get("RANK", ""), Follows()
chosen = recipe(sys.argv[1], steps=6, save_every=9, evaluate_every=9, sync_bn=bool(rank))
chosen = apply(chosen, ["loss.class_weights=median"])  # so that ranks count otherwise
_, outcome = train(chosen, Path(sys.argv[2]), hooks=[follows, *([Stop(3)] if rank in ("", "1") else [])])
Path(f"{sys.argv[2]}-rank{rank}").write_text(json.dumps([outcome.status, outcome.step, *follows.told]))
"""


@pytest.mark.slow
def test_two_ranks_are_one_training_and_stop_together(packed, tmp_path):
    """One rank is asked to stop. The first three losses, all batches, the place and the average are one process's."""
    program = tmp_path / "rank.py"
    program.write_text(RANK)
    processes.run(program, packed.folder, tmp_path / "one", check=True)
    done = processes.ranks(2, program, packed.folder, tmp_path / "two")
    assert done.returncode == 0, done.stderr
    (one,), (two,) = ((tmp_path / name).iterdir() for name in ("one", "two"))
    losses = [
        [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()] for run in (one, two)
    ]

    for rank in ("0", "1"):
        status, step, position, off = json.loads((tmp_path / f"two-rank{rank}").read_text())
        assert (status, step, position) == ("stopped", 3, 12)
        assert off < 1e-6
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)  # rounding, after two steps of a network with few samples
    assert (two / "origins.jsonl").read_bytes() == (one / "origins.jsonl").read_bytes()


def test_a_record_that_arrives_otherwise_than_it_was_sent_is_an_error(broker, packed, monkeypatch):
    import uuid

    from penstock.datasets import publish, publishing
    from penstock.errors import DatasetError
    from penstock.sources.kafka import Address
    from penstock.sources.kafka.producer import Creation

    own = publishing.Writer.send
    monkeypatch.setattr(publishing.Writer, "send", lambda self, payload, *rest: own(self, payload[:-1] + b"?", *rest))
    with pytest.raises(DatasetError, match="other records"):
        publish(packed, Address(broker.servers, f"bent-{uuid.uuid4().hex[:6]}"), "train", Creation(2))


@pytest.mark.parametrize(
    ("apart", "said"),
    [
        (True, "losses and weights will differ, as batch normalisation takes each"),
        (False, "weights may differ in rounding"),
    ],
)
def test_a_resume_on_other_ranks_says_what_is_true(packed, tmp_path, capsys, apart, said):
    """With norms that learn from each rank's samples, losses differ by more than rounding."""
    from penstock.training.reproducibility import note_changes, promise

    folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
    now = promise(recipe(packed.folder), torch.device("cpu"), Ranks())
    note_changes(folder, {**now, "ranks": 2}, Events(show), apart=apart)

    assert f"note: ranks was 1, is 2: same records, same order; {said}" in capsys.readouterr().out
