"""Whether custom parts can be loaded and called, and a network takes images of the recipe's size."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from penstock.assembly.experiment import Experiment
from penstock.config.places import places
from penstock.custom import load
from penstock.errors import RecipeError, is_out_of_memory, reason_of
from penstock.hooks.custom import check_hooks
from penstock.images.geometry import Size
from penstock.losses.custom import load_custom
from penstock.models import blank_images
from penstock.models.custom import is_custom
from penstock.models.segmentation import STRIDE, filled
from penstock.session.evaluation import check_best_metric
from penstock.session.optimizer import check_custom_optimizer, gives_logits, in_backbone
from penstock.settings import Recipe
from penstock.settings.optimizer import Muon
from penstock.tasks import Task


def check_custom(parts: Experiment) -> None:
    """Load what a recipe names in custom files, so that mistakes in them show before a run folder is made, and
    not when the part is first needed.

    Raises:
        RecipeError: a file or a name is missing, the file fails, a hook does not take its settings, a loss, metric or
            optimizer takes other arguments, or no score is called as the one that is to decide.
    """
    recipe = parts.recipe
    for setting, place in places(recipe):
        load(place, setting)
    if recipe.loss.custom:
        load_custom(recipe.loss.custom)
    check_hooks(recipe.hooks)
    check_custom_optimizer(recipe.optimizer)
    check_best_metric(parts.task, recipe.train.metrics, recipe.train.best_metric if recipe.data.validation else "")


def check_optimizer(recipe: Recipe, model: nn.Module) -> None:
    """Refuse optimizer settings for a backbone, a head or a last layer that the model does not have.

    Raises:
        RecipeError: the model has no such part.
    """
    optimizer = recipe.optimizer
    if optimizer.head == "logits" and not any(gives_logits(name) for name, _ in model.named_parameters()):
        raise _without_effect("optimizer.head", "logits", f"{recipe.model.name} has no layer of that name")
    if any(in_backbone(name) for name, _ in model.named_parameters()):
        return
    reason = f"{recipe.model.name} has no backbone"
    if isinstance(optimizer, Muon):
        raise RecipeError(
            "optimizer.name",
            remedy="Use adamw",
            message=f"optimizer.name = muon is for the convolution weights of a backbone, but {reason}.",
        )
    if optimizer.head_lr_mult != 1:
        raise _without_effect("optimizer.head_lr_mult", f"{optimizer.head_lr_mult:g}", reason)


def _without_effect(key: str, found: str, reason: str) -> RecipeError:
    message = f"{key} = {found} has no effect, as {reason}."
    return RecipeError(key, remedy=f"Remove {key}", message=message)


def try_sizes(recipe: Recipe, task: Task, model: nn.Module) -> None:
    """Show a network a blank image of the crop's size, and one that is larger where whole images are evaluated:
    transformers are made for one size, and some decoders pool small images away, which nothing but trying tells.

    Raises:
        RecipeError: it does not take them.
    """
    crop, learning, window = recipe.augment.crop, model.training, recipe.train.sliding_window
    sizes = [crop]
    if recipe.data.validation and task.evaluates_whole:
        sizes += [(filled(window), filled(window)) if window else (crop[0] + STRIDE, crop[1] + STRIDE)]
    model.eval()
    try:
        for size in sizes:
            expected = task.logits_shape(size)
            outputs = _outputs(recipe, task, model, size) if expected else None
            if expected and is_custom(recipe.model.name):
                _check_logits(recipe, outputs, expected, size)
    finally:
        model.train(learning)


def try_loss(parts: Experiment, model: nn.Module) -> None:
    """Compute the loss of the first two samples, where it or the task is custom, so that a wrong shape shows before a
    run folder is made.

    Raises:
        RecipeError: a loss does not give one number for each image; the task's losses and their counts differ in shape.
    """
    custom_task = is_custom(parts.recipe.task) and parts.task.evaluates_loss
    if not (parts.recipe.loss.custom or custom_task) or parts.recipe.follow.on:  # a topic that is followed may be empty
        return
    feed = parts.training_feed()
    samples = [feed[position] for position in range(2)]
    tensors = {name: torch.from_numpy(np.stack([each.arrays[name] for each in samples])) for name in samples[0].arrays}
    learning = model.training
    model.eval()
    try:
        with torch.no_grad():
            losses = parts.task.loss(model(parts.task.inputs(tensors)), tensors)
    finally:
        model.train(learning)
    counts = parts.task.count(tensors)
    if losses.dim() != 1 or losses.shape != counts.shape:
        raise RecipeError(
            f"task = {parts.recipe.task}",
            expected="`loss` and `count` of one shape, (losses,)",
            found=f"{tuple(losses.shape)} and {tuple(counts.shape)}",
            remedy="Sum each loss over the batch",
        )


def _check_logits(recipe: Recipe, outputs: Any, expected: tuple[int, ...], size: Size) -> None:
    found = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
    if found != expected:
        raise RecipeError(
            f"model.name = {recipe.model.name}",
            expected=f"logits of shape {expected} for an image of {size[0]} x {size[1]}",
            found=str(found),
            remedy="Fix the network",
        )


def _outputs(recipe: Recipe, task: Task, model: nn.Module, size: Size) -> Any:
    try:
        with torch.no_grad():
            return model(task.inputs({"image": blank_images(1, size, task.pixel_format)}))
    except Exception as error:
        # Every architecture of timm and segmentation_models.pytorch has its own way to refuse.
        if is_out_of_memory(error):
            raise
        raise _refusal(recipe, size, error) from error


def _refusal(recipe: Recipe, size: Size, error: Exception) -> RecipeError:
    name, found = recipe.model.name, f"{size[0]} x {size[1]} ({reason_of(error)})"
    if size == recipe.augment.crop:
        expected, remedy = f"a size of images that {name} takes", "Choose another --crop or another --model"
        return RecipeError("augment.crop", expected=expected, found=found, remedy=remedy)
    expected, found = "a network of any size, as whole images are evaluated", f"{name} at {found}"
    if recipe.train.sliding_window:
        expected = "a network that takes the window, train.sliding_window"
    window = f"--set train.sliding_window={min(recipe.augment.crop)}"
    remedy = f"Choose another --model, or evaluate through a window of the crop: {window}"
    return RecipeError("model.name", expected=expected, found=found, remedy=remedy)
