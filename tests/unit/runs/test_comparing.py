"""In what runs differ, and which scores may not be compared."""

from __future__ import annotations

import html
import json
import math
import re
import shutil
import statistics

import cv2
import numpy as np
import pytest
from support.errors import refused
from support.run_folders import write_run
from support.training import recipe

import penstock as ps
from penstock.config import apply
from penstock.datasets import PackOptions, inspect, pack, scenes
from penstock.records.manifest import RecordChanges
from penstock.report import write_comparison
from penstock.runs.comparing import compare
from penstock.training import train


def two(root, **given):
    return [write_run(root / "0001-a"), write_run(root / "0002-b", **given)]


def test_equal_runs_differ_in_nothing(tmp_path):
    found = compare(two(tmp_path))
    assert (found.recipe, found.data, found.code, found.environment, found.cautions) == ({}, {}, {}, {}, ())
    assert found.scores == {"loss": (1.0, 1.0), "mean_iou": (0.75, 0.75)}
    assert (found.metric, [each.name for each in found.runs]) == ("mean_iou", ["0001-a", "0002-b"])


@pytest.mark.parametrize(
    ("given", "part", "expected"),
    [
        ({"steps": 5}, "recipe", {"train.steps": (2, 5)}),
        ({"crop": [32, 32]}, "recipe", {"augment.crop": ([64, 64], [32, 32])}),
        ({"data": "/d/other"}, "data", {"path": ("/d/photos", "/d/other")}),
        ({"content": "beef"}, "data", {"content": ("c0ffee", "beef")}),
        ({"environment": {"device": "cuda"}}, "environment", {"device": ("cpu", "cuda")}),
        ({"environment": {"packages": {"torch": "2.1", "timm": "1"}}}, "environment", {"torch": ("2.0", "2.1"), "timm": (None, "1")}),
        ({"environment": {"revision": "r2"}}, "code", {"revision": ("r1", "r2")}),
        ({"code": {"loss.custom": "ab"}}, "code", {"loss.custom": (None, "ab")}),
    ],
)  # fmt: skip
def test_differences_have_a_value_for_each_run(tmp_path, given, part, expected):
    found = compare(two(tmp_path, **given))
    parts = {name: getattr(found, name) for name in ("recipe", "data", "code", "environment")}
    assert parts.pop(part) == expected
    assert all(not each for each in parts.values())
    unknown = "Which records differ is not known: the data of 0001-a, 0002-b has no manifest."
    assert found.cautions == ((unknown,) if "content" in given else ())


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"task": "matting"}, "they learnt different tasks"),
        ({"classes": ["a", "c"]}, "their classes or class ids differ"),
        ({"ignore": 0}, "they ignore different labels"),
        ({"partitions": [["val-0", 0, 2, "bb"]]}, "they were evaluated on different images"),
        ({"limit": 8}, "they used different parts of the data (data.limit)"),
        ({"view": "pad-crop"}, "images were evaluated at different sizes"),
        ({"train": "sliding_window = 64"}, "images were evaluated at different sizes"),
        ({"train": "ema_decay = 0.9"}, "only some are of averaged weights (train.ema_decay)"),
    ],
)
def test_scores_that_measure_something_else_are_named(tmp_path, given, why):
    assert compare(two(tmp_path, **given)).cautions == (f"Scores may not be compared: {why}.",)


def test_a_run_without_an_evaluation_is_named(tmp_path):
    found = compare(two(tmp_path, scores=[]))
    assert found.cautions == ("1 of 2 runs was never evaluated.",)
    assert found.scores == {"loss": (1.0, None), "mean_iou": (0.75, None)}


def test_seeds_have_a_mean_and_a_deviation(tmp_path):
    values = [0.5, 0.625, 0.75]
    paths = [
        write_run(tmp_path / f"000{n}-s", seed=n, scores=[{"mean_iou": value}]) for n, value in enumerate(values, 1)
    ]
    paths.append(write_run(tmp_path / "0004-longer", seed=4, steps=9))
    (spread,) = compare(paths).spreads
    assert spread.runs == ("0001-s", "0002-s", "0003-s")
    assert (spread.mean, spread.deviation) == (statistics.mean(values), statistics.stdev(values))


