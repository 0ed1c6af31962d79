from __future__ import annotations

import dataclasses

import pytest
import timm
import torch
from safetensors.torch import load_file
from support import miniatures
from support.commands import call
from support.defaults import default_recipe
from support.training import recipe

from penstock.assembly import open_experiment
from penstock.cli.events import show
from penstock.config import apply
from penstock.datasets import inspect, pack
from penstock.errors import WeightsError
from penstock.events import Events
from penstock.kinds import Labels
from penstock.models import build_segmenter, load_matching
from penstock.session import CheckpointStore, Hook
from penstock.settings import DataSettings
from penstock.training import train
from penstock.training.weights import initial_model


@pytest.fixture(scope="module")
def whole(packed, tmp_path_factory):
    return train(recipe(packed.folder, steps=4), tmp_path_factory.mktemp("runs"))[0].path


class TestInit:
    def test_half_of_a_network_must_be_asked_for(self, packed, whole, tmp_path, capsys):
        """A pyramid's backbone for a U-Net: its decoder would learn from nothing without a word."""
        chosen = dataclasses.replace(recipe(packed.folder, "fpn:test_resnet", steps=1), init=str(whole))
        with pytest.raises(WeightsError) as caught:
            train(chosen, tmp_path)
        saved = CheckpointStore(whole / "checkpoints").load().tensors["model"]
        encoder = sum(name.startswith("encoder.") for name in saved)
        message = str(caught.value)
        assert message.startswith(f"{whole} (unet:test_resnet): only {encoder + 1} of the ")
        assert message.endswith(
            "Choose the model that these weights are of, with --model, or load the tensors that fit with --no-strict."
        )
        assert "These differ: decoder.* (89), segmentation_head.0.weight. Choose" in message
        assert not list(tmp_path.iterdir())

        words = [
            "--init",
            whole,
            "--no-strict",
            "--model",
            "fpn:test_resnet",
            "--steps",
            1,
            "--batch",
            4,
            "--crop",
            32,
            32,
        ]
        code, out, err = call("train", packed.folder, *words, "--weights", "none", "--runs", tmp_path, capsys=capsys)
        lines = out.splitlines()
        first = next(number for number, line in enumerate(lines) if line.startswith(f"init from {whole}, step "))
        assert (code, err) == (0, "")
        assert [line.strip() for line in lines[first + 2 : first + 6]] == [
            f"loaded: encoder.* ({encoder}), segmentation_head.0.bias",
            "another shape, left as initialised: segmentation_head.0.weight",
            "not in the run, left as initialised: decoder.* (29)",
            "in the run only, not used: decoder.blocks.* (60)",
        ]

    def test_every_tensor_is_accounted_for_once(self):
        first, second = (build_segmenter("unet:test_resnet", classes, "none") for classes in (2, 3))
        tensors = {**first.state_dict(), "extra": torch.zeros(1), "more.a": torch.zeros(1), "more.b": torch.zeros(1)}
        del tensors["encoder.model.conv1.0.weight"]
        account = load_matching(second, tensors, "x", strict=False)
        lines = account.lines()

        assert lines[2:] == [
            "  another shape, left as initialised: segmentation_head.* (2)",
            "  not in the run, left as initialised: encoder.model.conv1.0.weight",
            "  in the run only, not used: extra, more.* (2)",
        ]
        listed = lines[1].removeprefix("  loaded: ").split(", ")
        counts = [int(each.partition("(")[2].rstrip(")") or 1) for each in listed]
        assert sum(counts) == len(account.loaded) == len(second.state_dict()) - 3
        with pytest.raises(
            WeightsError,
            match=r"These differ: encoder\.model\.conv1\.0\.weight, extra, more\.\* \(2\)\. Choose the model",
        ):
            load_matching(second, tensors, "x")

    def test_a_file_of_a_backbone_is_accounted_for(self, packed, tmp_path, capsys):
        torch.save(timm.create_model("test_resnet").state_dict(), tmp_path / "w.pth")
        words = ["--model", "unet:test_resnet", "--weights", tmp_path / "w.pth", "--steps", 1, "--batch", 4]
        words += ["--crop", 32, 32, "--runs", tmp_path / "runs"]
        out = call("train", packed.folder, *words, capsys=capsys)[1].splitlines()
        place = out.index(f"backbone from {tmp_path / 'w.pth'}:")
        total = len(timm.create_model("test_resnet", num_classes=0).state_dict())

        assert out[place + 1].strip() == f"loaded {total} of {total} tensors"
        assert out[place + 3].strip() == "in the file only, not used: fc.* (2)"

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["train", "{DATA}", "--no-strict"], "--no-strict: expected --init RUN, to whose weights it applies, found no --init. Remove --no-strict."),
            (["train", "{DATA}", "--init", "{RUN}", "--weights", "{FILE}"],
             "model.weights: expected none, as --init gives weights, found {FILE}. Remove one of the two."),
            (["train", "--resume", "{RUN}", "--name", "x", "--runs", "y"],
             "--resume continues a run with its own dataset, name and folder. Remove --name and --runs, or remove --resume to "
             "start a new run."),
            (["recipe", "{RUN}/recipe.toml", "--model", "unet:resnet18"],
             "--task and --model select which defaults are shown, but the recipe {RUN}/recipe.toml is given. Change a setting "
             "of the recipe with --set, for example --set model.name=unet:resnet50."),
            (["train", "--resume", "{RUN}", "--set", "data.validation=train"],
             "{RUN}: data.validation: expected val, as the run was evaluated on, found train. Leave it; penstock evaluate RUN "
             "--split scores any split."),
        ],
    )  # fmt: skip
    def test_options_without_effect_are_refused(self, packed, whole, tmp_path, capsys, words, message):
        (tmp_path / "w.pth").write_bytes(b"")
        names = {"RUN": str(whole), "DATA": str(packed.folder), "FILE": str(tmp_path / "w.pth")}
        words = [str(word).format(**names) for word in words]
        assert call(*words, capsys=capsys)[::2] == (2, f"error: {message.format(**names)}\n")

    def test_other_classes_take_over_all_but_the_last_layer(self, packed, whole_run, tmp_path, capsys):
        described = dataclasses.replace(packed.description, classes=(*packed.description.classes, "more"))
        other = dataclasses.replace(packed, description=described)
        parts = dataclasses.replace(open_experiment(recipe(packed.folder)), dataset=other)
        parts = dataclasses.replace(parts, recipe=dataclasses.replace(parts.recipe, init=str(whole_run)))
        initial_model(parts, Events(show))
        printed = capsys.readouterr().out

        assert f"init from {whole_run}, step 12:" in printed
        assert "another shape, left as initialised: segmentation_head.* (2)" in printed
        assert "not in the run" not in printed

    def test_as_many_other_classes_are_named(self, packed, whole_run, capsys):
        """In another order too: the last layer would begin with what it knows of others, without a word."""
        learnt = packed.description.classes
        for classes in (learnt, learnt[::-1]):
            other = dataclasses.replace(packed, description=dataclasses.replace(packed.description, classes=classes))
            parts = dataclasses.replace(open_experiment(recipe(packed.folder)), dataset=other)
            parts = dataclasses.replace(parts, recipe=dataclasses.replace(parts.recipe, init=str(whole_run)))
            initial_model(parts, Events(show))
            said = f"begins with weights of other classes: {', '.join(learnt)}, not {', '.join(classes)}"
            assert (said in capsys.readouterr().out) == (classes != learnt)

    def test_another_model_is_refused(self, packed, whole_run, tmp_path):
        chosen = dataclasses.replace(recipe(packed.folder, "fpn:test_convnext"), init=str(whole_run))
        with pytest.raises(WeightsError, match="tensors of the model are there with the same name and shape"):
            train(chosen, tmp_path)


