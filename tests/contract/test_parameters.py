"""Every parameter of the public functions has its effect."""

from __future__ import annotations

import inspect
import shutil
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import pytest
from support.effects import Elsewhere
from support.option_folders import fill
from support.options import OPTIONS

import penstock as ps
from penstock import assembly, inference, training
from penstock.api.packing import RawOptions
from penstock.assembly.presets import Resolved
from penstock.assembly.reference import explained
from penstock.custom import carried
from penstock.errors import PenstockError
from penstock.inference.export import Exported
from penstock.runs import RunFolder
from penstock.session import Hook, Outcome
from penstock.tasks import Style


class Given(NamedTuple):
    """A value of a parameter, with what else is given in both calls; `$NAME` is a place."""

    value: Any
    place: str = ""
    beside: dict[str, Any] = {}  # noqa: RUF012 - never changed


class Typed(NamedTuple):
    """A parameter that an option of a command sets, whose effect is seen there (`support.options`)."""

    command: str
    option: str


_SEEN = Given("$seen", "data")
"""A function that is called with how far it is."""


def _typed(command, *names, **called):
    """Parameters with the options of a command, which are called so or otherwise."""
    return {
        **{name: Typed(command, name) for name in names},
        **{name: Typed(command, own) for name, own in called.items()},
    }


def _raw(command):
    """What may be said of a folder of raw images."""
    names = [name for name in get_type_hints(RawOptions) if name != "fields"]
    return _typed(command, *names, "threads", fields="field")


_OPTIONS = {
    "model": "unet:test_resnet", "weights": "mine.safetensors", "init": "$run", "strict": False, "task": "none.py:T",
    "loss": "$root/losses.py:mine", "optimizer": "muon", "lr": 0.5, "crop": (32, 64), "batch": 3, "steps": 7,
    "epochs": 2.0, "patience": 3, "limit": 5, "overfit": 2, "fast_dev_run": True, "seed": 5, "device": "cpu",
    "start": "earliest", "until": "0:1", "follow": True, "replay_ratio": 0.5, "stall_timeout": 7.0, "retries": 2,
}  # fmt: skip


def _of_train():
    """The parameters that have the options of a training."""
    return {name: Typed("train", {"lr": "rate"}.get(name, name)) for name in _OPTIONS}


def _options(place):
    """Those that set one setting each."""
    return {name: Given(value, place) for name, value in _OPTIONS.items()}


