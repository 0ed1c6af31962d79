"""Writes tests/mutants/RESULTS.md: which mutants were noticed, by row, promise and setting, and by package.

python tests/mutants/run.py --record named.json
python tests/mutants/generated.py --record generated.json
python tests/mutants/table.py named.json generated.json
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

from run import LEFT, ROOT, Mutant, read

WHAT = "What the tests notice when it is taken away. `make mutants` tries it, and `tests/mutants/table.py` writes this page."
MISSED = {"survived", "no test"}
PLACES = {
    "README": "README.md",
    "tour": "docs/tour.md",
    "design": "docs/design.md",
    "setting": "Settings of the recipe",
    "defect": "Defects",
}


def place(shown: str) -> str:
    """Where a row or promise stands."""
    word = re.split(r"[: ]", shown, maxsplit=1)[0]
    return PLACES.get(word, "docs/ledger.md")


def named(mutants: list[Mutant], results: dict[str, str]) -> list[str]:
    """A section for each place, a line for each row."""
    rows: dict[str, dict[str, list[Mutant]]] = defaultdict(lambda: defaultdict(list))
    for mutant in mutants:
        for shown in mutant.shows:
            rows[place(shown)][shown].append(mutant)
    lines = []
    for name, found in rows.items():
        tried = {mutant.name for each in found.values() for mutant in each}
        noticed = sum(results.get(each) == "killed" for each in tried)
        lines += [
            f"## {name}: {noticed} of {len(tried)} noticed",
            "",
            "| what is taken away | noticed | by |",
            "|---|---|---|",
        ]
        for shown, each in found.items():
            killed = sum(results.get(mutant.name) == "killed" for mutant in each)
            tests = sorted({test.partition("[")[0].replace("|", "") for mutant in each for test in mutant.tests})
            said = shown.split(": ", 1)[-1].removeprefix("setting ")
            lines.append(f"| {said} | {killed} of {len(each)} | {', '.join(f'`{test}`' for test in tests)} |")
        lines.append("")
    return lines


def generated(edits: list[dict[str, str]], reasons: dict[str, str]) -> list[str]:
    """A line for each package, and one for each edit that nothing noticed."""
    packages: dict[str, list[bool]] = defaultdict(list)
    for edit in edits:
        packages[edit["file"].partition("/")[0].removesuffix(".py")].append(edit["result"] not in MISSED)
    noticed = sum(map(sum, packages.values()))
    lines = [
        f"## A random sample of the edits that mutmut makes: {noticed} of {len(edits)} noticed",
        "",
        "| package | noticed |",
        "|---|---|",
        *(f"| {package} | {sum(found)} of {len(found)} |" for package, found in sorted(packages.items())),
        "",
        "Nothing noticed these. Where no reason stands, a test is to come.",
        "",
        "| where | becomes | why it may stay |",
        "|---|---|---|",
    ]
    for edit in edits:
        if edit["result"] in MISSED:
            shown = edit["becomes"].replace("|", "\\|")
            lines.append(f"| {edit['file']}:{edit['line']} | `{shown}` | {reasons.get(edit['becomes'], '')} |")
    return [*lines, ""]


def main() -> None:
    """Write the page."""
    results, made = (json.loads(Path(path).read_text()) for path in sys.argv[1:])
    lines = ["# Mutants", "", WHAT, "", *named(read(), results)]
    reasons = tomllib.loads(LEFT.read_text())
    lines += generated(made, reasons)
    (ROOT / "tests" / "mutants" / "RESULTS.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
