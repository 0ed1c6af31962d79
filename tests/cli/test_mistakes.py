from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys

import cv2
import pytest
import torch
from support import miniatures, processes
from support.commands import call
from support.training import recipe

from penstock.cli.overview import COMMANDS, name_of
from penstock.training import train

COMMANDS_OF_RUNS = (
    ["evaluate"], ["predict", "a.jpg", "-o", "out"], ["export", "-o", "a.onnx"], ["replay", "--step", "1"], ["report"],
)  # fmt: skip
DEEP = "[" * 100_000


@pytest.fixture(scope="module")
def evaluated_run(packed, tmp_path_factory):
    folder, _ = train(recipe(packed.folder, steps=4, evaluate_every=2), tmp_path_factory.mktemp("runs"))
    return folder


def test_nesting_without_end_is_named(evaluated_run, packed, tmp_path, capsys):
    (tmp_path / "r.toml").write_text(f"seed = {DEEP}")
    code, _, err = call("train", tmp_path / "r.toml", capsys=capsys)
    assert (code, err) == (
        2, f"error: {tmp_path}/r.toml: expected a recipe in TOML, found values nested too deeply. Fix the file.\n"
    )  # fmt: skip
    code, _, err = call("train", packed.folder, "--set", f"train.steps={DEEP}", capsys=capsys)
    assert (code, err) == (
        2,
        "error: --set: expected a value as in TOML, found one nested too deeply. Write another.\n",
    )
    (tmp_path / "dataset.json").write_text(DEEP)
    code, _, err = call("verify", tmp_path, capsys=capsys)
    assert code == 2
    assert "expected a description of a dataset, found " in err


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_stream_may_be_closed(packed, tmp_path, stream):
    words = f"{sys.executable} -m penstock verify {packed.folder} {stream}>&-"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout == ("" if stream == "1" else "28 records are sound, 0 faults\n")


def test_little_memory_is_a_sentence(packed, tmp_path):
    code = (
        "import resource, sys\nfrom penstock.cli import main\nimport penstock.training\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20),) * 2)\nmain(sys.argv[1:])"
    )
    words = ["train", packed.folder, "--model", "unet:resnet18", "--weights", "none", "--crop", "1024", "1024"]
    words += ["--batch", "8", "--steps", "1", "--set", "train.device=cpu", "--runs", tmp_path]
    done = processes.run("-c", code, *words)

    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: memory: expected as much as this needs, found less (")
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_libraries_are_imported_is_quiet(packed, tmp_path):
    """Though the library that is just imported catches whatever is raised."""
    (tmp_path / "torch.py").write_text(
        # Short sleeps: a signal that comes just before a long one begins would be heard at its end.
        "import time\ntry:\n    print('importing', flush=True)\n    for _ in range(6000):\n        time.sleep(0.01)\n"
        "except BaseException:\n    pass\n"
    )
    path = os.pathsep.join((str(tmp_path), os.environ["PYTHONPATH"]))
    command = [sys.executable, "-m", "penstock", "train", str(packed.folder), "--steps", "1"]
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=50)

    assert (process.returncode, err) == (130, "")


ESCAPE = "\x1b[31mred\x07"


def test_names_of_classes_tell_a_terminal_nothing(packed, tmp_path, capsys):
    for place in ("folder", "option", "file"):
        miniatures.folders(tmp_path / place)
    next(p for p in (tmp_path / "folder").rglob("*") if p.is_dir() and p.name == "cat").rename(
        next(p for p in (tmp_path / "folder").rglob("*") if p.is_dir() and p.name == "cat").with_name(ESCAPE)
    )
    code, out, err = call("inspect", tmp_path / "folder", capsys=capsys)
    assert code == 2
    assert "\x1b" not in out + err
    assert "expected class names in UTF-8, without control characters, found '\\x1b[31mred\\x07' for id " in err
    described = json.loads((packed.folder / "dataset.json").read_text())
    described["classes"][0] = ESCAPE
    (tmp_path / "dataset.json").write_text(json.dumps(described))
    _, out, err = call("show", tmp_path, capsys=capsys)
    assert "\x1b" not in out + err