PARAMETERS: dict[str, dict[str, Given | Elsewhere]] = {
    "inspect": {
        **_raw("inspect"),
        **_typed("inspect", duplicates="draw_duplicates"),
        "progress": _SEEN._replace(place="masks"),
        "on_layout": _SEEN._replace(place="masks"),
    },
    "pack": {
        **_raw("pack"),
        "validation": Given(0.5, "clips"),
        "skip_bad": Given(True, "cut"),
        "shard_size": Typed("pack", "shard_size"),
        "progress": _SEEN._replace(place="masks"),
    },
    "scenes": _typed("scenes", "train", "val", "test", "size", "seed"),
    "download": {"url": Typed("download", "url"), "progress": _SEEN},
    "pull": {
        **_typed("pull", "start", "until", "shard_size", splits="split"),
        "progress": _SEEN,
    },
    "recipe": {
        "file": Given("$root/small.toml", "data"),
        "task": Given("detection", "data"),
        "model": Given("cifar10-fast", "data"),
        "settings": Given({"seed": 77}, "data"),
    },
    "list_models": {"pattern": Given("resnet18", "data"), "count": Typed("models", "count")},
    "advise": {
        "data": Elsewhere("unit/assembly/test_machine.py"),
        **_of_train(),
        **_typed("doctor", "settings", "find_lr", "find_time", "find_batch", progress="find_lr"),
    },
    "check": {**_of_train(), "settings": Given({"train.batch": 0}, "data")},
    "write_report": {"output": Typed("report", "output")},
    "open": {"trust": Given(True, "data")},
    "train": {
        **_options("data"),
        "hooks": Given(["tensorboard"], "data"),
        "settings": Given({"train.batch": 3}, "data"),
        "runs": Given("elsewhere", "data"),
        "name": Given("mine", "data"),
        "go_on": Given(True, "data"),
        "max_time": Given("1h", "data"),
        "accept_changes": Given(True, "data"),
        "on_event": Given(print, "data"),
        "progress": _SEEN,
        "trust": Given(True, "data"),
    },
    "resume": {
        **_options("run"),
        "max_time": Given("1h", "run"),
        "settings": Given({"train.steps": 9}, "run"),
        "hooks": Given((Hook(),), "run"),
        "checkpoint": Given("best", "run"),
        "on_event": Given(print, "run"),
        "progress": _SEEN._replace(place="run"),
        "trust": Given(True, "run"),
        "accept_changes": Given(True, "run"),
    },
    "load": {
        "checkpoint": Given("step-00000002", "run"),
        "device": Given("cuda:77", "run"),
        "trust": Given(True, "run"),
    },
    "export": {
        "size": Given((64, 96), "run"),
        "dynamic": Given(True, "run"),
        "any_size": Given(True, "run"),
        **_typed("export", "checkpoint", "scales", "flip", "shift", "trust"),
    },
    "Run.evaluate": {
        "split": Given("train", "run"),
        "checkpoint": Given("step-00000002", "run"),
        "device": Given("cuda:77", "run"),
        "scales": Given((0.5, 1.0), "run"),
        "flip": Given(True, "run"),
        "shift": Given(2, "run"),
        **_typed("evaluate", "data", "on", "sliding_window", "overlap", "segments", "images", "trust"),
        "progress": _SEEN._replace(place="run"),
    },
    "Run.replay": _typed("replay", "output", "data", "trust"),
    "Run.note": {
        "text": Given("good", "run", {"tag": ["x"]}),
        "tag": Given(["x"], "run", {"text": "good"}),
        "untag": Given(["x"], "run", {"tag": ["x", "y"]}),
    },
    "Data.unpack": {"layout": Given("voc", "data"), "progress": _SEEN},
    "Data.verify": {**_typed("verify", "split", "threads"), "progress": _SEEN},
    "Data.show": _typed("show", "split", "count", "seed", "augmented", "recipe", "settings", "output"),
    "Split.publish": {
        **_typed("publish", "create", "partitions", "replicas", "retention", "max_size"),
        "progress": _SEEN,
    },
    "Run.load": {"checkpoint": Given("step-00000002", "run"), "device": Given("cuda:77", "run")},
    "Split.feed": {
        "batch": Given(3, "data", {"batch": 2, "crop": (16, 16)}),
        "crop": Given((16, 24), "data", {"batch": 2}),
        "seed": Given(1, "data", {"batch": 2, "crop": (16, 16)}),
        "augment": Given(False, "data", {"batch": 2, "crop": (16, 16)}),
        "rank": Given(1, "data", {"batch": 2, "crop": (16, 16), "world_size": 2}),
        "world_size": Given(2, "data", {"batch": 2, "crop": (16, 16)}),
        "settings": Given({"augment.flip": 1.0}, "data", {"batch": 2, "crop": (16, 16)}),
    },
    "LoadedModel.with_tta": {"scales": Given((0.5, 1.0), "run"), "flip": Given(True, "run"), "shift": Given(2, "run")},
    "list_runs": {"root": Given("copied", "run"), "where": Elsewhere("cli/test_experiments.py")},
    "LoadedModel.with_sliding_window": _typed("predict", "overlap", side="sliding_window"),
    "LoadedModel.write": {
        **_typed("predict", "labels", "ids", "palette", "color", "score"),
        "progress": _SEEN._replace(place="run"),
    },
    "Prediction.files": {"style": Given(Style(color=True), "run")},
    "Prediction.draw": {"style": Given(Style(palette="voc"), "run")},
    "Prediction.drawn": {"style": Elsewhere("unit/tasks/test_instances.py")},
    "Prediction.save": {"style": Given(Style(color=True), "run")},
}
TESTS = Path(__file__).parents[1]
ROWS = [
    pytest.param(name, parameter, each, id=f"{name}-{parameter}")
    for name, row in PARAMETERS.items()
    for parameter, each in row.items()
    if isinstance(each, Given)
]


def public():
    """The functions that `penstock` gives, and the methods of what they return, by name."""
    functions = {name: getattr(ps, name) for name in ps.__all__ if inspect.isfunction(getattr(ps, name))}
    kinds = (ps.Data, ps.Run, ps.Split, ps.LoadedModel, ps.Prediction)
    methods = {
        f"{kind.__name__}.{name}": each
        for kind in kinds
        for name, each in vars(kind).items()
        if not name.startswith("_") and inspect.isfunction(each)
    }
    return {**functions, **methods}


def optional(function):
    """Parameters that may be left out, and those that are named."""
    return [
        name
        for name, each in inspect.signature(function).parameters.items()
        if each.kind is each.KEYWORD_ONLY or each.default is not each.empty
    ]


def test_every_parameter_has_a_row():
    wanted = {name: optional(each) for name, each in public().items()}

    assert {name: {*row} for name, row in PARAMETERS.items()} == {
        name: {*names} for name, names in wanted.items() if names
    }


def test_what_is_shown_elsewhere_is_called_there():
    rows = [(name.rpartition(".")[2], each.test) for name, row in PARAMETERS.items() for each in row.values()
            if isinstance(each, Elsewhere)]  # fmt: skip

    assert [row for row in rows if f".{row[0]}(" not in (TESTS / row[1]).read_text()] == []


def test_what_an_option_sets_is_an_option():
    rows = [each for row in PARAMETERS.values() for each in row.values() if isinstance(each, Typed)]

    assert [row for row in rows if row.option not in OPTIONS[row.command]] == []


@pytest.fixture(scope="module")
def places(packed, raw, shaken_run, tmp_path_factory):
    root = tmp_path_factory.mktemp("parameters")
    return {**fill(root), "root": root, "data": packed.folder, "run": shaken_run, "images": raw / "images/val"}


