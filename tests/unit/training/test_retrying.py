"""Which failures may pass by themselves."""

from __future__ import annotations

import errno

import pytest

from penstock.errors import AwayError, DataError, SourceError, StalledError
from penstock.training import retrying
from penstock.training.retrying import may_pass, with_retries


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


@pytest.mark.parametrize(("steps", "pauses"), [([0, 1, 2, 3], [1, 1, 1, 1]), ([0, 1, 1, 2], [1, 1, 2, 1])])
def test_attempts_count_anew_after_every_new_step(monkeypatch, steps, pauses):
    slept, lines, saved = [], [], iter(steps)
    attempts = iter([*(TimeoutError(errno.ETIMEDOUT, "slow") for _ in steps), "done"])

    def attempt():
        outcome = next(attempts)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    at = []
    monkeypatch.setattr(retrying.time, "sleep", slept.append)

    def step():
        if len(at) < 1 or at[-1][0] != len(lines):
            at.append((len(lines), next(saved)))
        return at[-1][1]

    assert with_retries(attempt, attempt, retries=2, step=step, note=lines.append) == "done"
    assert slept == pauses
