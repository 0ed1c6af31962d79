"""How many of the small edits that mutmut makes, anywhere in the source, are noticed by the tests that run through them.

    python tests/mutants/generated.py                   a random sample of 200
    python tests/mutants/generated.py --count 20 --seed WORD
    python tests/mutants/generated.py --coverage FILE   which test runs through which line, kept there for the next time
    python tests/mutants/generated.py --record FILE     what became of each as JSON, for table.py

All tests but the slow ones are run once under coverage.py, which says of every line which tests run through it. Each edit
is tried with the 60 nearest of its line, first those of its own module, and ends with the first that fails. An edit that
hangs counts as noticed, one that no test runs through does not. What is left over is shown; left.toml says of each why it may
stay.
"""

from __future__ import annotations

import argparse
import bisect
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from coverage import CoverageData
from mutmut.mutation.file_mutation import create_mutations
from run import ROOT, Mutant, attempt_all, preload

if TYPE_CHECKING:
    from collections.abc import Iterator

AIM = 0.85
SOURCE = ROOT / "src" / "penstock"
FAST = ("-m", "not slow and not soak")
STATEMENT = 15  # lines of a long one; coverage knows some of them alone
NEAREST = 60  # tests of a line that many run through, so that an edit that nothing notices takes no hour
_CONTEXTS = """[run]
source = {source}
dynamic_context = test_function
parallel = true
patch = subprocess
core = ctrace
data_file = {data}
"""


@dataclass(frozen=True)
class Edit(Mutant):
    """A mutant that mutmut makes. All of its tests are run together, and one of them is to fail.

    Attributes:
        line: the first one that differs.
        becomes: what stands there.
    """

    line: int = 0
    becomes: str = ""

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """All of its tests at once; none where there are none."""
        return (self.tests,) if self.tests else ()


@dataclass(frozen=True)
class Coverage:
    """Which tests run through which lines.

    Attributes:
        data: with a context for each test.
        known: the node ids of all tests below tests/, without parameters.
    """

    data: CoverageData
    known: frozenset[str]

    def tests(self, path: Path, line: int) -> tuple[str, ...]:
        """Those that run through a line; of a line that runs at import, those that run through its file. The tests of
        its module come first, then those of its package.
        """
        lines = self.data.contexts_by_lineno(str(path))
        near = (lines.get(each, []) for each in range(line, max(0, line - STATEMENT), -1))
        contexts = next((found for found in near if found), [])
        if not any(contexts):
            contexts = [each for found in lines.values() for each in found]
        nodes = {node for context in contexts if context and (node := self._node(context))}
        package = f"unit/{path.relative_to(SOURCE).parts[0]}"
        found = sorted(nodes, key=lambda node: (f"test_{path.stem}." not in node, package not in node, node))
        return tuple(found[:NEAREST])

    def _node(self, context: str) -> str | None:
        """The node id of a test by its dotted name."""
        parts = context.removeprefix("tests.").split(".")
        module = list(takewhile(lambda part: not part.startswith(("Test", "test_")), parts))
        rest = parts[len(module) :]
        if not rest:
            return None
        inside = rest[1:] if rest[0].startswith("test_") else rest
        node = "::".join(["/".join([*module, f"{rest[0]}.py"]), *inside])
        return node if node in self.known else None


def measured(data: Path) -> Coverage:
    """The coverage of all tests but the slow ones, measured where the file is not there."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    if not data.exists():
        with tempfile.TemporaryDirectory() as folder:
            settings = Path(folder) / "coveragerc"
            settings.write_text(_CONTEXTS.format(source=SOURCE, data=data))
            coverage = (sys.executable, "-m", "coverage")
            tests = ("-m", "pytest", "-q", "-n", str(os.cpu_count() or 1), "--dist", "loadfile", *FAST)
            subprocess.run([*coverage, "run", f"--rcfile={settings}", *tests], cwd=ROOT, env=environment, check=True)
            subprocess.run([*coverage, "combine", f"--rcfile={settings}", str(data.parent)], cwd=ROOT, check=True)
    found = CoverageData(str(data))
    found.read()
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests", *FAST],
        cwd=ROOT, env=environment, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    nodes = (line.partition("[")[0].removeprefix("tests/") for line in listed.splitlines() if "::" in line)
    return Coverage(found, frozenset(nodes))


def edits(count: int, seed: str, coverage: Coverage) -> Iterator[Edit]:
    """A random sample of all edits of the source."""
    files = sorted(SOURCE.rglob("*.py"))
    made = [create_mutations(str(path), path.read_text()) for path in files]
    ends = list(accumulate(len(mutations) for _, mutations, *_ in made))
    for number in sorted(random.Random(seed).sample(range(ends[-1]), count)):
        at = bisect.bisect_right(ends, number)
        path, (module, mutations, *_) = files[at], made[at]
        mutation = mutations[number - ends[at]]  # counted from the end
        before = path.read_text()
        after = module.deep_replace(mutation.original_node, mutation.mutated_node).code
        pairs = enumerate(zip(before.splitlines(), after.splitlines(), strict=False), 1)
        line, becomes = next((line, new.strip()) for line, (old, new) in pairs if old != new)
        file = path.relative_to(SOURCE).as_posix()
        tests = coverage.tests(path, line)
        yield Edit(f"{file}:{line}: {becomes}", (), file, before, after, tests, line, becomes)


def main() -> int:
    """Try a sample, print what is left over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", default="penstock")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--coverage", type=Path)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        coverage = measured((options.coverage or Path(folder) / "coverage").resolve())
    sample = list(edits(options.count, options.seed, coverage))
    preload()
    results = {
        edit: result or "no test" for edit, (result, _) in zip(sample, attempt_all(sample, options.jobs), strict=True)
    }
    noticed = sum(result not in {"survived", "no test"} for result in results.values())
    if options.record:
        rows = [{"file": e.file, "line": e.line, "becomes": e.becomes, "result": r} for e, r in results.items()]
        options.record.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    ends = ", ".join(f"{count} {result}" for result, count in Counter(results.values()).most_common())
    print(f"{noticed} of {len(sample)} noticed, {noticed / len(sample):.1%} ({ends})")
    return int(noticed < AIM * len(sample))


if __name__ == "__main__":
    sys.exit(main())
