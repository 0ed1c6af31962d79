from __future__ import annotations

import datetime as dt
import json
import shutil
import subprocess
import sys

import pytest
from support import processes
from support.commands import call
from support.run_folders import write_run

import penstock as ps
from penstock.runs import RunFolder, manifests

BEGAN = f"{dt.datetime(2026, 1, 1, tzinfo=dt.UTC).astimezone():%Y-%m-%d %H:%M}"


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs/0001-a")
    write_run(tmp_path / "runs/0002-longer", steps=5000, scores=[{"mean_iou": 0.25}], events=["started"])
    write_run(tmp_path / "runs/0003-new", scores=[], data="/d/other", events=["started", "stopped"])
    return tmp_path / "runs"


def test_what_is_left_of_a_run_is_listed(runs, capsys):
    (runs / "0003-new/recipe.toml").unlink()
    assert "0003-new     damaged: " in call("runs", capsys=capsys)[1]
    shutil.rmtree(runs / "0002-longer/checkpoints", ignore_errors=True)
    assert "0002-longer" in call("runs", capsys=capsys)[1]


def test_runs_are_compared_as_a_list(runs):
    assert ps.compare(ps.list_runs(runs)[:2]) == ps.compare(runs / "0001-a", runs / "0002-longer")


def test_runs_are_listed(runs, capsys):
    said = f"{runs / '0003-new'}: batch norm was frozen; tags: none\n"
    assert call("note", runs / "0003-new", "batch norm was frozen", capsys=capsys) == (0, said, "")
    assert call("runs", capsys=capsys) == (
        0,
        "run          state     began             step     best                  task          model          data       time        "
        "note\n"
        f"0001-a       finished  {BEGAN}  2/2      mean_iou 0.7500 at 2  segmentation  unet:resnet18  /d/photos  1 min 21 s\n"
        f"0002-longer  killed    {BEGAN}  1/5,000  mean_iou 0.2500 at 1  segmentation  unet:resnet18  /d/photos  1 min 21 s\n"
        f"0003-new     stopped   {BEGAN}  0/2                            segmentation  unet:resnet18  /d/other   1 min 21 s  batch "
        "norm was frozen\n",
        "",
    )
    call("note", runs / "0003-new", "", capsys=capsys)
    assert "frozen" not in call("runs", capsys=capsys)[1]


def test_a_run_is_a_list_of_one_and_may_stand_for_its_folder(runs, capsys):
    assert [line.split()[0] for line in call("runs", runs / "0001-a", capsys=capsys)[1].splitlines()] == [
        "run",
        "0001-a",
    ]
    assert len(call("runs", "--where", "segmentation", capsys=capsys)[1].splitlines()) == 4
    listed = ps.list_runs(runs)
    assert ps.compare(*listed[:2]) == ps.compare(runs / "0001-a", runs / "0002-longer")


def test_runs_have_tags(runs, capsys):
    said = f"{runs / '0003-new'}: no note; tags: augment, paper\n"
    assert call("note", runs / "0003-new", "--tag", "paper", "--tag", "augment", capsys=capsys) == (0, said, "")
    assert call("runs", "--where", "paper", capsys=capsys)[1] == (
        "run       state    began             step  task          model          data      time        tags\n"
        f"0003-new  stopped  {BEGAN}  0/2   segmentation  unet:resnet18  /d/other  1 min 21 s  augment, paper\n"
    )
    call("note", runs / "0003-new", "good", "--untag", "paper", "--tag", "augment", capsys=capsys)
    assert "augment  good\n" in call("runs", capsys=capsys)[1]
    assert call("note", runs / "0003-new", "--untag", "paper", capsys=capsys) == (
        2,
        "",
        f"error: {runs}/0003-new: --untag: expected the tag paper, found augment. Name one of its tags.\n",
    )
    assert call("note", runs / "0003-new", "--tag", "a b", capsys=capsys)[2] == (
        "error: --tag: expected a word without spaces, found 'a b'. Give several tags one by one.\n"
    )
    call("note", runs / "0003-new", "--untag", "augment", capsys=capsys)
    assert not (runs / "0003-new/tags.txt").exists()
    assert call("note", runs / "0003-new", capsys=capsys) == (0, f"{runs / '0003-new'}: good; tags: none\n", "")
    run = ps.Run(runs / "0001-a")
    run.note("fine", tag=["best", "paper"])
    run.note(untag=["best"])
    (listed, *_) = ps.list_runs(runs)
    assert (listed.note, listed.tags) == ("fine", ("paper",))


