"""Every program of bench/ runs, on next to no data: what it measures means nothing, but a rename cannot break it unseen."""

from __future__ import annotations

import json
import shutil
import sys

import cv2
import pytest
from support import broker, miniatures, processes
from support.paths import TESTS
from support.volumes import write_cases

from penstock.datasets import inspect, pack, scenes

pytestmark = pytest.mark.slow

BENCH = TESTS.parent / "bench"
AIRBENCH = """
import torch
torch.device("cuda"); torch.zeros(1).half().bfloat16()
@torch.compile
def step(): torch.cuda.synchronize(); return torch.cuda.Event(enable_timing=True)
class CifarNet(torch.nn.Linear):
    def __init__(self): super().__init__(1, 1)
    def to(self, **more): return self
def print_training_details(values, is_final_entry): pass
def evaluate(model, loader, level): return 0.5
def main(seed, model):
    step()
    for epoch in (0, 1):
        values = {"epoch": epoch, "time_seconds": 1, "val_acc": 0.1, "tta_val_acc": 0.2, "model": model, "test_loader": 0}
        print_training_details(values, is_final_entry=epoch == 1)
"""
"""A program with the places that bench/airbench.py adapts."""

PROGRAMS = {
    "airbench": ("airbench", "cifar", "work"),
    "boxes": ("bccd", "fruits", "work"),
    "camvid": ("camvid", "work"),
    "camvid_parts": ("camvid", "work"),
    "cifar": ("cifar", "work", 2),
    "feed": ("work/data",),
    "hippocampus": ("hippocampus", "work"),
    "hippocampus3d": ("hippocampus", "work"),
    "kafka": (),
    "kafka_camvid": ("camvid",),
    "kafka_settings": (),
    "layouts": (1,),
    "order": (),
    "packing": (2,),
    "resuming": ("packed",),
    "safety": (),
    "saving": (),
    "session": ("packed",),
    "small": (),
    "stages": ("work/data",),
    "step": ("camvid", "work", 1),
    "threads": ("work/data",),
}
"""The words of each: those that name data, and numbers."""

BROKERS = {"kafka", "kafka_camvid", "kafka_settings", "safety"}
PARTS = {"common", "photos", "results", "results_feed", "results_text", "results_topics", "results_training"}
PEERS = {"records": "tensorflow"}
"""What measures nothing without a peer, and the module that it needs."""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with the data of all programs, in the arrangement that each expects."""
    root = tmp_path_factory.mktemp("bench")
    scenes.write_folder(root / "camvid", {"train": 8, "val": 2, "test": 2}, (64, 96))
    for path in root.glob("camvid/masks/*/*.png"):
        mask = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        mask[mask == 255] = 11  # CamVid's id of pixels without a class
        cv2.imwrite(str(path), mask)
    scenes.write_folder(root / "scenes", {"train": 8, "val": 2}, (64, 96))
    pack(inspect(root / "scenes"), root / "packed")
    miniatures.cifar10(root / "cifar", records=20)
    miniatures.voc_(root / "bccd")
    shutil.rmtree(root / "bccd/SegmentationClass")
    for number in range(3):
        miniatures.write(root / f"fruits/images/{number:012d}.jpg", miniatures.make_image(seed=number))
    miniatures.write(root / "fruits/trainval.json", json.dumps(miniatures.coco_tree()))
    write_cases(root / "hippocampus")
    miniatures.write(root / "airbench/airbench94_muon.py", AIRBENCH)
    return root


def run(program, words, data, folder):
    (folder / "results").mkdir()
    env = {**processes.quiet(), "PENSTOCK_BENCH_SMOKE": "1", "PENSTOCK_BENCH_RESULTS": str(folder / "results")}
    env.setdefault("PENSTOCK_BENCH_PYTHON", sys.executable)
    given = [word if isinstance(word, int) else (folder if word.startswith("work") else data) / word for word in words]
    return processes.run(BENCH / f"{program}.py", *given, env=env, cwd=folder)


def test_each_is_tried():
    there = {path.stem for path in BENCH.glob("*.py")}

    assert there == {*PROGRAMS, *PEERS, *PARTS}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_measures(data, tmp_path, program):
    if program in BROKERS and broker.missing():
        pytest.skip(f"no Kafka broker: {broker.missing()}")
    done = run(program, PROGRAMS[program], data, tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    (written,) = (tmp_path / "results").iterdir()
    assert json.loads(written.read_text())["machine"]["cores"] >= 1


@pytest.mark.parametrize(("program", "module"), PEERS.items())
def test_a_program_without_its_peer_says_so(data, tmp_path, program, module):
    done = run(program, (), data, tmp_path)
    if done.returncode:
        assert done.stderr == f"skipped, as {module} is not installed for {sys.executable}\n"
    assert len(list((tmp_path / "results").iterdir())) == int(done.returncode == 0)
