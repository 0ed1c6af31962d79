"""Mistakes that once ended in a traceback, or not at all."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import miniatures
import processes
import pytest
from test_cli import call
from test_mended import classes
from training import recipe

from penstock.cli import main
from penstock.config import Recipe, apply
from penstock.datasets.listing import check_names
from penstock.errors import CorruptRecord, DatasetError, RunError
from penstock.progress import counted
from penstock.records import framing, open_shard
from penstock.report import write_report
from penstock.training import train

DEEP = "[" * 100_000


@pytest.fixture(scope="module")
def run(packed, tmp_path_factory):
    folder, _ = train(recipe(packed.folder, steps=4, evaluate_every=2), tmp_path_factory.mktemp("runs"))
    return folder


OTHERS = [None, 7, -1.5, "text", True, [], {}, [1], {"a": 1}, [[]], "\x1b[31m"]


def edits(value, path=()):
    """Every place in a JSON value, with the value of another type in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items)[: 6 if isinstance(value, list) else None]:
        for other in OTHERS:
            yield (*path, key), other
        yield from edits(inner, (*path, key))


def edited(value, path, other):
    copy = json.loads(json.dumps(value))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = other
    return copy


@pytest.mark.parametrize("name", ["environment.json", "metrics.jsonl", "evaluations"])
def test_a_report_on_values_of_other_types_is_a_page_or_a_sentence(run, name, monkeypatch):
    """Every value of the run's files in turn, replaced by values of other types."""
    monkeypatch.setattr("penstock.report.page._curves", curves_without_drawing)
    path = run.path / name if name != "evaluations" else max((run.path / name).glob("*.json"))
    before = path.read_bytes()
    lines = before.splitlines() if path.suffix == ".jsonl" else [before]
    refused = 0
    try:
        for number in {0, len(lines) - 1}:
            for place, other in edits(json.loads(lines[number])):
                changed = list(lines)
                changed[number] = json.dumps(edited(json.loads(lines[number]), place, other)).encode()
                path.write_bytes(b"\n".join(changed) + b"\n")
                message = report_of(run)
                refused += message is not None
                assert message is None or message.startswith(f"{path}: expected ")
                assert message is None or message.endswith(" Restore the file from a copy of the run.")
    finally:
        path.write_bytes(before)
    assert refused
    write_report(run)


def report_of(run):
    """What a report is refused with, if it is."""
    try:
        write_report(run)
    except RunError as error:
        return str(error)
    return None


def curves_without_drawing(folder):
    """The numbers that curves are drawn from, without the seconds that matplotlib takes."""
    from penstock.report import page

    steps, scores = page._steps(folder.lines("metrics.jsonl")), page._scores(folder.lines("metrics.jsonl"))
    page._smoothed([line["loss"] for line in steps])
    [float(value) for line in scores for value in line["evaluation"].values()]
    return ""


def test_nesting_without_end_is_named(run, packed, tmp_path, capsys):
    (tmp_path / "r.toml").write_text(f"seed = {DEEP}")
    code, _, err = call("train", tmp_path / "r.toml", capsys=capsys)
    assert (code, err) == (
        2, f"error: {tmp_path}/r.toml: expected a recipe in TOML, found values nested too deeply. Fix that line.\n"
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


def test_the_tutorials_network_is_exported(tmp_path, capsys):
    settings = ["model.name=cifar10-tutorial", "augment.crop=[24, 24]", "augment.method=pad-crop"]
    folder, _ = train(apply(classes(tmp_path), settings), tmp_path / "runs")
    code, out, err = call("export", folder.path, "-o", tmp_path / "m.onnx", capsys=capsys)

    assert (code, err) == (0, "")
    assert "takes: image, uint8 (n, 24, 24, 3), RGB" in out


def test_class_folders_that_are_no_utf_8_are_left_out_by_name(tmp_path, capfd):
    for name in (b"cat", b"dog", b"caf\xe9"):
        folder = os.fsencode(tmp_path) + b"/raw/" + name
        Path(os.fsdecode(folder)).mkdir(parents=True)
        for number in range(2):
            data = miniatures.picture(seed=len(name) * 10 + number)
            Path(os.fsdecode(folder), f"{number}.jpg").write_bytes(data)
    with pytest.raises(SystemExit) as caught:
        main(["pack", str(tmp_path / "raw"), "-o", str(tmp_path / "data"), "--skip-bad"])
    _, err = capfd.readouterr()

    assert "Traceback" not in err
    assert caught.value.code == 2
    assert err.splitlines()[-1] == (
        f"error: {tmp_path}/raw: expected class names in UTF-8, without control characters, found 'caf\\udce9' for id 0. "
        "Rename the class."
    )


def test_a_file_that_grows_too_large_is_named(packed, tmp_path):
    code = (
        "import resource, signal, sys\nfrom penstock.cli import main\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "before = resource.getrlimit(resource.RLIMIT_FSIZE)\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))\n"
        # Lifted again: what measures coverage writes a file of its own when the process ends.
        "try:\n    main(sys.argv[1:])\nfinally:\n    resource.setrlimit(resource.RLIMIT_FSIZE, before)"
    )
    done = processes.run("-c", code, "show", packed.folder, "-o", tmp_path / "s.png")

    assert done.returncode == 2
    assert done.stderr == (
        f"error: {tmp_path}/s.png: expected a path that can be read and written, found file too large. Check the path, "
        "its permissions and the room on the disk.\n"
    )


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_stream_may_be_closed(packed, tmp_path, stream):
    words = f"{sys.executable} -m penstock verify {packed.folder} {stream}>&-"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout == ("" if stream == "1" else "28 records are sound, 0 faults\n")


