"""What newcomers stumbled over: each is answered in words that say what to do."""

from __future__ import annotations

import errno
import json
import re
import shutil

import cv2
import miniatures
import numpy as np
import pytest
import torch
from test_cli import call
from training import recipe

from penstock.assembly import load_checkpoint, open_run, settings_of_file
from penstock.cli.events import show
from penstock.config import load
from penstock.datasets import FolderDataset, inspect, pack
from penstock.datasets.inspection import grouped
from penstock.datasets.listing import files
from penstock.errors import DatasetError
from penstock.hooks import SaveByTime
from penstock.images import drawing
from penstock.kinds.items import Problem
from penstock.records.schema import decode_segmentation
from penstock.report.sheets import telling_positions
from penstock.runs import RunFolder
from penstock.session import CheckpointStore, Hook
from penstock.training import resume, train

TINY = ["--model", "unet:test_resnet", "--weights", "none", "--batch", 4, "--crop", 32, 32]


@pytest.fixture(scope="module")
def trained(packed, tmp_path_factory):
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path_factory.mktemp("runs"))
    return folder.path


def test_wrong_words_are_one_line_that_names_the_help(capsys):
    for words, expected in (
        (["pack", "x"], "penstock pack: --output is missing. See penstock pack --help."),
        (["pack"], "penstock pack: FOLDER is missing. See penstock pack --help."),
        (
            ["train", "--step", "5"],
            "penstock train: Unknown option: --step. Did you mean --steps? See penstock train --help.",
        ),
        (
            ["show", "x", "--recipe", "y"],
            "penstock show: expected --augmented with a recipe or settings: they say how images are augmented, found "
            "a sheet of plain records. Add --augmented, or leave them out.",
        ),
        (
            ["inspect", "x", "--map", "1=2", "--map", "1=3"],
            "--map: expected every id once, found 1=2, 1=3. Leave out what is not meant.",
        ),
        (
            ["inspect", "x", "--classes", "gone.txt"],
            "gone.txt: expected a file of class names, found nothing. Check the path.",
        ),
    ):
        assert call(*words, capsys=capsys) == (2, "", f"error: {expected}\n")


def test_predicting_a_folder_leaves_its_masks_out(trained, raw, tmp_path, capsys):
    out = tmp_path / "out"
    pictures = len(list((raw / "images").rglob("*.jpg")))
    code, printed, _ = call("predict", trained, raw, "-o", out, capsys=capsys)

    assert (code, printed.splitlines()[0]) == (0, f"predicted {pictures} of {pictures} images into {out}")
    assert {path.relative_to(out).parts[0] for path in out.rglob("*.png")} == {"images"}
    assert call("predict", trained, raw / "masks" / "val", "-o", tmp_path / "asked", capsys=capsys)[0] == 0


def test_a_validation_split_is_set_aside_and_the_same_whenever_asked(raw, tmp_path, capsys):
    flat = tmp_path / "flat"
    for kind in ("images", "masks"):
        shutil.copytree(raw / kind / "train", flat / kind)
    assert "note: no val split: pack with --validation 0.1" in call("inspect", flat, capsys=capsys)[1]
    for name in ("a", "b"):
        code, out, _ = call("pack", flat, "-o", tmp_path / name, "--validation", "0.2", capsys=capsys)
        assert (code, out.splitlines()[:2]) == (0, ["train: 17 records in 1 shard", "val: 4 records in 1 shard"])
    names = [
        {
            decode_segmentation(r).name
            for r in FolderDataset.open(tmp_path / "a").source(split).read(f"{split}-00000-of-00001.tfrecord", 0, n)
        }
        for split, n in (("train", 17), ("val", 4))
    ]
    assert len(names[0] | names[1]) == 21
    assert (tmp_path / "a/dataset.json").read_bytes() == (tmp_path / "b/dataset.json").read_bytes()
    assert call("pack", raw, "-o", tmp_path / "c", "--validation", "0.2", capsys=capsys)[0] == 2


def test_a_run_without_validation_is_asked_for_a_split(packed, tmp_path, capsys):
    words = ["train", packed.folder, *TINY, "--steps", 2, "--runs", tmp_path, "--set", "data.validation="]
    assert call(*words, capsys=capsys)[0] == 0
    (run,) = tmp_path.iterdir()
    assert call("evaluate", run, capsys=capsys)[2] == (
        f"error: {run}: expected a split to evaluate on, found a run that was trained without one. Name one with "
        "--split: train, val.\n"
    )


