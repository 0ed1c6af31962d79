from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import RecipeError
from penstock.losses import class_weights
from penstock.settings import Objective
from penstock.tasks.objective import weights_of


@given(
    st.lists(st.integers(0, 10**9), min_size=1, max_size=30).filter(any),
    st.sampled_from(["inverse", "effective"]),
)
def test_class_weights_favour_what_is_rare(pixels, how):
    weights = class_weights(pixels, how)
    present = [(count, weight) for count, weight in zip(pixels, weights, strict=True) if count]

    assert sum(weight for _, weight in present) / len(present) == pytest.approx(1)
    assert all(weight > 0 for weight in weights)
    for (count, weight), (other, less) in pairwise(sorted(present)):
        assert count == other or weight >= less * (1 - 1e-9)


def test_class_weights_as_published():
    assert class_weights((10, 30), "inverse") == pytest.approx((1.5, 0.5))
    frequencies = (
        10 / 100,
        20 / 40,
        40 / 100,
    )  # of images of 40 and 60 pixels, the second class in the first one alone
    weights = [sorted(frequencies)[1] / each for each in frequencies]
    found = class_weights((10, 20, 40), "median", (100, 40, 100))
    assert found == pytest.approx([3 * weight / sum(weights) for weight in weights])
    beta = 1 - 1 / 40
    raw = [(1 - beta) / (1 - beta**n) for n in (10, 30)]
    assert class_weights((10, 30), "effective") == pytest.approx([2 * w / sum(raw) for w in raw])
    assert class_weights((10, 0), "inverse") == (1.0, 1.0)
    assert class_weights((1, 1), "effective") == (1.0, 1.0)
    assert class_weights((1, 0), "effective") == (1.0, 1.0)
    assert class_weights((10, 30), "none") == ()
    with pytest.raises(ValueError, match=r"^no class has a pixel$"):
        class_weights((0, 0), "inverse")


def test_weights_that_do_not_fit_are_refused():
    with pytest.raises(RecipeError) as caught:
        weights_of(Objective(class_weights=(1.0, 2.0)), ("a", "b", "c"), (1, 1, 1))
    assert str(caught.value) == (
        "loss.class_weights: expected 3 numbers, one for each of a, b, c, found 2. Give one number per class, in the order of the class ids."
    )
    for weights in ((0.0, 0.0), (-1.0, 1.0), (1.0, math.nan), (1.0, math.inf)):
        with pytest.raises(RecipeError, match=r"loss.class_weights: expected numbers of at least 0, one of them above"):
            weights_of(Objective(class_weights=weights), ("a", "b"), (1, 1))
    with pytest.raises(RecipeError, match="needs the number of pixels of every class"):
        weights_of(Objective(class_weights="median"), ("a", "b"), (0, 0))
    with pytest.raises(RecipeError) as caught:
        weights_of(Objective(class_weights="median"), ("a", "b"), (1, 1))
    assert str(caught.value) == (
        "loss.class_weights = median needs the number of pixels of the images in which each class occurs, which this "
        "dataset does not have. Use loss.class_weights=inverse, or pack the masks again."
    )
    assert weights_of(Objective(), ("a", "b"), (0, 0)) == ()