def checkpoints(run, *steps, best):
    for step in steps:
        (run / f"checkpoints/step-{step:08d}").mkdir()
        (run / f"checkpoints/step-{step:08d}/model.safetensors").write_bytes(bytes(500_000))
        (run / f"checkpoints/step-{step:08d}/state.json").write_bytes(bytes(1000 * step))
        manifests.write(run / f"checkpoints/step-{step:08d}", step)
    for link, step in (("last", steps[-1]), ("best", best)):
        (run / "checkpoints" / link).symlink_to(f"step-{step:08d}")


def there(run):
    return sorted(path.name for path in (run / "checkpoints").iterdir())


@pytest.mark.parametrize("answer", ["y", "n", "", None])
def test_all_but_the_best_go_once_somebody_says_so(runs, capsys, monkeypatch, answer):
    checkpoints(runs / "0001-a", 1, 2, 3, best=2)
    checkpoints(runs / "0002-longer", 1, 2, best=1)  # was killed, and goes on with its last one
    checkpoints(runs / "0003-new", 2, best=2)  # has none to spare
    monkeypatch.setattr(sys.stdin, "isatty", lambda: answer is not None)
    asked = []
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or answer)
    code, out, err = call("prune", capsys=capsys)

    if answer is None:
        assert (code, err) == (2, "error: penstock prune: expected an answer, found no terminal. Give --yes.\n")
    else:
        assert asked == ["Remove 2 checkpoints, 1.0 MB, of 1 run? [y/N] "]
        end = "removed 2 checkpoints, 1.0 MB" if answer == "y" else "nothing was removed"
        assert out == f"0001-a: 2 checkpoints, 1.0 MB; step-00000002 stays\n{end}\n"
    whole = ["best", "last", "step-00000001", "step-00000002", "step-00000003"]
    assert there(runs / "0001-a") == (["best", "last", "step-00000002"] if answer == "y" else whole)
    assert (runs / "0001-a/checkpoints/last").resolve().name == f"step-0000000{2 if answer == 'y' else 3}"
    assert len(there(runs / "0002-longer")) == 4


def test_no_question_is_asked_where_the_answer_is_given(runs, capsys):
    checkpoints(runs / "0001-a", 1, 2, best=2)
    checkpoints(runs / "0003-new", 1, 2, best=2)
    own = ["step-00000001-backup", "step-notes"]  # which somebody has put there
    for name in own:
        (runs / "0003-new/checkpoints" / name).mkdir()
    assert call("prune", "--yes", "--where", "new", capsys=capsys)[0] == 0
    assert len(there(runs / "0001-a")) == 4
    assert there(runs / "0003-new") == ["best", "last", own[0], "step-00000002", own[1]]
    spare = sum(path.stat().st_size for path in (runs / "0001-a/checkpoints/step-00000001").iterdir())
    assert ps.Run(runs / "0001-a").prune() == spare > 501_000
    assert ps.Run(runs / "0001-a").prune() == 0
    assert call("prune", "--where", "new", capsys=capsys)[1] == (
        "nothing to remove: no run in runs that fits has a checkpoint to spare\n"
    )


def test_a_run_that_is_being_trained_keeps_its_checkpoints(runs, capsys):
    checkpoints(runs / "0001-a", 1, 2, best=2)
    with RunFolder(runs / "0001-a").locked():
        code, _, err = call("prune", "--yes", capsys=capsys)
    assert (code, len(there(runs / "0001-a"))) == (2, 4)
    assert "another process is training this run" in err
    checkpoints(runs / "0002-longer", 1, 2, 3, best=1)
    with RunFolder(runs / "0002-longer").locked():
        call("prune", "--yes", "--where", "longer", capsys=capsys)
        assert "0002-longer  running" in call("runs", capsys=capsys)[1]
    assert len(there(runs / "0002-longer")) == 5


def test_a_run_with_a_tag_keeps_its_checkpoints(runs, capsys):
    checkpoints(runs / "0001-a", 1, 2, best=2)
    ps.Run(runs / "0001-a").note(tag=["keep"])
    assert call("prune", "--yes", capsys=capsys)[1] == "nothing to remove: no run in runs has a checkpoint to spare\n"
    assert len(there(runs / "0001-a")) == 4