def test_adamw_has_a_rate_of_its_own_and_crops_beyond_all_pictures_are_noted(packed, tmp_path, capsys):
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
    assert (spec.lr, spec.schedule, spec.weight_decay) == (3e-4, "cosine", 0.01)
    assert "note: the crop of 256 x 256 is larger than every image (" in out


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
        f"error: {tmp_path}/mine.toml: data.path: expected the folder of a packed dataset, found nothing. Write it "
        "into the recipe (it counts from the recipe's own folder), or name it with --set data.path=DIR.\n"
    )
    assert settings_of_file(tmp_path / "mine.toml", {"data.path": "here"})["data.path"] == "here"
    (tmp_path / "mine.toml").write_text("[data]\npath = 'there'\n")
    assert settings_of_file(tmp_path / "mine.toml", {})["data.path"] == str(tmp_path / "there")


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


def test_many_problems_of_a_kind_are_grouped():
    problems = [Problem("size mismatch", f"{i}.png", f"{i}.png is wrong.") for i in range(9)]
    problems.append(Problem("only background", "x.png", "x.png is empty.", fatal=False))

    assert grouped(problems, 4) == [
        "0.png is wrong.",
        "1.png is wrong.",
        "2.png is wrong.",
        "... and 6 more of this kind (size mismatch): 3.png, 4.png, 5.png, 6.png, ...",
        "(note) x.png is empty.",
    ]


def test_shards_do_not_go_among_other_files(raw, tmp_path):
    (tmp_path / "images").mkdir()
    with pytest.raises(DatasetError) as caught:
        pack(inspect(raw), tmp_path)
    assert str(caught.value) == f"{tmp_path}: expected an empty folder, found images. Choose another folder with -o."


def test_linked_folders_are_entered_once(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "there/a.jpg").touch()
    (tmp_path / "here/link").symlink_to(tmp_path / "there")
    (tmp_path / "there/loop").symlink_to(tmp_path / "here")

    assert [path.relative_to(tmp_path).as_posix() for path in files(tmp_path / "here")] == ["here/link/a.jpg"]


def test_a_finished_run_has_nothing_left_to_do(packed, tmp_path, capsys):
    folder, _ = train(recipe(packed.folder, steps=3), tmp_path)
    before = {path: path.read_bytes() for path in folder.path.rglob("*.jsonl")}
    capsys.readouterr()
    _, outcome = resume(folder.path, on_event=show)

    assert (outcome.status, outcome.step) == ("finished", 3)
    assert capsys.readouterr().out == f"{folder.path}: finished at step 3 before; train longer with --steps\n"
    assert {path: path.read_bytes() for path in folder.path.rglob("*.jsonl")} == before
    resume(folder.path, ["train.steps=4"], on_event=show)
    assert "note: training ends at step 4 instead of 3, and the poly schedule" in capsys.readouterr().out


def test_checkpoints_are_saved_by_the_clock_too(packed, tmp_path):
    clock = SaveByTime(minutes=1e-9)
    folder, _ = train(
        recipe(packed.folder, steps=3, keep=9, save_every=100, evaluate_every=100), tmp_path, hooks=[clock]
    )

    assert CheckpointStore(folder.checkpoints).names() == [f"step-{step:08d}" for step in (1, 2, 3)]


def test_every_hook_is_ended_though_one_fails(packed, tmp_path):
    ended = []

    class Fails(Hook):
        def on_end(self, session):
            message = "no"
            raise ValueError(message)

    class Ends(Hook):
        def on_end(self, session):
            ended.append(session.step)

    with pytest.raises(ValueError, match="no") as caught:
        train(recipe(packed.folder, steps=1), tmp_path, hooks=[Fails(), Ends()])
    assert ended == [1]
    assert caught.value.__notes__ == ["in Fails.on_end, step 1"]


