from __future__ import annotations

import pytest
from support import miniatures
from support.layouts import words


@pytest.mark.parametrize(
    ("layout", "file"),
    [
        ("yolo", "labels/train/a.txt"), ("yolo", "data.yaml"), ("voc", "ImageSets/Segmentation/train.txt"),
        ("ade20k", "objectInfo150.txt"), ("cifar10", "batches.meta.txt"),
    ],
)  # fmt: skip
def test_text_that_is_no_utf8_is_named(tmp_path, layout, file):
    miniatures.MINIATURES[layout](tmp_path)
    (tmp_path / file).write_bytes(b"caf\xe9\n")

    assert words(tmp_path)[0].startswith(f"{tmp_path / file}: expected text in UTF-8, found ")


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    miniatures.voc_(tmp_path)
    path = tmp_path / "ImageSets/Segmentation/val.txt"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())

    assert words(tmp_path) == []


def test_lists_of_whole_paths_are_read(tmp_path):
    miniatures.voc_(tmp_path)
    (tmp_path / "ImageSets/Segmentation/val.txt").write_text(
        "/JPEGImages/2007_000003.jpg /SegmentationClass/2007_000003.png\n"
    )

    assert words(tmp_path) == []
