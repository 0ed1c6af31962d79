"""Where things are in the checkout."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
SUPPORT = TESTS / "support"
EXAMPLES = ROOT / "examples"
