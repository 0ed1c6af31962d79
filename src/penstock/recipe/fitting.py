"""Whether a network takes pictures of the recipe's size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from penstock.errors import RecipeError, reason_of
from penstock.models.classification import CIFAR_NETWORKS
from penstock.models.segmentation import STRIDE
from penstock.recipe.tasks import default_recipe
from penstock.tasks import Classification, Detection, Segmentation, Volumes

if TYPE_CHECKING:
    from torch import nn

    from penstock.recipe.values import Recipe
    from penstock.tasks import Task


def check_crop(recipe: Recipe, task: Task, model: nn.Module) -> None:
    """Decoders put feature maps of different strides together, so sides must divide by the largest.

    Raises:
        RecipeError: the crop's do not.
    """
    if isinstance(task, Classification):
        _check_side(recipe)
    elif not isinstance(task, Detection | Volumes):
        _check_stride(recipe, int(getattr(model.encoder, "output_stride", STRIDE)))


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
        better = [max(1, round(side / stride)) * stride for side in crop]
        raise RecipeError(
            "augment.crop",
            expected=f"sides that divide by {stride}, the output stride of {recipe.model.name}",
            found=f"{crop[0]} x {crop[1]}",
            remedy=f"Use --crop {better[0]} {better[1]}",
        )


def try_crop(recipe: Recipe, task: Task, model: nn.Module) -> None:
    """Show a network a blank picture of the crop's size: transformers are made for one size, and some decoders pool
    small pictures away, which nothing but trying tells.

    Raises:
        RecipeError: it does not take it.
    """
    if not isinstance(task, Classification | Segmentation):
        return
    height, width = recipe.augment.crop
    channels = task.channels if isinstance(task, Segmentation) else 3
    blank = torch.zeros((1, height, width, channels), dtype=torch.uint8)
    learning = model.training
    model.eval()
    try:
        with torch.no_grad():
            model(task.inputs({"image": blank}))
    except Exception as error:
        # Every architecture of timm and segmentation_models.pytorch has its own way to refuse.
        raise RecipeError(
            "augment.crop",
            expected=f"a size of pictures that {recipe.model.name} takes",
            found=f"{height} x {width} ({reason_of(error)})",
            remedy="Choose another --crop or another --model",
        ) from error
    finally:
        model.train(learning)
