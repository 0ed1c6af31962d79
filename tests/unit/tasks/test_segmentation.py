from __future__ import annotations

from penstock.tasks import Segmentation


def test_drawings_have_the_colours_of_the_legend():
    colors = ((1, 2, 3), (200, 100, 50))
    drawing = Segmentation("unet:resnet18", ("sky", "road"), colors=colors).drawing

    assert (drawing.colors, drawing.legend) == (colors, ("sky", "road"))
