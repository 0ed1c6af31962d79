"""What all benchmarks share: the machine, the versions, and where results go."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SMOKE = "PENSTOCK_BENCH_SMOKE" in os.environ
"""Whether programs measure next to nothing, to show that they still run: tests/e2e/test_bench.py."""
RESULTS = Path(os.environ.get("PENSTOCK_BENCH_RESULTS", Path(__file__).parent / "results"))
PEERS = os.environ.get("PENSTOCK_BENCH_PYTHON", str(Path(__file__).parent.parent / ".venv-bench/bin/python"))
"""The Python of the environment that has what Penstock is compared with: bench/requirements.txt."""
CIFAR_SHA256 = (
    "013ba16d14ecc4829da62bf2af648ca30f600491ecb3e7f329c827db0dd17522"  # of the six files one after the other
)


def sized(full: Any, smoke: Any) -> Any:
    """A size of what is measured, or that of a smoke run."""
    return smoke if SMOKE else full


def installed(contenders: dict[str, tuple[str, ...]], modules: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """The contenders that can be measured; the others are named.

    Args:
        contenders: commands by name, the Python first.
        modules: what a contender imports, by its name; those of others are always there.
    """
    missing = {name for name, module in modules.items() if not imports(contenders[name][0], module)}
    for name in sorted(missing):
        print(f"{name}: skipped, as {modules[name]} is not installed for {contenders[name][0]}", file=sys.stderr)
    return {name: command for name, command in contenders.items() if name not in missing}


def imports(python: str, module: str) -> bool:
    """Whether a Python is there and has a module."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    try:
        return subprocess.run([python, "-c", code], check=False).returncode == 0
    except FileNotFoundError:
        return False


def peer_version(package: str) -> str:
    """The version of a package that the peers have."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.check_output([PEERS, "-c", code], text=True).strip()


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return {"processor": model, "cores": cores, "memory_gib": memory, "python": platform.python_version()}


def run(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, fork: bool = True
) -> subprocess.CompletedProcess[str]:
    """What a program does and prints. In a smoke run, one of this Python is a fork, which imports nothing again; where
    there are clients of Kafka, whose threads a fork does not have, it must not be one.
    """
    env = {**os.environ, **(environment or {})}
    if SMOKE and fork and command[0] == sys.executable:
        sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
        from support.processes import forked

        done = forked(command[1:], env)
        return subprocess.CompletedProcess(list(command), done.returncode, done.stdout, done.stderr)
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def last_line(command: Sequence[str], environment: Mapping[str, str] | None = None, *, fork: bool = True) -> str:
    """The last line that a program prints, which must not fail; arguments as for `run`."""
    done = run(command, environment, fork=fork)
    if done.returncode:
        sys.exit(f"{' '.join(command[1:3])} failed:\n{done.stderr[-3000:]}")
    return done.stdout.splitlines()[-1]


def penstock(*arguments: str) -> None:
    """One command, as a user would give it; in this process in a smoke run, which needs no second import of PyTorch."""
    if SMOKE:
        from penstock.cli import main

        try:
            main(list(arguments))
        except SystemExit as end:
            if end.code:
                raise
        return
    subprocess.run([sys.executable, "-m", "penstock", *arguments], check=True)


def trained(work: Path, *arguments: str) -> Path:
    """The run of WORK/runs: begun, or gone on with where there is one."""
    runs = sorted((work / "runs").glob("0*"))
    if runs:
        penstock("train", "--resume", str(runs[0]))
    else:
        penstock("train", *arguments, "--runs", str(work / "runs"))
    return min((work / "runs").glob("0*"))


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of JSON."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def seconds(run: Path) -> list[float]:
    """Seconds of training after every step, evaluations not counted; a step during which the process was held up (ten
    times the median) counts as the median one.
    """
    steps = [line["seconds"] for line in lines(run / "timings.jsonl")]
    usual = statistics.median(steps)
    return list(itertools.accumulate(usual if each > 10 * usual else each for each in steps))


def cifar_pixels(binary: Path) -> str:
    """Whose the pixels of CIFAR-10's binary version are, by their bytes: "original", or those that went through JPEG, "jpeg"."""
    sha = hashlib.sha256()
    for path in [*sorted(binary.rglob("data_batch_*.bin")), *binary.rglob("test_batch.bin")]:
        sha.update(path.read_bytes())
    return "original" if sha.hexdigest() == CIFAR_SHA256 else "jpeg"


def said(arguments: list[str]) -> str:
    """Words as they are typed in a shell."""
    return " ".join(word if not set(word) & set(" []'") else f"'{word}'" for word in arguments)


def versions(*packages: str) -> dict[str, str]:
    """The installed versions of some packages."""
    return {name: metadata.version(name) for name in packages}


def summary(values: list[float]) -> dict[str, Any]:
    """Every repeat, and the median."""
    return {"repeats": [round(v, 4) for v in values], "median": round(statistics.median(values), 4)}


def write(name: str, command: str, content: dict[str, Any]) -> Path:
    """Write bench/results/NAME.json; docs/results.md is made from these files."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    whole = {"name": name, "command": command, "machine": machine(), **content}
    path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    print(f"wrote {path}", file=sys.stderr)
    return path