@pytest.mark.parametrize("given", [{"seed": 0}, {"seed": 1, "content": "beef"}, {"seed": 1, "scores": []}])
def test_other_differences_are_no_seeds(tmp_path, given):
    assert compare(two(tmp_path, **given)).spreads == ()


def test_losses_of_other_settings_are_not_compared(packed, tmp_path):
    """Their scores are."""
    made = recipe(packed.folder, steps=2, evaluate_every=9)
    runs = [train(each, tmp_path)[0].path for each in (made, apply(made, ["loss.dice=0.5"]))]
    found = compare(runs)
    assert found.cautions == ("Losses may not be compared: the runs minimise different ones.",)
    page = write_comparison(runs, tmp_path / "page.html").read_text()
    assert "<li>All scores may be compared: task, classes, images and image sizes are the same.</li>" in page
    assert "<li>Losses may not be compared: the runs minimise different ones.</li>" in page


def test_code_decides_which_scores_and_losses_are_compared(tmp_path):
    def cautions(name, train, *digests):
        paths = [
            write_run(tmp_path / name / f"000{n}-x", seed=n, train=train, code={"code/mine.py": digest})
            for n, digest in enumerate(digests)
        ]
        return compare(paths).cautions, [each.runs for each in compare(paths).spreads]

    metric, loss = 'metrics = ["code/mine.py:Worst"]', '[loss]\ncustom = "code/mine.py:term"'
    assert cautions("same", metric, "aa", "aa") == ((), [("0000-x", "0001-x")])
    assert cautions("metric", metric, "aa", "bb", "aa") == (
        ("Scores may not be compared: the code that computes scores differs.",),
        [("0000-x", "0002-x")],
    )
    assert cautions("loss", loss, "aa", "bb") == (
        ("Losses may not be compared: the runs minimise different ones.",),
        [],
    )
    assert cautions("neither", "", "aa", "bb") == ((), [])


def test_code_of_a_task_decides_which_scores_are_compared(tmp_path):
    paths = []
    for number, digest in enumerate(("aa", "bb")):
        path = write_run(tmp_path / f"000{number}-x", code={"code/mine.py": digest})
        text = (path / "recipe.toml").read_text()
        (path / "recipe.toml").write_text('task = "code/mine.py:Task"\n' + text)
        paths.append(path)
    assert compare(paths).cautions == ("Scores may not be compared: the code that computes scores differs.",)


@pytest.mark.parametrize(("decays", "differ"), [((0.9, 0.99), False), ((0.0, 0.99), True)])
def test_averages_of_any_decay_are_averages(tmp_path, decays, differ):
    paths = [write_run(tmp_path / f"000{n}-x", train=f"ema_decay = {decay}") for n, decay in enumerate(decays)]
    why = "Scores may not be compared: only some are of averaged weights (train.ema_decay)."
    assert compare(paths).cautions == ((why,) if differ else ())


def test_settings_of_before_a_resume_and_initial_weights_are_differences(tmp_path):
    changed = {"event": "changed", "step": 6, "settings": {"optimizer.lr": [0.01, 0.05]}}
    found = compare(two(tmp_path, seed=1, events=["started", changed, "finished"], initial="ab"))
    assert found.recipe == {"seed": (0, 1), "optimizer.lr until step 6": (None, 0.01)}
    assert found.code == {"initial weights": (None, "ab")}
    assert found.spreads == ()
    changed = {"event": "changed", "step": 1, "settings": {"optimizer.lr": [0.01, 0.05]}}
    pair = [write_run(tmp_path / f"000{n}-c", seed=n, events=["started", changed][: n + 1]) for n in range(2)]
    assert compare(pair).spreads == ()


