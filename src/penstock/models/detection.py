"""Detectors by name: `ARCHITECTURE:BACKBONE`, torchvision's heads on backbones of timm."""

from __future__ import annotations

import copy
import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import timm
import torch
from torch import nn
from torchvision.models import detection as tv
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.roi_heads import paste_masks_in_image
from torchvision.models.detection.ssd import SSD
from torchvision.models.detection.transform import GeneralizedRCNNTransform
from torchvision.ops.feature_pyramid_network import FeaturePyramidNetwork, LastLevelMaxPool, LastLevelP6P7

from penstock.errors import RecipeError
from penstock.models import pretrained, published
from penstock.models.architectures import DETECTORS, check_architecture
from penstock.models.segmentation import check_backbone
from penstock.models.weights import Loaded

MASK_THRESHOLD: Final = 0.5
"""Probability above which a pixel is an object's."""

KEPT: Final = 100
"""Boxes that are found in an image at most, as COCO counts."""

_CHANNELS: Final = 256
_STRIDES: Final = {
    "fasterrcnn": (4, 8, 16, 32),
    "maskrcnn": (4, 8, 16, 32),
    "retinanet": (8, 16, 32),
    "fcos": (8, 16, 32),
    "ssd": (8, 16, 32),
}
_MIN: Final = 0.05  # score of a box that is found
_SIZES: Final = tuple((2 * stride, int(2 * 2**0.5 * stride)) for stride in (8, 16, 32, 64, 128))  # of SSD's boxes


class _AsTheyAre(GeneralizedRCNNTransform):  # type: ignore[misc] # torchvision has no types
    """Batches images that come normalised and at their size; torchvision would bring them to 800 pixels."""

    def __init__(self) -> None:
        super().__init__(1, 1, [0.0] * 3, [1.0] * 3)

    def resize(self, image: torch.Tensor, target: Any = None) -> tuple[torch.Tensor, Any]:
        """Return image and target unchanged."""
        return image, target

    def postprocess(
        self,
        result: list[dict[str, torch.Tensor]],
        image_shapes: list[tuple[int, int]],
        original_image_sizes: list[tuple[int, int]],
    ) -> list[dict[str, torch.Tensor]]:
        """Boxes as they are, and masks as large as the image: bool (n, height, width)."""
        for found, size in zip(result, image_shapes, strict=False):
            if "masks" in found:
                found["masks"] = _pasted(found["masks"], found["boxes"], size)
        return result


