from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from support.commands import call
from support.run_folders import write_run
from support.training import recipe

from penstock.assembly.runs import load_checkpoint
from penstock.errors import CheckpointError
from penstock.runs import RunFolder, manifests
from penstock.session import Checkpoint, CheckpointStore
from penstock.session import state as states
from penstock.training import resume, train


def small(step, value=1.0, **more):
    tensors = {"model": {"weight": torch.full((3,), value)}, "optimizer": {}}
    return Checkpoint(step, tensors, {"cursor": {"position": step, "plan": ""}, "best": None, **more})


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path / "deep" / "checkpoints")


def test_the_folder_is_made_with_those_above_it(store):
    store.save(small(1))

    assert store.load().step == 1


def test_no_flipped_bit_of_a_manifest_goes_unnoticed(store):
    """Every seventh bit, one at a time, so each byte is damaged: the checkpoint is refused, or the same."""
    store.save(small(1))
    store.save(small(2))
    path = store.folder / "step-00000002" / "manifest.json"
    sound = path.read_bytes()
    for bit in range(0, 8 * len(sound), 7):
        damaged = bytearray(sound)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            found = store.load("step-00000002")
        except CheckpointError:
            continue
        assert (found.step, json.loads(damaged)) == (2, json.loads(sound)), damaged


def test_a_file_that_is_gone_or_another_is_named(store):
    store.save(small(1))
    path = store.folder / "step-00000001" / "model.safetensors"
    sums = [hashlib.sha256(content).hexdigest()[:16] for content in (path.read_bytes(), b"another")]
    for content, found in ((b"another", f"{sums[1]}..."), (None, "no such file")):
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(CheckpointError) as caught:
            store.load("step-00000001")
        assert str(caught.value).startswith(f"{path}: expected a file with SHA-256 {sums[0]}..., found {found}. ")


def test_a_checkpoint_in_the_folder_of_another_step_is_refused(store):
    store.save(small(1))
    store.save(small(2))
    (store.folder / "step-00000002").rename(store.folder / "step-00000007")
    with pytest.raises(CheckpointError) as caught:
        store.load("step-00000007")

    assert str(caught.value) == (
        f"{store.folder}/step-00000007/manifest.json: expected a sealed manifest that names the checkpoint's step and "
        "files, found something else. Choose a sound one with --checkpoint: step-00000001."
    )


@pytest.mark.parametrize("content", ["[" * 100_000, "null", "[]", '{"step": 1}', "\udcff"])
def test_a_manifest_of_anything_else_is_refused(store, content):
    store.save(small(1))
    (store.folder / "step-00000001" / "manifest.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(CheckpointError, match=r"manifest\.json: expected .* No other checkpoint is sound\.$"):
        store.load("step-00000001")


def test_what_is_no_json_says_so(store):
    store.save(small(1))
    path = store.folder / "step-00000001" / "manifest.json"
    path.write_bytes(b"{")
    with pytest.raises(CheckpointError) as caught:
        store.load("step-00000001")
    assert str(caught.value).startswith(
        f"{path}: expected a JSON file, found an unreadable one (Expecting property name enclosed in double quotes: line 1 column 2 "
    )


def test_a_best_checkpoint_that_is_gone_is_named(tmp_path):
    run = write_run(tmp_path / "0001-a")
    (run / "checkpoints/best").symlink_to("step-00000001")
    with pytest.raises(CheckpointError, match="found a link to step-00000001, which is none"):
        load_checkpoint(RunFolder.open(run))


def test_a_link_to_itself_is_no_last_checkpoint(store):
    store.save(small(1))
    (store.folder / "last").unlink()
    (store.folder / "last").symlink_to("last")

    assert store.load().step == 1
    (store.folder / "best").symlink_to("best")
    with pytest.raises(
        CheckpointError,
        match="expected a checkpoint: last, best or one of step-00000001, found a link to best, which is none",
    ):
        store.load("best")


@pytest.mark.parametrize("score", [0.5, float("nan")])
def test_of_equal_scores_the_newer_is_the_best_and_no_number_never_is(packed, tmp_path, monkeypatch, score):
    monkeypatch.setattr("penstock.metrics.SegmentationScores.summary", lambda _: {"mean_iou": score})
    folder, _ = train(recipe(packed.folder, evaluate_every=4), tmp_path)

    if score == 0.5:
        assert (folder.checkpoints / "best").resolve().name == "step-00000012"
    else:
        assert not (folder.checkpoints / "best").exists()


@pytest.mark.parametrize(
    "change", [{"step": "x"}, {"step": None}, {"sha256": []}, {"sha256": {"model.safetensors": 1}}]
)
def test_edited_manifests_are_named(trained, tmp_path, capsys, change):
    shutil.copytree(trained, tmp_path / "run", symlinks=True)
    path = (tmp_path / "run/checkpoints/last").resolve() / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))

    assert call("evaluate", tmp_path / "run", "--checkpoint", "last", capsys=capsys)[2] == (
        f"error: {path}: expected a sealed manifest that names the checkpoint's step and files, found something else. Choose a sound one with --checkpoint: step-00000003.\n"
    )


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