def test_a_label_that_is_a_word_in_a_layout_of_ones_own_is_named(tmp_path):
    from penstock.datasets.checks import check_item, check_together
    from penstock.datasets.layout import Layout
    from penstock.kinds.items import Item, Labels

    for name in "ab":
        miniatures.write(tmp_path / f"{name}.jpg", miniatures.picture(seed=ord(name)))
    labels = Labels(("cat", "dog"))
    items = (Item("train", "a", tmp_path / "a.jpg", label="cat"), Item("train", "b", tmp_path / "b.jpg", label=0))
    layout = Layout("classification", "own", ("because",), items, labels)
    facts = [check_item(tmp_path, item, labels, layout.kind) for item in items]

    assert [problem.message for fact in facts for problem in fact.problems] == [
        "a.jpg: expected a label, a mask or boxes, found 'cat' for a label. Give it a class id, or leave it out."
    ]
    assert [problem for problem in check_together(layout, facts, labels, tmp_path, stated=True) if problem.fatal] == []


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
        "import time\ntry:\n    print('importing', flush=True)\n    time.sleep(60)\nexcept BaseException:\n    pass\n"
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


def test_an_address_that_is_none_is_named(tmp_path, capsys):
    code, _, err = call("download", "cifar10", "-o", tmp_path, "--url", "https://[::1", capsys=capsys)

    assert code == 2
    assert err.startswith("error: https://[::1: expected the archive, found ")


def test_thousands_of_settings_are_taken():
    settings = [f"train.steps={number}" for number in range(1, 20_001)]
    assert apply(Recipe(), settings).train.steps == 20_000


def test_thousands_of_classes_are_taken_and_one_that_is_named_twice_is_found():
    names = [f"class {number}" for number in range(200_000)]
    assert check_names(names, "x") == tuple(names)
    with pytest.raises(DatasetError, match="found 'class 7' for id 200000, as for id 7"):
        check_names([*names, "class 7"], "x")


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


@pytest.mark.parametrize("kind", ["csv", "coco"])
def test_pictures_outside_the_folder_are_told_of(tmp_path, capsys, kind):
    raw, beside = tmp_path / "raw", tmp_path / "beside"
    for number in range(3):
        miniatures.write((beside if number else raw) / f"{number}.jpg", miniatures.picture(seed=number))
    names = ["0.jpg", "../beside/1.jpg", "../beside/2.jpg"]
    if kind == "csv":
        rows = [f"{name},{'cat' if number else 'dog'}" for number, name in enumerate(names)]
        miniatures.write(raw / "labels.csv", "\n".join(["file,label", *rows]) + "\n")
    else:
        images = [{"id": n, "file_name": name, "height": 24, "width": 32} for n, name in enumerate(names)]
        boxes = [{"id": n, "image_id": n, "category_id": 1, "bbox": [1, 1, 9, 9]} for n in range(3)]
        tree = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}
        miniatures.write(raw / "annotations.json", json.dumps(tree))
    code, out, _ = call("pack", raw, "-o", tmp_path / "data", capsys=capsys)

    assert code == 0
    assert f"2 images of 3 outside {raw}, where a table or list says so: packed all the same." in out


def test_a_small_file_that_unpacks_to_gigabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(framing, "MOST_UNPACKED", 1 << 20)
    path = tmp_path / "a.tfrecord"
    path.write_bytes(gzip.compress(framing.frame(bytes(4 << 20))))
    with pytest.raises(CorruptRecord) as caught:
        open_shard(path)

    assert str(caught.value) == (
        f"{path}: expected at most 1 MiB in a compressed shard, which is kept in memory, found more. Unpack the file "
        "(gunzip), or pack the data again into smaller shards."
    )
    monkeypatch.undo()
    assert len(open_shard(path)) == 1


def test_one_of_a_thing_is_one(tmp_path, capsys):
    miniatures.write(tmp_path / "raw" / "train" / "cat" / "a.jpg", miniatures.picture())
    _, inspected, _ = call("inspect", tmp_path / "raw", "--layout", "folders", capsys=capsys)
    code, packed, _ = call("pack", tmp_path / "raw", "-o", tmp_path / "data", "--layout", "folders", capsys=capsys)
    assert code == 0
    assert "because 1 folder of images, one per class" in inspected
    assert "train: 1 image, height x width " in inspected
    assert f"\n  cat {1:>23} image\n" in inspected
    assert "train: 1 record in 1 shard\n" in packed
    assert "\n1 class, " in packed
    assert call("verify", tmp_path / "data", capsys=capsys)[1] == "1 record is sound, 0 faults\n"


@pytest.mark.parametrize(
    ("number", "what", "said"),
    [(1, "box", "1 box"), (2, "box", "2 boxes"), (0, "class", "0 classes"), (1234, "entry", "1,234 entries")],
)
def test_numbers_of_things_are_said_as_people_do(number, what, said):
    assert counted(number, what) == said