def _pasted(masks: torch.Tensor, boxes: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """The pixels of objects, one object at a time: a probability for every pixel of all of them takes much memory."""
    pasted = torch.zeros((len(masks), *size), dtype=torch.bool, device=masks.device)
    for number in range(len(masks)):
        own = slice(number, number + 1)
        pasted[number] = paste_masks_in_image(masks[own], boxes[own], size)[0, 0] > MASK_THRESHOLD
    return pasted


def unpack_masks(bits: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Masks of which each byte holds eight pixels of a row, the first in its highest bit.

    Args:
        bits: uint8 (n, height, ceil(width / 8)).
        size: (height, width) of what is wanted, from the top left corner.

    Returns:
        uint8 (n, height, width) of zeros and ones.
    """
    places = torch.arange(7, -1, -1, dtype=torch.uint8, device=bits.device)
    pixels = (bits[:, : size[0]].unsqueeze(-1) >> places) & 1
    return pixels.flatten(2)[..., : size[1]]


class Pyramid(nn.Module):
    """Features of a backbone at several strides, brought to 256 channels, and some coarser ones."""

    def __init__(self, encoder: nn.Module, neck: nn.Module) -> None:
        super().__init__()
        self.encoder, self.neck, self.out_channels = encoder, neck, _CHANNELS

    def forward(self, images: torch.Tensor) -> OrderedDict[str, torch.Tensor]:
        """Features from fine to coarse."""
        features = OrderedDict((str(number), each) for number, each in enumerate(self.encoder(images)))
        found: OrderedDict[str, torch.Tensor] = self.neck(features)
        return found


class _Coarser(nn.Module):
    """SSD's own: no pyramid, but two convolutions for coarser strides behind the backbone's features."""

    def __init__(self, channels: Sequence[int]) -> None:
        super().__init__()
        self.sides = nn.ModuleList(nn.Conv2d(each, _CHANNELS, 1) for each in channels)
        self.more = nn.ModuleList(nn.Conv2d(_CHANNELS, _CHANNELS, 3, 2, 1) for _ in range(2))

    def forward(self, features: OrderedDict[str, torch.Tensor]) -> OrderedDict[str, torch.Tensor]:
        """The features of the backbone, and two coarser ones, from fine to coarse."""
        found = [side(each) for side, each in zip(self.sides, features.values(), strict=True)]
        for more in self.more:
            found.append(more(found[-1].relu()))
        return OrderedDict((str(number), each) for number, each in enumerate(found))


class Detector(nn.Module):
    """A detector of torchvision behind one door: losses in training, boxes in evaluation.

    Attributes:
        network: torchvision's.
        first: the number it gives to the first class; 1 where 0 is the background.
        account: of the published weights of a whole detector that were loaded; None where there were none.
    """

    def __init__(self, network: nn.Module, first: int) -> None:
        super().__init__()
        self.network, self.first = network, first
        self.account: Loaded | None = None
        network.transform = _AsTheyAre()
        for head in _heads(network):
            head.register_forward_hook(lambda _, __, found: _whole_floats(found))

    def forward(self, inputs: dict[str, torch.Tensor]) -> Any:
        """From `image`, float (n, 3, h, w) normalised, of which `size`, int64 (n, 2), is not padding.

        In training, with `boxes`, float32 (n, most, 4) as (x1, y1, x2, y2) in pixels, and `label`, int64 (n, most),
        below 0 where there is none: the losses that torchvision gives, averaged over the images, times their number:
        float32 (losses,). In evaluation: for every image a dictionary of `boxes`, `scores` and `labels`.

        Mask R-CNN takes `masks` too, as `unpack_masks` does, and gives `masks`, bool (found, h, w).
        """
        images = [
            image[:, : int(h)][:, :, : int(w)] for image, (h, w) in zip(inputs["image"], inputs["size"], strict=True)
        ]
        if self.training:
            targets = [
                {"boxes": boxes[label >= 0], "labels": label[label >= 0] + self.first}
                for boxes, label in zip(inputs["boxes"], inputs["label"], strict=True)
            ]
            for target, masks, label, image in zip(
                targets, inputs.get("masks", ()), inputs["label"], images, strict=False
            ):
                target["masks"] = unpack_masks(masks[label >= 0], (image.shape[1], image.shape[2]))
            losses = self.network(images, targets)
            return len(images) * torch.stack([losses[name].float() for name in sorted(losses)])
        return [self._found(image) for image in images]

    def _found(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        """Objects in one image. In a batch, the padding, and so the boxes, would depend on the number of ranks."""
        (found,) = self.network([image])
        return {**found, "labels": found["labels"] - self.first}


class _Resizing(GeneralizedRCNNTransform):  # type: ignore[misc] # torchvision has no types
    """Brings normalised images to a range of sizes, and what was found in them back; without a range as they are."""

    def __init__(self, resize_range: tuple[int, int] | None) -> None:
        shortest, longest = resize_range or (1, 1)
        super().__init__(shortest, longest, [0.0] * 3, [1.0] * 3)
        self.fixed = resize_range is None

    def resize(self, image: torch.Tensor, target: Any = None) -> tuple[torch.Tensor, Any]:
        """Bilinear, by torchvision."""
        if self.fixed:
            return image, target
        resized: tuple[torch.Tensor, Any] = super().resize(image, target)
        return resized


def with_resizing(detector: Detector, resize_range: tuple[int, int] | None) -> nn.Module:
    """A copy of torchvision's network of a detector that takes images of any size and resizes them by itself; masks are
    probabilities, (n, 1, height, width).

    Args:
        detector: in evaluation mode.
        resize_range: what the shorter and the longer side are brought to; None leaves images as they are.
    """
    network = copy.deepcopy(detector.network)
    network.transform = _Resizing(resize_range)
    return network


def _heads(network: nn.Module) -> list[nn.Module]:
    """Gives scores and offsets of boxes, which torchvision decodes in the type it gets."""
    if isinstance(network, tv.MaskRCNN):
        return [network.rpn.head, network.roi_heads.box_predictor, network.roi_heads.mask_predictor]
    if isinstance(network, tv.FasterRCNN):
        return [network.rpn.head, network.roi_heads.box_predictor]
    head = network.head
    assert isinstance(head, nn.Module)  # noqa: S101 - torchvision's
    return [head]


def _whole_floats(found: Any) -> Any:
    """The same in float32: half of its digits do not tell the pixels of an image apart."""
    if isinstance(found, torch.Tensor):
        return found.float()
    if isinstance(found, dict):
        return {name: _whole_floats(each) for name, each in found.items()}
    return type(found)(map(_whole_floats, found))


def parse_detector(name: str, known: Mapping[str, str] = DETECTORS) -> tuple[str, str]:
    """Architecture and backbone of a detector's name.

    Raises:
        RecipeError: one of them is unknown; the error suggests the nearest.
    """
    architecture, _, backbone = name.partition(":")
    check_architecture(name, architecture, known)
    check_backbone(name, backbone, "a timm backbone")
    return architecture, backbone


def build_detector(name: str, classes: int, weights: str, known: Mapping[str, str] = DETECTORS) -> Detector:
    """A detector.

    Args:
        name: `ARCHITECTURE:BACKBONE`.
        classes: the number of classes, without a background.
        weights: of the backbone: "pretrained" (timm's), "none", or the path of a file of its format; or "coco",
            of the whole detector.
        known: the architectures that may be named.

    Raises:
        RecipeError: the name is unknown, or the backbone does not give the features that are needed.
        WeightsError: the weights cannot be had, or do not fit.
    """
    architecture, backbone = parse_detector(name, known)
    if weights == published.COCO:
        detector = build_detector(name, classes, "none", known)
        detector.account = published.load_coco(detector, architecture, backbone)
        return detector
    build = functools.partial(_encoder, name, architecture, backbone)
    encoder = pretrained.weighted(build, backbone, weights)
    return _HEADS[architecture](encoder, classes)


def _encoder(name: str, architecture: str, backbone: str, *, encoder_weights: object, **options: Any) -> Any:
    """The backbone's features at the strides that are needed."""
    try:
        features: Any = timm.create_model(backbone, features_only=True)
        strides = features.feature_info.reduction()
        chosen = [strides.index(stride) for stride in _STRIDES[architecture]]
    except (RuntimeError, ValueError, AttributeError):
        raise RecipeError(
            f"model.name = {name!r}",
            expected=f"a backbone with features at strides {', '.join(map(str, _STRIDES[architecture]))}",
            found=backbone,
            remedy="Choose a convolutional one, such as resnet50 or convnext_tiny",
        ) from None
    return timm.create_model(
        backbone, pretrained=bool(encoder_weights), features_only=True, out_indices=chosen, **options
    )


def _rcnn(network: type[tv.FasterRCNN], encoder: Any, classes: int) -> Detector:
    """Faster R-CNN, or Mask R-CNN, which is one with more to it."""
    pyramid = FeaturePyramidNetwork(encoder.feature_info.channels(), _CHANNELS, LastLevelMaxPool())
    made = network(Pyramid(encoder, pyramid), classes + 1, box_score_thresh=_MIN, box_detections_per_img=KEPT)
    return Detector(made, 1)


def _retina_net(encoder: Any, classes: int) -> Detector:
    pyramid = FeaturePyramidNetwork(encoder.feature_info.channels(), _CHANNELS, LastLevelP6P7(_CHANNELS, _CHANNELS))
    network = tv.RetinaNet(Pyramid(encoder, pyramid), classes, score_thresh=_MIN, detections_per_img=KEPT)
    return Detector(network, 0)


def _fcos(encoder: Any, classes: int) -> Detector:
    pyramid = FeaturePyramidNetwork(encoder.feature_info.channels(), _CHANNELS, LastLevelP6P7(_CHANNELS, _CHANNELS))
    anchors = AnchorGenerator(
        ((8,), (16,), (32,), (64,), (128,)), ((1.0,),) * 5
    )  # one point per place: its own strides
    network = tv.FCOS(
        Pyramid(encoder, pyramid), classes, anchor_generator=anchors, score_thresh=_MIN, detections_per_img=KEPT
    )  # fmt: skip
    return Detector(network, 0)


def _ssd(encoder: Any, classes: int) -> Detector:
    backbone = Pyramid(encoder, _Coarser(encoder.feature_info.channels()))
    # SSD's own boxes are fractions of an image of one size; in pixels, as here, images may be of any size.
    boxes = AnchorGenerator(_SIZES, ((0.5, 1.0, 2.0),) * len(_SIZES))
    network = SSD(
        backbone, boxes, (320, 320), classes + 1, score_thresh=_MIN, detections_per_img=KEPT,
        head=tv.ssd.SSDHead([_CHANNELS] * len(_SIZES), boxes.num_anchors_per_location(), classes + 1)
    )  # fmt: skip
    return Detector(network, 1)


_HEADS: Final[dict[str, Callable[[Any, int], Detector]]] = {
    "fasterrcnn": functools.partial(_rcnn, tv.FasterRCNN),
    "maskrcnn": functools.partial(_rcnn, tv.MaskRCNN),
    "retinanet": _retina_net,
    "fcos": _fcos,
    "ssd": _ssd,
}
