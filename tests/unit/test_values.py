from __future__ import annotations

import pytest

from penstock.progress import counted


@pytest.mark.parametrize(
    ("number", "what", "said"),
    [(1, "box", "1 box"), (2, "box", "2 boxes"), (0, "class", "0 classes"), (1234, "entry", "1,234 entries")],
)
def test_numbers_of_things_are_said_as_people_do(number, what, said):
    assert counted(number, what) == said
