"""Whether a network takes pictures of the recipe's size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from penstock.errors import RecipeError, is_out_of_memory, reason_of
from penstock.models.classification import CIFAR_NETWORKS
from penstock.models.segmentation import STRIDE, filled, nearest_size
from penstock.recipe.tasks import default_recipe
from penstock.session.optimizer import gives_logits, in_backbone
from penstock.tasks import Classification, Detection, Segmentation, Volumes

if TYPE_CHECKING:
    from torch import nn

    from penstock.images.geometry import Size
    from penstock.recipe.values import Recipe
    from penstock.tasks import Task


def check_augment(recipe: Recipe, task: Task, model: nn.Module) -> None:
    """Whether a network takes the crop, and the task what is around it: decoders put feature maps of different strides
    together, so sides must divide by the largest, and what is mirrored has no label.

    Raises:
        RecipeError: they do not.
    """
    augment = recipe.augment
    if augment.border != "fill" and not isinstance(task, Classification):
        raise _without_effect(
            "augment.border", "fill", augment.border, "what is mirrored around a picture has no mask and no boxes"
        )
    if augment.flip_by_turns and isinstance(task, Volumes):
        raise _without_effect(
            "augment.flip_by_turns", "false", "true", "volumes are mirrored along each axis by chance"
        )
    if recipe.train.window and not isinstance(task, Segmentation):
        raise _without_effect("train.window", "0", str(recipe.train.window), "no masks are learnt")
    if isinstance(task, Classification):
        _check_side(recipe)
    elif not isinstance(task, Detection | Volumes):
        _check_stride(recipe, int(getattr(model.encoder, "output_stride", STRIDE)))


def check_optimizer(recipe: Recipe, model: nn.Module) -> None:
    """What is for a backbone, for all but it, or for the last layer needs one.

    Raises:
        RecipeError: the model has none.
    """
    optimizer = recipe.optimizer
    if optimizer.head == "logits" and not any(gives_logits(name) for name, _ in model.named_parameters()):
        raise _without_effect("optimizer.head", "all", "logits", f"{recipe.model.name} has no layer of that name")
    if any(in_backbone(name) for name, _ in model.named_parameters()):
        return
    reason = f"{recipe.model.name} has no backbone"
    if optimizer.name == "muon":
        raise RecipeError(
            "optimizer.name",
            expected=f"another, as {reason}, whose filters it is for",
            found="muon",
            remedy="Use adamw",
        )
    if optimizer.head_rate != 1:
        raise _without_effect("optimizer.head_rate", "1", f"{optimizer.head_rate:g}", reason)


def _without_effect(key: str, expected: str, found: str, reason: str) -> RecipeError:
    return RecipeError(key, expected=f"{expected}, as {reason}", found=found, remedy="Leave it out")


def _check_side(recipe: Recipe) -> None:
    """The small networks end in layers of one size."""
    name, crop = recipe.model.name, recipe.augment.crop
    if name not in CIFAR_NETWORKS:
        return
    side = default_recipe("classification", name).augment.crop[0]
    if crop != (side, side):
        raise RecipeError(
            "augment.crop",
            expected=f"{side} x {side}, which {name} is made for",
            found=f"{crop[0]} x {crop[1]}",
            remedy=f"Use --crop {side} {side}",
        )


def _check_stride(recipe: Recipe, stride: int) -> None:
    crop = recipe.augment.crop
    if any(side % stride for side in crop):
        better = nearest_size(crop, stride)
        raise RecipeError(
            "augment.crop",
            expected=f"sides that divide by {stride}, the output stride of {recipe.model.name}",
            found=f"{crop[0]} x {crop[1]}",
            remedy=f"Use --crop {better[0]} {better[1]}",
        )


def try_sizes(recipe: Recipe, task: Task, model: nn.Module) -> None:
    """Show a network a blank picture of the crop's size, and one that is larger where whole pictures are evaluated:
    transformers are made for one size, and some decoders pool small pictures away, which nothing but trying tells.

    Raises:
        RecipeError: it does not take them.
    """
    if not isinstance(task, Classification | Segmentation):
        return
    height, width = recipe.augment.crop
    learning = model.training
    model.eval()
    try:
        _try(recipe, task, model, (height, width))
        if isinstance(task, Segmentation) and recipe.data.validation:
            side = recipe.train.window
            _try(recipe, task, model, (filled(side),) * 2 if side else (height + STRIDE, width + STRIDE))
    finally:
        model.train(learning)


def _try(recipe: Recipe, task: Classification | Segmentation, model: nn.Module, size: Size) -> None:
    channels = task.channels if isinstance(task, Segmentation) else 3
    try:
        with torch.no_grad():
            model(task.inputs({"image": torch.zeros((1, *size, channels), dtype=torch.uint8)}))
    except Exception as error:
        # Every architecture of timm and segmentation_models.pytorch has its own way to refuse.
        if is_out_of_memory(error):
            raise
        raise _refusal(recipe, size, error) from error


def _refusal(recipe: Recipe, size: Size, error: Exception) -> RecipeError:
    name, found = recipe.model.name, f"{size[0]} x {size[1]} ({reason_of(error)})"
    if size == recipe.augment.crop:
        expected, remedy = f"a size of pictures that {name} takes", "Choose another --crop or another --model"
        return RecipeError("augment.crop", expected=expected, found=found, remedy=remedy)
    expected, found = "a network of any size, as whole pictures are evaluated", f"{name} at {found}"
    if recipe.train.window:
        expected = "a network that takes the window, train.window"
    window = f"--set train.window={min(recipe.augment.crop)}"
    remedy = f"Choose another --model, or evaluate through a window of the crop: {window}"
    return RecipeError("model.name", expected=expected, found=found, remedy=remedy)
