from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from support import processes
from support.commands import call
from support.processes import quiet
from support.training import recipe

import penstock as ps
from penstock.assembly import settings_of_file
from penstock.cli.events import show
from penstock.cli.training import _conclude
from penstock.config import apply, dump, load
from penstock.progress import Progress
from penstock.session import CheckpointStore, Hook, Outcome
from penstock.settings.optimizer import AdamW
from penstock.training import resume, train


class TestOutput:
    def test_whoever_reads_may_go_and_training_goes_on(self, packed, tmp_path):
        """`penstock train | head -1`: the lines after it are in log.txt, and the run ends well."""
        (tmp_path / "recipe.toml").write_text(dump(recipe(packed.folder, log_every=1)))
        command = [sys.executable, "-m", "penstock", "train", tmp_path / "recipe.toml", "--runs", tmp_path / "runs"]
        process = subprocess.Popen([*map(str, command)], env=quiet(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout.readline().startswith(b"run ")
        process.stdout.close()
        _, err = process.communicate(timeout=240)
        (run,) = (tmp_path / "runs").iterdir()

        assert (process.returncode, err) == (0, b"")
        assert (run / "log.txt").read_text().splitlines()[-1].startswith("finished at step 12")
        assert (run / "report.html").is_file()

    def test_ctrl_c_that_ends_the_reader_too_saves(self, packed, tmp_path):
        """As `penstock train 2>&1 | tee log` gets it: the whole group is interrupted."""
        (tmp_path / "recipe.toml").write_text(dump(recipe(packed.folder, log_every=1, steps=100_000)))
        words = f"{sys.executable} -m penstock train {tmp_path / 'recipe.toml'} --runs {tmp_path / 'runs'} 2>&1 | tee {tmp_path / 'log'}"
        process = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", words], env=quiet(), start_new_session=True, stdout=subprocess.DEVNULL
        )
        end = time.monotonic() + 120
        while time.monotonic() < end and "step      5" not in (
            (tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""
        ):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=120)
        (run,) = (tmp_path / "runs").iterdir()
        while time.monotonic() < end and not (run / "report.html").exists():
            time.sleep(0.05)
        step = CheckpointStore(run / "checkpoints").load().step

        assert step >= 5
        assert json.loads((run / "events.jsonl").read_text().splitlines()[-1])["event"] == "interrupted"
        assert (run / "log.txt").read_text().splitlines()[-1] == f"interrupted at step {step}: SIGINT"

    def test_nothing_saved_is_not_called_saved(self, packed, tmp_path, capsys, monkeypatch):
        def interrupted(chosen, root, name, hooks, on_event, **_):
            return train(recipe(packed.folder), root, name, hooks=[Nothing()], on_event=on_event)

        class Nothing(Hook):
            def on_start(self, session):
                os.kill(os.getpid(), signal.SIGINT)
                session.feed = dataclasses.replace(session.feed, prepare=Slow(session.feed.prepare))

        monkeypatch.setattr("penstock.training.train", interrupted)
        code, out, _ = call("train", packed.folder, "--runs", tmp_path, capsys=capsys)
        (run,) = tmp_path.iterdir()

        assert code == 130
        assert f"go on with: penstock train --resume {run}" in out.splitlines()
        assert not CheckpointStore(run / "checkpoints").names()
        assert resume(run)[1].step == 12

    def test_why_a_training_failed_is_said_once_and_kept_in_the_log(self, packed, tmp_path, capsys):
        (tmp_path / "loss.py").write_text(
            "def flat(logits, target, ignore):\n    return logits.mean(dim=(1, 2, 3))[:3]\n"
        )
        file = tmp_path / "recipe.toml"
        file.write_text(dump(apply(recipe(packed.folder), [f"loss.custom={tmp_path}/loss.py:flat"])))
        code, out, err = call("train", file, "--runs", tmp_path / "runs", "--trust", capsys=capsys)
        (run,) = (tmp_path / "runs").iterdir()
        why = (
            f"loss.custom = {tmp_path}/loss.py:flat: expected one number for each image, of shape (4,), found a tensor of "
            "shape (3,). Take the mean over everything but the first axis."
        )

        assert (code, out.splitlines()[-1], err) == (2, "failed at step 0", f"error: {why}\n")
        assert (run / "log.txt").read_text().splitlines()[-1] == f"failed at step 0: RecipeError: {why}"

    def test_a_bar_leaves_lines_where_they_were_sent(self, capsys, monkeypatch):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        with Progress("train", "steps") as progress:
            progress(1, 2)
            print("a line")
        assert capsys.readouterr().out == "a line\n"

    def test_a_terminal_shows_a_bar_of_the_steps(self, packed, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        (tmp_path / "recipe.toml").write_text(dump(recipe(packed.folder, steps=3)))
        code, out, err = call("train", tmp_path / "recipe.toml", "--runs", tmp_path / "runs", capsys=capsys)

        assert (code, "3/3" in err, "3/3" in out) == (0, True, False)

    @pytest.mark.soak  # torchrun is tried in e2e/test_ranks.py
    def test_one_of_several_ranks_speaks(self, packed, tmp_path):
        (tmp_path / "recipe.toml").write_text(dump(recipe(packed.folder, steps=2)))
        words = ["-m", "penstock", "train", tmp_path / "recipe.toml", "--runs", tmp_path / "runs"]
        done = processes.ranks(2, *words)

        assert done.returncode == 0, done.stderr
        assert sum(line.startswith("report ") for line in done.stdout.splitlines()) == 1

    def test_a_path_that_is_no_text_is_named(self, packed, tmp_path, capsys):
        place = tmp_path / os.fsdecode(b"donn\xe9es")
        shutil.copytree(packed.folder, place)
        words = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--runs", tmp_path / "runs"]
        code, _, err = call("train", place, *words, capsys=capsys)

        assert code == 2
        assert err == (
            f"error: data.path: expected a path in UTF-8, found {tmp_path}/donn\\udce9es. Rename the file or its folder.\n"
        )
        assert not (tmp_path / "runs").exists()


class Slow:
    """Prepares nothing before it is too late."""

    def __init__(self, prepare):
        self.prepare, self.fields = prepare, prepare.fields

    def __call__(self, *arguments):
        time.sleep(1)
        self.prepare(*arguments)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["publish", "DATA", "kafka://h:1/t", "--partitions", 8, "--retention", 24],
         "--partitions and --retention can only be given for a new topic. Add --create, or change the topic that there is "
         "with Kafka's own tools."),
        (["pull", "kafka://h:1/t", "--split", "val", "--from", "0:1", "-o", "o"],
         "--from and --until select records of the topic of train, but --split names val. Pull the other splits by "
         "themselves, whole."),
        (["inspect", "kafka://h:1/t", "--classes", "a,b", "--boxes", "xyxy"],
         "--classes and --boxes cannot be given for a topic, which has its own description. Remove --classes and --boxes."),
    ],
)  # fmt: skip
def test_options_without_effect_are_refused(packed, capsys, words, message):
    words = [str(packed.folder) if word == "DATA" else word for word in words]
    assert call(*words, capsys=capsys)[::2] == (2, f"error: {message}\n")