def test_one_of_a_thing_is_one(tmp_path, capsys):
    miniatures.write(tmp_path / "raw" / "train" / "cat" / "a.jpg", miniatures.make_image())
    _, inspected, _ = call("inspect", tmp_path / "raw", "--layout", "folders", capsys=capsys)
    code, packed, _ = call("pack", tmp_path / "raw", "-o", tmp_path / "data", "--layout", "folders", capsys=capsys)
    assert code == 0
    assert "because each folder with images is a class; found 1" in inspected
    assert "train: 1 image, height x width " in inspected
    assert f"\n  cat {1:>23} image\n" in inspected
    assert "train: 1 record in 1 shard\n" in packed
    assert "\n1 class, " in packed
    assert call("verify", tmp_path / "data", capsys=capsys)[1] == "1 record is sound, 0 faults\n"


@pytest.fixture(scope="module")
def run(packed, tmp_path_factory):
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path_factory.mktemp("runs"))
    return folder.path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predict", "RUN", "x.jpg", "-o", "o", "--overlap", 0.5],
         "--overlap has no effect without --sliding-window. Add --sliding-window SIDE."),
        (["train", "DATA", "--from", "earliest"],
         "--from: expected a Kafka topic, to select a range of its records, found a folder of shards, DATA. Remove --from."),
        (["train", "DATA", "--epochs", "3", "--fast-dev-run"],
         "--fast-dev-run tries two steps, but --epochs asks for more. Remove one of the two options."),
        (["train", "DATA/dataset.json"],
         "DATA/dataset.json: expected a packed dataset, with a dataset.json, found a file. Make one with penstock pack FOLDER "
         "-o DIR."),
        (["train", "DATA/model.yaml"],
         "DATA/model.yaml: expected a packed dataset, a topic, or a recipe in TOML, found a .yaml file. Write the recipe as "
         "FILE.toml: penstock recipe > FILE.toml gives one with every setting."),
        (["train", "DATA", "--set", "augment.view.scale=0.5"],
         "augment.view.scale: expected 2 numbers, found a number. Write them in brackets: augment.view.scale=[A, B]."),
        (["doctor", "DATA", "--task", "mine.py:Depth"],
         "task = mine.py:Depth: expected a Python file, found no such file. Check the path."),
        (["train", "DATA", "--lr", "inf"], "optimizer.lr: expected a number above 0, found inf. Choose a finite number."),
        (["train", "DATA", "--lr", "-1"], "optimizer.lr: expected a number above 0, found -1.0. Choose a larger number."),
        (["recipe", "--task", "segmentaton"],
         "task: expected one of segmentation, matting, classification, detection, instances, volumes, or FILE.py:NAME, found "
         "segmentaton. Name a task."),
        (["train", "DATA", "--checkpoint", "best"],
         "--checkpoint has no effect without --resume. Remove it. --init RUN starts from the best weights of a run."),
    ],
)  # fmt: skip
def test_options_without_effect_are_refused(run, packed, capsys, words, message):
    names = {"RUN": str(run), "DATA": str(packed.folder)}
    (packed.folder / "model.yaml").touch()
    words = [names.get(word, str(word).replace("DATA/", f"{names['DATA']}/")) for word in words]
    code, _, err = call(*words, capsys=capsys)

    assert (code, err) == (2, f"error: {message.replace('DATA', names['DATA'])}\n")


def test_wrong_words_are_one_line_that_names_the_help(capsys):
    for words, expected in (
        (["pack", "x"], "penstock pack: --output is missing. See penstock pack --help."),
        (["pack"], "penstock pack: FOLDER is missing. See penstock pack --help."),
        (
            ["train", "--step", "5"],
            "penstock train: Unknown option: --step. Did you mean --steps? See penstock train --help.",
        ),
        (
            ["train", "x", "--crop", "160"],
            "penstock train: --crop takes 2 values, but got 1. See penstock train --help.",
        ),
        (
            ["inspect", "x", "--map", "1=2", "--map", "1=3"],
            "--map: expected every old id once, found 1=2, 1=3. Remove one of the two.",
        ),
        (
            ["inspect", "x", "--classes", "gone.txt"],
            "gone.txt: expected a file of class names, found no such file. Check the path.",
        ),
    ):
        assert call(*words, capsys=capsys) == (2, "", f"error: {expected}\n")


