from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

import pytest
import torch
from support.commands import call

import penstock as ps
from penstock.assembly import machine


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(machine, "_QUERY", ("no-such-tool",))


def _rows(folder):
    return {row.about: row for row in machine.describe_machine(folder)}


def test_doctor_without_a_dataset_describes_the_machine(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call("doctor", capsys=capsys)

    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert [line.split()[0] for line in lines[:5]] == ["penstock", "cores", "memory", "GPU", "disk"]
    assert lines[0].startswith(f"penstock {ps.__version__} Python 3.")
    assert lines[3] == ("GPU none training runs on the CPU: try a small network first, such as --model unet:resnet18")
    assert f"{tmp_path} is written at " in lines[4]
    assert list(tmp_path.iterdir()) == []
    assert [row.about for row in ps.advise()] == [line.split()[0] for line in lines]


def test_what_is_for_a_dataset_needs_one(capsys):
    assert call("doctor", "--find-lr", capsys=capsys) == (
        2,
        "",
        "error: Settings, --find-lr, --find-time and --find-batch are for a dataset, and none is given. Name a packed "
        "dataset: penstock doctor DATASET.\n",
    )


def test_every_extra_of_the_package_is_installed_or_says_what_it_needs(tmp_path, monkeypatch):
    installed = metadata.version

    def version(name):
        if name in {"tifffile", "imagecodecs"}:
            raise metadata.PackageNotFoundError(name)
        return "0.1" if name == "wandb" else installed(name)

    monkeypatch.setattr(metadata, "version", version)
    rows = _rows(tmp_path)

    extras = {*metadata.metadata("penstock").get_all("Provides-Extra")} - {"all", "dev"}
    assert {name for name in rows if name.startswith("penstock[")} == {f"penstock[{extra}]" for extra in extras}
    assert rows["penstock[tiff]"][1:3] == (
        "missing", "needs imagecodecs>=2024.1 and tifffile>=2024.1: pip install 'penstock[tiff]'",
    )  # fmt: skip
    assert rows["penstock[wandb]"][1:3] == ("missing", "needs wandb>=0.19: pip install 'penstock[wandb]'")


def test_a_gpu_that_pytorch_cannot_use_is_named_with_its_driver(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA H200, 570.86.15'\n")
    tool.chmod(0o755)
    monkeypatch.setattr(machine, "_QUERY", (str(tool),))
    monkeypatch.setattr(torch.version, "cuda", None)

    assert _rows(tmp_path)["GPU"][1:3] == (
        "NVIDIA H200",
        "PyTorch cannot use it: it is built without CUDA, and the driver is 570.86.15. Update the driver, or install the "
        "PyTorch that pytorch.org names for it",
    )


def test_the_limit_of_a_container_is_its_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_LIMIT", tmp_path / "memory.max")
    (tmp_path / "memory.max").write_text(f"{2 << 30}\n")
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)

    memory = _rows(tmp_path)["memory"]
    assert memory.value == "2.0 GiB"
    assert memory.reason.startswith("the container's limit; the machine has ")
    assert float(memory.reason.split()[-2].replace(",", "")) == pytest.approx(there, abs=0.5)
    (tmp_path / "memory.max").write_text("max\n")
    assert _rows(tmp_path)["memory"].reason == "all of this machine"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc: a folder that nobody can write to, on Linux")
def test_a_folder_that_cannot_be_written_to_is_named():
    assert _rows(Path("/proc"))["disk"].reason.startswith("/proc cannot be written to: ")
