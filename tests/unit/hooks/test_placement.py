from __future__ import annotations

from support.line import session

from penstock import devices
from penstock.hooks.placement import Placement


def test_it_tells_once_where_everything_is(tmp_path):
    made, lines = session(tmp_path, 3, hooks=[Placement()]), []
    made.note = lines.append
    made.train()

    assert lines == [
        f"placement: {devices.describe(made.device)}, computing in float32, rank 0 of 1\n"
        "  parameters: 3 float32 on cpu\n"
        "  buffers: none\n"
        "  optimizer: 3 float32 on cpu\n"
        "  batch x: (4, 2) 8 float32 on cpu\n"
        "  batch y: (4,) 4 float32 on cpu"
    ]