def test_a_run_predicts_without_its_dataset_and_is_scored_where_that_is_now(packed, raw, tmp_path, capsys):
    data, moved = tmp_path / "data", tmp_path / "elsewhere"
    shutil.copytree(packed.folder, data)
    run = train(recipe(data, steps=2), tmp_path / "runs")[0].path
    picture = next((raw / "images" / "val").iterdir())
    assert call("predict", run, picture, "-o", tmp_path / "before", capsys=capsys)[0] == 0
    data.rename(moved)
    assert call("predict", run, picture, "-o", tmp_path / "after", capsys=capsys)[0] == 0
    written = [
        sorted((path.name, path.read_bytes()) for path in (tmp_path / when).iterdir()) for when in ("before", "after")
    ]
    away = (
        2,
        "",
        f"error: {data}: expected the dataset that the run was started with, found no such folder. Say where it is now: "
        "--data DIR, or --set data.path=DIR to train on.\n",
    )

    assert written[0] == written[1]
    for words in (["evaluate", run], ["replay", run, "--step", 1], ["train", "--resume", run]):
        assert call(*words, capsys=capsys) == away
    assert call("evaluate", run, "--data", moved, "--images", 1, capsys=capsys)[0] == 0
    assert call("replay", run, "--step", 1, "--data", moved, capsys=capsys)[0] == 0
    assert call("train", "--resume", run, "--steps", 3, "--set", f"data.path={moved}", capsys=capsys)[0] == 0
    assert call("evaluate", run, "--images", 1, capsys=capsys)[0] == 0


@pytest.mark.parametrize("links", ["followed", "dropped"])
def test_a_run_that_was_copied_without_its_links_goes_on(packed, tmp_path, links):
    begun = train(recipe(packed.folder, steps=4, save_every=2), tmp_path / "runs")[0].path
    copy = tmp_path / "copy"
    shutil.copytree(begun, copy, symlinks=links == "dropped")
    for path in (copy / "checkpoints").iterdir():
        if path.is_symlink():
            path.unlink()
    for run in (begun, copy):
        resume(run, ["train.steps=6"])
    ends = [run / "checkpoints" / "last" for run in (begun, copy)]

    assert ends[1].is_symlink()
    assert (ends[1] / "model.safetensors").read_bytes() == (ends[0] / "model.safetensors").read_bytes()
    assert (copy / "metrics.jsonl").read_bytes() == (begun / "metrics.jsonl").read_bytes()


def test_answers_show_every_class_that_can_be_shown(trained):
    parts = open_run(trained)
    task, feed = parts.evaluation("val")
    chosen = telling_positions(task, feed, 3)
    shown = {int(i) for p in chosen for i in set(feed[p].arrays["mask"].ravel().tolist())} - {255}
    there = {int(i) for p in range(len(feed.plan)) for i in set(feed[p].arrays["mask"].ravel().tolist())} - {255}

    assert len(chosen) == 3
    assert shown == there
    assert len(telling_positions(task, feed, 100)) == len(feed.plan)


def test_captions_lose_their_end_not_their_name():
    narrow = np.zeros((5, 100, 3), np.uint8)
    name = "leaf_001.jp"  # as much as fits beside the dots

    assert np.array_equal(drawing.caption(narrow, name + 50 * "y"), drawing.caption(narrow, name + 50 * "z"))
    assert not np.array_equal(drawing.caption(narrow, "x" + name + 50 * "y"), drawing.caption(narrow, name + 50 * "y"))


def test_batch_normalisation_over_one_picture_is_explained(packed, tmp_path, capsys):
    words = ["--model", "deeplabv3plus:test_resnet", "--weights", "none", "--batch", 1, "--crop", 32, 32, "--steps", 1]
    code, _, err = call("train", packed.folder, *words, "--runs", tmp_path, capsys=capsys)

    assert (code, err) == (
        2,
        "error: train.batch: expected at least two images for each rank and micro-batch: this model normalises over "
        "them, found one. Make train.batch larger, or train.accumulate or the number of ranks smaller.\n",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--model", "unet:vit_tiny_patch16_224", "--crop", 64, 64],
            "model.name: expected a backbone that the architecture takes, found vit_tiny_patch16_224 (",
        ),
        (
            ["--model", "pan:test_resnet", "--crop", 32, 32],
            "augment.crop: expected a size of images that pan:test_resnet takes, found 32 x 32 (",
        ),
        (
            ["--model", "deeplab:vit_tiny_patch16_224", "--crop", 64, 64],
            "model.name = 'deeplab:vit_tiny_patch16_224': expected a backbone with features of stride 4, which can be dilated ",
        ),
        (
            ["--model", "unet:swin_tiny_patch4_window7_224", "--crop", 224, 224],
            "model.name: expected a network of any size, as whole images are evaluated, found "
            "unet:swin_tiny_patch4_window7_224 at 256 x 256 (",
        ),
        (
            ["--model", "unet:resnet18.nonsense"],
            "model.name = 'unet:resnet18.nonsense': expected a tag of timm's weights for resnet18, found resnet18.nonsense. ",
        ),
    ],
)
def test_networks_that_do_not_go_with_the_pictures_are_named(packed, tmp_path, capsys, words, message):
    words = ["train", packed.folder, "--weights", "none", "--batch", 2, "--steps", 1, "--runs", tmp_path, *words]
    code, _, err = call(*words, capsys=capsys)

    assert (code, err.splitlines()[-1][: len(message) + 7]) == (2, f"error: {message}")


