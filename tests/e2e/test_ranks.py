from __future__ import annotations

import csv
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support import processes
from support.datasets import classes, learn_squares
from support.norms import two_ranks
from support.paths import SUPPORT
from support.training import recipe

from penstock.config import apply, dump
from penstock.config.checks import check_pieces
from penstock.errors import RecipeError
from penstock.settings import Model, Objective
from penstock.training import train

pytestmark = pytest.mark.slow


def test_a_training_of_two_ranks_has_the_losses_of_one_process(packed, tmp_path):
    """By a network with dropout and batch normalisation, at defaults."""
    chosen = recipe(packed.folder, ema_decay=0.0)
    chosen = dataclasses.replace(chosen, model=Model("deeplabv3plus:test_resnet", "none"))
    folder, _ = train(chosen, tmp_path / "one")
    (tmp_path / "recipe.toml").write_text(dump(chosen))
    two_ranks("-m", "penstock", "train", tmp_path / "recipe.toml", "--runs", tmp_path / "two")
    (other,) = (tmp_path / "two").iterdir()
    apart = dataclasses.replace(chosen, train=dataclasses.replace(chosen.train, sync_bn=False))
    (tmp_path / "recipe.toml").write_text(dump(apart))
    two_ranks("-m", "penstock", "train", tmp_path / "recipe.toml", "--runs", tmp_path / "apart")
    (third,) = (tmp_path / "apart").iterdir()

    # What rounding makes grows fifty-fold with every step, by other amounts on other processors.
    one, two, without = (losses(each)[:3] for each in (folder.path, other, third))
    assert two == pytest.approx(one, rel=1e-4)
    assert without != pytest.approx(one, rel=1e-2)


@pytest.mark.parametrize(
    "objective",
    [
        Objective(class_weights="median", ohem_ratio=0.3, ohem_warmup_steps=3),
        Objective(cross_entropy=0.5, dice=0.5, lovasz=0.5, ohem_threshold=0.7, label_smoothing=0.1),
        Objective(cross_entropy=0.0, focal=1.0, jaccard=0.5, tversky=0.5),
    ],
)
def test_every_loss_is_that_of_one_process_on_two_ranks(packed, tmp_path, objective):
    """The rates are so small that weights stay what they are: every step's loss is of the same network."""
    chosen = recipe(packed.folder, sync_bn=True, ema_decay=0.0, steps=4, evaluate_every=9)
    chosen = dataclasses.replace(chosen, loss=objective, optimizer=dataclasses.replace(chosen.optimizer, lr=1e-12))
    folder, _ = train(chosen, tmp_path / "one")
    (tmp_path / "recipe.toml").write_text(dump(chosen))
    two_ranks("-m", "penstock", "train", tmp_path / "recipe.toml", "--runs", tmp_path / "two")
    (other,) = (tmp_path / "two").iterdir()

    assert len(losses(other)) == 4
    assert losses(other) == pytest.approx(losses(folder.path), rel=1e-4)