def test_a_run_that_lies_elsewhere_keeps_its_checkpoints(runs, tmp_path, capsys):
    checkpoints(runs / "0001-a", 1, 2, best=2)
    (runs / "0001-a").rename(tmp_path / "theirs")
    (runs / "0001-a").symlink_to(tmp_path / "theirs")
    call("prune", "--yes", capsys=capsys)
    assert len(there(tmp_path / "theirs")) == 4


def test_a_run_that_was_broken_off_keeps_its_best_and_its_last(runs, capsys):
    checkpoints(runs / "0002-longer", 1, 2, 3, 4, best=2)
    out = call("prune", "--yes", "--where", "longer", capsys=capsys)[1]
    assert out.splitlines()[0] == "0002-longer: 2 checkpoints, 1.0 MB; step-00000002 and step-00000004 stay"
    assert there(runs / "0002-longer") == ["best", "last", "step-00000002", "step-00000004"]
    assert (runs / "0002-longer/checkpoints/last").resolve().name == "step-00000004"


def test_runs_are_given_to_other_programs(runs, capsys):
    found = json.loads(call("runs", "--json", capsys=capsys)[1])
    assert [(run["name"], run["state"], run["best"]) for run in found] == [
        ("0001-a", "finished", 0.75),
        ("0002-longer", "killed", 0.25),
        ("0003-new", "stopped", None),
    ]
    compared = json.loads(call("compare", runs / "0001-a", runs / "0003-new", "--json", capsys=capsys)[1])
    assert compared["data"] == {"path": ["/d/photos", "/d/other"]}
    assert compared["cautions"] == ["1 of 2 runs was never evaluated."]


def test_why_a_run_ended_is_listed(runs, capsys):
    with (runs / "0003-new/events.jsonl").open("a") as log:
        log.write('{"event": "failed", "reason": "the loss is not finite"}\n')
    (runs / "0001-a/recipe.toml").write_text("")
    lines = call("runs", capsys=capsys)[1].splitlines()
    assert "0003-new     failed: the loss is not finite" in lines[3]
    assert lines[1] == "0001-a       damaged: recipe.toml: expected what Penstock wrote, ..."


def test_a_run_without_a_best_one_keeps_its_last(runs):
    checkpoints(runs / "0001-a", 1, 2, best=2)
    (runs / "0001-a/checkpoints/best").unlink()
    ps.Run(runs / "0001-a").prune()
    assert there(runs / "0001-a") == ["last", "step-00000002"]


def test_the_best_by_other_scores_stay_too(runs):
    checkpoints(runs / "0001-a", 1, 2, 3, 4, best=2)
    (runs / "0001-a/checkpoints/best-recall").symlink_to("step-00000003")
    ps.Run(runs / "0001-a").prune()
    assert there(runs / "0001-a") == ["best", "best-recall", "last", "step-00000002", "step-00000003"]


def names(out):
    return [line.split()[0] for line in out.splitlines()[1:]]


def test_they_are_sorted_and_chosen(runs, capsys):
    assert names(call("runs", runs, "--sort", "best", capsys=capsys)[1]) == ["0003-new", "0002-longer", "0001-a"]
    for match, expected in {"longer": 1, "00??-*": 3, "killed": 1, "other": 1, "unet": 3}.items():
        assert len(names(call("runs", "--where", match, capsys=capsys)[1])) == expected
    assert call("runs", "--where", "zzz", capsys=capsys)[1] == "no run in runs fits zzz: it has 3 runs\n"
    chosen = call("runs", "--where", "000", "--where", "mean_iou>0", "--where", "train.steps<9", capsys=capsys)[1]
    assert names(chosen) == ["0001-a"]
    said = "no run in runs fits 0002 and best>0.5 and seed=0: it has 3 runs\n"
    assert call("runs", "--where", "0002", "--where", "best>0.5", "--where", "seed=0", capsys=capsys)[1] == said
    assert [run.name for run in ps.list_runs(runs, where="state=stopped")] == ["0003-new"]
    (runs / "empty").mkdir()
    assert call("runs", runs / "empty", capsys=capsys)[1] == f"no run in {runs}/empty\n"


