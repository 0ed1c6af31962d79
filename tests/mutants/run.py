"""Breaks features one at a time, each in a copy of the tree, and lists those that no test notices.

    python tests/mutants/run.py                  every named mutant
    python tests/mutants/run.py NAME ...         these; a name may hold * and ?
    python tests/mutants/run.py --changed BASE   those whose source or test changed since a commit
    python tests/mutants/run.py --sample 20      a fixed sample of them, the same for the same set
    python tests/mutants/run.py --record FILE    every one, and what became of each as JSON, for table.py

A mutant is an entry of one of the .toml files beside this one: an edit of one source file, the row of docs/ledger.md,
the promise of a document or the defect that it is about, and the test that must fail. There is one for each promise, each
defect worth it and each row whose counterpart is no setting. settings.toml names a test for every setting of the recipe,
and the mutant is a training that ignores the setting. It exits with 1 if a mutant survives, does not apply, or its test
fails without it.

Libraries are imported once, and every mutant is tried in a fork: the import of torch takes longer than most tests.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("src", "tests", "docs", "bench", "examples", "README.md", "CHANGELOG.md", "pyproject.toml", "Makefile")
LIBRARIES = (
    "numpy", "cv2", "torch", "torchvision", "torchvision.models.detection", "timm", "segmentation_models_pytorch",
    "torch.utils.tensorboard", "msgspec", "simplejpeg", "PIL.Image", "rich",
    "torchmetrics", "confluent_kafka", "safetensors.torch", "pytest", "sympy", "torch._dynamo",
)  # fmt: skip
QUIET = "ignore:Module already imported so cannot be rewritten"  # imported before the fork
SETTINGS = Path(__file__).parent / "settings.toml"
UNIONS = {
    ("augment", "view"),
    ("optimizer",),
    ("optimizer", "schedule"),
}  # of whose members each has settings of its own
REQUIRED = {"milestones": "(1 << 30,)"}  # settings without a default
LEFT = SETTINGS.with_name("left.toml")  # of generated.py
TRAINING = "    device = devices.choose(recipe.train.device, ranking.from_environment().local)\n"  # where it begins
LIMIT = 120.0  # seconds a test; a mutant that hangs is noticed too
LONGEST = 1200.0  # of many tests


@dataclass(frozen=True)
class Mutant:
    """One feature taken away.

    Attributes:
        name: what is broken.
        shows: the rows and promises that it takes away.
        file: below src/penstock.
        before, after: a text that stands in the file once, and what it becomes.
        tests: node ids below tests/, all of which must fail, each by itself.
    """

    name: str
    shows: tuple[str, ...]
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Which tests are run together: each by itself."""
        return tuple((test,) for test in self.tests)

    def applied(self, text: str) -> str:
        """A source file with the feature taken away.

        Raises:
            ValueError: the text to replace is not in it exactly once.
        """
        if (count := text.count(self.before)) != 1:
            message = f"{self.name}: expected its text once in {self.file}, found it {count} times"
            raise ValueError(message)
        return text.replace(self.before, self.after)


def read() -> list[Mutant]:
    """All named mutants."""
    found = list(_ignored(tomllib.loads(SETTINGS.read_text())))
    for path in sorted(set(SETTINGS.parent.glob("*.toml")) - {SETTINGS, LEFT}):
        for name, entry in tomllib.loads(path.read_text()).items():
            lists = {key: tuple(entry.pop(key)) for key in ("shows", "tests")}
            found.append(Mutant(name, **lists, **entry))
    return found


def _ignored(tests: dict[str, Any], sections: tuple[str, ...] = ()) -> Iterator[Mutant]:
    """A mutant for every setting that settings.toml names: training takes its default, whatever the recipe says."""
    for name, entry in tests.items():
        path = (*sections, name)
        if isinstance(entry, dict):
            yield from _ignored(entry, path)
            continue
        if name in REQUIRED:
            ignored, value = path, REQUIRED[name]
        elif name == "name" and sections in UNIONS:
            ignored, value = sections, ".".join(("type(recipe)()", *sections))
        else:
            ignored, value = path, ".".join(("type(recipe" + "".join(f".{each}" for each in sections) + ")()", name))
        for depth in reversed(range(len(ignored))):
            value = f"replace({'.'.join(('recipe', *ignored[:depth]))}, {ignored[depth]}={value})"
        after = f"    recipe = {value}\n{TRAINING}"
        shown, label = f"setting {'.'.join(path)}", "-".join(path).replace("_", "-")
        yield Mutant(f"{label}-is-ignored", (shown,), "training/run.py", TRAINING, after, (entry,))


def chosen(mutants: list[Mutant], options: argparse.Namespace) -> list[Mutant]:
    """Those that the command line names."""
    if options.names:
        mutants = [each for each in mutants if any(fnmatch.fnmatch(each.name, name) for name in options.names)]
    if options.changed:
        command = ["git", "diff", "--name-only", options.changed]
        changed = set(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split())
        mutants = [each for each in mutants if changed & _touched(each)]
    if options.sample:
        ordered = sorted(mutants, key=lambda each: hashlib.sha256(each.name.encode()).digest())
        mutants = ordered[: options.sample]
    return mutants


