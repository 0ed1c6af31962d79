"""What is refused, and in which words."""

from __future__ import annotations

import pytest

from penstock.errors import DatasetError, RecipeError


def refused(function, *arguments, message, **named):
    with pytest.raises((RecipeError, DatasetError)) as caught:
        function(*arguments, **named)
    assert str(caught.value) == message