def test_what_starts_from_a_run_has_its_averaged_weights(packed, tmp_path):
    first, _ = train(recipe(packed.folder, steps=3), tmp_path)
    settings = [f"init={first.path}", "optimizer.lr=1e-12"]
    second, _ = train(apply(recipe(packed.folder, steps=1, ema_decay=0.0), settings), tmp_path)
    averaged, plain = (load_file(first.checkpoints / "best" / f"{name}.safetensors") for name in ("ema", "model"))
    found = load_file(second.checkpoints / "last" / "model.safetensors")
    name = "encoder.model.conv1.0.weight" if "encoder.model.conv1.0.weight" in found else "encoder.model.conv1.weight"

    torch.testing.assert_close(found[name], averaged[name])
    assert not torch.allclose(found[name], plain[name])


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
    chosen = dataclasses.replace(chosen, data=DataSettings(str(dataset.folder)))
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


class Begun(Hook):
    """The weights that a training begins with."""

    def on_start(self, session):
        self.weights = {name: tensor.clone() for name, tensor in session.model.state_dict().items()}


def test_init_takes_the_best_weights_and_leaves_the_last_layer_to_other_classes(raw, packed, tmp_path, capsys):
    first, _ = train(recipe(packed.folder, steps=5, evaluate_every=2, ema_decay=0.0), tmp_path / "first")
    saved = load_file(first.checkpoints / "best" / "model.safetensors")
    other = pack(inspect(raw, Labels(classes=("a", "b", "c", "d", "e", "f", "g"))), tmp_path / "other")
    for dataset, kept in ((packed, ""), (other, "segmentation_head.")):
        begun = Begun()
        train(apply(recipe(dataset.folder, steps=1), [f"init={first.path}"]), tmp_path / "next", hooks=[begun])
        assert begun.weights.keys() == saved.keys()
        for name, tensor in begun.weights.items():
            assert torch.equal(tensor, saved[name]) != bool(kept and name.startswith(kept)), name
    words = ["--init", first.path, "--weights", "none", "--steps", 1, "--batch", 4, "--crop", 32, 32, "--lr", 0.0001]
    code, out, _ = call("train", packed.folder, *words, "--runs", tmp_path / "command", capsys=capsys)
    (run,) = (tmp_path / "command").iterdir()
    moved = load_file(run / "checkpoints" / "last" / "model.safetensors")

    assert code == 0
    assert f"init from {first.path}, step " in out
    weights = [name for name in saved if "running_" not in name and "num_batches" not in name]
    assert all(torch.allclose(moved[name], saved[name], atol=1e-2) for name in weights)
