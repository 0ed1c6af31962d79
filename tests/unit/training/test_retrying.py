"""Which failures may pass by themselves."""

from __future__ import annotations

import errno

import pytest

from penstock.errors import AwayError, DataError, SourceError, StalledError
from penstock.training.retrying import may_pass


def penstock_error(kind, cause=None):
    error = kind("x", expected="x", found="y", remedy="z")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (penstock_error(AwayError), True),
        (penstock_error(StalledError), True),
        (penstock_error(SourceError), False),
        (penstock_error(SourceError, OSError(errno.ESTALE, "stale")), True),
        (penstock_error(SourceError, penstock_error(DataError, TimeoutError(errno.ETIMEDOUT, "slow"))), True),
        (OSError(errno.EIO, "broken"), True),
        (FileNotFoundError(errno.ENOENT, "no mount"), True),
        (OSError(errno.ENOSPC, "full"), False),
        (PermissionError(errno.EACCES, "closed"), False),
        (ValueError("wrong"), False),
    ],
)
def test_what_may_pass(error, passes):
    assert may_pass(error) == passes
