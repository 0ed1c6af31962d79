from __future__ import annotations

from itertools import permutations

import pytest
from support.errors import refused

from penstock.config import parse_settings
from penstock.config.options import settings_of


@pytest.mark.parametrize("texts", [*permutations(["optimizer.lr=0.1", "train.batch=2", "optimizer.lr=0.2"])])
def test_a_setting_with_two_values_is_refused_whatever_their_order(texts):
    one, other = (text.partition("=")[2] for text in texts if "lr" in text)

    refused(
        parse_settings, texts, message=f"optimizer.lr is given twice, as {one} and as {other}. Remove one of the two."
    )


def test_an_option_and_a_setting_may_say_the_same():
    twice = "optimizer.lr is given twice, as 0.1 and as 0.2. Remove one of the two."

    assert settings_of(["optimizer.lr=0.1"], lr=0.1, batch=4) == {"optimizer.lr": 0.1, "train.batch": 4}
    assert settings_of(["augment.crop=[8, 9]"], crop=(8, 9))["augment.crop"] == [8, 9]
    refused(settings_of, {"optimizer.lr": 0.2}, lr=0.1, message=twice)


def test_what_a_trial_brings_gives_way_to_settings():
    assert settings_of(["train.log_every=2"], fast_dev_run=True)["train.log_every"] == 2
