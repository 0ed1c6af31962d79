"""Names of classes that are probably one class, or several."""

from __future__ import annotations

import numpy as np
import pytest
from support.layouts import notes
from support.miniatures import gray, make_image, write

from penstock.datasets import inspect


def table(root, counts):
    """A table of images of some classes, so many of each."""
    rows, number = ["file;label"], 0
    for name, count in counts.items():
        for _ in range(count):
            write(root / f"{number}.png", make_image(seed=number))
            rows.append(f"{number}.png;{name}")
            number += 1
    write(root / "labels.csv", "\n".join(rows) + "\n")


def test_a_rare_name_that_is_nearly_a_frequent_one_is_noted(tmp_path):
    table(tmp_path, {"ceramic": 10, "ceramc": 1, "glass": 3})
    assert notes(tmp_path) == [
        "class 'ceramc' with 1 image is spelt nearly like 'ceramic' with 10: if they are one, write it once."
    ]


@pytest.mark.parametrize(
    "counts",
    [
        {"ceramic": 9, "ceramc": 1},  # not so rare
        {"type10": 10, "type11": 1},  # numbers
        {"ceramic": 10, "plastic": 1},  # another word
        {"cat": 10, "car": 1},  # short words are often alike
    ],
)
def test_other_names_are_not(tmp_path, counts):
    table(tmp_path, counts)
    assert notes(tmp_path) == []


@pytest.mark.parametrize("mark", [",", ", ", "|", " ; ", " "])
def test_several_labels_in_a_cell_are_noted(tmp_path, mark):
    counts = {"red": 2, "round": 2, f'"red{mark}round"': 2, '"blue,square"': 2}
    table(tmp_path, counts)
    assert notes(tmp_path) == [
        f"class 'red{mark}round' looks like the classes red and round together. Each combination is a class of its own: images "
        "of several classes are not supported."
    ]


def test_labels_with_a_bar_between_them_are_several(tmp_path):
    """ChestX-ray14: Cardiomegaly|Emphysema, of which neither is alone here."""
    table(tmp_path, {"No Finding": 2, "Cardiomegaly|Emphysema": 2})
    assert notes(tmp_path) == [
        "class 'Cardiomegaly|Emphysema' looks like the classes Cardiomegaly and Emphysema together. Each combination is a class "
        "of its own: images of several classes are not supported."
    ]


def test_names_of_several_words_are_names(tmp_path):
    table(tmp_path, {"sea lion": 2, "lion": 2, "sea of cloud": 2})
    assert notes(tmp_path) == []


@pytest.mark.parametrize(
    ("names", "ids", "part"),
    [
        ("cat\ndog\nowl\n", (0, 0, 0, 1, 2), "60%"),
        ("cat\ndog\n", (0,) * 23 + (1,), "96%"),
        ("cat\ndog\n", (0, 1), ""),
        ("background\ncat\n", (0,) * 23 + (1,), ""),
    ],
)
def test_a_class_0_that_may_be_the_background_is_noted(tmp_path, names, ids, part):
    mask = np.resize(np.array(ids, np.uint8), (24, 120))
    for number in range(2):
        write(tmp_path / f"images/{number}.jpg", make_image((24, 120), seed=number))
        write(tmp_path / f"masks/{number}.png", gray(mask))
    text = names if len(set(ids)) < 3 else names + "fox\n"
    write(tmp_path / "classes.txt", text)
    said = (
        f"images/0.jpg: the id 0, {names.partition(chr(10))[0]}, covers {part} of the pixels. If 0 is the background, write "
        "background in front of the other names."
    )
    assert (said in notes(tmp_path)) == bool(part)


@pytest.mark.parametrize("name", ["NA", "n/a", "#N/A", "<NA>", "null", "None", "?", "-"])
def test_a_class_that_stands_for_no_label_is_noted(tmp_path, name):
    for number in range(6):
        write(tmp_path / f"{number}.jpg", make_image(seed=number))
    rows = "".join(f"{number}.jpg,{('0', '1', name)[number % 3]}\n" for number in range(6))
    write(tmp_path / "labels.csv", f"file,label\n{rows}")
    assert notes(tmp_path) == [
        f"class {name!r} is a class of its own: if it stands for a label that is missing, remove its rows."
    ]


def test_a_negative_number_as_a_class_is_noted(tmp_path):
    for number in range(6):
        write(tmp_path / f"{number}.jpg", make_image(seed=number))
    rows = "".join(f"{number}.jpg,{number % 3 - 1}\n" for number in range(6))
    write(tmp_path / "labels.csv", f"file,label\n{rows}")
    assert notes(tmp_path) == ["class '-1' is a class of its own: if it marks what has no label, remove its rows."]


@pytest.mark.parametrize(
    ("others", "noted"), [(("0", "1", "2"), True), (("0", "1"), True), (("7",), False), (("A", "B"), False)]
)
def test_numbers_among_words_are_noted(tmp_path, others, noted):
    for number, name in enumerate(("bird", "cat", "dog", *others)):
        for count in range(2):
            write(tmp_path / name / f"{count}.jpg", make_image(seed=2 * number + count))
    found = [
        problem.message
        for problem in inspect(tmp_path).problems
        if "are numbers and others are words" in problem.message
    ]

    message = f"classes 0 to {others[-1]} are numbers and others are words: if they are ids, write the names."
    assert found == ([message] if noted else [])
