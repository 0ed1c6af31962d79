"""The training objective of a task: losses and class weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

from penstock.errors import RecipeError
from penstock.losses import CrossEntropy, Focal, Lovasz, Mixture, Term, Tversky, class_weights
from penstock.losses.custom import load_custom
from penstock.progress import counted
from penstock.settings import Objective


def mixture(objective: Objective, weights: tuple[float, ...] = (), step: int | None = None) -> Mixture:
    """The losses that weigh something, as they are after some finished steps; None stands for the end."""
    annealed = 1.0 if step is None or not objective.ohem_warmup_steps else min(1.0, step / objective.ohem_warmup_steps)
    hardest = annealed * objective.ohem_ratio + (1 - annealed)
    terms: Sequence[tuple[float, Term]] = (
        (objective.cross_entropy, CrossEntropy(weights, objective.label_smoothing, hardest, objective.ohem_threshold)),
        (objective.focal, Focal(objective.focal_gamma)),
        (objective.dice, Tversky()),
        (objective.jaccard, Tversky(1.0, 1.0)),
        (objective.tversky, Tversky(objective.tversky_alpha, objective.tversky_beta)),
        (objective.lovasz, Lovasz()),
    )
    own = [(objective.custom_weight, load_custom(objective.custom))] if objective.custom else []
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
        RecipeError: there is not one number per class, a number is no weight, or pixels were not counted.
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
            remedy="Pull the topic to shards with penstock pull, or write the weights: loss.class_weights=[1.0, 2.5]",
            message=f"loss.class_weights = {chosen} needs the number of pixels of every class, which a topic does not "
            "have.",
        )
    if chosen == "median" and not image_pixels:
        raise RecipeError(
            "loss.class_weights",
            remedy="Use loss.class_weights=inverse, or pack the masks again",
            message="loss.class_weights = median needs the number of pixels of the images in which each class occurs, "
            "which this dataset does not have.",
        )
    return class_weights(pixels, chosen, image_pixels)
