"""What training makes small: losses, and what they weigh."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.errors import RecipeError
from penstock.losses import CrossEntropy, Focal, Lovasz, Mixture, Tversky, class_weights
from penstock.progress import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.losses import Term


@dataclass(frozen=True)
class Objective:
    """A sum of losses, each divided by its own count over the global batch: accumulation and ranks change nothing.

    Attributes:
        cross_entropy, focal, dice, jaccard, tversky, lovasz: what each weighs; 0 leaves it out.
        class_weights: of cross-entropy: "none", one number per class, or from the training split's pixels: "inverse"
            frequency, "median" frequency by image, or "effective" number of samples.
        smoothing: of cross-entropy's target, from 0 to below 1.
        hardest: the share of each picture's pixels with the largest cross-entropy that counts.
        hardest_after: steps over which that share falls from 1 to `hardest`.
        threshold: only pixels whose own class gets a smaller probability than this count in cross-entropy; 0 takes all.
        gamma: of focal.
        false_positive, false_negative: what the two mistakes weigh in tversky.
    """

    cross_entropy: float = 1.0
    focal: float = 0.0
    dice: float = 0.0
    jaccard: float = 0.0
    tversky: float = 0.0
    lovasz: float = 0.0
    class_weights: tuple[float, ...] | Literal["none", "inverse", "median", "effective"] = "none"
    smoothing: float = 0.0
    hardest: float = 1.0
    hardest_after: int = 0
    threshold: float = 0.0
    gamma: float = 2.0
    false_positive: float = 0.3
    false_negative: float = 0.7

    def mixture(self, weights: tuple[float, ...] = (), step: int | None = None) -> Mixture:
        """The losses that weigh something, as they are after some finished steps; None stands for the end."""
        annealed = 1.0 if step is None or not self.hardest_after else min(1.0, step / self.hardest_after)
        hardest = annealed * self.hardest + (1 - annealed)
        terms: Sequence[tuple[float, Term]] = (
            (self.cross_entropy, CrossEntropy(weights, self.smoothing, hardest, self.threshold)),
            (self.focal, Focal(self.gamma)),
            (self.dice, Tversky()),
            (self.jaccard, Tversky(1.0, 1.0)),
            (self.tversky, Tversky(self.false_positive, self.false_negative)),
            (self.lovasz, Lovasz()),
        )
        return Mixture([(weight, term) for weight, term in terms if weight])


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
                remedy="Write as many, in the order of the ids",
            )
        if not all(0 <= weight < math.inf for weight in chosen) or not any(chosen):
            raise RecipeError(
                "loss.class_weights",
                expected="numbers from 0 on, at least one of them above it",
                found=", ".join(f"{weight:g}" for weight in chosen),
                remedy="Write other weights",
            )
        return chosen
    if chosen != "none" and not any(pixels):
        raise RecipeError(
            "loss.class_weights",
            expected="a dataset whose description counts the pixels of every class",
            found="one that does not: a topic, or classes that never occur",
            remedy="Pull the topic to shards with penstock pull, or write the numbers: loss.class_weights=[1.0, 2.5]",
        )
    if chosen == "median" and not image_pixels:
        raise RecipeError(
            "loss.class_weights",
            expected="a dataset whose description counts the pixels of the images that each class occurs in",
            found="one that does not: classes of whole images, or packed by an earlier version",
            remedy="Take loss.class_weights=inverse, or pack masks again",
        )
    return class_weights(pixels, chosen, image_pixels)
