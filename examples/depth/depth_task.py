"""Monocular depth estimation: `penstock train DATA --task examples/depth/depth_task.py:Depth --crop 32 32`."""

from dataclasses import dataclass

import numpy as np
import torch
from depth_kind import Depth as DepthKind
from depth_kind import colored
from torch import nn

from penstock import Prediction, Task
from penstock.feed import Field
from penstock.images import codecs, drawing, fetch_image, geometry, probe
from penstock.settings import Augment
from penstock.tasks import Ability, Drawing, Predictor
from penstock.tasks.scoring import Scores

FILL = (124, 116, 104)


@dataclass(frozen=True)
class Settings:
    """What `task_options` may say.

    Attributes:
        farthest: largest depth in metres that the network predicts.
    """

    farthest: float = 10.0


@dataclass(frozen=True)
class Prepare:
    """Converts a record to `image`, uint8 (h, w, 3), and `depth`, float32 (h, w) in metres, 0 where it is unknown."""

    augment: Augment
    canvas: tuple[int, int] | None = None

    @property
    def fields(self):
        """The tensors of a sample."""
        size = self.canvas or self.augment.crop
        return {"image": Field((*size, 3), "uint8"), "depth": Field(size, "float32")}

    def __call__(self, record, generator, out):
        """Decode image and depth, and apply one random view to both. Magnification divides the depth."""
        image, depth = DepthKind().decode(record)
        info = probe(image, record.origin)
        train = self.canvas is None and generator
        view = self.augment.draw(info.size, generator) if train else geometry.whole(info.size, out["depth"].shape)
        matrix = self.augment.jitter.draw(generator) if train else None
        fetch_image(image, record.origin, info, view.affine, FILL, out["image"], matrix)
        affine, (height, width) = view.affine, out["depth"].shape
        y, x = np.mgrid[:height, :width] + 0.5
        column = np.floor(affine.xx * x + affine.xy * y + affine.x0).astype(int)
        row = np.floor(affine.yx * x + affine.yy * y + affine.y0).astype(int)
        inside = (0 <= row) & (row < depth.shape[0]) & (0 <= column) & (column < depth.shape[1])
        seen = depth[row.clip(0, depth.shape[0] - 1), column.clip(0, depth.shape[1] - 1)]
        out["depth"][...] = np.where(inside, seen * affine.shrink, 0)


class Errors:
    """Adds up errors of depth in metres: absolute, squared and relative errors."""

    def __init__(self):
        self.sums = torch.zeros(4, dtype=torch.float64)

    def gather(self, ranks):
        """Add up what all ranks have counted."""
        ranks.sum(self.sums)

    def update(self, outputs, tensors, origins):
        """Count the pixels of known depth."""
        known = tensors["depth"] > 0
        true, found = tensors["depth"][known].double(), outputs[known].double()
        error = (found - true).abs()
        self.sums += torch.stack([error.sum(), (error**2).sum(), (error / true).sum(), known.sum().double()]).cpu()

    def scores(self):
        """All errors; lower is better."""
        absolute, square, relative, pixels = self.sums.tolist()
        return DepthScores(absolute / max(1, pixels), (square / max(1, pixels)) ** 0.5, relative / max(1, pixels))


@dataclass(frozen=True)
class DepthScores(Scores):
    """Errors of depth: mean absolute and root mean square in metres, and mean absolute relative to the true one."""

    mae: float
    rmse: float
    abs_rel: float

    def summary(self):
        """The scores as numbers."""
        return {"abs_rel": self.abs_rel, "mae": self.mae, "rmse": self.rmse}


@dataclass(frozen=True)
class DepthPrediction(Prediction):
    """The depth of one image in metres, float32 (h, w)."""

    image: np.ndarray
    depth: np.ndarray
    farthest: float

    def draw(self, style=None):
        """The depth in colours: near things warm, far ones cold."""
        return colored(self.depth, self.farthest)

    def files(self, style=None):
        """A drawing."""
        return {"-depth": codecs.encode_png(self.draw())}

    def rows(self):
        """The nearest and the farthest depth."""
        return [[f"{self.depth.min():.3f}", f"{self.depth.max():.3f}"]]