class Doors:
    """Calls the functions. What takes long only writes down what it is given."""

    def __init__(self, places, folder, monkeypatch):
        self.places, self.folder, self.monkeypatch, self.told = places, folder, monkeypatch, []
        for module, name in ((carried, "trust_folder"), (assembly, "trust")):
            monkeypatch.setattr(module, name, lambda path: self.told.append(("trusted", path)))
        monkeypatch.setattr(training, "train", self._note_training)
        monkeypatch.setattr(training, "resume", self._note_training)
        monkeypatch.setattr(inference, "export_run", self._note_export)
        for where in ("extensions.kafka.location.pull", "extensions.kafka.location.publish", "api.packing.fetch"):
            monkeypatch.setattr(f"penstock.{where}", self._note_progress)

    def _note_training(self, recipe, *given, **named):
        self.told.append((explained(recipe) if isinstance(recipe, Resolved) else recipe, given, named))
        return RunFolder(self.folder), Outcome("finished", "", 1)

    def _note_export(self, trained, path, *given, **named):
        self.told.append((trained.step, path, given, named))
        return Exported(path, "uint8", (), (), "", None)

    def _note_progress(self, *given, progress=None, **named):
        (progress or given[-1])(1, 2)

    def note_call(self, *given):
        self.told.append(given)

    def see(self, name, place, given):
        """What a call gives: what is told on the way, and what it returns or raises."""
        self.told.clear()
        kind, _, method = name.rpartition(".")
        call = getattr(self, method if kind else f"_{name}", None)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.monkeypatch.chdir(self.folder)
        try:
            found = call(self.places[place], given) if call else repr(getattr(ps, name)(self.places[place], **given))
        except PenstockError as error:
            found = str(error)
        return repr((self.told, found))

    def _inspect(self, folder, given):
        found = ps.inspect(folder, **given)
        return found.layout.kind.name, found.layout.reasons, found.labels, found.items, found.problems

    def _pack(self, folder, given):
        return ps.pack(folder, self.folder / "out", **given).opened.description

    def _load(self, run, given):
        return ps.load(run, **given).trained.step

    def _export(self, run, given):
        return ps.export(run, "model.onnx", **given)

    def _run(self, path):
        shutil.copytree(path, self.folder / "run", symlinks=True)
        return ps.Run(self.folder / "run")

    def _list_runs(self, path, given):
        shutil.copytree(path, self.folder / "copied/run", symlinks=True)
        return ps.list_runs(**given)

    def evaluate(self, path, given):
        found = self._run(path).evaluate(**given)
        return found.split, found.step, found.loss, found.scores.as_json()

    def note(self, path, given):
        run = self._run(path)
        run.note(**given)
        (found,) = ps.list_runs(self.folder)
        return found.note, found.tags

    def load(self, path, given):
        return self._run(path).load(**given).trained.step

    def unpack(self, path, given):
        return ps.open(path).unpack(self.folder / "out", **given)

    def feed(self, path, given):
        made = ps.open(path)["train"].feed(**given)
        batch = next(made.batches())
        return {name: np.asarray(each).tobytes() for name, each in batch.tensors.items()}, batch.weight.shape

    def _image(self):
        return min(self.places["images"].iterdir())

    def with_tta(self, path, given):
        return ps.load(path).with_tta(**given).predict(self._image()).files()

    def _written(self):
        return sorted(path.name for path in (self.folder / "out").iterdir())

    def verify(self, path, given):
        return ps.open(path).verify(**given)

    def write(self, _, given):
        return ps.load(self.places["run"]).write(self.folder / "out", self.places["images"], **given)

    def publish(self, path, given):
        return ps.open(path)["train"].publish("kafka://localhost:1/t", **given)

    def _pull(self, _, given):
        ps.pull("kafka://localhost:1/t", self.folder / "out", **given)

    def _download(self, _, given):
        return ps.download("cifar10", self.folder / "out", **given)

    def _recipe(self, _, given):
        return ps.recipe(**given)

    def _list_models(self, _, given):
        return ps.list_models(**given)

    def files(self, path, given):
        return ps.load(path).predict(self._image()).files(**given)

    def draw(self, path, given):
        return ps.load(path).predict(self._image()).draw(**given).tobytes()

    def save(self, _, given):
        ps.load(self.places["run"]).predict(self._image()).save(self.folder / "out", "one", **given)
        return self._written()


@pytest.mark.parametrize(("name", "parameter", "row"), ROWS)
def test_a_parameter_has_its_effect(places, tmp_path, monkeypatch, name, parameter, row):
    value = row.value.replace("$root", str(places["root"])) if isinstance(row.value, str) else row.value
    doors = Doors(places, tmp_path / "here", monkeypatch)
    value = doors.note_call if value == "$seen" else value
    without = doors.see(name, row.place, row.beside)

    assert without != doors.see(name, row.place, {**row.beside, parameter: value})
    assert without == doors.see(name, row.place, row.beside)