TINY = ["--model", "unet:test_resnet", "--weights", "none", "--batch", 4, "--crop", 32, 32]


def test_a_run_without_validation_is_asked_for_a_split(packed, tmp_path, capsys):
    words = ["train", packed.folder, *TINY, "--steps", 2, "--runs", tmp_path, "--set", "data.validation="]
    assert call(*words, capsys=capsys)[0] == 0
    (run,) = tmp_path.iterdir()
    assert call("evaluate", run, capsys=capsys)[2] == (
        f"error: {run} was trained without a validation split, so evaluate has no default. Choose a split with --split: train, val.\n"
    )


def test_adamw_has_a_rate_of_its_own_and_crops_beyond_all_images_are_noted(packed, tmp_path, capsys):
    words = [
        "train",
        packed.folder,
        *TINY[:-3],
        "--crop",
        256,
        256,
        "--optimizer",
        "adamw",
        "--steps",
        1,
        "--runs",
        tmp_path,
    ]
    code, out, _ = call(*words, capsys=capsys)
    (run,) = tmp_path.iterdir()
    spec = load(run / "recipe.toml").optimizer

    assert code == 0
    assert (spec.lr, spec.schedule.name, spec.weight_decay) == (3e-4, "cosine", 0.01)
    assert "note: the crop of 256 x 256 is larger than every image (" in out
    assert "--set 'augment.crop=[" in out


def test_a_run_gives_its_model_to_what_starts_from_it(trained, packed, tmp_path, capsys):
    code, out, _ = call(
        "train", packed.folder, "--init", trained, "--crop", 32, 32, "--steps", 1, "--runs", tmp_path, capsys=capsys
    )
    (run,) = tmp_path.iterdir()

    assert code == 0
    assert load(run / "recipe.toml").model.name == load(trained / "recipe.toml").model.name
    assert f"init from {trained}, step " in out


