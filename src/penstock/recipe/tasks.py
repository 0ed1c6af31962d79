"""What a recipe learns on a dataset, and the recipe to begin with where nobody says more."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from penstock.errors import RecipeError
from penstock.images.color import Jitter
from penstock.models import DeepLab
from penstock.progress import counted
from penstock.recipe.values import Model, Recipe, Train
from penstock.session import OptimizerSpec
from penstock.sources.kafka import is_topic
from penstock.tasks import (
    Augment,
    Classification,
    Detection,
    Matting,
    Objective,
    Regularize,
    Segmentation,
    Volumes,
    weights_of,
)

if TYPE_CHECKING:
    from torch import nn

    from penstock.datasets.description import Description, Split
    from penstock.tasks import Task

_CLASSIFIER: Final = Recipe(
    model=Model("resnet50"),
    augment=Augment((224, 224), "resized-crop"),
    loss=Objective(smoothing=0.1),
    optimizer=OptimizerSpec(schedule="cosine", weight_decay=5e-5),
    train=Train(batch=64),
)
_TUTORIAL: Final = Recipe(  # TensorFlow's cifar10.py and cifar10_input.py of 2016
    model=Model("cifar10-tutorial", "none"),
    augment=Augment((24, 24), "pad-crop"),
    regularize=Regularize(brightness=63, contrast=(0.2, 1.8)),
    optimizer=OptimizerSpec(learning_rate=0.1, momentum=0.0, weight_decay=0.004, schedule="step", decay_steps=136_718),
    train=Train(steps=100_000, batch=128, average=0.9999, evaluate_every=1000, save_every=1000, log_every=10),
)
_FAST: Final = Recipe(  # in the spirit of airbench94_muon: 8 epochs of 50,000 pictures, half its batch
    model=Model("cifar10-fast", "none"),
    augment=Augment((32, 32), "pad-crop", margin=2, border="reflect", flip_by_turns=True),
    loss=Objective(smoothing=0.2),
    optimizer=OptimizerSpec(
        "muon", 0.17, momentum=0.6, rest_momentum=0.9, weight_decay=0.0785, decay_biases=True, unit_filters=True,
        power=1.0, bias_rate=208.0, norm_bias_rate=208.0, head_rate=3.25,
    ),
    train=Train(steps=400, batch=1000, evaluate_every=50, save_every=50, log_every=10),
)  # fmt: skip
_COLORS: Final = 3
_MOST: Final = 512  # boxes in a picture of a topic, which may not know, or only those of its beginning
_OF_MODELS: Final = {"cifar10-tutorial": _TUTORIAL, "cifar10-fast": _FAST}
_DETECTOR: Final = Recipe(
    model=Model("fasterrcnn:resnet50"),
    augment=Augment((512, 512), scale=(0.5, 1.5)),
    optimizer=OptimizerSpec(learning_rate=0.005, schedule="cosine", clip=10.0),
    train=Train(batch=8, frozen_norms=True),
)
_VOLUMES: Final = Recipe(
    model=Model("unet3d", "none"),
    augment=Augment((96, 96), slices=32),
    loss=Objective(dice=1.0),
    optimizer=OptimizerSpec("adamw", 1e-3, weight_decay=0.01, schedule="cosine"),
    train=Train(steps=5000, batch=2, evaluate_every=500, save_every=500),
)
_OF_TASKS: Final = {
    "segmentation": Recipe(),
    "matting": Recipe(),
    "classification": _CLASSIFIER,
    "detection": _DETECTOR,
    "volumes": _VOLUMES,
}


def default_recipe(task: str = "segmentation", model: str = "", weights: str = "") -> Recipe:
    """The recipe to begin with: that of a model as published, where it has one, else the task's.

    Args:
        task: as dataset.json names it.
        model: a model's name.
        weights: of its backbone; without any, norms have no statistics to keep.
    """
    chosen = _OF_MODELS.get(model, _OF_TASKS[task])
    if weights == "none":
        chosen = replace(chosen, train=replace(chosen.train, frozen_norms=False))
    return replace(chosen, model=replace(chosen.model, name=model)) if model else chosen


def defaults(task: str, model: str) -> tuple[Recipe, ...]:
    """The recipes that settings which nobody chose may come from: a task's, a model's, and a recipe as it is made."""
    return default_recipe(task), default_recipe(task, model), Recipe()


def make_task(recipe: Recipe, described: Description, split: Split) -> Task:
    """What is learnt.

    Args:
        recipe: how.
        described: the dataset.
        split: the training split, whose counts of every class give them weights.

    Raises:
        RecipeError: the recipe is for another task.
    """
    _check_parts(recipe)
    weights = weights_of(recipe.loss, described.classes, split.per_class, split.image_pixels)
    if described.task == "volumes":
        return _volumes(recipe, described, weights)
    if described.task == "segmentation":
        _refuse_regularize(recipe)
        _check_colors(recipe, described)
        return Segmentation(
            recipe.model.name,
            described.classes,
            described.ignore_label,
            recipe.augment,
            weights=recipe.model.weights,
            objective=recipe.loss,
            class_weights=weights,
            parts=recipe.model.deeplab,
            channels=described.channels,
        )
    if described.task == "matting":
        _refuse_regularize(recipe)
        _refuse_losses(recipe, "mattes are learnt by cross-entropy against their shares")
        return Matting(
            recipe.model.name,
            described.classes,
            augment=recipe.augment,
            weights=recipe.model.weights,
            parts=recipe.model.deeplab,
        )
    if described.task == "detection":
        _refuse_regularize(recipe)
        _refuse_losses(recipe, "a detector brings its own losses")
        stated = max(split.objects for split in described.splits.values())
        grows = is_topic(recipe.data.path)  # and other splits have topics of their own
        most = max(stated, _MOST) if grows else stated or _MOST
        return Detection(recipe.model.name, described.classes, most, recipe.augment, weights=recipe.model.weights)
    _check_classifier(recipe)
    return Classification(
        recipe.model.name,
        described.classes,
        recipe.augment,
        recipe.regularize,
        recipe.model.weights,
        recipe.loss,
        weights,
    )


def _volumes(recipe: Recipe, described: Description, weights: tuple[float, ...]) -> Volumes:
    _refuse_regularize(recipe)
    if recipe.model.weights != "none":
        raise RecipeError(
            "model.weights",
            expected="none, as there are no published ones of networks for volumes",
            found=recipe.model.weights,
            remedy="Leave it out; --init RUN starts from a run of your own",
        )
    plain, own = Augment(), recipe.augment
    names = [each.name for each in fields(plain) if each.name not in {"crop", "slices", "flip"}]
    if changed := [name for name in names if getattr(own, name) != getattr(plain, name)]:
        raise RecipeError(
            "augment",
            expected="crop, slices and flip alone: patches of volumes are not changed further",
            found=", ".join(changed),
            remedy="Leave them out",
        )
    splits = described.splits.values()
    canvas = tuple(max(getattr(each, side) for each in splits) for side in ("slices", "height", "width"))
    return Volumes(
        recipe.model.name,
        described.classes,
        described.ignore_label,
        own,
        described.channels,
        (canvas[0], canvas[1], canvas[2]),
        recipe.loss,
        weights,
    )


def _check_colors(recipe: Recipe, described: Description) -> None:
    if described.channels != _COLORS and recipe.augment.jitter != Jitter():
        raise RecipeError(
            "augment.jitter",
            expected=f"nothing: pictures of {counted(described.channels, 'channel')} have no colours",
            found=f"{recipe.augment.jitter}",
            remedy="Leave it out",
        )


def _check_parts(recipe: Recipe) -> None:
    """Settings of a network that is not trained would have no effect."""
    parts, plain = recipe.model.deeplab, DeepLab()
    if parts != plain and not recipe.model.name.startswith("deeplab:"):
        changed = [field.name for field in fields(plain) if getattr(parts, field.name) != getattr(plain, field.name)]
        raise RecipeError(
            "model.deeplab",
            expected="nothing: they are the parts of deeplab:BACKBONE",
            found=f"{', '.join(changed)}, for {recipe.model.name}",
            remedy=f"Leave them out, or train deeplab:{recipe.model.name.partition(':')[2] or recipe.model.name}",
        )


def _refuse_regularize(recipe: Recipe) -> None:
    if recipe.regularize.on:
        raise RecipeError(
            "regularize",
            expected="nothing: pictures are mixed, erased and toned for classifiers only",
            found=f"{recipe.regularize}",
            remedy="Leave the section out; augment.jitter changes colours for every task",
        )


def _check_classifier(recipe: Recipe) -> None:
    """A picture has one label: what needs more than one, or whole labels, is refused."""
    loss = recipe.loss
    names = ["dice", "jaccard", "tversky", "lovasz", "hardest_after", "threshold"]
    names += ["focal"] * recipe.regularize.mixes
    set_ = [f"loss.{name}={getattr(loss, name)}" for name in names if getattr(loss, name)]
    if loss.hardest < 1:
        set_.append(f"loss.hardest={loss.hardest}")
    if set_ or not (loss.cross_entropy or loss.focal):
        mixed = " of mixed pictures" if recipe.regularize.mixes else ""
        raise RecipeError(
            "loss",
            expected=f"cross_entropy{'' if mixed else ' or focal'}, for one label a picture{mixed}",
            found=", ".join(set_) or "neither",
            remedy="Leave out the others",
        )


def _refuse_losses(recipe: Recipe, reason: str) -> None:
    if recipe.loss != Objective():
        raise RecipeError(
            "loss",
            expected=f"nothing: {reason}",
            found=f"{recipe.loss}",
            remedy="Leave the section out",
        )


def freeze_backbone(model: nn.Module, name: str) -> None:
    """Have the backbone learn nothing.

    Raises:
        RecipeError: the model has none of its own.
    """
    encoder = getattr(model, "encoder", None)
    if encoder is None:
        raise RecipeError(
            "train.frozen_backbone",
            expected="a model with a backbone: one for segmentation, mattes or classes",
            found=name,
            remedy="Leave it out; train.frozen_norms keeps the statistics of norms",
        )
    encoder.requires_grad_(requires_grad=False)
