"""What the sections of docs/results.md have in common: tables, figures, and how a measurement is repeated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results"


def read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())


def block(lines: list[str]) -> str:
    return "\n".join(["```", *lines, "```"])


def about(found: dict) -> str:
    m = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found.get("versions", {}).items())
    return (
        f"Measured with `{found['command']}` on {m['cores']} cores ({m['processor']}), {m['memory_gib']} GiB, Python {m['python']}"
        f"{'; ' + versions if versions else ''}."
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def span(values: dict) -> str:
    return f"{values['median']:.2f} ({min(values['repeats']):.2f} to {max(values['repeats']):.2f})"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