def test_runs_are_compared(runs, capsys):
    write_run(runs / "0004-seed", seed=1, scores=[{"loss": 1.0, "mean_iou": 0.5}], classes=["a", "c" * 80])
    code, out, _ = call("compare", runs / "0001-a", runs / "0004-seed", capsys=capsys)
    classes = '["a", "' + "c" * 50 + "..."
    assert (code, out) == (
        0,
        "Scores may not be compared: their classes or class ids differ.\n"
        "\n"
        "scores of the best checkpoint  0001-a  0004-seed\n"
        "  loss                         1       1\n"
        "  mean_iou                     0.75    0.5\n"
        "\n"
        "recipe  0001-a  0004-seed\n"
        "  seed  0       1\n"
        "\n"
        f"data       0001-a      0004-seed\n"
        f'  classes  ["a", "b"]  {classes}\n'
        "\n"
        "code: no difference\n"
        "\n"
        "environment: no difference\n"
        "\n"
        "mean_iou over 2 seeds (0001-a, 0004-seed): mean 0.6250, standard deviation 0.1768\n",
    )


def test_without_evaluations_there_are_no_scores(runs, capsys):
    write_run(runs / "0005-new", scores=[], data="/d/other")
    out = call("compare", runs / "0003-new", runs / "0005-new", capsys=capsys)[1]
    assert out.startswith(
        "2 of 2 runs were never evaluated.\n\nscores of the best checkpoint: no evaluation\n\nrecipe: no difference\n"
    )


def test_equal_runs_end_without_an_empty_line(runs, capsys):
    out = call("compare", runs / "0001-a", runs / "0001-a", capsys=capsys)[1]
    assert out.endswith("environment: no difference\n")


def test_no_run_is_no_run(runs, capsys):
    code, _, err = call("compare", runs / "0001-a", runs, capsys=capsys)
    assert (code, err.partition(":")[2].partition(". ")[0]) == (
        2,
        f" {runs}: expected a run folder, with a recipe.toml, found a folder without one",
    )


@pytest.mark.parametrize("words", ["'runs', 'runs'", "'compare', 'runs/0001-a', 'runs/0003-new'"])
def test_they_are_there_at_once(runs, words):
    """Without torch."""
    lines = (
        "import sys\nfrom penstock.cli.app import main\n"
        f"try:\n    main([{words}])\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", lines],
        env=processes.quiet(),
        capture_output=True,
        text=True,
        check=False,
        cwd=runs.parent,
    )
    assert done.returncode == 0, done.stderr


def test_nothing_goes_where_the_one_that_stays_is_damaged(runs, capsys):
    checkpoints(runs / "0001-a", 1, 2, best=2)
    before = there(runs / "0001-a")
    path = runs / "0001-a/checkpoints/step-00000002/model.safetensors"
    path.write_bytes(b"x" + path.read_bytes()[1:])
    code, _, err = call("prune", "--yes", capsys=capsys)
    assert (code, there(runs / "0001-a")) == (2, before)
    assert err.startswith(f"error: {path.relative_to(runs.parent)}: expected a file with SHA-256 ")


def test_links_stay_and_what_a_killed_process_left_goes(runs):
    checkpoints(runs / "0001-a", 1, 2, best=2)
    folder = runs / "0001-a/checkpoints"
    (folder / "step-00000009").symlink_to("step-00000002")
    (folder / ".step-00000001.old.partial").mkdir()
    (folder / ".step-00000001.old.partial/model.safetensors").write_bytes(b"x")
    ps.Run(runs / "0001-a").prune()
    assert there(runs / "0001-a") == ["best", "last", "step-00000002", "step-00000009"]


def test_a_note_of_several_lines_is_one_row(runs, capsys):
    (runs / "0001-a/note.txt").write_text("good\n0009-made-up  finished  1/1\n")
    out = call("runs", capsys=capsys)[1]
    assert not [line for line in out.splitlines() if line.startswith("0009")]
    assert "good 0009-made-up finished 1/1" in out


def test_a_folder_with_files_of_the_user_is_no_checkpoint(runs, capsys):
    checkpoints(runs / "0001-a", 1, 2, 3, best=2)
    (runs / "0001-a/checkpoints/step-00000001/my-notes.txt").write_text("dear")
    (runs / "0001-a/checkpoints/step-00000009").mkdir()
    assert call("prune", runs, "--yes", capsys=capsys)[0] == 0
    assert {"step-00000001", "step-00000002", "step-00000009"} <= {*there(runs / "0001-a")}
    assert "step-00000003" not in there(runs / "0001-a")


def test_names_that_are_no_utf_8_are_json(runs, capsys):
    (runs / "0001-a").rename(runs / "0001-\udcff")
    code, out, _ = call("runs", runs, "--json", capsys=capsys)
    assert (code, json.loads(out)[0]["name"]) == (0, "0001-\udcff")
