from __future__ import annotations

from torch import nn

from penstock.models import build_segmenter
from penstock.session.blocks import blocks


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.squeeze = nn.Conv2d(4, 4, 1)


def test_are_the_innermost_modules_of_containers_that_have_parts():
    stage = nn.Sequential(Branch(), Branch())
    outer = nn.ModuleDict({"deep": nn.ModuleList([stage, nn.Conv2d(4, 4, 1)]), "plain": nn.ReLU()})
    model = nn.Sequential(nn.Conv2d(3, 4, 1), outer)

    assert list(blocks(model)) == ["1.deep.0.0", "1.deep.0.1"]
    assert blocks(model)["1.deep.0.1"] is stage[1]


def test_one_that_holds_another_is_none():
    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Branch()])

    assert list(blocks(nn.Sequential(Stage(), Branch()))) == ["0.layers.0", "1"]


def test_are_those_that_papers_name():
    found = list(blocks(build_segmenter("unet:resnet18", 2, "none")))
    layers = list(blocks(build_segmenter("segformer:mit_b0", 2, "none")))

    assert found[:8] == [f"encoder.model.layer{stage}.{number}" for stage in (1, 2, 3, 4) for number in (0, 1)]
    assert found[8:13] == [f"decoder.blocks.{number}" for number in range(5)]
    assert layers[:8] == [f"encoder.block{stage}.{number}" for stage in (1, 2, 3, 4) for number in (0, 1)]


def test_a_model_may_have_none():
    assert blocks(nn.Sequential(nn.Linear(2, 2), nn.ReLU())) == {}