def losses(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def distance(one, other):
    """Between two losses, and between the gradients and running statistics of two: each a fraction of the whole."""
    assert one.keys() == other.keys()
    loss, expected = other.pop("loss"), one.pop("loss")
    whole, apart = (
        torch.cat([tensor.flatten() for tensor in tensors])
        for tensors in (one.values(), [one[name] - other[name] for name in one])
    )
    return float((loss - expected) / expected), float(apart.norm() / whole.norm())


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Where the gradients of one process are."""
    path = tmp_path_factory.mktemp("alone") / "one"
    processes.run(SUPPORT / "same_child.py", path, check=True)
    return path


@pytest.mark.parametrize(("count", "mode"), [(2, ""), pytest.param(3, "fsdp", marks=pytest.mark.soak)])
def test_the_gradients_of_every_network_are_those_of_one_process(alone, tmp_path, count, mode):
    """With dropout, stochastic depth and batch normalisation."""
    done = processes.ranks(count, SUPPORT / "same_child.py", tmp_path / "many", mode)
    assert done.returncode == 0, done.stderr
    one, many = (torch.load(path) for path in (alone, tmp_path / "many"))

    assert len(one) == 20
    found = {name: distance(one[name], many[name]) for name in one}
    assert {name: apart for name, (loss, apart) in found.items() if abs(loss) > 1e-5 or apart > 2e-3} == {}


WATCH = """
from pathlib import Path

from penstock.session import Hook


class Watch(Hook):
    passes = 0

    def on_start(self, session):
        part = session.model.encoder.model.layer1[0].act1  # within a block
        part.register_forward_hook(self.count)
        self.kind = type(next(session.model.parameters())).__name__

    def count(self, *_):
        self.passes += 1

    def on_end(self, session):
        Path(f"{session.ranks.rank}.txt").write_text(f"{self.kind} {self.passes}")
"""


@pytest.mark.parametrize(("words", "found"), [((), "Parameter 1"), (("fsdp", "activation_checkpointing"), "DTensor 2")])
def test_ranks_cut_weights_and_compute_activations_again_where_the_recipe_says(
    packed, tmp_path, monkeypatch, words, found
):
    monkeypatch.chdir(tmp_path)
    Path("watch.py").write_text(WATCH)
    chosen = recipe(packed.folder, steps=1, save_every=9, evaluate_every=9, sync_bn=True)
    chosen = dataclasses.replace(chosen, hooks=("watch.py:Watch",))
    Path("recipe.toml").write_text(dump(apply(chosen, [f"train.{word}=true" for word in words])))
    two_ranks("-m", "penstock", "train", "recipe.toml", "--trust")

    assert [Path(f"{rank}.txt").read_text() for rank in range(2)] == [found] * 2


def test_pairs_that_are_mixed_are_not_parted():
    chosen = apply(recipe("data", batch=10), ["regularize.mixup=0.2"])
    with pytest.raises(RecipeError) as error:
        check_pieces(chosen, 2)
    with pytest.raises(RecipeError) as pieces:
        check_pieces(apply(chosen, ["train.accumulate=2", "train.batch=6"]), 1)

    assert str(error.value) == (
        "train.batch: expected a multiple of 4, as images are mixed in pairs, on 2 ranks with train.accumulate=1, found "
        "10. Use train.batch=12, or change train.accumulate or the number of ranks."
    )
    assert str(pieces.value) == (
        "train.batch: expected a multiple of 4, as images are mixed in pairs, on 1 rank with train.accumulate=2, found 6. "
        "Use train.batch=8, or change train.accumulate or the number of ranks."
    )
    check_pieces(apply(chosen, ["train.batch=12"]), 2)
    check_pieces(apply(chosen, ["train.batch=5"]), 1)


def test_ranks_evaluate_every_image_once_in_training(packed, tmp_path):
    done = processes.ranks(2, SUPPORT / "kill_child.py", packed.folder, tmp_path, "never", 0)
    assert done.returncode == 0, done.stderr
    (run,) = tmp_path.iterdir()
    found = [json.loads(path.read_text())["confusion"] for path in (run / "evaluations").iterdir()]

    assert [sum(map(sum, confusion)) for confusion in found] == [7 * 64 * 96] * 3


RANK = """
import json, os, sys
from pathlib import Path

from support.training import Stop, recipe
from support.watching import Given

from penstock.config import apply
from penstock.training import train
from penstock.session import Hook


class Follows(Hook):
    def on_start(self, session):
        self.ema = session.model.segmentation_head[0].weight.detach().clone()

    def after_step(self, session):
        share = 1 - min(0.9, session.step / (9 + session.step))
        self.ema += share * (session.model.segmentation_head[0].weight.detach() - self.ema)
        own = session.learner.ema.model.segmentation_head[0].weight
        self.told = [session.cursor.position, float((own - self.ema).abs().max())]


rank, follows = os.environ.get("RANK", ""), Follows()
chosen = recipe(sys.argv[1], steps=6, save_every=9, evaluate_every=9)
chosen = apply(chosen, ["loss.class_weights=median"])  # so that ranks count otherwise
_, outcome = train(chosen, Path(sys.argv[2]), hooks=[follows, *([Stop(3)] if rank in ("", "1") else [])])
Path(f"{sys.argv[2]}-rank{rank}").write_text(json.dumps([outcome.status, outcome.step, *follows.told]))
"""


def test_two_ranks_are_one_training_and_stop_together(packed, tmp_path):
    """One rank is asked to stop. The first three losses, all batches, the place and the average are one process's."""
    program = tmp_path / "rank.py"
    program.write_text(RANK)
    processes.run(program, packed.folder, tmp_path / "one", check=True)
    done = processes.ranks(2, program, packed.folder, tmp_path / "two")
    assert done.returncode == 0, done.stderr
    (one,), (two,) = ((tmp_path / name).iterdir() for name in ("one", "two"))
    losses = [
        [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()] for run in (one, two)
    ]

    for rank in ("0", "1"):
        status, step, position, off = json.loads((tmp_path / f"two-rank{rank}").read_text())
        assert (status, step, position) == ("stopped", 3, 12)
        assert off < 1e-6
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)  # rounding, after two steps of a network with few samples
    assert (two / "origins.jsonl").read_bytes() == (one / "origins.jsonl").read_bytes()


