"""How many of the small edits that mutmut makes of some packages are noticed by their tests.

    python tests/mutants/generated.py             a fixed sample of all of them
    python tests/mutants/generated.py losses ...  of these packages
    python tests/mutants/generated.py --all ...   every edit instead of a sample, which takes hours
    python tests/mutants/generated.py --left --record FILE ...   only what was left over in the record, with today's tests

Every package is mutated in a copy of the checkout, and its own tests are run on each mutant. A mutant that hangs counts
as noticed, one that no test runs through does not. What is left over is shown; left.toml says of each why it may stay.
The sample are those of every function's edits whose number ends in one of a package's digits.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from run import ROOT, Tree

if TYPE_CHECKING:
    from collections.abc import Sequence

AIM = 0.9
NOTICED = {"killed", "timeout", "caught by type check"}
NOT_TRIED = "not checked"
MUTMUT = (sys.executable, "-m", "mutmut")


@dataclass(frozen=True)
class Found:
    """What became of a package's mutants.

    Attributes:
        counts: of mutants, by result.
        left: what those that nothing noticed put into the source, by name.
    """

    counts: dict[str, int]
    left: dict[str, str]

    @property
    def tried(self) -> int:
        """How many there were."""
        return sum(self.counts.values())

    @property
    def noticed(self) -> int:
        """How many of them a test noticed."""
        return sum(count for result, count in self.counts.items() if result in NOTICED)

    def beside(self, before: Found) -> Found:
        """What became of all, where these were left over before."""
        counts = {result: count for result, count in before.counts.items() if result in NOTICED}
        return Found(dict(Counter(counts) + Counter(self.counts)), self.left)


@dataclass(frozen=True)
class Package:
    """What is mutated, below src/penstock, the tests that are to notice (files, or node ids in them), and the digits of
    the sample.
    """

    source: str
    tests: tuple[str, ...]
    digits: str = "27"


PACKAGES = {
    "seeds": Package("seeds.py", ("unit/test_seeds.py", "unit/order", "unit/tasks/test_augment.py")),
    "order": Package("order", ("unit/order", "unit/feed", "unit/training/test_streaming.py")),
    "records": Package("records", ("unit/records", "unit/datasets", "e2e/test_replaced_records.py")),
    "losses": Package("losses", ("unit/losses", "unit/tasks", "contract/test_losses.py", "e2e/test_holes.py", "e2e/test_weighing.py", "e2e/test_settings.py")),
    "metrics": Package("metrics", ("unit/metrics", "contract/test_summaries.py", "contract/test_metrics_of_ranks.py", "e2e/test_matting.py", "e2e/test_classification.py", "e2e/test_detection.py")),
    "images": Package("images", ("unit/images", "unit/kinds", "unit/tasks/test_augment_settings.py"), "2"),
    "session": Package("session", ("unit/session", "unit/training", "e2e/test_session.py", "e2e/test_resume.py", "e2e/test_holes.py", "e2e/test_updates.py"), "2"),
    "tasks": Package("tasks", ("unit/tasks", "contract/test_tasks.py", "e2e/test_holes.py", "e2e/test_weighing.py", "e2e/test_settings.py", "e2e/test_classification.py", "e2e/test_detection.py", "e2e/test_matting.py"), "2"),
}  # fmt: skip

_SETTINGS = """
[tool.mutmut]
source_paths = ["src/penstock/{source}"]
pytest_add_cli_args_test_selection = [{tests}]
pytest_add_cli_args = ["-q", "-p", "no:cacheprovider", "-m", "not slow and not soak", "--hypothesis-profile=repeated"]
also_copy = ["src", "tests", "docs", "bench", "examples", "README.md"]
"""


def mutated(package: Package, folder: Path, jobs: int, names: Sequence[str]) -> Found:
    """Try a package's mutants of some names, which may hold wildcards, in a folder of their own."""
    Tree(folder).fill()
    tests = ", ".join(f'"tests/{name}"' for name in package.tests)
    with (folder / "pyproject.toml").open("a") as settings:
        settings.write(_SETTINGS.format(source=package.source, tests=tests))
    data = os.environ.get("PENSTOCK_TEST_DATA", str(ROOT.parent / "shared" / "data"))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PENSTOCK_TEST_DATA": data}
    log = folder / "mutmut.log"
    with log.open("w") as out:
        command = [*MUTMUT, "run", "--max-children", str(jobs), *names]
        done = subprocess.run(command, cwd=folder, env=environment, stdout=out, stderr=out, check=False)
    if done.returncode:
        raise SystemExit(f"mutmut failed on {package.source}:\n{log.read_text()[-3000:]}")
    lines = [line.strip() for line in _printed(folder, "results", "--all", "true").splitlines() if ": " in line]
    results = dict(line.rsplit(": ", 1) for line in lines)
    left = [name for name, result in results.items() if result not in {*NOTICED, NOT_TRIED}]
    counts = Counter(result for result in results.values() if result != NOT_TRIED)
    return Found(dict(counts), {name: _edit(_printed(folder, "show", name)) for name in left})


def _printed(folder: Path, *words: str) -> str:
    command = [*MUTMUT, *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def _edit(diff: str) -> str:
    """The lines that a diff adds."""
    return " ".join(line[1:].strip() for line in diff.splitlines() if line[:1] == "+" and line[:3] != "+++")


def main() -> int:
    """Mutate packages, print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("packages", nargs="*", choices=[[], *PACKAGES])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--left", action="store_true")
    parser.add_argument("--record", type=Path, help="what became of each, as JSON, for table.py")
    options = parser.parse_args()
    below = 0
    for name in options.packages or PACKAGES:
        package = PACKAGES[name]
        before = json.loads(options.record.read_text()) if options.record and options.record.exists() else {}
        names = [*before[name]["left"]] if options.left else ["*" if options.all else f"*[{package.digits}]"]
        with tempfile.TemporaryDirectory() as folder:
            found = mutated(package, Path(folder), options.jobs, names)
        if options.left:
            found = found.beside(Found(**before[name]))
        if options.record:
            before = json.loads(options.record.read_text()) if options.record.exists() else {}
            options.record.write_text(json.dumps({**before, name: asdict(found)}, indent=1, ensure_ascii=False) + "\n")
        share = found.noticed / max(1, found.tried)
        below += share < AIM
        ends = ", ".join(f"{count} {result}" for result, count in found.counts.items())
        print(f"{name:<10} {found.noticed:>6} of {found.tried:>6} noticed  {share:.1%}  ({ends})", flush=True)
        for each, edit in found.left.items():
            print(f"    {each}: {edit}", flush=True)
    return int(below > 0)


if __name__ == "__main__":
    sys.exit(main())
