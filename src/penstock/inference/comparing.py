"""How the predictions of an exported file differ from those of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from penstock.images.geometry import Size
from penstock.tasks import Graph

Arrays = tuple[torch.Tensor, ...]

_IMAGES: Final = 2
_COARSE: Final = 16  # pixels of a spot of a random image
_NEAR: Final = 1.0  # pixels by which edges of one box may differ
_SAME: Final = 0.99  # of the pixels of one object


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same images, given to a file and to the model.

    Attributes:
        what: of what the predictions are: "pixel", "image" or "object".
        count: how many there are.
        agreement: the fraction of them that are equal; 1 where there are none.
        largest: the largest difference of a probability or a score.
    """

    what: str
    count: int
    agreement: float
    largest: float


def random_images(graph: Graph, size: Size, *, dynamic: bool) -> list[torch.Tensor]:
    """Images of a size and, where a file takes several, of another one too; the same ones each time."""
    generator = torch.Generator().manual_seed(0)
    shape, (low, high) = list(graph.shape), graph.values or (0, (1 << graph.bits) - 1)
    dtype = getattr(torch, graph.dtype)
    made = []
    for number in range(_IMAGES if dynamic or graph.any_size else 1):
        step = graph.multiple or _COARSE
        shape[-3:-1] = [size[0] + number * step, size[1] + 2 * number * step]
        if graph.any_size:
            spots = torch.rand(1, shape[-1], -(-shape[0] // _COARSE), -(-shape[1] // _COARSE), generator=generator)
            image = torch.nn.functional.interpolate(spots, size=shape[:2], mode="bilinear")[0]
            made.append((low + (high - low) * image).to(dtype).permute(1, 2, 0).contiguous())
        else:
            made.append(torch.randint(low, high + 1, (_IMAGES, *shape), generator=generator).to(dtype))
    return made


def compared(names: Sequence[str], found: Sequence[Arrays], expected: Sequence[Arrays]) -> Comparison:
    """What a file gave for some images beside what the model gave."""
    if "boxes" in names:
        return _of_objects(found, expected)
    pairs = list(zip(found, expected, strict=True))
    equal = torch.cat([(one[0] == other[0]).flatten() for one, other in pairs]).float()
    largest = max(float((one[-1].float() - other[-1].float()).abs().max()) for one, other in pairs)
    what = "pixel" if expected[0][0].dim() > 1 else "image"
    return Comparison(what, equal.numel(), equal.mean().item(), largest)


def _of_objects(found: Sequence[Arrays], expected: Sequence[Arrays]) -> Comparison:
    """Objects in the order of their scores; those that only one of the two has are different."""
    equal = count = 0
    largest = 0.0
    for one, other in zip(found, expected, strict=True):
        both = min(len(one[0]), len(other[0]))
        count += max(len(one[0]), len(other[0]))
        same = (one[0][:both] - other[0][:both]).abs().amax(dim=1) < _NEAR if both else torch.zeros(0, dtype=torch.bool)
        same &= one[2][:both] == other[2][:both]
        if len(one) > 3 and both:  # noqa: PLR2004 - masks are the fourth
            same &= (one[3][:both] == other[3][:both]).flatten(1).float().mean(dim=1) > _SAME
        equal += int(same.sum())
        if both:
            largest = max(largest, float((one[1][:both] - other[1][:both]).abs().max()))
    return Comparison("object", count, equal / count if count else 1.0, largest)
