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


def test_a_segmentation_model_is_no_classifier():
    with pytest.raises(RecipeError) as caught:
        build_classifier("unet:resnet18", 2, "none")
    assert str(caught.value) == (
        "model.name = 'unet:resnet18': expected a timm model without an architecture before it, as the dataset is for "
        "classification, found unet:resnet18. Use resnet18."
    )
