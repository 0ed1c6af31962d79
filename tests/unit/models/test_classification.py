from __future__ import annotations

import pytest

from penstock.errors import RecipeError
from penstock.models import build_classifier
from penstock.tasks import Classification


def test_a_classifiers_names_are_systematic():
    names = set(build_classifier("resnet18", 5, "none").state_dict())

    assert {"head.weight", "head.bias", "encoder.conv1.weight"} <= names
    assert all(name.startswith(("encoder.", "head.")) for name in names)


def test_an_unknown_classifier_is_predicted_with_the_nearest():
    with pytest.raises(RecipeError) as caught:
        Classification("resnet5O", ("a", "b")).model()

    assert "expected a timm model, or one of cifar10-tutorial, cifar10-fast, found resnet5O. Did you mean" in str(
        caught.value
    )