def test_one_run_is_not_compared(tmp_path):
    message = "penstock compare: expected at least two runs, found 1. Name several run folders, for example runs/0001-a runs/0002-b."
    refused(compare, [write_run(tmp_path / "0001-a")], message=message)


@pytest.mark.parametrize(
    ("file", "value", "found"),
    [
        ("settings.json", {"code": 7}, "other contents (TypeError: 'int' object is not iterable)"),
        ("environment.json", {"packages": [1]}, "other contents (TypeError: cannot convert dictionary update sequence element #0 to a sequence)"),
    ],
)  # fmt: skip
def test_other_values_than_were_written_are_named(tmp_path, file, value, found):
    runs = two(tmp_path)
    (runs[1] / file).write_text(json.dumps(value))
    message = f"{runs[1] / file}: expected what Penstock wrote, found {found}. Restore the file from a copy of the run."
    refused(compare, runs, message=message)


def test_a_damaged_run_is_named(tmp_path):
    runs = two(tmp_path)
    recipe = runs[1] / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("steps = 2", "steps = inf"))
    message = (
        f"{runs[1]}: expected a run whose files can be read, found recipe.toml: expected what Penstock wrote, found other "
        "contents (OverflowError: cannot convert float infinity to integer). Restore its files from a copy, or compare the other "
        "runs."
    )
    refused(compare, runs, message=message)


def test_of_real_trainings(packed, tmp_path):
    runs = [train(recipe(packed.folder, steps=4), tmp_path)[0].path]
    runs.append(train(recipe(packed.folder, steps=4, batch=2), tmp_path)[0].path)
    found = ps.compare(ps.Run(runs[0]), runs[1])
    assert found.recipe == {"train.batch": (4, 2)}
    assert (found.data, found.environment, found.cautions) == ({}, {}, ())
    assert found.scores["mean_iou"] == tuple(ps.Run(run).best["mean_iou"] for run in runs)


def corrected(raw, fixed):
    """The same images with other labels, without one, with one that is drawn anew; in shards of other sizes."""
    shutil.copytree(raw, fixed)
    names = {split: sorted(path.stem for path in (fixed / "images" / split).iterdir()) for split in ("train", "val")}
    for split, name in (("train", names["train"][0]), ("val", names["val"][0])):
        mask = fixed / f"masks/{split}/{name}.png"
        ids = cv2.imread(str(mask), cv2.IMREAD_UNCHANGED)
        cv2.imwrite(str(mask), np.roll(ids, 5, axis=0))
    for folder in ("images", "masks"):
        next((fixed / folder / "train").glob(f"{names['train'][1]}.*")).unlink()
    image = next((fixed / "images/train").glob(f"{names['train'][2]}.*"))
    cv2.imwrite(str(image), np.flipud(cv2.imread(str(image))))
    return names


def test_records_that_were_corrected_are_named_although_the_shards_are_gone(tmp_path):
    scenes.write_folder(tmp_path / "raw", {"train": 6, "val": 3}, (48, 64), seed=1)
    names = corrected(tmp_path / "raw", tmp_path / "fixed")
    paths = []
    for name, raw, size in (("a", "raw", 1 << 20), ("b", "fixed", 1 << 20), ("c", "raw", 1 << 10)):
        data = pack(inspect(tmp_path / raw), tmp_path / name, PackOptions(shard_bytes=size))
        paths.append(train(recipe(data.folder, steps=2), tmp_path / "runs")[0].path)
        shutil.rmtree(data.folder)

    changed = compare(paths[:2])
    assert changed.records == {
        "train": (None, RecordChanges((), (names["train"][1],), (names["train"][0],), (names["train"][2],))),
        "val": (None, RecordChanges((), (), (names["val"][0],), ())),
    }
    assert changed.cautions == ("Scores may not be compared: they were evaluated on different images.",)
    first, second = (path.name for path in paths[:2])
    assert f"{second}, records of val beside {first}: 1 relabelled: {names['val'][0]}" in changed.lines()

    cut_otherwise = compare([paths[0], paths[2]])
    assert len(set(cut_otherwise.data["content"])) == 2
    assert (cut_otherwise.records, cut_otherwise.cautions) == ({}, ())

    (paths[1] / "manifest.jsonl.gz").unlink()
    assert compare(paths[:2]).cautions[-1] == (
        f"Which records differ is not known: the data of {second} has no manifest."
    )