def test_a_transformer_of_one_size_names_it(tmp_path, capsys):
    miniatures.folders(tmp_path / "raw")
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    words = [
        "train",
        tmp_path / "data",
        "--model",
        "vit_tiny_patch16_224",
        "--weights",
        "none",
        "--batch",
        2,
        "--steps",
        1,
    ]

    assert call(*words, "--crop", 64, 64, "--runs", tmp_path / "runs", capsys=capsys)[2] == (
        "error: augment.crop: expected a size of images that vit_tiny_patch16_224 takes, found 64 x 64 (AssertionError: "
        "Input height (64) doesn't match model (224)). Choose another --crop or another --model.\n"
    )
    assert call(*words, "--crop", 224, 224, "--runs", tmp_path / "runs", capsys=capsys)[0] == 0


def test_a_quote_in_a_path_is_no_end_of_it(trained, packed, tmp_path, capsys):
    shutil.copytree(trained, tmp_path / 'a "run"\\', symlinks=True)
    words = ["train", packed.folder, "--init", tmp_path / 'a "run"\\', "--crop", 32, 32, "--steps", 1]
    code, out, err = call(*words, "--runs", tmp_path / "runs", capsys=capsys)

    assert (code, err) == (0, "")
    assert f'init from {tmp_path}/a "run"\\, step ' in out


def test_a_list_names_the_line_that_is_wrong_and_the_others_are_predicted(trained, raw, tmp_path, capsys):
    picture = next((raw / "images" / "val").iterdir())
    (tmp_path / "list.txt").write_text(f"gone.jpg\n{picture}\n")

    assert call("predict", trained, tmp_path / "list.txt", "-o", tmp_path / "out", capsys=capsys)[:2] == (
        1,
        f"{tmp_path}/list.txt, line 1: expected the path of an image, found gone.jpg, where nothing is. Fix the list.\n"
        f"predicted 1 of 2 images into {tmp_path}/out\n"
        "NAME.png holds class ids, which look nearly black; NAME-overlay.png shows them\n",
    )


def test_standard_input_may_be_closed(trained, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)

    assert call("predict", trained, "-", "-o", tmp_path / "out", capsys=capsys)[:2] == (
        1,
        "standard input: expected an image, found it closed. Pipe an image into it.\n"
        f"predicted 0 of 1 image into {tmp_path}/out\n"
        "NAME.png holds class ids, which look nearly black; NAME-overlay.png shows them\n",
    )


def test_a_report_tells_its_evaluations_apart(packed, tmp_path, capsys):
    folder, _ = train(recipe(packed.folder), tmp_path / "runs")
    assert call("evaluate", folder.path, "--checkpoint", "last", capsys=capsys)[0] == 0
    assert call("evaluate", folder.path, "--checkpoint", "last", "--flip", capsys=capsys)[0] == 0
    assert call("report", folder.path, capsys=capsys)[0] == 0
    titles = re.findall(r"<h2>(Evaluation .*?)(?:: loss .*)?</h2>", (folder.path / "report.html").read_text())
    best = load_checkpoint(folder, "best").step

    assert titles == [
        "Evaluation on val after step 12 (asked for, x1-flip)",
        "Evaluation on val after step 12 (asked for)",
        *([f"Evaluation on val after step {best} (in training, the best)"] * (best != 12)),
        f"Evaluation on val after step 12 (in training, the {'best' if best == 12 else 'last'})",
    ]


