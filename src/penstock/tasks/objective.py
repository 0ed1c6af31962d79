"""What training makes small: losses, and what they weigh."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from penstock.bounds import Fraction, Switch, Weight
from penstock.errors import RecipeError
from penstock.losses import CrossEntropy, Focal, Lovasz, Mixture, Tversky, class_weights
from penstock.losses.own import load_own
from penstock.progress import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.losses import Term


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

    def mixture(self, weights: tuple[float, ...] = (), step: int | None = None) -> Mixture:
        """The losses that weigh something, as they are after some finished steps; None stands for the end."""
        annealed = 1.0 if step is None or not self.ohem_warmup_steps else min(1.0, step / self.ohem_warmup_steps)
        hardest = annealed * self.ohem_ratio + (1 - annealed)
        terms: Sequence[tuple[float, Term]] = (
            (self.cross_entropy, CrossEntropy(weights, self.label_smoothing, hardest, self.ohem_threshold)),
            (self.focal, Focal(self.focal_gamma)),
            (self.dice, Tversky()),
            (self.jaccard, Tversky(1.0, 1.0)),
            (self.tversky, Tversky(self.tversky_alpha, self.tversky_beta)),
            (self.lovasz, Lovasz()),
        )
        own = [(self.custom_weight, load_own(self.custom))] if self.custom else []
        return Mixture([*((weight, term) for weight, term in terms if weight), *own])


def weights_of(
    objective: Objective, classes: Sequence[str], pixels: Sequence[int], image_pixels: Sequence[int] = ()
) -> tuple[float, ...]:
    """The class weights of an objective.

    Args:
        objective: says how.
        classes: their names.
        pixels: of each class in the training split.
        image_pixels: of the images that each class occurs in.

    Raises:
        RecipeError: there are as many numbers as classes not, one is no weight, or no pixels are counted.
    """
    chosen = objective.class_weights
    if isinstance(chosen, tuple):
        if len(chosen) != len(classes):
            raise RecipeError(
                "loss.class_weights",
                expected=f"{counted(len(classes), 'number')}, one for each of {', '.join(classes)}",
                found=f"{len(chosen)}",
                remedy="Give one number per class, in the order of the class ids",
            )
        if not all(0 <= weight < math.inf for weight in chosen) or not any(chosen):
            raise RecipeError(
                "loss.class_weights",
                expected="numbers of at least 0, one of them above 0",
                found=", ".join(f"{weight:g}" for weight in chosen),
                remedy="Change the weights",
            )
        return chosen
    if chosen != "none" and not any(pixels):
        raise RecipeError(
            "loss.class_weights",
            expected="the number of pixels of every class",
            found="none",
            remedy="Write the weights",
            message=f"loss.class_weights = {chosen} needs the number of pixels of every class, which a topic does not "
            "have. Pull the topic to shards with penstock pull, or write the weights: loss.class_weights=[1.0, 2.5].",
        )
    if chosen == "median" and not image_pixels:
        raise RecipeError(
            "loss.class_weights",
            expected="a dataset that counts the pixels of the images in which each class occurs",
            found="none",
            remedy="Use another weighting",
            message="loss.class_weights = median needs the number of pixels of the images in which each class occurs, "
            "which this dataset does not have. Use loss.class_weights=inverse, or pack the masks again.",
        )
    return class_weights(pixels, chosen, image_pixels)
