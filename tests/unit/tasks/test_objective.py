from __future__ import annotations

import pytest

from penstock.errors import RecipeError
from penstock.losses import CrossEntropy, Focal, Lovasz, Tversky
from penstock.settings import Objective
from penstock.tasks.objective import mixture, weights_of


class TestObjective:
    def test_its_losses(self):
        one = Objective(
            1.0, 2.0, 3.0, 4.0, 5.0, 6.0, focal_gamma=1.5, tversky_alpha=0.2, tversky_beta=0.9, label_smoothing=0.1
        )
        assert mixture(one, (1.0, 3.0)).terms == [
            (1.0, CrossEntropy((1.0, 3.0), 0.1)),
            (2.0, Focal(1.5)),
            (3.0, Tversky(0.5, 0.5)),  # Dice
            (4.0, Tversky(1.0, 1.0)),  # Jaccard
            (5.0, Tversky(0.2, 0.9)),
            (6.0, Lovasz()),
        ]
        assert mixture(Objective(0.0, dice=1.0)).terms == [(1.0, Tversky())]

    @pytest.mark.parametrize(("step", "hardest"), [(0, 1.0), (5, 0.6), (10, 0.2), (15, 0.2), (None, 0.2)])
    def test_mining_begins_slowly(self, step, hardest):
        slow = Objective(ohem_ratio=0.2, ohem_warmup_steps=10, ohem_threshold=0.3)
        ((_, term),) = mixture(slow, (), step).terms
        assert (term.ohem_ratio, term.ohem_threshold) == (pytest.approx(hardest), 0.3)

    @pytest.mark.parametrize(
        ("chosen", "pixels", "message"),
        [
            (
                (1.0,), (3, 4),
                "loss.class_weights: expected 2 numbers, one for each of a, b, found 1. Give one number per class, in the order of the class ids.",
            ),
            (
                (1.0, -1.0), (3, 4),
                "loss.class_weights: expected numbers of at least 0, one of them above 0, found 1, -1. Change the weights.",
            ),
            (
                (0.0, 0.0), (3, 4),
                "loss.class_weights: expected numbers of at least 0, one of them above 0, found 0, 0. Change the weights.",
            ),
            (
                "inverse", (0, 0),
                "loss.class_weights = inverse needs the number of pixels of every class, which a topic does not have. "
                "Pull the topic to shards with penstock pull, or write the weights: loss.class_weights=[1.0, 2.5].",
            ),
            (
                "median", (3, 4),
                "loss.class_weights = median needs the number of pixels of the images in which each class occurs, which "
                "this dataset does not have. Use loss.class_weights=inverse, or pack the masks again.",
            ),
        ],
    )  # fmt: skip
    def test_class_weights_that_cannot_be(self, chosen, pixels, message):
        with pytest.raises(RecipeError) as caught:
            weights_of(Objective(class_weights=chosen), ("a", "b"), pixels)
        assert str(caught.value) == message

    def test_class_weights_that_are_written_are_taken(self):
        assert weights_of(Objective(class_weights=(0.0, 3.0)), ("a", "b"), ()) == (0.0, 3.0)
        assert weights_of(Objective(), ("a", "b"), (0, 0)) == ()
