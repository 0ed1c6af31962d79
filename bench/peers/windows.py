"""The draws of both scenarios in plain numpy, for peers that bring none."""

import math


def resized_crop(draw, height, width):
    area = height * width * (0.08 + 0.92 * draw())
    ratio = math.exp(math.log(0.75) + draw() * math.log(1.3333 / 0.75))
    w, h = min(width, round(math.sqrt(area * ratio))), min(height, round(math.sqrt(area / ratio)))
    return int(draw() * (height - h + 1)), int(draw() * (width - w + 1)), h, w


def scaled_crop(draw, height, width, crop=513):
    """A source window (y, x, h, w) and the size it is resized to, at most `crop`."""
    scale = 0.5 + 0.25 * int(draw() * 7)
    h, w = min(height, round(crop / scale)), min(width, round(crop / scale))
    to = min(crop, round(h * scale)), min(crop, round(w * scale))
    return int(draw() * (height - h + 1)), int(draw() * (width - w + 1)), h, w, to
