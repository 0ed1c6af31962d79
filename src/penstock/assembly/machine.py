"""What this machine has for packing and training, and what to do about what is missing."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

import torch
from packaging.requirements import Requirement

from penstock import cores
from penstock.assembly.advising import Advice

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
_WRITTEN: Final = 64 * _MIB
_LITTLE: Final = 10 * _GIB  # of a disk: one set of pretrained weights and some checkpoints take as much
_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
_NOT_LISTED: Final = {"all", "dev"}  # the sum of the extras, and what developers of Penstock need
_QUERY: Final = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")


def describe_machine(folder: Path) -> tuple[Advice, ...]:
    """Versions, cores, memory, GPUs, the disk of a folder, and the extras with what they still need.

    Args:
        folder: where a file of 64 MiB is written for a moment, to see how fast its disk is.
    """
    return (_versions(), _cores(), _memory(), *_gpus(), _disk(folder), *_extras())


def _versions() -> Advice:
    found = f"Python {platform.python_version()}, PyTorch {torch.__version__}"
    return Advice("penstock", metadata.version("penstock"), found)


def _cores() -> Advice:
    available, there = cores.available(), os.cpu_count() or 1
    reason = "all of this machine" if available == there else f"this process may use no more of the machine's {there}"
    return Advice("cores", str(available), reason)


def _memory() -> Advice:
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # "max" where the container has no limit
        limit = int(_LIMIT.read_text())
        if limit < there:
            return Advice("memory", _size(limit), f"the container's limit; the machine has {_size(there)}")
    return Advice("memory", _size(there), "all of this machine")


def _gpus() -> Iterator[Advice]:
    drivers = _drivers()
    if not torch.cuda.is_available():
        yield _without_cuda(drivers)
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        found = torch.cuda.get_device_properties(number)
        reason = f"CUDA {torch.version.cuda}" + (f", driver {drivers[0][1]}" if drivers else "")
        yield Advice("GPU", f"{found.name}, {_size(found.total_memory)}", reason)


def _without_cuda(drivers: list[tuple[str, str]]) -> Advice:
    if drivers:
        name, driver = drivers[0]
        build = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
        return Advice(
            "GPU",
            name,
            f"PyTorch cannot use it: it is built {build}, and the driver is {driver}. Update the driver, or install "
            "the PyTorch that pytorch.org names for it",
        )
    if torch.backends.mps.is_available():
        return Advice("GPU", "Apple", "used through MPS")
    return Advice("GPU", "none", "training runs on the CPU: try a small network first, such as --model unet:resnet18")


def _drivers() -> list[tuple[str, str]]:
    """Name and driver of each NVIDIA GPU, as the driver's own tool lists them."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        listed = subprocess.run(_QUERY, capture_output=True, text=True, timeout=20, check=True).stdout  # noqa: S603 - no input
        rows = [line.rsplit(", ", 1) for line in listed.splitlines() if line]
        return [(name, driver) for name, driver in rows]
    return []


def _disk(folder: Path) -> Advice:
    free = shutil.disk_usage(folder).free
    try:
        speed = _speed_of(folder)
    except OSError as error:
        return Advice("disk", f"{_size(free)} free", f"{folder} cannot be written to: {error.strerror}")
    reason = f"{folder} is written at {speed / _MIB:,.0f} MiB/s"
    return Advice("disk", f"{_size(free)} free", reason + ("; runs and data may need more" if free < _LITTLE else ""))


def _speed_of(folder: Path) -> float:
    """Bytes a second that reach the disk of a folder."""
    content = os.urandom(_MIB)  # which no file system makes smaller
    with tempfile.TemporaryFile(dir=folder) as file:
        began = time.perf_counter()
        for _ in range(_WRITTEN // _MIB):
            file.write(content)
        file.flush()
        os.fsync(file.fileno())
        return _WRITTEN / (time.perf_counter() - began)


def _extras() -> Iterator[Advice]:
    """The extras of the installed package, from its metadata."""
    needed = [Requirement(text) for text in metadata.requires("penstock") or []]
    for extra in metadata.metadata("penstock").get_all("Provides-Extra") or []:
        parts = [each for each in needed if each.marker and each.marker.evaluate({"extra": extra})]
        missing = [f"{each.name}{each.specifier}" for each in parts if not _is_installed(each)]
        if extra in _NOT_LISTED:
            continue
        if missing:
            remedy = f"needs {' and '.join(missing)}: pip install 'penstock[{extra}]'"
            yield Advice(f"penstock[{extra}]", "missing", remedy)
        else:
            yield Advice(f"penstock[{extra}]", "installed", "")


def _is_installed(needed: Requirement) -> bool:
    try:
        return needed.specifier.contains(metadata.version(needed.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False


def _size(size: int) -> str:
    return f"{size / _GIB:,.0f} GiB" if size >= 10 * _GIB else f"{size / _GIB:,.1f} GiB"
