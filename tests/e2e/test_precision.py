from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from support.paths import TESTS
from support.training import recipe

from penstock.runs import RunFolder
from penstock.session import CheckpointStore
from penstock.training import train


@pytest.fixture(scope="module")
def plain_losses(packed, tmp_path_factory):
    """The losses of three steps in float32."""
    folder, _ = train(recipe(packed.folder, steps=3), tmp_path_factory.mktemp("plain"))
    return [line["loss"] for line in folder.lines("metrics.jsonl") if "loss" in line]


class TestPrecision:
    """The options that change kernels must not change what is learnt beyond rounding."""

    def test_bfloat16(self, packed, tmp_path, plain_losses):
        folder, _ = train(recipe(packed.folder, steps=3, precision="bfloat16"), tmp_path)
        losses = [line["loss"] for line in folder.lines("metrics.jsonl") if "loss" in line]

        assert losses != plain_losses
        assert losses == pytest.approx(plain_losses, rel=0.05)

    @pytest.mark.soak  # compiling takes as long as two minutes; that a recipe asks for it is tested in test_settings.py
    @pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile needs a C++ compiler")
    def test_torch_compile(self, packed, tmp_path, plain_losses):
        program = (
            "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[3])\n"
            "from support.training import recipe; from penstock.training import train\n"
            "train(recipe(sys.argv[1], steps=3, evaluate_every=100, compile=True), Path(sys.argv[2]))"
        )
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            program,
            str(packed.folder),
            str(tmp_path),
            str(TESTS),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        (run,) = tmp_path.iterdir()
        losses = [line["loss"] for line in RunFolder(run).lines("metrics.jsonl") if "loss" in line]

        assert losses == pytest.approx(plain_losses, rel=1e-3)
        assert CheckpointStore(run / "checkpoints").load("last").tensors["model"].keys() == _names(packed, tmp_path)


def _names(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path / "names")
    return CheckpointStore(folder.checkpoints).load("last").tensors["model"].keys()
