from __future__ import annotations

from support import miniatures, raw_folders

import penstock as ps


def test_inspect_takes_what_the_command_takes(tmp_path):
    raw_folders.own_fields(tmp_path / "records")
    found = ps.inspect(tmp_path / "records", fields={"image": "pic", "label": "kind"}, limit=2, max_side=16)
    assert [(each.height, each.width) for each in found.items] == [(12, 16)] * 2
    for number in range(3):
        miniatures.write(tmp_path / f"names/cat_{number}.jpg", miniatures.make_image(seed=number))
    assert ps.inspect(tmp_path / "names", pattern="(?P<label>[a-z]+)_").labels.classes == ("cat",)
    miniatures.csv_boxes(tmp_path / "boxes", "bbox", "2,3,10,12")
    (box,) = ps.inspect(tmp_path / "boxes", boxes="xyxy").items[0].item.boxes
    assert (box.right, box.bottom) == (10, 12)
