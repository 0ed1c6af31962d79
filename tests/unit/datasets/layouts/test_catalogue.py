from __future__ import annotations

from penstock.datasets.layouts.catalogue import layouts
from penstock.extending import loaded


def test_every_layout_has_a_function_and_its_files():
    for name, known in layouts().items():
        for place in filter(None, (known.place, known.with_fields, known.unread)):
            assert callable(loaded(place)), name
        assert known.tree, name


def test_what_is_published_is_asked_first_and_what_fits_many_folders_last():
    ranks = [known.rank for known in layouts().values()]

    assert ranks == sorted(ranks, key=["published", "annotated", "arranged", "last"].index)
