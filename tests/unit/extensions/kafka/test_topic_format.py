from __future__ import annotations

import dataclasses
import json


def test_what_is_said_of_a_dataset_in_a_topic_is_what_its_description_says(packed):

    from penstock.extensions.kafka import About

    described = dataclasses.replace(packed.description, original=(0, 5, 6), mapping=((21, 255), (5, 6)))
    described = dataclasses.replace(described, colors=((1, 2, 3), (4, 5, 6), (7, 8, 9)))
    split = dataclasses.replace(described.splits["train"], objects=600)
    found = json.loads(About.of(described, split).encoded())

    assert found == {
        "task": "segmentation",
        "classes": list(described.classes),
        "ignore_label": 255,
        "height": split.height,
        "width": split.width,
        "objects": 600,
        "original": [0, 5, 6],
        "mapping": [[21, 255], [5, 6]],
        "mean": list(described.mean),
        "std": list(described.std),
        "colors": [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
    }
