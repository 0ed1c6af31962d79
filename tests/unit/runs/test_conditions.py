from __future__ import annotations

import pytest
from support.run_folders import write_run

from penstock.errors import RunError
from penstock.runs import RunFolder
from penstock.runs.conditions import choose
from penstock.runs.listing import find_runs
from penstock.runs.notes import change_tags, write_note


@pytest.fixture
def runs(tmp_path):
    """Three runs: 1 scored 0.75, 2 has scored 0.25 and two tags, 3 was never scored; 4 has no recipe."""
    write_run(tmp_path / "0001-a")
    two = write_run(tmp_path / "0002-b", seed=7, scores=[{"mean_iou": 0.25}], events=["started"], steps=5000)
    change_tags(RunFolder.open(two), ["paper", "try"], [])
    write_note(RunFolder.open(two), "blurry in fog")
    write_run(tmp_path / "0003-c", scores=[], data="/d/other", events=["started", "stopped"])
    (write_run(tmp_path / "0004-d") / "recipe.toml").unlink()
    return find_runs(tmp_path)


@pytest.mark.parametrize(
    ("conditions", "numbers"),
    [
        ([], [1, 2, 3, 4]),
        (["model=unet*"], [1, 2, 3]),
        (["model=unet"], []),
        (["model!=unet*"], [4]),
        (["mean_iou>0.25"], [1]),
        (["mean_iou>=0.25"], [1, 2]),
        (["mean_iou < 0.5"], [2]),
        (["best<=0.75", "state=finished"], [1]),
        (["seed=7"], [2]),
        (["seed!=7.0"], [1, 3, 4]),
        (["train.steps>2"], [2]),
        (["augment.view.crop_pct=0.875", "data.path=*other"], [3]),
        (["tags=paper"], [2]),
        (["tags=pap"], []),
        (["tags!=paper"], [1, 3, 4]),
        (["name=000?-[ab]"], [1, 2]),
        (["began>2025-12-31"], [1, 2, 3]),
        (["began<2025-12-31"], []),
        (["model>0"], []),
        (["unet"], [1, 2, 3]),
        (["000?-*"], [1, 2, 3, 4]),
        (["pap", "mean_iou>0"], [2]),
        (["nothing"], []),
        (["blurry"], [2]),
        (["other"], [3]),
        (["stopped"], [3]),
        (["segmentation"], [1, 2, 3]),
        (["1-a"], [1]),
    ],
)  # fmt: skip
def test_runs_that_fit_all_conditions_are_chosen(runs, conditions, numbers):
    assert [run.number for run in choose(runs, conditions)] == numbers


def test_a_name_that_no_run_has_is_refused(runs):
    with pytest.raises(RunError) as caught:
        choose(runs, ["mean_dice>0.8"])
    assert str(caught.value) == (
        "--where mean_dice>0.8: expected a column of penstock runs, the metric of a run, or a setting such as optimizer.lr, "
        "found mean_dice. penstock runs --json names the columns, and recipe.toml of a run the settings."
    )
