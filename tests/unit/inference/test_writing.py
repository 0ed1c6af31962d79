from __future__ import annotations

from penstock.inference.writing import finish_folder, prediction_folder


def test_predictions_that_differ_from_those_before_may_be_replaced_too(tmp_path):
    place = tmp_path / "out/a.png"
    for data in (b"first", b"second", b"third"):
        prediction_folder(place.parent, [place], "segmentation")
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)
        finish_folder(place.parent)
