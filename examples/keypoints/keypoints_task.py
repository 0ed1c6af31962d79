"""Named points: `penstock train DATA --task examples/keypoints/keypoints_task.py:Keypoints --crop 32 32`."""

from dataclasses import dataclass

import numpy as np
import torch
from keypoints_kind import Keypoints as KeypointsKind
from keypoints_kind import marked
from torch import nn

from penstock import Prediction, Task
from penstock.feed import Field
from penstock.images import codecs, fetch_image, geometry, probe
from penstock.tasks import Ability, Drawing, Predictor
from penstock.tasks.scoring import Scores
from penstock.settings import Augment

FILL = (124, 116, 104)


@dataclass(frozen=True)
class Settings:
    """What `task_options` may say.

    Attributes:
        near: pixels within which a point counts as found, for PCK.
        visibility_weight: the weight of the loss of visibility.
    """

    near: float = 5.0
    visibility_weight: float = 1.0


@dataclass(frozen=True)
class Prepare:
    """Converts a record to `image`, uint8 (h, w, 3), and `points`, float32 (points, 3): x, y, and 1 visible, 0 not, -1 padding."""

    classes: tuple[str, ...]
    augment: Augment
    canvas: tuple[int, int] | None = None

    @property
    def fields(self):
        """The tensors of a sample."""
        size = self.canvas or self.augment.crop
        return {"image": Field((*size, 3), "uint8"), "points": Field((len(self.classes), 3), "float32")}

    def __call__(self, record, generator, out):
        """Apply one random view to image and points. `view.affine` maps sample to image, so points take its inverse."""
        image, points = KeypointsKind().decode(record, self.classes)
        info = probe(image, record.origin)
        size = out["image"].shape[:2]
        train = self.canvas is None and generator
        view = self.augment.draw(info.size, generator) if train else geometry.whole(info.size, size)
        matrix = self.augment.jitter.draw(generator) if train else None
        fetch_image(image, record.origin, info, view.affine, FILL, out["image"], matrix)
        moved = np.stack(view.affine.inverse().point(points[:, 0], points[:, 1]), axis=1)
        inside = ((0 <= moved) & (moved < [size[1], size[0]])).all(axis=1)
        out["points"][:, :2] = moved
        out["points"][:, 2] = inside & (points[:, 2] > 0)


class Distances:
    """Adds up distances in pixels, points that are near enough, and right visibilities."""

    def __init__(self, near):
        self.near = near
        self.sums = torch.zeros(5, dtype=torch.float64)

    def gather(self, ranks):
        """Add up what all ranks have counted."""
        ranks.sum(self.sums)

    def update(self, outputs, tensors, origins):
        """Count a batch."""
        points = tensors["points"].double()
        seen, real = points[..., 2] > 0, points[..., 2] >= 0
        distance = (outputs[..., :2].double() - points[..., :2]).norm(dim=-1)[seen]
        right = ((outputs[..., 2] > 0) == seen)[real]
        near = (distance <= self.near).double().sum()
        sums = [distance.sum(), near, seen.sum().double(), right.double().sum(), real.sum().double()]
        self.sums += torch.stack(sums).cpu()

    def scores(self):
        """All scores."""
        distance, near, seen, right, real = self.sums.tolist()
        return PointScores(distance / max(1, seen), near / max(1, seen), right / max(1, real))


@dataclass(frozen=True)
class PointScores(Scores):
    """Mean distance in pixels, the fraction of points that are near enough, and of right visibilities."""

    distance: float
    pck: float
    visibility: float

    def summary(self):
        """The scores as numbers."""
        return {"distance": self.distance, "pck": self.pck, "visibility": self.visibility}


@dataclass(frozen=True)
class PointPrediction(Prediction):
    """The points of one image: float32 (points, 3), x, y and the probability that it is visible."""

    image: np.ndarray
    points: np.ndarray
    classes: tuple[str, ...]

    def draw(self, style=None):
        """The image with what was found."""
        return marked(self.image, self.points, cross=True)

    def files(self, style=None):
        """A drawing."""
        return {"-points": codecs.encode_png(self.draw())}

    def rows(self):
        """A row for each point."""
        named = zip(self.classes, self.points.tolist(), strict=True)
        return [[name, f"{x:.2f}", f"{y:.2f}", f"{visible:.3f}"] for name, (x, y, visible) in named]

    def drawn(self, style=None):
        """Points that are visible."""
        return int((self.points[:, 2] > 0.5).sum())


