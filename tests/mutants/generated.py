"""How many of the small edits that mutmut makes of some packages are noticed by their tests.

    python tests/mutants/generated.py             all of them, about an hour on two cores
    python tests/mutants/generated.py losses ...  these

Every package is mutated in a copy of the checkout, and its own tests are run on each mutant. A mutant that hangs counts
as noticed, one that no test runs through does not. What is left over is named, for somebody to look at.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from run import ROOT, Tree

AIM = 0.9
UNNOTICED = ("survived", "no tests", "suspicious")


@dataclass(frozen=True)
class Package:
    """What is mutated, below src/penstock, and the tests that are to notice."""

    source: str
    tests: tuple[str, ...]


PACKAGES = {
    "seeds": Package("seeds.py", ("seeds", "order", "fast")),
    "order": Package("order", ("order", "chain", "feed", "following")),
    "records": Package("records", ("records", "layouts", "packing", "refusals")),
    "losses": Package("losses", ("losses", "matting", "classify", "holes", "oracles")),
    "metrics": Package("metrics", ("metrics", "segments", "independent", "matting", "classify", "detect", "volumes_whole")),
    "images": Package("images", ("images", "jpeg", "png", "volumes", "matting", "feed")),
    "session": Package("session", ("session", "checkpoints", "holes", "fast", "oracles", "run_folder", "mended")),
    "tasks": Package("tasks", ("holes", "oracles", "feed", "classify", "detect", "matting", "volumes_whole", "images", "promises")),
}  # fmt: skip

_SETTINGS = """
[tool.mutmut]
source_paths = ["src/penstock/{source}"]
pytest_add_cli_args_test_selection = [{tests}]
pytest_add_cli_args = ["-q", "-p", "no:cacheprovider", "-m", "not slow and not soak"]
also_copy = ["src", "tests", "docs", "bench", "README.md"]
"""


def mutated(package: Package, folder: Path, jobs: int) -> tuple[dict[str, int], list[str]]:
    """How many mutants had each end, and the names of those that nothing noticed."""
    Tree(folder).fill()
    tests = ", ".join(f'"tests/test_{name}.py"' for name in package.tests)
    with (folder / "pyproject.toml").open("a") as settings:
        settings.write(_SETTINGS.format(source=package.source, tests=tests))
    data = os.environ.get("PENSTOCK_TEST_DATA", str(ROOT.parent / "shared" / "data"))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PENSTOCK_TEST_DATA": data}
    mutmut = [sys.executable, "-m", "mutmut"]
    log = folder / "mutmut.log"
    with log.open("w") as out:
        command = [*mutmut, "run", "--max-children", str(jobs)]
        done = subprocess.run(command, cwd=folder, env=environment, stdout=out, stderr=out, check=False)
    if done.returncode:
        raise SystemExit(f"mutmut failed on {package.source}:\n{log.read_text()[-3000:]}")
    subprocess.run([*mutmut, "export-cicd-stats"], cwd=folder, env=environment, check=True, capture_output=True)
    counts = json.loads((folder / "mutants" / "mutmut-cicd-stats.json").read_text())
    results = subprocess.run(
        [*mutmut, "results"], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    lines = [line.strip() for line in results.stdout.splitlines()]
    return counts, [line for line in lines if line.endswith(UNNOTICED)]


def main() -> int:
    """Mutate packages, print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("packages", nargs="*", choices=[[], *PACKAGES])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    below = 0
    for name in options.packages or PACKAGES:
        with tempfile.TemporaryDirectory() as folder:
            counts, left = mutated(PACKAGES[name], Path(folder), options.jobs)
        noticed = counts["killed"] + counts["timeout"]
        share = noticed / max(1, counts["total"] - counts.get("skipped", 0))
        below += share < AIM
        print(f"{name:<10} {noticed:>6} of {counts['total']:>6} noticed  {share:.1%}", flush=True)
        print(*(f"    {line}" for line in left), sep="\n", flush=True)
    return int(below > 0)


if __name__ == "__main__":
    sys.exit(main())
