from __future__ import annotations

import pytest

from penstock.sources import Fault, MemorySource


def test_the_fake_reads_and_fails_on_demand():
    source = MemorySource({"a": [b"x", Fault(OSError("gone")), b"y"]})

    assert [r.payload for r in source.read("a", 0, 1)] == [b"x"]
    with pytest.raises(OSError, match="gone"):
        list(source.read("a", 0, 3))
    assert source.snapshot().digest != MemorySource({"a": [b"x", b"z", b"y"]}).snapshot().digest
