from __future__ import annotations

import json

from support.miniatures import make_image, write

from penstock.datasets import inspect


def test_an_image_of_several_classes_is_refused(tmp_path):
    for name in "ab":
        write(tmp_path / f"{name}.jpg", make_image(seed=ord(name)))
    tasks = [
        {
            "data": {"image": f"{name}.jpg"},
            "annotations": [{"result": [{"type": "choices", "value": {"choices": choices}}]}],
        }
        for name, choices in (("a", ["cat", "dog"]), ("b", ["cat"]))
    ]
    write(tmp_path / "project.json", json.dumps(tasks))

    assert [problem.message for problem in inspect(tmp_path).fatal] == [
        "a.jpg: expected one class, found cat, dog. Fix it, or leave the image out with --skip-bad. Images of several "
        "classes are not supported."
    ]
