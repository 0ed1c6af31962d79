from __future__ import annotations

import pytest
import segmentation_models_pytorch as smp
from support.losses import CLASSES, IGNORE, drawn, value

from penstock.losses import Lovasz, Tversky


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("term", "other"),
    [
        (Tversky(), smp.losses.DiceLoss("multiclass", ignore_index=IGNORE, smooth=0, eps=1e-12)),
        (Tversky(1.0, 1.0), smp.losses.JaccardLoss("multiclass", smooth=0, eps=1e-12)),
        (
            Tversky(0.3, 0.7),
            smp.losses.TverskyLoss("multiclass", ignore_index=IGNORE, smooth=0, alpha=0.3, beta=0.7),
        ),
    ],
)
def test_regions_are_those_of_segmentation_models_pytorch(seed, term, other):
    """Theirs takes a batch as one image, and counts classes that are not there as found."""
    ignored = 0.0 if isinstance(other, smp.losses.JaccardLoss) else 0.2
    logits, target = drawn(seed, samples=1, ignored=ignored)
    present = len(set(target.flatten().tolist()) - {IGNORE})

    assert value(term, logits, target).item() == pytest.approx(
        other(logits, target.long()).item() * CLASSES / present, rel=1e-4
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("absent", [False, True])
def test_lovasz_is_that_of_segmentation_models_pytorch(seed, absent):
    logits, target = drawn(seed)
    target[(target < 2) & absent] = IGNORE
    other = smp.losses.LovaszLoss("multiclass", per_image=True, ignore_index=IGNORE)

    assert value(Lovasz(), logits, target).item() == pytest.approx(other(logits, target.long()).item(), rel=1e-4)