def test_slow_steps_are_told_of_before_there_are_many(packed, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("penstock.hooks.console._LONG", 0.0)
    train(recipe(packed.folder, steps=3, evaluate_every=3, log_every=1000), tmp_path / "runs", on_event=show)

    assert re.findall(r"^step +(\d+)  loss .* images/s", capsys.readouterr().out, re.MULTILINE) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (MemoryError, "60 bytes"),
        (torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate 60 bytes"),
        (RuntimeError, "MPS backend out of memory (60 bytes)"),
        (RuntimeError, "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 60 bytes"),
        (RuntimeError, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        (cv2.error, "OpenCV(4.10.0) alloc.cpp:73: error: (-4:Insufficient memory) Failed to allocate 60 bytes"),
        (OSError, "[Errno 12] Cannot allocate memory"),
    ],
)
def test_too_little_memory_is_no_bug(capsys, monkeypatch, kind, said):
    error = OSError(errno.ENOMEM, "Cannot allocate memory") if kind is OSError else kind(said)
    monkeypatch.setattr("penstock.cli.data.locate", lambda _: (_ for _ in ()).throw(error))

    assert call("show", "x", capsys=capsys) == (
        2,
        "",
        f"error: memory: expected as much as this needs, found less ({kind.__name__}: {said}). Train with a smaller "
        "--batch or --crop, or --set train.accumulate=N, which computes a batch in N parts; predict with a --window.\n",
    )


def test_other_runtime_errors_are_bugs(capsys, monkeypatch):
    monkeypatch.setattr("penstock.cli.data.locate", lambda _: (_ for _ in ()).throw(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        call("show", "x", capsys=capsys)


def test_a_run_says_which_setting_was_another(trained, capsys):
    for change, message in (
        ("augment.jitter.hue=0.1", "augment.jitter.hue: expected 0.0, as the run was started with, found 0.1."),
        ("augment.crop=[64, 64]", "augment.crop: expected (32, 32), as the run was started with, found (64, 64)."),
    ):
        assert call("train", "--resume", trained, "--set", "train.steps=9", "--set", change, capsys=capsys)[2] == (
            f"error: {trained}: {message} Leave it, or start a new run from these weights with --init.\n"
        )


def test_a_run_cannot_end_before_where_it_is(trained, capsys):
    assert call("train", "--resume", trained, "--steps", 2, capsys=capsys)[2] == (
        f"error: {trained}: train.steps: expected at least 4, which the run has reached, found 2. Give more --steps, or an "
        "earlier --checkpoint.\n"
    )
    assert load(trained / "recipe.toml").train.steps == 4


def test_bytes_that_are_no_text_in_a_log_are_left_out(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run", symlinks=True)
    with (tmp_path / "run" / "metrics.jsonl").open("ab") as log:
        log.write(b'\xff\xfe\n{"step": 99}\n')

    assert RunFolder(tmp_path / "run").lines("metrics.jsonl")[-1] == {"step": 99}


@pytest.mark.parametrize(
    "change", [{"step": "x"}, {"step": None}, {"sha256": []}, {"sha256": {"model.safetensors": 1}}]
)
def test_edited_manifests_are_named(trained, tmp_path, capsys, change):
    shutil.copytree(trained, tmp_path / "run", symlinks=True)
    path = (tmp_path / "run/checkpoints/last").resolve() / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))

    assert call("evaluate", tmp_path / "run", "--checkpoint", "last", capsys=capsys)[2] == (
        f"error: {path}: expected a sealed manifest that names the checkpoint's step and files, found something else. Sound "
        "ones, for --checkpoint: step-00000003.\n"
    )


def test_json_nested_without_end_is_named(trained, tmp_path, capsys):
    shutil.copytree(trained, tmp_path / "run", symlinks=True)
    (tmp_path / "run/data.json").write_text("[" * 100_000)
    with (tmp_path / "run/metrics.jsonl").open("a") as log:
        log.write("[" * 100_000 + "\n")

    assert call("report", tmp_path / "run", capsys=capsys)[0] == 0
    assert call("evaluate", tmp_path / "run", capsys=capsys)[2].startswith(
        f"error: {tmp_path / 'run/data.json'}: expected a JSON file, found maximum recursion depth exceeded"
    )


def test_a_broken_film_and_a_line_that_is_no_name_stop_nobody(trained, raw, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    shutil.copy(next((raw / "images" / "val").iterdir()), tmp_path / "in/a.jpg")
    (tmp_path / "in/f.mp4").write_bytes(b"no film")
    (tmp_path / "list.txt").write_text("a\0b.jpg\n" + "x" * 5000 + ".jpg\nin/a.jpg\n")
    code, out, _ = call("predict", trained, tmp_path / "in", "-o", tmp_path / "out", capsys=capsys)
    assert (code, "predicted 1 of 2 images" in out, "f.mp4: expected a video that OpenCV can read" in out) == (
        1,
        True,
        True,
    )
    code, out, _ = call("predict", trained, tmp_path / "list.txt", "-o", tmp_path / "out2", capsys=capsys)
    assert (code, "predicted 1 of 3 images" in out) == (1, True)
