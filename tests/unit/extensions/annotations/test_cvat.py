from __future__ import annotations

from support import annotations as tools

from penstock.datasets import inspect


def test_the_subset_of_an_image_is_its_split(tmp_path):
    tools.images(tmp_path, "{name}.jpg")
    images = "".join(
        f'<image id="{number}" name="{name}.jpg" subset="{subset}" width="32" height="24">'
        '<box label="dog" xtl="3" ytl="4" xbr="12" ybr="14"/></image>'
        for number, (name, subset) in enumerate((("a", "Train"), ("b", "Validation"), ("c", "Test")))
    )
    (tmp_path / "annotations.xml").write_text(f"<annotations><version>1.1</version>{images}</annotations>")

    assert {each.item.name: each.item.split for each in inspect(tmp_path).items} == {
        "a": "train",
        "b": "val",
        "c": "test",
    }
