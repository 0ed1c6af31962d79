"""What ranks do together."""

from __future__ import annotations

from types import SimpleNamespace

from penstock.ranks import Ranks


def test_cut_weights_are_added_up_alone_within_a_compiled_network_too():
    """torch.compile hides that a network is FSDP's, but hands on its methods."""
    asked = []
    with Ranks().alone(SimpleNamespace(set_requires_gradient_sync=asked.append)):
        assert asked == [False]
    assert asked == [False, True]
