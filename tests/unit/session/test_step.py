from __future__ import annotations

import pytest
from support.line import session


class TestCuts:
    """Where micro-batches begin and end."""

    @pytest.mark.parametrize(
        ("rows", "size", "pieces", "expected"),
        [
            (6, 6, 4, [(0, 1), (1, 3), (3, 4), (4, 6)]),
            (6, 6, 1, [(0, 6)]),
            (2, 2, 5, [(0, 1), (1, 2)]),
            (5, 6, 4, [(0, 0), (0, 2), (2, 2), (2, 5)]),  # beside holes, whole pairs
            (7, 8, 2, [(0, 2), (2, 7)]),
            (0, 4, 2, [(0, 0), (0, 0)]),
        ],
    )
    def test_are_as_many_whatever_is_left(self, tmp_path, rows, size, pieces, expected):
        assert session(tmp_path, accumulate=pieces).learner.gradients._cuts(rows, size) == expected
