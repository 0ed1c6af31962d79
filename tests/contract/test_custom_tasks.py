"""What developers of a custom task forget or get wrong: each is said before or where it matters."""

from __future__ import annotations

import re
import shutil

import cv2
import numpy as np
import pytest
from support import processes
from support.commands import call
from support.datasets import records
from support.paths import EXAMPLES

import penstock as ps
from penstock.errors import DatasetError

pytestmark = pytest.mark.slow
WRONG = {
    "no kind": (
        "    kind = DepthKind()\n", "",
        "task = {task}: expected a subclass of penstock.Task with the attribute `kind`, the kind of its records, found "
        "<class '.*Depth'>. Derive the class from penstock.Task, and write kind = YourKind().",
    ),
    "a loss that is no list": (
        "[known].abs().sum().view(1)", "[known].abs().sum()",
        "task = {task}: expected `loss` and `count` of one shape, (losses,), found () and (1,). Sum each loss over the batch.",
    ),
    "a count for each image": (
        'return (tensors["depth"] > 0).sum().view(1)', 'return (tensors["depth"] > 0).flatten(1).sum(dim=1)',
        "task = {task}: expected `loss` and `count` of one shape, (losses,), found (1,) and (2,). Sum each loss over the batch.",
    ),
    "scores of no class that is known": (
        "class DepthScores(Scores):", "class DepthScores:",
        "the scores of the task: expected an object that inherits from penstock.tasks.scoring.Scores, found a DepthScores "
        "that does not. Derive the class from it.",
    ),
}  # fmt: skip


@pytest.fixture
def home(tmp_path):
    """The files of a task, and images with a depth of 1 to 5 metres."""
    shutil.copytree(EXAMPLES / "depth", tmp_path / "own")
    draw = np.random.default_rng(0)
    for number in range(6):
        image = draw.integers(0, 256, (32, 32, 3), np.uint8)
        depth = draw.integers(1000, 5000, (32, 32), np.uint16)
        for part, name, array in (("images", "jpg", image), ("depth", "png", depth)):
            folder = tmp_path / "raw" / part / ("val" if number < 2 else "train")
            folder.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(folder / f"{number}.{name}"), array)
    return tmp_path


def edit(file, before, after):
    text = file.read_text()
    assert text.count(before) == 1
    file.write_text(text.replace(before, after))


def pack(home):
    return ps.pack(home / "raw", home / "data", layout=f"{home}/own/depth_layout.py:recognise")


def train(home, capsys):
    words = ["--crop", 32, 32, "--batch", 2, "--steps", 1, "--device", "cpu", "--runs", home / "runs"]
    return call("train", home / "data", "--task", f"{home}/own/depth_task.py:Depth", *words, capsys=capsys)


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_in_a_task_is_said(home, case, capsys):
    before, after, message = WRONG[case]
    pack(home)
    edit(home / "own/depth_task.py", before, after)
    code, _, err = train(home, capsys)
    expected = re.escape(message.format(task=f"{home}/own/depth_task.py:Depth")).replace(r"\.\*", ".*")

    assert code == 2
    assert re.search(f"error: {expected}$", err.strip()), err


def test_what_predicts_may_be_missing(home, capsys):
    pack(home)
    edit(home / "own/depth_task.py", "    def predictor(self):", "    def another(self):")
    assert train(home, capsys)[0] == 0
    (run,) = (home / "runs").iterdir()
    _, _, err = call("predict", run, home / "raw/images/val", "-o", home / "out", capsys=capsys)

    assert err == (
        "error: Prediction of images is not supported for depth. Give the task a predictor (docs/own_task.md).\n"
    )


def test_records_of_an_edited_kind_are_others(home):
    """The same images, but not what their records hold."""
    first = pack(home).opened.description.content
    assert pack(home).opened.description.content == first
    before = '"image/depth/encoded": inspected'
    edit(home / "own/depth_kind.py", before, f'"image/format": "edited", {before}')
    with pytest.raises(DatasetError, match=r"/data already holds another dataset, or one that was packed with other"):
        pack(home)
    shutil.rmtree(home / "data")
    words = ["pack", home / "raw", "-o", home / "data", "--layout", f"{home}/own/depth_layout.py:recognise"]
    processes.run("-m", "penstock", *words, check=True)  # as this one knows the kind of before

    assert all(b"edited" in record.payload for record in records(ps.open(home / "data").opened, "train"))