class Net(nn.Module):
    """A small network that predicts metres."""

    def __init__(self, farthest):
        super().__init__()
        self.farthest = farthest
        self.encoder = nn.Sequential(nn.Conv2d(3, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
        self.head = nn.Conv2d(32, 1, 3, padding=1)

    def forward(self, images):
        """Float (n, 3, h, w) to metres (n, h, w)."""
        small = self.farthest * torch.sigmoid(self.head(self.encoder(images)))
        return nn.functional.interpolate(small, images.shape[2:], mode="bilinear", align_corners=False).squeeze(1)


@dataclass(frozen=True)
class Depth(Task):
    """Depth from one image, trained with the absolute error."""

    classes: tuple[str, ...]
    augment: Augment
    farthest: float = 10.0
    canvas: tuple[int, int] = (64, 64)

    kind = DepthKind()
    ignore = 255
    best_metric = "abs_rel"
    lower_is_better = frozenset({"abs_rel", "mae", "rmse"})
    supports = frozenset({Ability.AUGMENTATION})

    @classmethod
    def of(cls, settings, described, split, *, grows=False):
        """The task of a recipe."""
        return cls(described.classes, settings.augment, settings.typed(Settings).farthest)

    def prepare(self, *, train):
        """A random view for training, the whole image for evaluation."""
        return Prepare(self.augment, None if train else self.canvas)

    def for_images(self, height, width, slices=0):
        """The task with a canvas for images of up to this size."""
        return Depth(self.classes, self.augment, self.farthest, (-(-height // 4) * 4, -(-width // 4) * 4))

    def model(self):
        """A new network."""
        return Net(self.farthest)

    def inputs(self, tensors):
        """Float (n, 3, h, w), about -2 to 2."""
        return (tensors["image"].permute(0, 3, 1, 2).float() - 115) / 58

    def mask_padding(self, tensors, weight):
        """Padding samples have no known depth."""
        real = weight.to(tensors["depth"].device).view(-1, 1, 1) > 0
        return {**tensors, "depth": torch.where(real, tensors["depth"], 0.0)}

    def count(self, tensors):
        """Pixels of known depth."""
        return (tensors["depth"] > 0).sum().view(1)

    def loss(self, outputs, tensors):
        """The absolute error, added up."""
        known = tensors["depth"] > 0
        return (outputs - tensors["depth"])[known].abs().sum().view(1)

    def metric(self):
        """A fresh counter of errors."""
        return Errors()

    @property
    def drawing(self):
        """Draws depth in colours."""
        return DepthDrawing(self.farthest)

    @property
    def predictor(self):
        """Predicts depth."""
        return DepthPredictor(self)


@dataclass(frozen=True)
class DepthDrawing(Drawing):
    """Draws depth in colours: near things warm, far ones cold."""

    farthest: float

    panels = "image, depth, prediction"

    def draw(self, arrays, outputs=None, record=None):
        """The image, its depth and, where there is one, the predicted depth, side by side."""
        maps = [np.asarray(arrays["depth"])]
        if outputs is not None:
            maps.append(outputs.float().cpu().numpy())
        return np.hstack([np.ascontiguousarray(arrays["image"]), *(colored(each, self.farthest) for each in maps)])


@dataclass(frozen=True)
class DepthPredictor(Predictor):
    """Predicts depth."""

    task: Depth
    columns = ("nearest", "farthest")

    @torch.inference_mode()
    def predict(self, ready, pixels):
        """The depth of one image."""
        height, width = (-(-side // 4) * 4 for side in pixels.shape[:2])
        padded = np.zeros((1, height, width, 3), np.uint8)
        padded[0, : pixels.shape[0], : pixels.shape[1]] = pixels
        depth = ready.model(self.task.inputs({"image": torch.from_numpy(padded).to(ready.device)}))[0].cpu().numpy()
        return DepthPrediction(pixels, depth[: pixels.shape[0], : pixels.shape[1]], self.task.farthest)

    def suffixes(self, style):
        """A drawing for each image."""
        return ("-depth",)

    def explain(self, table, rows, drawn, style):
        """What was written."""
        return f"NAME-depth.png shows near things warm; {table} has the range of every image in metres"
