from __future__ import annotations

import pytest
from support.commands import call
from support.training import recipe

from penstock.config import apply


def test_shards_are_shuffled_globally_where_the_shuffle_is_left_open(packed):
    from penstock.assembly import chosen_shuffle

    data = chosen_shuffle(apply(recipe(packed.folder), ["data.block=0", "data.shuffle_window=7"])).data

    assert (data.block, data.shuffle_window) == (1, 1)


@pytest.mark.parametrize("command", ["train", "verify"])
def test_a_scheme_that_is_not_supported_is_refused(capsys, command):
    assert call(command, "s3://bucket/data", capsys=capsys) == (
        2,
        "",
        "error: s3://bucket/data: expected a folder, or kafka://HOST:PORT/TOPIC, found the scheme s3://, which is not "
        "supported. Copy the dataset to a folder.\n",
    )
