"""What a run keeps of itself: a folder of its own, what was asked, where and of what, and the state of every hook."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from test_cli import call
from training import Stop, recipe, state

from penstock.config import apply, load
from penstock.errors import RunError
from penstock.session import Hook
from penstock.training import resume, train


class Remembers(Hook):
    """Counts steps, over restarts too."""

    def __init__(self):
        self.count = 0

    def after_step(self, session):
        self.count += 1

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state.get("count", 0)


class Rates(Hook):
    """The learning rates that the optimizer was given."""

    def __init__(self):
        self.rates = []

    def after_step(self, session):
        self.rates.append([group["lr"] / group["share"] for group in session.optimizer.param_groups])


def test_a_new_run_has_a_folder_of_its_own(packed, tmp_path):
    first, _ = train(recipe(packed.folder, steps=2), tmp_path, "same")
    before = state(first.path)
    second, _ = train(recipe(packed.folder, steps=3), tmp_path, "same")

    assert [path.name for path in sorted(tmp_path.iterdir())] == ["0001-same", "0002-same"]
    assert second.path.name == "0002-same"
    assert state(first.path) == before


def test_it_says_what_was_asked_where_it_ran_and_on_which_data(packed, tmp_path):
    chosen = recipe(packed.folder, steps=2)
    folder, _ = train(chosen, tmp_path)
    where = json.loads((folder.path / "environment.json").read_text())
    data = json.loads((folder.path / "data.json").read_text())

    assert load(folder.path / "recipe.toml") == chosen
    assert where["packages"]["torch"] == torch.__version__.partition("+")[0]
    assert where["command"]
    assert (where["ranks"], where["device"].partition(" ")[0]) == (1, "cpu")
    assert data["content"] == packed.description.content
    assert [Path(name).name for name in data["snapshots"]["train"]["source"].split()] == [
        shard.name for shard in packed.split("train").shards
    ]


def test_a_hooks_state_is_there_after_a_restart(packed, tmp_path):
    whole, restarted = Remembers(), Remembers()
    train(recipe(packed.folder), tmp_path / "whole", hooks=[whole])
    folder, _ = train(recipe(packed.folder), tmp_path / "stopped", hooks=[Remembers(), Stop(5)])
    resume(folder.path, hooks=[restarted])

    assert (whole.count, restarted.count) == (12, 12)


@pytest.mark.parametrize("name", ["sgd", "adamw", "rmsprop", "muon"])
def test_every_optimizer_follows_the_schedule(packed, tmp_path, name):
    chosen = apply(recipe(packed.folder, steps=5), [f"optimizer.name={name}", "optimizer.schedule=cosine"])
    rates = Rates()
    train(chosen, tmp_path, hooks=[rates])

    assert len({found[0] for found in rates.rates}) == 5
    for step, found in enumerate(rates.rates):
        assert found == pytest.approx([chosen.optimizer.rate(step, 5)] * len(found))


def test_an_evaluation_says_what_the_model_costs_and_takes_any_split(packed, tmp_path, capsys):
    folder, _ = train(recipe(packed.folder, steps=2), tmp_path)
    code, out, _ = call("evaluate", folder.path, "--split", "train", capsys=capsys)

    assert code == 0
    assert " parameters, " in out.splitlines()[-3]
    assert "GFLOPs for a sample of " in out.splitlines()[-3]
    assert next((folder.path / "evaluations").glob("train-*.json")).is_file()


def test_a_run_made_before_settings_were_renamed_is_refused_in_a_sentence(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
    (folder.path / "settings.json").unlink()
    environment = folder.read_json("environment.json")
    environment["packages"]["penstock"] = "0.1.0"
    folder.write_json("environment.json", environment)
    text = (folder.path / "recipe.toml").read_text()
    (folder.path / "recipe.toml").write_text(text.replace("\nlr = ", "\nlearning_rate = "))
    with pytest.raises(RunError) as caught:
        resume(folder.path)

    assert str(caught.value) == (
        f"{folder.path}: this run was made by Penstock 0.1.0, in which settings had other names. Resume, evaluate and predict "
        "it with that version, or train again."
    )
