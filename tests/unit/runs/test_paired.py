from __future__ import annotations

import json
import math
import os

import numpy as np
import pytest
from support.run_folders import write_run

import penstock as ps
from penstock.runs import RunFolder, facts
from penstock.runs.paired import Place, differences, place_of, read_images

PLACE = (Place(("0123abcd", "val"), "data"), "mean_iou")


def test_the_interval_is_that_of_the_mean():
    """Beside the one of normal statistics, which it comes near for many images."""
    random = np.random.default_rng(3)
    first = {f"{number}.jpg": float(each) for number, each in enumerate(random.uniform(0, 1, 400))}
    second = {name: score + float(random.normal(0.02, 0.1)) for name, score in first.items()}
    (found,) = differences(("a", "b"), {PLACE: first}, {PLACE: {**second, "new.jpg": 1.0}})
    gains = np.array([second[name] - first[name] for name in first])
    reach = 1.96 * gains.std(ddof=1) / math.sqrt(len(gains))

    assert (found.runs, found.metric, found.place, found.images) == (
        ("a", "b"),
        "mean_iou",
        "data (0123abcd), val",
        400,
    )
    assert found.mean == pytest.approx(gains.mean())
    assert (found.low, found.high) == pytest.approx((gains.mean() - reach, gains.mean() + reach), abs=0.001)
    assert [name for name, _, _ in found.furthest] == [
        f"{number}.jpg" for number in sorted(range(400), key=lambda number: -abs(gains[number]))[:5]
    ]


def test_it_is_said_in_a_sentence_and_whether_it_may_be_chance():
    (better,) = differences(("a", "b"), {PLACE: {"x.jpg": 0.5, "y.jpg": 0.25}}, {PLACE: {"x.jpg": 0.75, "y.jpg": 0.5}})
    (same,) = differences(("a", "b"), {PLACE: {"x.jpg": 0.5, "y.jpg": 0.5}}, {PLACE: {"x.jpg": 1.0, "y.jpg": 0.0}})

    assert str(better) == (
        "mean_iou of each of 2 images of data (0123abcd), val, b minus a: +0.2500 on average, 95 % interval +0.2500 to "
        "+0.2500; another seed may change it too; most in x.jpg (0.500 to 0.750), y.jpg (0.250 to 0.500)"
    )
    assert str(same) == (
        "mean_iou of each of 2 images of data (0123abcd), val, b minus a: +0.0000 on average, 95 % interval -0.5000 to "
        "+0.5000, which may be chance; most in x.jpg (0.500 to 1.000), y.jpg (0.500 to 0.000)"
    )


def test_other_data_and_other_metrics_are_no_pairs():
    scores = {"x.jpg": 0.5}
    assert [*differences(("a", "b"), {PLACE: scores}, {(Place(("9", "val"), "data"), "mean_iou"): scores})] == []
    assert [*differences(("a", "b"), {PLACE: scores}, {(PLACE[0], "accuracy"): scores})] == []
    assert [*differences(("a", "b"), {PLACE: scores}, {PLACE: {"y.jpg": 1.0}})] == []


def test_how_an_evaluation_was_done_tells_it_from_others():
    own = {"split": "val"}
    new = {**own, "data": "new", "content": "77"}
    assert str(place_of(own, "0123abcd9")) == "data (0123abcd), val"
    assert str(place_of(new, "0123abcd9")) == "new (77), val"
    assert str(place_of({**own, "tta": {"flip": True}}, "0")) == "data (0), val, flip"
    assert (
        len(
            {
                place_of({**own, **more}, "0123abcd9")
                for more in ({}, new, {"tta": {"shift": 1}}, {"window": {"side": 2}}, {"split": "x"})
            }
        )
        == 5
    )


def test_the_same_data_elsewhere_is_the_same_place():
    one, other = ({"split": "val", "data": data, "content": "77"} for data in ("here", "copy"))
    assert place_of(one, "0") == place_of(other, "0")


def test_images_of_one_name_are_told_apart_and_those_without_a_score_left_out(tmp_path):
    folder = RunFolder(tmp_path)
    (tmp_path / "evaluations").mkdir()
    folder.write_json("evaluations/val-00000004.json", {"split": "val"})
    rows = ["image,record,loss,mean_iou", "a.jpg,s#0,1,0.5", "a.jpg,s#1,1,0.25", "b.jpg,s#2,1,"]
    (tmp_path / "evaluations/val-00000004.csv").write_text("\n".join(rows))

    assert read_images(folder, "0123abcd") == {PLACE: {"a.jpg": 0.5, "a.jpg (2)": 0.25}}


@pytest.mark.parametrize("content", ["", "a,b,c,d\nx,y\n", "image,record,loss,iou\nx,y,1,z\n", "\0"])
def test_a_damaged_table_is_named(tmp_path, content):
    folder = RunFolder(tmp_path)
    (tmp_path / "evaluations").mkdir()
    folder.write_json("evaluations/val-00000004.json", {"split": "val"})
    (tmp_path / "evaluations/val-00000004.csv").write_text(content)
    with pytest.raises(ps.PenstockError, match=r"evaluations/val-00000004\.csv: expected"):
        read_images(folder, "0")


def test_of_several_evaluations_of_one_place_the_latest_counts(tmp_path):
    """Whatever their files are called: that of the best checkpoint may be older than that of the last one."""
    folder = write_run(tmp_path / "0001-a")
    (folder / "evaluations").mkdir(exist_ok=True)
    for age, (name, score) in enumerate((("a", 0.75), ("b", 0.5))):
        path = folder / f"evaluations/{name}-on-data.csv"
        path.write_text(f"image,record,loss,mean_iou\nx.jpg,val#0,1,{score}\n")
        tree = {"step": 1, "split": "val", "data": "/d/other", "content": "abc", "mean_iou": score, "loss": 1.0}
        path.with_suffix(".json").write_text(json.dumps(tree))
        for each in (path, path.with_suffix(".json")):
            os.utime(each, (1000 - age, 1000 - age))
    (images,) = read_images(RunFolder.open(folder), "").values()

    assert images == {"x.jpg": 0.75}
    assert facts._scored(facts._on_other_data(RunFolder.open(folder))) == {
        ("mean_iou", Place(("abc", "val"), "/d/other")): 0.75
    }