@pytest.mark.parametrize(("first", "second"), [(math.nan, math.nan), (math.inf, -math.inf)])
def test_scores_that_are_no_numbers_have_no_mean(tmp_path, first, second):
    runs = two(tmp_path, recipe={"seed": 1})
    for run, value in zip(runs, (first, second), strict=True):
        text = (run / "metrics.jsonl").read_text()
        (run / "metrics.jsonl").write_text(
            re.sub(r'("mean_iou": )[\d.]+', lambda found, v=value: found[1] + json.dumps(v), text)
        )
    assert compare(runs).spreads == ()


def test_a_seed_may_be_anything_in_a_damaged_recipe(tmp_path):
    runs = two(tmp_path)
    for run in runs:
        (run / "recipe.toml").write_text("seed = [[]]\n" + (run / "recipe.toml").read_text().replace("seed = 0\n", ""))
    assert compare(runs).spreads == ()


def test_runs_of_another_revision_whose_files_are_equal_differ_by_their_seed_alone(tmp_path):
    folders = [write_run(tmp_path / f"000{n}-a", seed=n) for n in range(3)]
    for number, folder in enumerate(folders):
        path = folder / "environment.json"
        tree = json.loads(path.read_text())
        path.write_text(json.dumps({**tree, "revision": f"{number}" * 40, "uncommitted": number > 1}))
    (spread,) = compare(folders).spreads

    assert spread.runs == ("0000-a", "0001-a", "0002-a")


def scored_on(run, step, value, content="d0d0d0d0"):
    """Keep the score of a run on other data, as `penstock evaluate --on` does."""
    (run / "evaluations").mkdir(exist_ok=True)
    found = {"step": step, "split": "val", "data": "/d/new", "content": content, "mean_iou": value}
    (run / f"evaluations/val-{step:08d}-on-{content}.json").write_text(json.dumps(found))


def test_scores_of_another_step_than_the_best_are_named(tmp_path):
    runs = two(tmp_path)
    scored_on(runs[0], 1, 0.25)
    scored_on(runs[1], 2, 0.5)
    said = (
        f"{runs[0].name}: its scores on /d/new (d0d0d0d0), val are those of step 1, and its best checkpoint is that of step 2. "
        "Evaluate it again."
    )
    assert [each for each in compare(runs).cautions if "Evaluate it again" in each] == [said]
    scored_on(runs[0], 2, 0.75)
    found = compare(runs)
    assert not [each for each in found.cautions if "Evaluate it again" in each]
    assert found.common == {"mean_iou on /d/new (d0d0d0d0), val": (0.75, 0.5)}


def test_scores_on_other_data_need_not_be_those_of_all_runs(tmp_path):
    """A run that was trained on the data has the scores of its training there."""
    folders = [write_run(tmp_path / f"000{n}-a", content="d0d0d0d0" if n == 2 else "c0ffee") for n in range(3)]
    scored_on(folders[0], 2, 0.25)
    assert compare(folders).common == {"mean_iou on /d/new (d0d0d0d0), val": (0.25, None, 0.75)}
    assert compare(folders[:2]).common == {}


def test_scores_on_images_that_were_trained_on_are_cautioned(tmp_path):
    runs = two(tmp_path)
    scored_on(runs[0], 2, 0.25)
    path = next((runs[0] / "evaluations").glob("*-on-*.json"))
    note = "the run was trained on 3 of the 4 images of val: scores on them say little of other images"
    path.write_text(json.dumps({**json.loads(path.read_text()), "notes": [note]}))
    said = f"{runs[0].name} on /d/new (d0d0d0d0), val: {note}."
    assert said in compare(runs).cautions
    assert html.escape(said) in write_comparison(runs, tmp_path / "page.html").read_text()
