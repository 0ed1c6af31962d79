"""What is refused, and in which words."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError


def refused(function, *arguments, message, **named):
    with pytest.raises(PenstockError) as caught:
        function(*arguments, **named)
    assert str(caught.value) == message
