"""Steps that follow from the size of the data; tests/e2e/test_trying.py has those of epochs."""

from __future__ import annotations

import pytest

from penstock.assembly import resolve_settings
from penstock.assembly.epochs import steps_of, with_default_batch, with_default_steps
from penstock.assembly.presets import resolve
from penstock.tasks import TASKS


def resolved(**given):
    return resolve({key.replace("__", "."): value for key, value in given.items()}, TASKS["segmentation"])


class TestDefault:
    @pytest.mark.parametrize(
        ("records", "steps", "every"),
        [(1, 1000, 50), (160, 1000, 50), (161, 1007, 50), (1600, 10_000, 500), (3199, 19_994, 999)],
    )
    def test_are_a_hundred_passes_between_the_bounds(self, records, steps, every):
        train = with_default_steps(resolved(), records).recipe.train
        assert (train.steps, train.evaluate_every, train.save_every) == (steps, every, every)

    @pytest.mark.parametrize("records", [3200, 10**9])
    def test_large_data_has_the_general_default(self, records):
        begun = resolved()
        assert with_default_steps(begun, records) is begun

    def test_a_part_of_the_data_counts_as_such(self):
        assert with_default_steps(resolved(data__limit=320), 10**6).recipe.train.steps == 2000

    def test_what_was_given_stays(self):
        for given in ({"train__steps": 7}, {"train__epochs": 3.0}):
            assert with_default_steps(resolved(**given), 100) == resolved(**given)
        kept = with_default_steps(resolved(train__save_every=3), 100)
        assert (kept.recipe.train.save_every, kept.recipe.train.evaluate_every) == (3, 50)
        assert kept.origin("train.save_every") == "given"

    @pytest.mark.parametrize(
        ("steps", "every", "lines"),
        [
            (1, 1, 1),
            (9, 9, 1),
            (10, 3, 1),
            (60, 15, 6),
            (400, 50, 40),
            (1000, 50, 50),
            (5000, 250, 50),
            (20_000, 1000, 50),
        ],
    )
    def test_a_short_training_is_evaluated_and_logged_too(self, packed, steps, every, lines):
        found = resolve_settings({"data.path": str(packed.folder), "train.steps": steps})
        train = found.recipe.train
        assert (train.steps, train.evaluate_every, train.save_every, train.log_every) == (steps, every, every, lines)
        given = {"data.path": str(packed.folder), "train.steps": steps, "train.evaluate_every": 7, "train.log_every": 3}
        train = resolve_settings(given).recipe.train
        assert (train.evaluate_every, train.save_every, train.log_every) == (7, every, 3)

    def test_a_run_says_where_they_come_from(self, packed):
        found = resolve_settings({"data.path": str(packed.folder)})
        assert (found.recipe.train.steps, found.origin("train.steps")) == (1000, "size of the data")

    @pytest.mark.parametrize(("epochs", "limit", "steps"), [(2, 8, 4), (2, 0, 11), (0.5, 8, 1), (3, 10**6, 16)])
    def test_epochs_are_passes_over_the_part_that_is_taken(self, packed, epochs, limit, steps):
        """The training split has 21 records: batches of 4, and what is left over at the end."""
        words = {"data.path": str(packed.folder), "train.batch": 4, "train.epochs": epochs, "data.limit": limit}

        assert steps_of(resolve_settings({**words, "model.weights": "none"}).recipe) == steps


@pytest.mark.parametrize(
    ("records", "limit", "batch"), [(1000, 0, 16), (1000, 5, 4), (9, 0, 8), (3, 1000, 2), (1, 0, 2)]
)
def test_a_batch_is_no_larger_than_the_part_of_the_data(records, limit, batch):
    begun = resolved(data__limit=limit)

    assert with_default_batch(begun, records).recipe.train.batch == min(batch, begun.recipe.train.batch)
