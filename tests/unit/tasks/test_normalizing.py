from __future__ import annotations

from support.errors import refused

from penstock.datasets.description import Description
from penstock.settings import Model, TaskSettings
from penstock.tasks.normalizing import of_data

BARE = Description("classification", ("a", "b"), 255, {}, "folders")


def test_the_backbones_is_the_default():
    assert of_data(TaskSettings(), BARE) is None


def test_a_dataset_that_does_not_state_its_mean_is_refused():
    message = (
        "model.normalization: expected a dataset that states the mean of its pixels, found one that does not. Pack the "
        "dataset again, or leave this setting out."
    )
    refused(of_data, TaskSettings(Model(normalization="data")), BARE, message=message)