def test_a_recipe_without_data_says_so_and_finds_it_beside_itself(packed, tmp_path, capsys):
    (tmp_path / "mine.toml").write_text("seed = 3\n")
    assert call("train", tmp_path / "mine.toml", capsys=capsys)[2] == (
        f"error: {tmp_path}/mine.toml names no dataset. Set data.path in the recipe (relative to the folder of the recipe), or add --set data.path=DIR.\n"
    )
    assert settings_of_file(tmp_path / "mine.toml", {"data.path": "here"})[0]["data.path"] == "here"
    (tmp_path / "mine.toml").write_text("[data]\npath = 'there'\n")
    assert settings_of_file(tmp_path / "mine.toml", {})[0]["data.path"] == str(tmp_path / "there")


@pytest.mark.parametrize("name", ["environment.json", "evaluations/step-00000004.json"])
def test_a_damaged_run_is_named(trained, tmp_path, name, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained, run, symlinks=True)
    for content in ("", "[]", "{}", "nonsense"):
        (run / name).write_text(content)
        code, _, err = call("report", run, capsys=capsys)
        assert (code, err.startswith(f"error: {run}/{name}: expected ")) == (2, True)
    (run / "metrics.jsonl").write_text('[]\n{}\n{"loss": "x"}\n7\n')
    (run / name).write_bytes((trained / name).read_bytes())
    assert call("report", run, capsys=capsys)[0] == 0


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
    settings = [
        "--set",
        "augment.view.scale=[0.75, 1.25]",
        "--set",
        "train.ema_decay=0.98",
        "--set",
        "train.log_every=35",
    ]
    assert call("train", packed.folder, *words, *settings, capsys=capsys)[0] == 0
    found = load(tmp_path / "0001-x" / "recipe.toml")

    assert (found.model.name, found.model.weights, found.augment.crop) == ("unet:test_resnet", "none", (32, 64))
    assert (found.train.batch, found.train.steps, found.seed, found.train.device) == (3, 1, 5, "cpu")
    assert (found.optimizer.name, found.optimizer.lr) == ("adamw", 2e-3)
    assert (found.augment.view.scale, found.train.ema_decay, found.train.log_every) == ((0.75, 1.25), 0.98, 35)


def test_a_split_that_is_trained_on_and_evaluated_is_noted(packed, tmp_path, capsys):
    train(apply(recipe(packed.folder, steps=1), ["data.train=train+val"]), tmp_path, on_event=show)

    assert (
        "note: val is trained on and evaluated: scores will not tell what is learnt by heart" in capsys.readouterr().out
    )


def test_an_optimizer_beside_a_recipe_begins_with_its_own_defaults(packed, tmp_path, capsys):
    """Said, as settings of the file have no effect then."""
    folder, _ = train(apply(recipe(packed.folder, steps=1), ["optimizer.momentum=0.5"]), tmp_path / "a")
    run = folder.path
    code, out, err = call("train", run / "recipe.toml", "--optimizer", "adamw", "--runs", tmp_path / "b", capsys=capsys)
    (again,) = (tmp_path / "b").iterdir()

    assert (code, err) == (0, "")
    assert (
        f"note: optimizer = adamw begins with its own defaults: [optimizer] of {run / 'recipe.toml'} is not used\n"
        in out
    )
    assert load(again / "recipe.toml").optimizer == AdamW()


def test_after_early_stopping_only_more_patience_goes_on(shaken_run, capsys):
    reason = "no better score in 2 evaluations (train.patience)"
    _conclude(ps.Run(shaken_run, Outcome("stopped", reason, 2)))
    assert capsys.readouterr().out.startswith(f"saved; go on with: penstock train --resume {shaken_run} --patience N\n")


def test_a_run_in_place_of_data_is_named(shaken_run, capsys):
    assert call("train", shaken_run, capsys=capsys)[2] == (
        f"error: {shaken_run}: expected a packed dataset, with a dataset.json, found a folder without one. It is a run: resume it with "
        f"penstock train --resume {shaken_run}, or train anew with penstock train {shaken_run / 'recipe.toml'}.\n"
    )


def test_a_score_that_there_is_not_is_named_before_anything_is_written(packed, tmp_path, capsys):
    words = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 2, "--steps", 2]
    words += ["--set", "train.best_metric=mIoU", "--runs", tmp_path / "runs"]
    assert call("train", packed.folder, *words, capsys=capsys)[::2] == (
        2,
        "error: train.best_metric: expected one of mean_iou, pixel_accuracy, found mIoU. Choose one of these scores, such as "
        "mean_iou.\n",
    )
    assert not [*tmp_path.glob("runs/*")]