class Net(nn.Module):
    """Heat maps at half the size; a point is the soft-argmax of its map, visible if the map is high somewhere."""

    def __init__(self, points):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 16, 5, 2, 2),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, 1, 1),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, 1, 1),
            nn.ReLU(),
        )
        self.head = nn.Conv2d(32, points, 1)

    def forward(self, images):
        """Float (n, 3, h, w) to (n, points, 3): x and y in pixels, and the logit of visibility."""
        maps = self.head(self.encoder(images))
        share = maps.flatten(2).softmax(dim=2).view_as(maps)
        rows, columns = (torch.arange(side, device=maps.device) * 2 + 1.0 for side in maps.shape[2:])
        x = (share.sum(dim=2) * columns).sum(dim=2)
        y = (share.sum(dim=3) * rows).sum(dim=2)
        return torch.stack([x, y, maps.amax(dim=(2, 3))], dim=2)


@dataclass(frozen=True)
class Keypoints(Task):
    """Named points: their distance, and the cross-entropy of their visibility."""

    classes: tuple[str, ...]
    augment: Augment
    near: float = 5.0
    visibility_weight: float = 1.0
    canvas: tuple[int, int] = (64, 64)

    kind = KeypointsKind()
    ignore = 255
    best_metric = "distance"
    lower_is_better = frozenset({"distance"})
    supports = frozenset({Ability.AUGMENTATION})

    @classmethod
    def of(cls, settings, described, split, *, grows=False):
        """The task of a recipe."""
        own = settings.typed(Settings)
        return cls(tuple(described.classes), settings.augment, own.near, own.visibility_weight)

    def prepare(self, *, train):
        """A random view for training, the whole image for evaluation."""
        return Prepare(self.classes, self.augment, None if train else self.canvas)

    def for_images(self, height, width, slices=0):
        """The task with a canvas for images of up to this size."""
        canvas = (-(-height // 2) * 2, -(-width // 2) * 2)
        return Keypoints(self.classes, self.augment, self.near, self.visibility_weight, canvas)

    def model(self):
        """A new network."""
        return Net(len(self.classes))

    def inputs(self, tensors):
        """Float (n, 3, h, w), about -2 to 2."""
        return (tensors["image"].permute(0, 3, 1, 2).float() - 115) / 58

    def mask_padding(self, tensors, weight):
        """Padding samples have points of visibility -1, which count nowhere."""
        points = tensors["points"]
        real = weight.to(points.device).view(-1, 1, 1) > 0
        return {**tensors, "points": torch.where(real, points, torch.full_like(points, -1))}

    def count(self, tensors):
        """The number of visible points, and of all points."""
        visible = tensors["points"][..., 2]
        return torch.stack([(visible > 0).sum(), (visible >= 0).sum()])

    def loss(self, outputs, tensors):
        """Distances and cross-entropies, each added up."""
        points = tensors["points"]
        seen, real = points[..., 2] > 0, points[..., 2] >= 0
        away = nn.functional.smooth_l1_loss(outputs[..., :2][seen], points[..., :2][seen], reduction="sum")
        visibility = nn.functional.binary_cross_entropy_with_logits(
            outputs[..., 2][real], seen[real].float(), reduction="sum"
        )
        return torch.stack([away, self.visibility_weight * visibility]).float()

    def metric(self):
        """A fresh counter of distances."""
        return Distances(self.near)

    @property
    def drawing(self):
        """Draws points on their image."""
        return PointDrawing(self.classes)

    @property
    def predictor(self):
        """Predicts points."""
        return PointPredictor(self)


@dataclass(frozen=True)
class PointDrawing(Drawing):
    """Draws points on their image."""

    classes: tuple[str, ...]

    panels = "image with points, image with predicted points"

    def draw(self, arrays, outputs=None, record=None):
        """The image with its points in circles and, where there are outputs, a copy with predictions as crosses."""
        image = np.asarray(arrays["image"])
        tiles = [marked(image, np.asarray(arrays["points"]))]
        if outputs is not None:
            tiles.append(marked(image, found(outputs), cross=True))
        return np.hstack(tiles)


@dataclass(frozen=True)
class PointPredictor(Predictor):
    """Predicts points."""

    task: Keypoints
    columns = ("point", "x", "y", "visible")

    @torch.inference_mode()
    def predict(self, ready, pixels):
        """The points of one image."""
        height, width = (-(-side // 2) * 2 for side in pixels.shape[:2])
        padded = np.zeros((1, height, width, 3), np.uint8)
        padded[:] = FILL
        padded[0, : pixels.shape[0], : pixels.shape[1]] = pixels
        outputs = ready.model(self.task.inputs({"image": torch.from_numpy(padded).to(ready.device)}))[0]
        return PointPrediction(pixels, found(outputs), self.task.classes)

    def suffixes(self, style):
        """A drawing for each image."""
        return ("-points",)

    def explain(self, table, rows, drawn, style):
        """What was written."""
        return f"NAME-points.png shows {drawn} visible points as crosses; {table} has all {rows}, in pixels"


def found(outputs):
    """Outputs with a probability in place of the logit: float32 (points, 3)."""
    outputs = outputs.detach().float().cpu()
    return torch.cat([outputs[:, :2], outputs[:, 2:].sigmoid()], dim=1).numpy()
