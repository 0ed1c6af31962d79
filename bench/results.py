"""docs/results.md and bench/RESULTS.md from bench/results/*.json, so that no figure is typed by hand.

python bench/results.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import results_feed as data
import results_topics as topics
import results_training as training
from results_text import RESULTS, ROOT, read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

PAGE = (
    training.camvid,
    training.camvid_parts,
    training.step,
    training.session,
    training.saving,
    training.resuming,
    training.hippocampus3d,
    training.boxes,
    training.cifar,
    training.airbench,
    data.feed,
    data.stages,
    data.small,
    data.packing,
    training.soak,
    topics.kafka,
    topics.kafka_camvid,
    topics.kafka_soak,
    topics.kafka_follow,
    data.order,
)
"""What users ask for: docs/results.md."""

DETAILS = (
    training.layouts,
    training.hippocampus,
    training.cifar_jpeg,
    training.airbench_jpeg,
    topics.kafka_settings,
    topics.kafka_memory,
    data.threads,
    data.safety,
    data.records,
)
"""What decides about defaults and designs: bench/RESULTS.md."""

HOW = (
    "`python bench/results.py` makes this page from the files in `bench/results/`, which the programs in `bench/` write. "
    "Each section names the versions that were measured."
)


def main() -> None:
    more = "More measurements, of defaults and of designs, are in `bench/RESULTS.md`."
    _write(ROOT / "docs" / "results.md", "# Results", f"{HOW} {more}", PAGE)
    _write(ROOT / "bench" / "RESULTS.md", "# Measurements of defaults and designs", HOW, DETAILS)


def _write(page: Path, title: str, how: str, sections: Sequence[Callable[[dict[str, Any]], list[str]]]) -> None:
    parts = [title, how]
    for section in sections:
        name = section.__name__
        if (RESULTS / f"{name}.json").exists():
            parts += section(read(name))
    page.write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
