"""The same scene as every annotation tool writes it gives the same boxes and the same masks."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from support import annotations as tools
from support.datasets import records as records_of
from support.layouts import boxes, words

from penstock.datasets import LayoutOptions, inspect, listing, pack
from penstock.images import codecs
from penstock.kinds.fields import decode_detection, decode_segmentation


@pytest.mark.parametrize("tool", tools.OUTLINES | tools.BOXES)
def test_boxes(tmp_path, tool):
    (tools.OUTLINES | tools.BOXES)[tool](tmp_path / "raw")
    found = inspect(tmp_path / "raw", how=LayoutOptions(task="detection"))
    pack(found, tmp_path / "data")

    assert found.problems == ()
    assert found.layout.name == tool.replace(" outlines", "")
    assert found.labels.classes == ("cat", "dog")
    cat = tools.box_of(tools.CAT) if tool != "Supervisely" else tools.box_of_bits(tools.bits_of(tools.CAT))
    expected = [(1, *tools.box_of(tools.DOG)), (0, *cat)]
    for split, names in tools.NAMES.items():
        packed = boxes(tmp_path, split)
        assert packed.keys() == set(names) or {name.rpartition("/")[2] for name in packed} == set(names)
        for own in packed.values():
            assert [label for label, *_ in own] == [1, 0]
            assert np.allclose(own, expected, atol=1e-4)


@pytest.mark.parametrize("tool", tools.OUTLINES)
def test_masks(tmp_path, tool):
    tools.OUTLINES[tool](tmp_path / "raw")
    found = inspect(tmp_path / "raw", how=LayoutOptions(task="segmentation"))
    dataset = pack(found, tmp_path / "data")

    assert (found.layout.name, found.problems) == (tool, ())
    assert found.labels.classes == ("background", "cat", "dog")
    expected = np.zeros(tools.SIZE, np.uint8)
    expected[tools.bits_of(tools.DOG)] = 2
    expected[tools.bits_of(tools.CAT)] = 1
    for split, names in tools.NAMES.items():
        packed = [decode_segmentation(record) for record in records_of(dataset, split)]
        assert len(packed) == len(names)
        for record in packed:
            assert np.array_equal(codecs.decode_mask(record.mask, "mask"), expected)


@pytest.mark.parametrize("tool", tools.OUTLINES)
def test_instances(tmp_path, tool):
    tools.OUTLINES[tool](tmp_path / "raw")
    found = inspect(tmp_path / "raw", how=LayoutOptions(task="instances"))
    dataset = pack(found, tmp_path / "data")

    assert (found.layout.name, found.problems) == (tool, ())
    assert found.labels.classes == ("cat", "dog")
    for split, names in tools.NAMES.items():
        packed = [decode_detection(record) for record in records_of(dataset, split)]
        assert len(packed) == len(names)
        for record in packed:
            assert [each.label for each in record.objects] == [1, 0]
            for each, outline in zip(record.objects, (tools.DOG, tools.CAT), strict=True):
                assert np.array_equal(codecs.decode_mask(each.mask, "mask") > 0, tools.bits_of(outline))


@pytest.mark.parametrize("tool", sorted(set(tools.OUTLINES) - {"YOLO outlines"}))
def test_outlines_are_masks_unless_another_task_is_chosen(tmp_path, tool):
    tools.OUTLINES[tool](tmp_path)
    assert inspect(tmp_path).layout.kind.name == "segmentation"


@pytest.mark.parametrize("tool", tools.OUTLINES)
def test_outlines_of_a_larger_image_are_a_problem_wherever_boxes_are(tmp_path, tool):
    """Images that were made smaller after somebody had annotated them."""
    tools.OUTLINES[tool](tmp_path)
    for path in filter(listing.is_image, listing.files(tmp_path)):
        Image.open(path).resize((tools.SIZE[1] // 2, tools.SIZE[0] // 2)).save(path)
    refused = {
        task: bool(words(tmp_path, LayoutOptions(task=task))) for task in ("detection", "segmentation", "instances")
    }
    relative = tool in {"YOLO outlines", "FiftyOne", "Label Studio"}
    assert refused == dict.fromkeys(refused, not relative)
