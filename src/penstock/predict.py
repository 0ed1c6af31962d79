"""Prediction: pictures of any size to masks, whole or by a sliding window, to classes, or to boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import torch

from penstock import devices
from penstock.errors import ImageError
from penstock.images import geometry
from penstock.images.warp import warp_image
from penstock.models import Window, Windowed
from penstock.models.segmentation import STRIDE
from penstock.tasks import Volumes

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from penstock.images.volumes import Volume
    from penstock.tasks import Classification, Detection, Matting, Segmentation

    Pixels = NDArray[np.uint8]


@torch.inference_mode()
def predict_mask(
    task: Segmentation,
    model: nn.Module,
    pixels: Pixels,
    *,
    device: torch.device,
    precision: str = "float32",
    window: Window | None = None,
) -> Pixels:
    """The mask of class ids of one picture, at its own size: uint8 (height, width).

    Args:
        task: what the model was trained for.
        model: in evaluation mode, on `device`.
        pixels: uint8 RGB (height, width, 3), upright.
        device: where the model is.
        precision: as in training.
        window: None shows the model the whole picture; a window slides over it (`models.Windowed`).
    """
    return _ids(_probabilities(task, model, pixels, device, precision, window))


@torch.inference_mode()
def predict_matte(
    task: Matting,
    model: nn.Module,
    pixels: Pixels,
    *,
    device: torch.device,
    precision: str = "float32",
    window: Window | None = None,
) -> Pixels:
    """The foreground's share of every pixel in 255ths: uint8 (height, width). Arguments as for `predict_mask`."""
    _, foreground = _probabilities(task, model, pixels, device, precision, window)
    found: Pixels = (255 * foreground).round().astype(np.uint8)
    return found


@torch.inference_mode()
def predict_volume(
    task: Segmentation | Volumes,
    model: nn.Module,
    volume: Volume,
    *,
    device: torch.device,
    precision: str = "float32",
    window: Window | None = None,
) -> Pixels:
    """The labels of a volume, in the order of its file's axes: uint8 (x, y, z). Networks of two dimensions predict its
    slices one by one.

    Args:
        task: what the model was trained for.
        model: in evaluation mode, on `device`.
        volume: with the modalities that the model was trained on.
        device: where the model is.
        precision: as in training.
        window: of networks of two dimensions, as for `predict_mask`; others have one of their own.
    """
    images = volume.images(task.channels)
    if isinstance(task, Volumes):
        if len(volume.voxels) == 1 != task.channels:
            raise ImageError(
                volume.name,
                expected="the two or three modalities that the run learnt",
                found="one",
                remedy="Name the folder of the case's files, or one file with all of them",
            )
        with devices.autocast(device, precision):
            logits = model(task.inputs({"image": torch.from_numpy(images).to(device).unsqueeze(0)}))
        return volume.labels(logits[0].argmax(dim=0).to(torch.uint8).cpu().numpy())
    masks = [predict_mask(task, model, image, device=device, precision=precision, window=window) for image in images]
    return volume.labels(np.stack(masks))


@torch.inference_mode()
def classify(
    task: Classification, model: nn.Module, pixels: Pixels, *, device: torch.device, precision: str = "float32"
) -> NDArray[np.float32]:
    """The probabilities of the classes of one picture: float32 (classes,).

    Args:
        task: what the model was trained for.
        model: in evaluation mode, on `device`.
        pixels: uint8 RGB (height, width, 3), upright.
        device: where the model is.
        precision: as in training.
    """
    view = task.augment.middle((pixels.shape[0], pixels.shape[1]))
    shown = np.empty((*view.size, 3), np.uint8)
    warp_image(pixels, view.affine, task.fill, shown)
    with devices.autocast(device, precision):
        logits = model(task.inputs({"image": torch.from_numpy(shown).to(device).unsqueeze(0)}))
    found: NDArray[np.float32] = logits.float().softmax(dim=1)[0].cpu().numpy()
    return found


@torch.inference_mode()
def find_boxes(
    task: Detection, model: nn.Module, pixels: Pixels, *, device: torch.device, precision: str = "float32"
) -> dict[str, NDArray[Any]]:
    """What a detector finds in one picture, the surest first.

    `boxes`, float32 (n, 4) as x1, y1, x2, y2 in pixels of the picture; `scores`, float32 (n,); `labels`, int64 (n,).

    Args:
        task: what the model was trained for.
        model: in evaluation mode, on `device`.
        pixels: uint8 RGB (height, width, 3), upright.
        device: where the model is.
        precision: as in training.
    """
    height, width = task.augment.fitted((pixels.shape[0], pixels.shape[1]))
    shown = np.empty((height, width, 3), np.uint8)
    view = geometry.resize((pixels.shape[0], pixels.shape[1]), (height, width))
    warp_image(pixels, view.affine, task.normalization.fill, shown)
    tensors = {"image": torch.from_numpy(shown).to(device).unsqueeze(0), **task.blank(height, width, device)}
    with devices.autocast(device, precision):
        (answer,) = model(task.inputs(tensors))
    found = {name: value.cpu().numpy() for name, value in answer.items()}
    scale = np.array([pixels.shape[1] / width, pixels.shape[0] / height] * 2, np.float32)
    return {**found, "boxes": found["boxes"].astype(np.float32) * scale}


def _probabilities(
    task: Segmentation,
    model: nn.Module,
    pixels: Pixels,
    device: torch.device,
    precision: str,
    window: Window | None,
) -> NDArray[np.float32]:
    """Float32 (classes, height, width)."""
    height, width = pixels.shape[:2]
    if window:  # which is moved to the device, not the whole picture
        image, model = torch.from_numpy(pixels), Windowed(model, window, device)
    else:
        fill = [float(value) for value in task.normalization.fill]
        bottom, right = -height % STRIDE, -width % STRIDE
        padded = cv2.copyMakeBorder(pixels, 0, bottom, 0, right, cv2.BORDER_CONSTANT, value=fill)
        image = torch.from_numpy(np.asarray(padded, np.uint8)).to(device)
    with devices.autocast(device, precision):
        logits = model(task.inputs({"image": image.unsqueeze(0)}))
    probabilities = logits.exp_() if window else logits.float().softmax(dim=1)
    found: NDArray[np.float32] = probabilities[0, :, :height, :width].cpu().numpy()
    return found


def _ids(scores: NDArray[np.float32]) -> Pixels:
    ids: Pixels = scores.argmax(axis=0).astype(np.uint8)
    return ids
