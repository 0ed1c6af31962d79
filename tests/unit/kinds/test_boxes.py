from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.miniatures import make_image, write

from penstock.datasets import inspect
from penstock.images import geometry
from penstock.images.geometry import Affine, View
from penstock.images.warp import warp_mask


class TestGeometry:
    @given(
        box=st.tuples(*[st.integers(0, 30)] * 2, *[st.integers(4, 30)] * 2),
        scale=st.floats(0.5, 2),
        at=st.tuples(st.floats(0, 0.99), st.floats(0, 0.99)),
        mirrored=st.booleans(),
    )
    def test_a_box_stays_around_its_object(self, box, scale, at, mirrored):
        """The box that is moved is the box around the object that is moved."""
        x, y, width, height = box
        mask = np.zeros((60, 60), np.uint8)
        mask[y : y + height, x : x + width] = 1
        view = geometry.scale_and_crop((60, 60), (48, 48), scale, at)
        view = geometry.flip(view) if mirrored else view
        seen = np.empty((48, 48), np.uint8)
        warp_mask(mask, view.affine, 0, seen)
        moved, there = geometry.move_boxes(np.array([[x, y, x + width, y + height]], float), view, (60, 60), 0.0)
        rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
        if rows.size > 1 and columns.size > 1:
            expected = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
            assert moved[0] == pytest.approx(expected, abs=1.01)
            assert there[0]

    def test_a_turned_box_is_the_smallest_upright_one_around_it(self):
        view = geometry.rotate(View((100, 100), Affine()), 90)
        moved, _ = geometry.move_boxes(np.array([[10.0, 20, 30, 60]]), view, (100, 100), 0.0)

        assert moved[0] == pytest.approx([20, 70, 60, 90])

    @pytest.mark.parametrize(("kept", "stays"), [(0.24, True), (0.26, False)])
    def test_what_leaves_the_crop_is_dropped_by_its_area(self, kept, stays):
        view = View((50, 50), Affine())
        moved, there = geometry.move_boxes(np.array([[40.0, 40, 60, 60]]), view, (100, 100), kept)

        assert moved[0].tolist() == [40, 40, 50, 50]
        assert there.tolist() == [stays]

    def test_no_boxes_are_none(self):
        moved, there = geometry.move_boxes(np.zeros((0, 4)), View((50, 50), Affine()), (10, 10), 0.5)

        assert (moved.shape, there.shape) == ((0, 4), (0,))

    def test_the_inverse_is_the_way_back(self):
        affine = Affine(0.5, 0.2, 3, -0.1, 2, 7)
        assert affine.inverse().point(*affine.point(11.0, 13.0)) == pytest.approx((11, 13))


def test_boxes_are_cut_at_the_edges_and_dropped_one_by_one():
    view = View((50, 60), Affine())
    boxes = np.array([[0, 0, 9, 8], [-5, -6, 4, 3], [59.5, 1, 70, 9], [1, 49.5, 9, 70], [2, 3, 60, 50]], float)
    moved, stays = geometry.move_boxes(boxes, view, (100, 100), 0.0)

    assert moved.tolist() == [[0, 0, 9, 8], [0, 0, 4, 3], [59.5, 1, 60, 9], [1, 49.5, 9, 50], [2, 3, 60, 50]]
    assert stays.tolist() == [True, True, False, False, True]


@pytest.mark.parametrize(
    ("first", "second", "part"),
    [
        ((0, 0, 20, 10), (130, 80, 150, 100), "50%"),  # drawn on images half as large
        ((0, 0, 20, 10), (80, 90, 100, 100), "50%"),  # in percent
        ((0, 0, 20, 10), (130, 80, 290, 190), ""),
        ((140, 90, 160, 105), (135, 95, 165, 110), ""),  # small objects in the middle
    ],
)
def test_boxes_that_all_lie_in_a_corner_are_reported(tmp_path, first, second, part):
    rows = ["filename,xmin,ymin,xmax,ymax,class"]
    for number in range(10):
        write(tmp_path / f"{number}.jpg", make_image((200, 300), seed=number))
        rows += [f"{number}.jpg,{','.join(map(str, box))},cup" for box in (first, second)]
    write(tmp_path / "labels.csv", "\n".join(rows) + "\n")
    message = (
        f"0.jpg: all 20 boxes lie in the upper left {part} of the height and width of their images. If they are in percent, "
        "or were drawn on smaller images, correct their numbers."
    )
    assert [problem.message for problem in inspect(tmp_path).problems] == ([message] if part else [])