class TestCheckpoints:
    def test_damage_is_named_and_an_older_one_can_be_used(self, packed, tmp_path):
        folder, _ = train(recipe(packed.folder, steps=6), tmp_path)
        path = (folder.checkpoints / "last").resolve() / "model.safetensors"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        with pytest.raises(CheckpointError) as caught:
            resume(folder.path, checkpoint="step-00000006")
        message = str(caught.value)
        assert message.startswith(f"{path}: expected a file with SHA-256 ")
        assert message.endswith(". Choose a sound one with --checkpoint: step-00000004.")
        path.unlink()
        with pytest.raises(CheckpointError, match="found no such file"):
            resume(folder.path, checkpoint="step-00000006")
        _, outcome = resume(folder.path, checkpoint="step-00000004")
        assert outcome.status == "finished"

    def test_old_ones_go_and_the_best_stays(self, packed, tmp_path):
        folder, _ = train(recipe(packed.folder, save_every=1, keep=2), tmp_path)
        store = CheckpointStore(folder.checkpoints)
        best = store.load("best").step

        assert store.names() == sorted({f"step-{s:08d}" for s in (11, 12, best)})
        assert store.load("last").step == 12
        with pytest.raises(CheckpointError) as caught:
            store.load("step-00000001")
        assert str(caught.value) == (
            f"{folder.checkpoints}/step-00000001: expected a checkpoint: last, best or one of "
            f"{', '.join(store.names())}, found no such checkpoint. Choose one of them."
        )

    def test_leftovers_of_a_kill_are_swept(self, packed, tmp_path):
        folder, _ = train(recipe(packed.folder, steps=3), tmp_path)
        (folder.checkpoints / ".step-00000009.123.partial").mkdir()
        (folder.checkpoints / ".last.77.partial").symlink_to("nowhere")
        resume(folder.path, ["train.steps=4"])

        assert [p.name for p in folder.checkpoints.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["/proc/kmsg", "../outside.safetensors", ".."])
def test_a_manifest_names_files_of_its_own_folder_alone(store, name):
    path = store.save(small(1)) / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["sha256"][name] = "0" * 64
    path.write_text(json.dumps({**manifest, "seal": manifests._seal(manifest)}))
    with pytest.raises(CheckpointError, match="expected a sealed manifest"):
        store.load()


def test_a_state_of_the_optimizer_that_was_taken_out_is_missed_although_the_manifest_is_sealed_anew(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=2), tmp_path)
    path = (folder.checkpoints / "last").resolve()
    kept = states.read_tensors(path / "optimizer.safetensors")
    states.write_tensors(path / "optimizer.safetensors", dict(sorted(kept.items())[1:]))
    (path / "manifest.json").unlink()
    manifests.write(path, 2)
    with pytest.raises(CheckpointError) as caught:
        resume(folder.path, ["train.steps=3"])
    model, ema = (len(states.read_tensors(path / f"{name}.safetensors")) for name in ("model", "ema"))

    assert str(caught.value) == (
        f"{path}: expected as many tensors as state.json counts, found {ema} in ema.safetensors, {model} in "
        f"model.safetensors, {len(kept) - 1} in optimizer.safetensors. No other checkpoint is sound."
    )


def test_a_state_that_is_nested_without_end_is_named_before_it_is_copied(store):
    path = store.save(small(1))
    (path / "state.json").write_text(f'{{"hooks": {"[" * 400}{"]" * 400}}}')
    (path / "manifest.json").unlink()
    manifests.write(path, 1)
    with pytest.raises(CheckpointError) as caught:
        store.load()
    assert str(caught.value) == (
        f"{store.folder}/step-00000001/state.json: expected the state of a training, found values nested too deeply. No "
        "other checkpoint is sound."
    )
