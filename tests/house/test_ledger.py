"""Every test that docs/ledger.md, docs/faults.md and tests/FAULTS.md name is there."""

from __future__ import annotations

import re

import pytest
from support.paths import TESTS

DOCS = TESTS.parent / "docs"
FAULTS = TESTS / "FAULTS.md"
TEXT = "".join(path.read_text() for path in (DOCS / "ledger.md", DOCS / "faults.md", FAULTS))
NAMED = sorted(set(re.findall(r"`([\w/]+/test_\w+\.py)::(\w+)`", TEXT)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_is_there(file, name):
    assert re.search(rf"def {name}\(", (TESTS / file).read_text())


def test_rows_without_a_test_say_so():
    rows, _ = (TESTS.parent / "docs" / "ledger.md").read_text().split("## Left out")
    rows = [line for line in rows.splitlines() if line.startswith("| ")]
    for row in rows:
        feature, where, test = (cell.strip() for cell in row.strip("|").split("|"))
        if feature in {"feature", "defect", "feature or defect", "---"}:
            continue
        assert ("not yet" in where) == (not test), row


def test_every_fault_has_its_test():
    rows = [
        line
        for line in (DOCS / "faults.md").read_text().split("## What can fail")[1].splitlines()
        if line.startswith("| ")
    ]
    for row in rows[2:]:
        *_, test = (cell.strip() for cell in row.strip("|").split("|"))
        assert re.fullmatch(r"`[\w/]+\.py::\w+`(, `[\w/]+\.py::\w+`)*", test), row
    assert len(rows) > 20


def test_every_fault_that_was_found_has_its_test():
    rows = [line for line in FAULTS.read_text().split("## Tests that grow")[0].splitlines() if line.startswith("| ")]
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[3] in {"test", "---"} or re.fullmatch(r"`[\w/]+\.py::\w+`", cells[3]), row