def scored(ranks, run, *words):
    """What the ranks find and print together."""
    command = ["-m", "penstock", "evaluate", run, "--images", 0, "--device", "cpu", *words]
    done = processes.ranks(ranks, *command) if ranks > 1 else processes.run(*command)
    assert done.returncode == 0, done.stderr
    table, path = sorted(path for path in (run / "evaluations").iterdir() if not path.name.startswith("step-"))
    rows = [
        [cells[0], *(float(cell) for cell in cells[2:] if cell)]
        for cells in csv.reader(table.read_text().splitlines())
        if cells[0] != "image"
    ]
    found = {**json.loads(path.read_text()), "each image": rows}
    path.unlink()
    table.unlink()
    return found, [line for line in done.stdout.splitlines() if ": loss " not in line]


def parted(value):
    """The integers and texts of an answer, and its other numbers, in order."""
    if isinstance(value, dict | list):
        pairs = [parted(each) for each in (value.values() if isinstance(value, dict) else value)]
        return [x for exact, _ in pairs for x in exact], [x for _, rounded in pairs for x in rounded]
    return ([], [value]) if isinstance(value, float) else ([value], [])


def compared(run, *words):
    alone, said = scored(1, run, *words)
    exact, rounded = parted(alone)
    assert len(exact) > 4
    for ranks in (2, 3):
        found, printed = scored(ranks, run, *words)
        assert (parted(found)[0], printed) == (exact, said)
        assert parted(found)[1] == pytest.approx(rounded, rel=1e-5, abs=1e-9)
    return alone


METRIC = """
import torch


class Images:
    def __init__(self):
        self.state = torch.zeros(2)

    def update(self, outputs, tensors):
        self.state += torch.tensor([len(outputs), float((tensors["mask"] == 0).sum())])

    def compute(self):
        return {"images": self.state[0], "ground": self.state[1]}
"""


def test_masks(packed, tmp_path):
    """With a metric of its own."""
    (tmp_path / "own.py").write_text(METRIC)
    chosen = apply(recipe(packed.folder, ema_decay=0.0), [f"train.metrics=['{tmp_path}/own.py:Images']"])
    folder, _ = train(chosen, tmp_path / "runs")
    found = compared(folder.path, "--segments")

    assert found["images"] == 7
    assert found["ground"] == sum(found["confusion"][0])

    assert sum(map(sum, found["confusion"])) > 7 * 64 * 90  # seven images, nearly all labelled
    assert "panoptic_quality" in found


def test_classes(tmp_path):
    compared(train(classes(tmp_path), tmp_path / "runs")[0].path, "--split", "train")


def test_boxes(squares, tmp_path):
    chosen = learn_squares(squares)
    compared(train(chosen, tmp_path)[0].path)


def test_torchrun_trains_the_batches_of_one_process(packed, tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text(dump(recipe(packed.folder, steps=3)))
    torchrun = [Path(sys.executable).with_name("torchrun"), "--nproc-per-node", "2"]
    words = ["-m", "penstock", "train", file, "--runs"]
    ranks = subprocess.run(
        [*torchrun, *words, tmp_path / "two"], env=processes.quiet(), capture_output=True, text=True, check=False
    )
    assert ranks.returncode == 0, ranks.stderr
    processes.run(*words, tmp_path / "one", check=True)

    def trained(runs):
        (run,) = (path for path in (tmp_path / runs).iterdir() if path.name[0].isdigit())
        steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        return steps, (run / "origins.jsonl").read_text()

    assert trained("two") == trained("one")


JOINING = """
import torch
from penstock import ranks
for _ in range(30):
    with ranks.joined(torch.device("cpu")) as joined:
        joined.wrap(torch.nn.Linear(2, 2), torch.device("cpu"))
"""


def test_ranks_may_join_again_and_again(tmp_path):
    """As a program does that trains and then goes on. The store of torchrun keeps the addresses of the time before."""
    program = tmp_path / "joining.py"
    program.write_text(JOINING)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, program], env=processes.quiet(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