def _touched(mutant: Mutant) -> set[str]:
    return {f"src/penstock/{mutant.file}", *(f"tests/{test.partition('::')[0]}" for test in mutant.tests)}


class Tree:
    """A copy of the checkout in which one mutant at a time is tried."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        """Copy what tests need."""
        for name in COPIED:
            source, target = ROOT / name, self.folder / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)

    def attempt(self, mutant: Mutant) -> tuple[str, float]:
        """Whether the tests notice: "killed", "survived", or what else became of it; and the seconds that it took."""
        path = self.folder / "src" / "penstock" / mutant.file
        original = path.read_text()
        began = time.monotonic()
        try:
            path.write_text(mutant.applied(original))
            results = {self.test(group) for group in mutant.groups}
        except ValueError as error:
            results = {str(error)}
        finally:
            path.write_text(original)
        said = {"failed": "killed", "passed": "survived"}
        return " and ".join(sorted(said.get(each, each) for each in results)), time.monotonic() - began

    def test(self, tests: tuple[str, ...]) -> str:
        """What becomes of some tests here: "passed", "failed", "hung", or pytest's other exit codes."""
        child = os.fork()
        if child == 0:
            os.setsid()
            _run_tests(self.folder, tests)
        end = time.monotonic() + min(LIMIT * len(tests), LONGEST)
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                _end(child)
                code = os.waitstatus_to_exitcode(status)
                return {0: "passed", 1: "failed"}.get(code, f"pytest ended with {code}")
            time.sleep(0.02)
        _end(child)
        os.waitpid(child, 0)
        return "failed"


def _end(child: int) -> None:
    """End what a test may have left behind in its process group."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        return


def _run_tests(folder: Path, tests: tuple[str, ...]) -> None:
    """In a fork: run pytest on a copy of the tree, silently, and end."""
    code = 3
    try:
        os.chdir(folder)
        own = str(folder / "src")
        sys.path[:] = [own, *(each for each in sys.path if each != str(ROOT / "src"))]
        sys.dont_write_bytecode = True
        data = os.environ.get("PENSTOCK_TEST_DATA", str(ROOT.parent / "shared" / "data"))
        os.environ |= {"PYTHONPATH": own, "PYTHONDONTWRITEBYTECODE": "1", "PENSTOCK_TEST_DATA": data}
        log = os.open(folder / "pytest.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        import pytest

        nodes = [f"tests/{test}" for test in tests]
        code = int(pytest.main([*nodes, "-q", "-x", "-p", "no:cacheprovider", "-W", QUIET]))
    except BaseException:  # noqa: BLE001 - what a fork cannot say must not go on as its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def preload() -> None:
    """Import libraries for the forks."""
    import importlib
    import warnings

    with warnings.catch_warnings(action="ignore"):
        for name in LIBRARIES:
            try:
                importlib.import_module(name)
            except ImportError:
                continue
    import torch

    torch.set_num_threads(1)


def attempt_all(mutants: Sequence[Mutant], jobs: int) -> list[tuple[str, float]]:
    """What became of each, and its seconds. They are tried on some copies of the tree at once."""
    done = 0
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(jobs) as pool:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for number in range(jobs):
            tree = Tree(Path(root) / str(number))
            tree.fill()
            trees.put(tree)

        def one(mutant: Mutant) -> tuple[str, float]:
            nonlocal done
            tree = trees.get()
            result, seconds = tree.attempt(mutant)
            trees.put(tree)
            done += 1
            print(f"{done:>4} of {len(mutants)}  {seconds:5.1f} s  {result:<9}  {mutant.name}", flush=True)
            return result, seconds

        return list(pool.map(one, mutants))


def sound_without(mutants: list[Mutant]) -> list[str]:
    """The test files whose named tests do not pass without any mutant."""
    tests: dict[str, list[str]] = {}
    for test in dict.fromkeys(test for mutant in mutants for test in mutant.tests):
        tests.setdefault(test.partition("::")[0], []).append(test)
    with tempfile.TemporaryDirectory() as root:
        tree = Tree(Path(root) / "0")
        tree.fill()
        return [file for file, nodes in tests.items() if tree.test(tuple(nodes)) != "passed"]


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--changed")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--unchecked", action="store_true", help="do not run the tests without mutants first")
    return parser.parse_args(words)


def main() -> int:
    """Try mutants, print a table."""
    options = parsed()
    os.environ["OMP_NUM_THREADS"] = "1"
    preload()
    mutants = chosen(read(), options)
    broken = [] if options.unchecked else sound_without(mutants)
    for file in broken:
        print(f"{file}: fails without any mutant")
    found = {each.name: done for each, done in zip(mutants, attempt_all(mutants, options.jobs), strict=True)}
    if options.record:
        before = json.loads(options.record.read_text()) if options.record.exists() else {}
        results = {name: result for name, (result, _) in sorted(found.items())}
        options.record.write_text(json.dumps({**before, **results}, indent=1) + "\n")
    counts = Counter(result for result, _ in found.values())
    print(", ".join(f"{count} {result}" for result, count in counts.most_common()) or "no mutants")
    for name, (result, _) in found.items():
        if result != "killed":
            print(f"  {result}: {name}")
    return int(bool(broken) or set(counts) - {"killed"} != set())


if __name__ == "__main__":
    sys.exit(main())
