"""The training objective: losses and their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from penstock.bounds import Fraction, Switch, Weight


@dataclass(frozen=True)
class Objective:
    """A sum of losses, each divided by its own count over the global batch: accumulation and ranks change nothing.

    Attributes:
        cross_entropy, focal, dice, jaccard, tversky, lovasz: Weight of each loss in the sum; 0 leaves it out.
        custom: Custom loss, added to the others: FILE.py:NAME or package.module:NAME.
        custom_weight: Weight of the custom loss.
        class_weights: Class weights of cross-entropy: "none", one number per class, or computed from the pixels of the
            training split: "inverse" (inverse frequency), "median" (median frequency balancing), or "effective"
            (effective number of samples).
        label_smoothing: Label smoothing of cross-entropy, from 0 to 0.99.
        ohem_ratio: Online hard example mining: fraction of the pixels of each image, hardest first, that counts.
        ohem_warmup_steps: Steps over which the fraction of pixels that count falls from 1 to `ohem_ratio`.
        ohem_threshold: Online hard example mining: only pixels whose true class has a probability below this threshold
            count in cross-entropy; 0 counts all.
        focal_gamma: Exponent of the focal loss.
        tversky_alpha, tversky_beta: Weights of false positives and of false negatives in the Tversky loss.
    """

    cross_entropy: Weight = 1.0
    focal: Weight = 0.0
    dice: Weight = 0.0
    jaccard: Weight = 0.0
    tversky: Weight = 0.0
    lovasz: Weight = 0.0
    custom: str = ""
    custom_weight: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    class_weights: tuple[float, ...] | Literal["none", "inverse", "median", "effective"] = "none"
    label_smoothing: Annotated[float, Meta(ge=0, le=0.99)] = 0.0
    ohem_ratio: Annotated[float, Meta(gt=0, le=1)] = 1.0
    ohem_warmup_steps: Switch = 0
    ohem_threshold: Fraction = 0.0
    focal_gamma: Annotated[float, Meta(ge=0, le=100)] = 2.0
    tversky_alpha: Annotated[float, Meta(ge=0, le=100)] = 0.3
    tversky_beta: Annotated[float, Meta(ge=0, le=100)] = 0.7
