from __future__ import annotations

import os
import signal

import pytest

from penstock.session.signals import caught


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_interrupt_acts_as_it_always_did(first):
    with caught() as flag:
        os.kill(os.getpid(), first)
        assert flag.signal == first
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_second_sigterm_changes_nothing():
    with caught() as flag:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        assert flag.signal == signal.SIGTERM


def test_what_was_there_before_comes_back():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    with caught() as flag:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert flag.save
        assert not flag
        assert [signal.getsignal(number) for number in numbers] != before
    assert [signal.getsignal(number) for number in numbers] == before