def test_standard_input_may_be_closed(trained, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)

    assert call("predict", trained, "-", "-o", tmp_path / "out", capsys=capsys)[:2] == (
        1,
        "standard input: expected an image, found no open stream. Pipe an image into it.\n"
        f"predicted 0 of 1 image into {tmp_path}/out\n",
    )


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
    monkeypatch.setattr("penstock.datasets.locate", lambda _: (_ for _ in ()).throw(error))

    assert call("show", "x", capsys=capsys) == (
        2,
        "",
        f"error: memory: expected as much as this needs, found less ({kind.__name__}: {said}). Train with a smaller "
        "--batch or --crop, or --set train.accumulate=N, which computes a batch in N parts. Predict with --sliding-window.\n",
    )


def test_other_runtime_errors_are_bugs(capsys, monkeypatch):
    monkeypatch.setattr("penstock.datasets.locate", lambda _: (_ for _ in ()).throw(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        call("show", "x", capsys=capsys)


def test_json_nested_without_end_is_named(trained, tmp_path, capsys):
    shutil.copytree(trained, tmp_path / "run", symlinks=True)
    (tmp_path / "run/data.json").write_text("[" * 100_000)
    with (tmp_path / "run/metrics.jsonl").open("a") as log:
        log.write("[" * 100_000 + "\n")

    assert call("report", tmp_path / "run", capsys=capsys)[0] == 0
    assert call("evaluate", tmp_path / "run", capsys=capsys)[2].startswith(
        f"error: {tmp_path / 'run/data.json'}: expected a JSON file, found maximum recursion depth exceeded"
    )


@pytest.mark.parametrize(
    ("value", "found"),
    [("big", "a string"), ("1", "an integer"), ("[1]", ""), ("ab", "a string"), ("[1, 2, 3]", "")],
)
@pytest.mark.parametrize("name", ["augment.view.scale", "augment.view.ratio"])
def test_a_range_that_is_none_is_a_sentence(packed, capsys, name, value, found):
    code, out, err = call("train", packed.folder, "--set", f"{name}={value}", capsys=capsys)

    assert (code, out) == (2, "")
    assert err.startswith(f"error: {name}: expected ")
    assert found in err


def test_help_and_mistakes_are_answered_without_importing_pytorch(tmp_path):
    """It takes seconds."""
    (tmp_path / "bad.toml").write_text("train = {stepz = 3}\n")
    mistakes = [
        ["train", "nothing"], ["train", "data", "--set", "train.stepz=3"], ["train", "data", "--batch", "0"],
        ["train", "data", "--bach", "3"], ["train", "--resume", "nothing"], ["train", tmp_path / "bad.toml"],
        ["recipe", tmp_path / "bad.toml"], ["recipe", "--set", "seed=x"], ["doctor", "data", "--set", "seed=x"],
        *([command, "nothing", *more] for command, *more in COMMANDS_OF_RUNS),
    ]  # fmt: skip
    calls = [
        *([name_of(place), "--help"] for place in COMMANDS),
        *([str(word) for word in words] for words in mistakes),
    ]
    code = f"""
import sys
from penstock.cli import main
for words in {calls!r}:
    try:
        main(words)
    except SystemExit as ended:
        assert bool(ended.code) == (words[1:] != ["--help"]), (words, ended.code)
    assert "torch" not in sys.modules, words
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=processes.quiet(), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_recipe_of_plain_records_is_refused(packed, capsys):
    assert call("show", packed.folder, "--recipe", "y", capsys=capsys)[2] == (
        "error: A recipe, --crop, --task and --set have no effect on plain records. Add --augmented, or remove them.\n"
    )


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--amp", "--set train.precision=bfloat16, or float16"), ("--workers", "--set train.num_threads=N"),
        ("--imgsz", "--crop HEIGHT WIDTH"), ("--gpus", "--device cuda, or torchrun for several"), ("--batch-size", "--batch"),
        ("--learning-rate", "--lr"),
    ],
)  # fmt: skip
def test_options_of_other_tools_lead_to_ours(capsys, option, meant):
    said = f"error: penstock train: Unknown option: {option}. Use {meant}. See penstock train --help.\n"
    assert call("train", "data", option, "4", capsys=capsys) == (2, "", said)
