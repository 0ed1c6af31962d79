"""What learns: the model, its weights, and the parts of DeepLab."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from penstock.bounds import Count


@dataclass(frozen=True)
class Branch:
    """One operation of a dense prediction cell (Chen et al. 2018, "Searching for efficient multi-scale architectures").

    Attributes:
        of: what it works on: -1 the backbone's features, or the number of an earlier branch.
        rate: of a 3 x 3 separable atrous convolution, by height and width, at an output stride of 16; 0, 0 is a plain 1
            x 1 convolution.
        grid: where it is not 0, 0, the mean over windows, so many of which cover the image, and a 1 x 1 convolution.
    """

    of: int = -1
    rate: tuple[int, int] = (0, 0)
    grid: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class DeepLabConfig:
    """The components of `deeplab:BACKBONE`. Other models do not have these settings.

    Attributes:
        output_stride: Ratio of the size of the image to that of the features of the backbone: 8, 16 or 32. Stages that
            are not strided are dilated instead.
        rates: Atrous rates; empty takes those of DeepLab for the output stride (6, 12, 18 at 16).
        multi_grid: Factors of the dilation of the blocks of the last stage, such as 1, 2, 4; empty keeps the dilation.
        pooling: Add an image pooling branch to ASPP: the mean over the image.
        pooling_size: Kernel size (height, width) of the image pooling branch, in input pixels; empty is global average
            pooling.
        pooling_stride: Stride of the image pooling kernel, in pixels of the feature map.
        squeeze_excite: Use the image pooling branch as a gate of the channels (squeeze and excitation, as in the
            segmentation head of MobileNetV3) in place of concatenating it.
        norms: Use batch normalisation in ASPP. If false, its convolutions have biases.
        separable: Use separable convolutions in ASPP and the decoder.
        channels: Channels of every branch of ASPP and of the decoder.
        projection: Project the concatenated branches to `channels` channels.
        cell: Dense prediction cell (DPC) in place of ASPP: a list of branches. `of` is the index (from 0) of the branch
            whose output is the input of this one; -1 is the backbone. `rate` is the rate of an atrous convolution.
            `grid` is the output size of an average pooling, which is then upsampled. An example: [{of = -1, rate = [1,
            6]}, {of = 0, grid = [2, 1]}].
        decoder: Use the decoder of DeepLabV3+, which adds finer features of the backbone.
        decoder_strides: Strides of the stages of the decoder, from coarse to fine.
        decoder_sum: Add skip features instead of concatenating them.
        decoder_logits: Make the last stage of the decoder a single convolution that gives the logits. Otherwise a layer
            after the decoder gives them.
        logits_kernel: Kernel size of the convolution that gives the logits, unless `decoder_logits` is set.
        image_pyramid: Scales of the input image. The network sees every scale, with the same weights; 1 alone is the
            image itself.
        merge: How logits of several scales are merged.
        aux_loss_weight: Weight of the auxiliary loss of a head on the features before the last stage; 0 builds no such
            head.
        upsample: Upsample logits to the size of the labels for the loss; otherwise labels are downsampled by nearest
            neighbour.
    """

    output_stride: Literal[8, 16, 32] = 16
    rates: tuple[Count, ...] = ()
    multi_grid: tuple[Count, ...] = ()
    pooling: bool = True
    pooling_size: tuple[int, ...] = ()
    pooling_stride: tuple[int, int] = (1, 1)
    squeeze_excite: bool = False
    norms: bool = True
    separable: bool = True
    channels: Count = 256
    projection: bool = True
    cell: tuple[Branch, ...] = ()
    decoder: bool = True
    decoder_strides: tuple[int, ...] = (4,)
    decoder_sum: bool = False
    decoder_logits: bool = False
    logits_kernel: int = 1
    image_pyramid: tuple[Annotated[float, Meta(gt=0)], ...] = (1.0,)
    merge: Literal["max", "average"] = "max"
    aux_loss_weight: Annotated[float, Meta(ge=0, le=100)] = 0.0
    upsample: bool = True

    @property
    def stride(self) -> int:
        """How much smaller logits are than the image, before they are brought to its size."""
        return self.decoder_strides[-1] if self.decoder else self.output_stride


@dataclass(frozen=True)
class Model:
    """What learns.

    Attributes:
        name: Model: ARCHITECTURE:BACKBONE for segmentation, matting, detection and instances, BACKBONE (or
            cifar10-fast, cifar10-tutorial) for classification, unet3d for volumes; or FILE.py:NAME, or
            package.module:NAME.
        weights: Backbone weights: "pretrained", "none" or a file. Or weights of a whole network: "coco" for fasterrcnn,
            maskrcnn, retinanet and fcos with resnet50, or OWNER/NAME for a network of segmentation_models.pytorch on
            the Hugging Face hub, such as smp-hub/segformer-b0-512x512-ade-160k for segformer:mit_b0.
        deeplab: Parts of `deeplab:BACKBONE`.
        decoder: Options of the decoder of a network of segmentation_models.pytorch, by the names that its classes give
            them, such as decoder_channels. Weights of the hub bring those of their network.
        normalization: Mean and standard deviation that images are normalised with: "backbone" takes those that the
            backbone was trained with, "data" those of the training images. The default is "data" for images of 16 bits
            or of other channels than RGB.
    """

    name: str = "deeplabv3plus:resnet50"
    weights: str = "pretrained"
    deeplab: DeepLabConfig = field(default_factory=DeepLabConfig)
    decoder: dict[str, Any] = field(default_factory=dict)
    normalization: Literal["backbone", "data"] = "backbone"
