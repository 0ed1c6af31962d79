"""docs/results.md from bench/results/*.json, so that no figure is typed by hand.

python bench/results.py
"""

from __future__ import annotations

import results_feed as data
import results_topics as topics
import results_training as training
from results_text import RESULTS, ROOT, read

SECTIONS = (
    training.camvid,
    training.camvid_parts,
    training.step,
    training.session,
    training.layouts,
    training.hippocampus,
    training.hippocampus3d,
    training.boxes,
    training.cifar,
    training.airbench,
    training.cifar_jpeg,
    training.airbench_jpeg,
    data.feed,
    training.soak,
    topics.kafka,
    topics.kafka_settings,
    topics.kafka_camvid,
    topics.kafka_soak,
    topics.kafka_follow,
    topics.kafka_memory,
    data.safety,
    data.records,
    data.order,
)


def main() -> None:
    parts = [
        "# Results",
        "`python bench/results.py` makes this page from the files in `bench/results/`. The programs in `bench/` write those "
        "files. Notes about other programs that ran during a measurement are added to the files by hand. The sections name the "
        "versions that were measured; commands have the option and setting names of the present version.",
    ]
    for section in SECTIONS:
        name = section.__name__
        if (RESULTS / f"{name}.json").exists():
            parts += section(read(name))
    (ROOT / "docs" / "results.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
