"""From a recipe to the crops, the losses, the updates and the network: each held against a computation of its own."""

from __future__ import annotations

import copy
import dataclasses
import io
import math

import numpy as np
import pytest
import timm
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from PIL import Image
from safetensors.torch import load_file
from test_cli import call
from test_packing import records
from torch import nn
from training import recipe
from watching import Losses, compare_losses

from penstock import seeds
from penstock.assembly import open_parts
from penstock.cli.events import show
from penstock.config import Train, apply
from penstock.datasets import FolderDataset, Labels, inspect, pack
from penstock.errors import NonFiniteError
from penstock.images import decode_mask
from penstock.models import DeepLab, build_segmenter, synchronise_norms
from penstock.models.atrous import DPC, Branch
from penstock.models.sync_batchnorm import SyncNorm
from penstock.records.example import Fields, encode
from penstock.records.schema import SegmentationRecord, decode_segmentation, encode_segmentation
from penstock.session import Hook
from penstock.tasks import Augment, Segmentation
from penstock.training import train
from penstock.values import Record

# ------------------------------------------------------------------------------------------------ images and masks

HEIGHT, WIDTH = 48, 64
STRIPES = np.array([0, 3, 1, 2], np.uint8)  # ids of columns of 16 pixels: between neighbours there are others


def png(array, **options):
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(array)).save(buffer, "PNG", **options)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    """Images whose red is three times the column and whose green is four times the row: every crop says where it is
    from.
    """
    root = tmp_path_factory.mktemp("maps")
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    for number in range(8):
        blue = np.full((HEIGHT, WIDTH), 20 * number)
        for folder, data in (
            ("images", png(np.stack([3 * columns, 4 * rows, blue], axis=2).astype(np.uint8))),
            ("masks", png(STRIPES[columns // 16])),
        ):
            path = root / "raw" / folder / "train" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return pack(inspect(root / "raw"), root / "data")


class Fed(Hook):
    """Keeps what the network is fed."""

    def __init__(self):
        self.images, self.masks = [], []

    def after_step(self, session):
        self.images += list(session.batch.tensors["image"].numpy().copy())
        self.masks += list(session.batch.tensors["mask"].numpy().copy())


@dataclasses.dataclass
class Seen:
    """What a crop shows: its scale along both axes, whether it is mirrored, where it begins, and how much of it."""

    scale: tuple[float, float]
    flipped: bool
    corner: tuple[float, float]
    filled: tuple[int, int]


def crops(maps, tmp_path, *settings):
    """128 crops of a training, and what they show."""
    chosen = apply(
        recipe(maps.folder, steps=4, batch=32, ema_decay=0.0, evaluate_every=Train().evaluate_every),
        ["data.validation=", "optimizer.lr=1e-6", "augment.crop=[32, 64]", *settings],
    )
    fed = Fed()
    train(chosen, tmp_path, hooks=[fed])
    return [(image, mask, seen(image, mask)) for image, mask in zip(fed.images, fed.masks, strict=True)]


def seen(image, mask):
    inside = mask != 255
    rows, columns = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
    red, green = (image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1, i].astype(float) for i in (0, 1))
    right = (red[:, -4] - red[:, 3]).mean() / (red.shape[1] - 7) / 3  # away from the edges, where it is repeated
    down = (green[-4] - green[3]).mean() / (green.shape[0] - 7) / 4
    return Seen(
        (1 / down, 1 / abs(right)), bool(right < 0), (green.min() / 4, red.min() / 3), (len(rows), len(columns))
    )


def nearest(values, to):
    """Every value as the nearest of some, which it must be near to."""
    chosen = [min(to, key=lambda each: abs(each - value)) for value in values]
    assert np.allclose(values, chosen, rtol=0.04), values
    return set(chosen)


def test_crops_are_scaled_as_the_recipe_says(maps, tmp_path):
    stepped = crops(maps, tmp_path / "a", "augment.scale=[0.5, 1.5]", "augment.scale_step=0.5")
    assert nearest([each.scale[0] for _, _, each in stepped], (0.5, 1.0, 1.5)) == {0.5, 1.0, 1.5}
    assert all(math.isclose(*each.scale, rel_tol=0.05) for _, _, each in stepped)

    smooth = [
        each.scale[0]
        for _, _, each in crops(maps, tmp_path / "b", "augment.scale=[1.2, 2.8]", "augment.scale_step=0.0")
    ]
    assert 1.15 < min(smooth) < 1.4
    assert 2.5 < max(smooth) < 2.9
    assert sum(1.53 < scale < 1.67 for scale in smooth) + sum(1.78 < scale < 1.92 for scale in smooth) > 5


@pytest.mark.parametrize(("bounds", "scale"), [([24, 1000], 0.5), ([96, 96], 1.5), ([96, 1000], 2.0)])
def test_crops_are_of_pictures_brought_to_a_range(maps, tmp_path, bounds, scale):
    """48 x 64: the shorter side becomes the first, unless the longer one would exceed the second."""
    found = crops(maps, tmp_path, f"augment.resize_range={bounds}", "augment.scale=[1.0, 1.0]")

    assert nearest([side for _, _, each in found for side in each.scale], (0.5, 1.0, 1.5, 2.0)) == {scale}


def test_crops_are_padded_with_the_mean_pixel_and_the_ignored_label(maps, tmp_path):
    found = crops(maps, tmp_path, "augment.scale=[0.5, 0.5]", "augment.flip=0")
    mean = [round(255 * value) for value in timm.models.get_pretrained_cfg("test_resnet").mean]

    assert {each.filled for _, _, each in found} == {(24, 32)}
    for image, mask, _ in found:
        assert image.shape == (32, 64, 3)
        outside = np.ones((32, 64), bool)
        outside[:24, :32] = False
        assert (mask[outside] == 255).all()
        assert (image[outside] == mean).all()


def test_crops_are_from_anywhere(maps, tmp_path):
    found = [each for _, _, each in crops(maps, tmp_path, "augment.scale=[2.0, 2.0]", "augment.flip=0")]
    down, right = ({round(each.corner[axis]) for each in found} for axis in (0, 1))

    assert {each.filled for each in found} == {(32, 64)}
    assert (min(down), max(down), min(right), max(right)) == (0, 48 - 16, 0, 64 - 32)
    assert min(len(down), len(right)) > 20


@pytest.mark.parametrize("flip", [0.0, 0.2, 1.0])
def test_crops_are_mirrored_as_often_as_the_recipe_says(maps, tmp_path, flip):
    found = crops(maps, tmp_path, "augment.scale=[1.0, 1.0]", f"augment.flip={flip}")

    assert abs(sum(each.flipped for _, _, each in found) / 128 - flip) <= (0.1 if 0 < flip < 1 else 0)


def test_masks_are_cropped_scaled_and_mirrored_with_their_pictures_by_nearest(maps, tmp_path):
    """Red says which column of the mask a pixel is from; near an edge of a stripe either neighbour may be meant."""
    found = crops(maps, tmp_path, "augment.scale=[0.5, 2.0]", "augment.scale_step=0.0")
    for image, mask, _ in found:
        inside = mask != 255
        column = image[..., 0][inside] / 3
        allowed = [STRIPES[np.clip((column + off) // 16, 0, 3).astype(int)] for off in (-1.6, 1.6)]
        assert ((mask[inside] == allowed[0]) | (mask[inside] == allowed[1])).all()
    assert {each.flipped for _, _, each in found} == {True, False}


# ------------------------------------------------------------------------------------------------------- records


def test_records_of_the_two_images_alone_are_trained_on_as_whole_ones(packed):
    """As other writers' files have them."""
    prepare = open_parts(recipe(packed.folder)).task.prepare(train=False)
    (whole, *_) = records(packed, "train")
    fields = Fields(whole.payload, "x")
    keys = ("image/encoded", "image/segmentation/class/encoded")
    bare = Record("bare", encode({key: fields.first_bytes(key) for key in keys}))
    found = [{name: np.empty(field.shape, field.dtype) for name, field in prepare.fields.items()} for _ in range(2)]
    for record, out in zip((whole, bare), found, strict=True):
        prepare(record, None, out)

    assert found[0]["mask"].std() > 0
    assert all((found[0][name] == found[1][name]).all() for name in found[0])


def test_records_of_the_two_images_alone_are_packed_again(raw, tmp_path, capsys):
    """Without names of their own they are called by where they lie."""
    from miniatures import shard

    names = [f"scene-{number:05d}" for number in range(3)]
    pairs = [((raw / f"images/train/{n}.jpg").read_bytes(), (raw / f"masks/train/{n}.png").read_bytes()) for n in names]
    keys = ("image/encoded", "image/segmentation/class/encoded")
    (tmp_path / "raw").mkdir()
    shard(tmp_path / "raw/train-00000-of-00001.tfrecord", [dict(zip(keys, pair, strict=True)) for pair in pairs])
    words = ["--layout", "tfrecords", "--classes", "a,b,c,d,e,f"]
    assert call("pack", tmp_path / "raw", "-o", tmp_path / "data", *words, capsys=capsys)[0] == 0
    found = [decode_segmentation(r) for r in records(FolderDataset.open(tmp_path / "data"), "train")]

    assert {(each.image, each.height, each.width) for each in found} == {(image, 64, 96) for image, _ in pairs}
    assert {each.name for each in found} == {f"train-00000-of-00001.tfrecord-{number:06d}" for number in range(3)}


def test_what_is_packed_are_the_files_in_shards_of_a_size_and_out_of_order(tmp_path, capsys):
    """Masks of others' encoders too; a PNG that is called JPEG is a PNG."""
    draw = np.random.default_rng(0)
    for number in range(12):
        picture = png(draw.integers(0, 256, (300, 300, 3), np.uint8))
        for name, data in (
            (f"images/train/{number:02d}.jpg", picture),
            (f"masks/train/{number:02d}.png", png(draw.integers(0, 3, (300, 300), np.uint8), compress_level=1)),
        ):
            (tmp_path / "raw" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "raw" / name).write_bytes(data)
    code, out, _ = call("pack", tmp_path / "raw", "-o", tmp_path / "data", "--shard-size", 1, capsys=capsys)
    dataset = FolderDataset.open(tmp_path / "data")
    found = [decode_segmentation(record) for record in records(dataset, "train")]
    names = [each.name for each in found]

    assert code == 0, out
    assert len(dataset.description.splits["train"].shards) == 3  # of 3.4 MiB
    assert (sorted(names), names != sorted(names)) == ([f"{number:02d}" for number in range(12)], True)
    for each in found:
        assert each.format == "png"
        assert each.image == (tmp_path / f"raw/images/train/{each.name}.jpg").read_bytes()
        assert each.mask == (tmp_path / f"raw/masks/train/{each.name}.png").read_bytes()


def test_a_record_whose_mask_has_a_palette_is_trained_on_by_its_indices():
    """As DeepLab's own writer leaves Pascal VOC's where their colour maps were not removed."""
    ids = np.random.default_rng(0).choice([0, 5, 20, 255], (48, 64)).astype(np.uint8)
    colored = Image.fromarray(ids, "P")
    colored.putpalette(np.random.default_rng(1).integers(0, 256, 768).tolist())
    buffer = io.BytesIO()
    colored.save(buffer, "PNG")
    picture = png(np.zeros((48, 64, 3), np.uint8))
    record = Record("x", encode_segmentation(SegmentationRecord(picture, buffer.getvalue(), "x", "png", 48, 64)))
    task = Segmentation(
        "unet:test_resnet", tuple("abcdefghijklmnopqrstu"), augment=Augment((48, 64), scale=(1.0, 1.0), flip=0.0)
    )
    prepare = task.prepare(train=True)
    out = {name: np.empty(field.shape, field.dtype) for name, field in prepare.fields.items()}
    prepare(record, seeds.generator(0, "augment", 0), out)

    assert (out["mask"] == ids).all()


def test_the_layout_that_is_said_is_the_one_that_is_inspected(tmp_path, capsys):
    """Images of classes in folders called images and masks: nothing but a word tells that they are no masks."""
    for number, name in enumerate(("images", "masks")):
        for count in range(2):
            path = tmp_path / name / f"{count}.png"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(png(np.full((20, 20, 3), 10 + 60 * number + count, np.uint8)))

    assert call("inspect", tmp_path, capsys=capsys)[0] == 1
    code, out, _ = call("inspect", tmp_path, "--layout", "folders", capsys=capsys)
    assert (code, "2 folders of images, one per class" in out) == (0, True)


def test_a_split_that_is_trained_on_and_evaluated_is_noted(packed, tmp_path, capsys):
    train(apply(recipe(packed.folder, steps=1), ["data.train=train+val"]), tmp_path, on_event=show)

    assert (
        "note: val is trained on and evaluated: scores will not tell what is learnt by heart" in capsys.readouterr().out
    )


# ------------------------------------------------------------------------------------------------------- losses


def pixels_of(raw, split):
    """Of every class, its pixels, and those of the images that it occurs in."""
    own, around = np.zeros(6), np.zeros(6)
    for path in (raw / "masks" / split).iterdir():
        found = np.bincount(decode_mask(path.read_bytes(), "m").ravel(), minlength=256)[:6]
        own += found
        around += np.where(found, found.sum(), 0)
    return np.array([own, around])


@pytest.mark.parametrize(
    ("how", "splits"),
    [
        ("median", "train"),
        ("median", "train+val"),
        ("inverse", "train+val"),
        ("effective", "train"),
        ([1, 2, 0, 5, 0.5, 3], "train"),
    ],
)
def test_a_training_weighs_its_classes(raw, packed, tmp_path, how, splits):
    pixels, around = sum(pixels_of(raw, split) for split in splits.split("+"))
    weights = {
        "median": np.median(pixels / around) / (pixels / around),
        "inverse": pixels.sum() / pixels,
        "effective": (1 / pixels.sum()) / -np.expm1(pixels * np.log1p(-1 / pixels.sum())),
    }.get(str(how), np.array(how if isinstance(how, list) else 1.0))
    weights = weights if isinstance(how, list) else weights / weights.mean()
    settings = [f"loss.class_weights={how if isinstance(how, list) else repr(how)}", f"data.train={splits}"]
    chosen = apply(recipe(packed.folder, steps=2, evaluate_every=9), settings)
    weight = torch.tensor(weights).float()
    compare_losses(
        chosen, tmp_path, lambda logits, mask, _: F.cross_entropy(logits, mask.long(), weight, ignore_index=255)
    )


def test_a_training_mines_its_hardest_pixels_slowly(packed, tmp_path):
    """From all of them to a quarter over four steps, image by image."""

    def expected(logits, mask, step):
        share = 1 - 0.75 * min(1, step / 4)
        each = F.cross_entropy(logits, mask.long(), ignore_index=255, reduction="none").flatten(1)
        kept = [math.ceil(int((row != 255).sum()) * share) for row in mask.flatten(1)]
        return sum(row.topk(n).values.sum() for row, n in zip(each, kept, strict=True)) / sum(kept)

    chosen = apply(
        recipe(packed.folder, steps=6, evaluate_every=9), ["loss.ohem_ratio=0.25", "loss.ohem_warmup_steps=4"]
    )
    compare_losses(chosen, tmp_path, expected)


@pytest.mark.parametrize(
    "settings", [["loss.ohem_ratio=0.25", "loss.ohem_warmup_steps=4"], ["loss.ohem_threshold=0.2"]]
)
def test_a_training_weighs_the_pixels_that_it_mines(packed, tmp_path, settings):
    """Image by image the weighted mean of those that count, and images by the weights of their pixels: from the
    first step on, at which all pixels count, the same mathematics.
    """
    weight = torch.tensor([0.2, 1.0, 2.0, 3.0, 4.0, 5.0])

    def expected(logits, mask, step):
        total = worth = 0.0
        for answer, label in zip(logits.movedim(1, -1), mask.long(), strict=True):
            own = label != 255
            each = F.cross_entropy(answer[own], label[own], weight, reduction="none")
            weights = weight[label[own]]
            if "threshold" in settings[0]:
                sure = answer[own].softmax(dim=1).gather(1, label[own].unsqueeze(1))[:, 0]
                least = sure.sort().values[math.ceil(len(sure) / 16) - 1]
                kept, part = (sure < 0.2) | (sure <= least), 1.0
            else:
                share = 1 - 0.75 * min(1, step / 4)
                count = math.ceil(len(each) * share)
                kept, part = torch.zeros_like(each, dtype=torch.bool), count / len(each)
                kept[each.argsort(descending=True)[:count]] = True
            total += each[kept].sum() / weights[kept].sum() * weights.sum() * part
            worth += weights.sum() * part
        return total / worth

    chosen = apply(
        recipe(packed.folder, steps=5, evaluate_every=9), [f"loss.class_weights={weight.tolist()}", *settings]
    )
    compare_losses(chosen, tmp_path, expected)


def mattes(root, count=8):
    """Shares that are the green of their images."""
    draw = np.random.default_rng(0)
    for number in range(count):
        shares = np.asarray(
            Image.fromarray(draw.integers(0, 256, (6, 8), np.uint8)).resize((64, 48), Image.Resampling.BICUBIC)
        )
        picture = np.stack([draw.integers(0, 256, (48, 64), np.uint8), shares, shares], axis=2)
        for folder, data in (("images", png(picture)), ("alphas", png(shares))):
            path = root / "raw" / folder / "train" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return pack(inspect(root / "raw"), root / "data")


def test_a_training_on_mattes_sees_shares_where_the_recipe_looks(tmp_path):
    def expected(logits, mask, _):
        share = mask.clamp(min=0).float() / 255
        each = F.cross_entropy(logits, torch.stack([1 - share, share], dim=1), reduction="none")
        return each[mask >= 0].mean()

    settings = ["data.validation=", "augment.flip=1.0", "augment.scale=[1.0, 1.0]"]
    chosen = apply(recipe(mattes(tmp_path).folder, steps=3, batch=8, evaluate_every=Train().evaluate_every), settings)
    fed = Fed()
    hook = Losses(expected)
    train(chosen, tmp_path / "runs", hooks=[hook, fed])
    ours, theirs = zip(*hook.found, strict=True)
    originals = [np.asarray(Image.open(path))[:, ::-1] for path in sorted((tmp_path / "raw/images/train").iterdir())]

    assert ours == pytest.approx(theirs, rel=1e-4)
    for image, share in zip(fed.images, fed.masks, strict=True):
        assert np.array_equal(image[..., 1], share)
        windows = (
            w
            for each in originals
            for w in np.lib.stride_tricks.sliding_window_view(each, (32, 32, 3)).reshape(-1, 32, 32, 3)
        )
        assert any(np.array_equal(image, window) for window in windows)


# ------------------------------------------------------------------------------------------------------- updates

STEPS, PEAK = 4, 0.02


class Updates(Hook):
    """Gives the gradients of a training to an optimizer of PyTorch, over weights of its own."""

    def __init__(self, make, share, rates, clip, decays):
        self.make, self.share, self.rates, self.clip, self.decays = make, share, rates, clip, decays

    def on_start(self, session):
        self.own = {name: nn.Parameter(p.detach().clone()) for name, p in session.model.named_parameters()}
        self.begun = {name: p.detach().clone() for name, p in self.own.items()}
        norms = {f"{name}.bias" for name, module in session.model.named_modules() if isinstance(module, nn.BatchNorm2d)}
        groups = [
            {
                "params": [p],
                "weight_decay": 0.1 if p.ndim > 1 or self.decays else 0.0,
                "share": self.share(name, name in norms),
                "filters": name.startswith("encoder.") and p.ndim == 4,
            }
            for name, p in self.own.items()
        ]
        self.optimizer = self.make(groups)

    def after_backward(self, session):
        for name, parameter in session.model.named_parameters():
            self.own[name].grad = parameter.grad.clone()
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.own.values(), self.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = PEAK * self.rates[session.step] * group["share"]
        self.optimizer.step()

    def on_end(self, session):
        self.theirs = {name: p.detach() for name, p in session.model.named_parameters()}


def of_bias_and_head(name, of_norm):
    own = (3 if of_norm else 2) if name.endswith(".bias") else 1
    return own * (1 if name.startswith("encoder.") else 10)


class OwnMuon(torch.optim.Optimizer):
    """Filters as Jordan 2024 moves them (SVD by five Newton-Schulz iterations), all else as SGD with Nesterov's momentum;
    decay is decoupled, and unit filters have a root mean square norm of 1 before every step in its place.
    """

    def __init__(self, groups, momentum, rest, *, unit=False):
        super().__init__(groups, {"lr": 1.0, "weight_decay": 0.0})
        self.momentum, self.rest, self.unit, self.speed = momentum, rest, unit, {}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (p,) = group["params"]
            momentum = self.momentum if group["filters"] else self.rest
            self.speed[p] = momentum * self.speed.get(p, 0) + p.grad
            move = p.grad + momentum * self.speed[p]
            if group["filters"]:
                move = self.orthogonal(move.reshape(len(p), -1)).reshape(p.shape)
            if group["filters"] and self.unit:
                p /= p.flatten(1).square().sum(dim=1).mean().sqrt()
            else:
                p *= 1 - group["lr"] / group["share"] * group["weight_decay"]
            p -= group["lr"] * move

    @staticmethod
    def orthogonal(matrix):
        rows, columns = matrix.shape
        left, values, right = torch.linalg.svd(matrix.double(), full_matrices=False)
        values = values / (values.norm() + 1e-7)
        for _ in range(5):
            values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
        return (left @ values.diag() @ right * max(1, rows / columns) ** 0.5).float()


UPDATES = {
    "muon, biases decay": (
        ["name=muon", "momentum=0.6", "sgd_momentum=0.8", "bias_lr_mult=3", "decay_biases=true"],
        lambda groups: OwnMuon(groups, 0.6, 0.8),
        lambda name, of_norm: 3 if name.endswith(".bias") and not of_norm else 1,
        (1, 0.75**0.9, 0.5**0.9, 0.25**0.9), 0.0,
    ),
    "muon, unit filters": (
        ["name=muon", "unit_filters=true", "schedule=constant"],
        lambda groups: OwnMuon(groups, 0.9, 0.9, unit=True), lambda *_: 1, (1, 1, 1, 1), 0.0,
    ),
    "sgd, biases decay": (
        ["decay_biases=true", "schedule=constant"],
        lambda groups: torch.optim.SGD(groups, 1.0, momentum=0.9), lambda *_: 1, (1, 1, 1, 1), 0.0,
    ),
    "sgd, step, floor": (
        ["momentum=0.5", "bias_lr_mult=2", "norm_bias_lr_mult=3", "head_lr_mult=10", "grad_clip=0.5", "schedule=step", "decay=0.5", "decay_steps=1", "min_lr_ratio=0.3"],
        lambda groups: torch.optim.SGD(groups, 1.0, momentum=0.5), of_bias_and_head, (1, 0.5, 0.3, 0.3), 0.5,
    ),
    "sgd, multistep, slow start": (
        ["schedule=multistep", "milestones=[1]", "decay=0.2", "warmup_steps=2", "warmup_start_ratio=0.25"],
        lambda groups: torch.optim.SGD(groups, 1.0, momentum=0.9), lambda *_: 1, (0.25, 0.25, 1, 0.2), 0.0,
    ),
    "sgd, poly, warm-up": (
        ["warmup_steps=1", "momentum=0.0"],
        lambda groups: torch.optim.SGD(groups, 1.0), lambda *_: 1, (0.5, 1, (2 / 3) ** 0.9, (1 / 3) ** 0.9), 0.0,
    ),
    "adamw, poly": (
        ["name=adamw", "power=2.0"],
        lambda groups: torch.optim.AdamW(groups, 1.0), lambda *_: 1, (1, 0.5625, 0.25, 0.0625), 0.0,
    ),
    "rmsprop, cosine": (
        ["name=rmsprop", "momentum=0.5", "schedule=cosine", "min_lr_ratio=0.1"],
        lambda groups: torch.optim.RMSprop(groups, 1.0, alpha=0.9, momentum=0.5), lambda *_: 1,
        tuple(0.1 + 0.9 * (1 + math.cos(math.pi * step / 4)) / 2 for step in range(4)), 0.0,
    ),
    "logits alone, exponential": (
        ["head=logits", "head_lr_mult=10", "schedule=exponential", "decay=0.5", "decay_steps=2"],
        lambda groups: torch.optim.SGD(groups, 1.0, momentum=0.9), lambda name, _: 10 if name.startswith("logits.") else 1,
        (1, 0.5**0.5, 0.5, 0.5**1.5), 0.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UPDATES)
def test_a_training_updates_as_pytorchs_optimizers_do(packed, tmp_path, case):
    settings, make, share, rates, clip = UPDATES[case]
    model = "deeplab:test_resnet" if "logits" in case else "unet:test_resnet"
    more = [f"model.name={model}", "optimizer.weight_decay=0.1", f"optimizer.lr={PEAK}"]
    more += ["model.deeplab.channels=8"] if "logits" in case else []
    chosen = apply(
        recipe(packed.folder, steps=STEPS, evaluate_every=9, ema_decay=0.0),
        [*more, *(f"optimizer.{each}" for each in settings)],
    )
    hook = Updates(make, share, rates, clip, decays="biases decay" in case)
    train(chosen, tmp_path, hooks=[hook])

    assert any(not torch.equal(hook.begun[name], p) for name, p in hook.theirs.items())
    for name, parameter in hook.theirs.items():
        torch.testing.assert_close(
            parameter, hook.own[name].detach(), rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )


class Spoil(Hook):
    """Makes the gradients of a step infinite, or the loss alone."""

    def __init__(self, what):
        self.what = what

    def before_step(self, session):
        if session.step == 1 and self.what == "loss":
            next(session.model.parameters()).data.fill_(math.inf)

    def after_backward(self, session):
        if session.step == 1:
            for parameter in session.model.parameters():
                parameter.grad.fill_(math.inf if self.what == "gradients" else 0.0)


@pytest.mark.parametrize(
    ("what", "found"),
    [("gradients", r"found loss \d\.\d+, gradient norm inf"), ("loss", "found loss nan, gradient norm 0.0")],
)
def test_a_loss_or_a_gradient_alone_may_not_be_infinite(packed, tmp_path, what, found):
    with pytest.raises(NonFiniteError, match=found):
        train(recipe(packed.folder, steps=3, save_every=1), tmp_path, hooks=[Spoil(what)])
    (run,) = tmp_path.iterdir()

    assert [path.name for path in (run / "checkpoints").glob("step-*")] == ["step-00000001"]


# ------------------------------------------------------------------------------------------------------- weights


class Begun(Hook):
    """The weights that a training begins with."""

    def on_start(self, session):
        self.weights = {name: tensor.clone() for name, tensor in session.model.state_dict().items()}


def test_init_takes_the_best_weights_and_leaves_the_last_layer_to_other_classes(raw, packed, tmp_path, capsys):
    first, _ = train(recipe(packed.folder, steps=5, evaluate_every=2, ema_decay=0.0), tmp_path / "first")
    saved = load_file(first.checkpoints / "best" / "model.safetensors")
    other = pack(inspect(raw, Labels(classes=("a", "b", "c", "d", "e", "f", "g"))), tmp_path / "other")
    for dataset, kept in ((packed, ""), (other, "segmentation_head.")):
        begun = Begun()
        train(apply(recipe(dataset.folder, steps=1), [f"init={first.path}"]), tmp_path / "next", hooks=[begun])
        assert begun.weights.keys() == saved.keys()
        for name, tensor in begun.weights.items():
            assert torch.equal(tensor, saved[name]) != bool(kept and name.startswith(kept)), name
    words = ["--init", first.path, "--weights", "none", "--steps", 1, "--batch", 4, "--crop", 32, 32, "--lr", 0.0001]
    code, out, _ = call("train", packed.folder, *words, "--runs", tmp_path / "command", capsys=capsys)
    (run,) = (tmp_path / "command").iterdir()
    moved = load_file(run / "checkpoints" / "last" / "model.safetensors")

    assert code == 0
    assert f"init from {first.path}, step " in out
    weights = [name for name in saved if "running_" not in name and "num_batches" not in name]
    assert all(torch.allclose(moved[name], saved[name], atol=1e-2) for name in weights)


# ------------------------------------------------------------------------------------------------------- networks

PARTS = {
    "output_stride=8": {"output_stride": 8},
    "output_stride=32": {"output_stride": 32},
    "rates=[1, 2]": {"rates": (1, 2)},
    "multi_grid=[2]": {"output_stride": 8, "multi_grid": (2,)},
    "separable=false": {"separable": False},
    "pooling=false": {"pooling": False},
    "pooling_size=[32, 48]": {"pooling_size": (32, 48)},
    "pooling_stride=[2, 2]": {"pooling_size": (32, 32), "pooling_stride": (2, 2)},
    "squeeze=true": {"squeeze": True},
    "norms=false": {"norms": False},
    "channels=8": {"channels": 8},
    "projection=false": {"projection": False},
    "cell=[{of=-1, rate=[1, 6]}, {of=0, grid=[2, 1]}]": {"cell": (Branch(-1, (1, 6)), Branch(0, grid=(2, 1)))},
    "decoder=false": {"decoder": False},
    "decoder_strides=[8, 4]": {"decoder_strides": (8, 4)},
    "decoder_sum=true": {"decoder_sum": True},
    "decoder_logits=true": {"decoder_logits": True},
    "logits_kernel=3": {"logits_kernel": 3},
    "pyramid=[0.5, 1.0]": {"pyramid": (0.5, 1.0)},
    "merge=average": {"pyramid": (0.5, 1.0), "merge": "average"},
    "auxiliary=0.4": {"auxiliary": 0.4},
    "upsample=false": {"upsample": False},
}


def without_chance(network):
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return network


class EnoughError(Exception):
    """Ends a training before its first step."""


def begun(chosen, folder):
    """The network that a training of a recipe begins with."""

    class Takes(Hook):
        def on_start(self, session):
            taken.append(copy.deepcopy(session.model))
            raise EnoughError

    taken = []
    with pytest.raises(EnoughError):
        train(chosen, folder, hooks=[Takes()])
    return taken[0].eval()


def answers(network, images):
    """In evaluation, and all that there is in training, with their weights."""
    with torch.no_grad():
        learnt = without_chance(network).train()(images)
        shown = network.eval()(images)
    return [(1.0, shown), *learnt]


def same(one, other):
    return len(one) == len(other) and all(
        a == b and x.shape == y.shape and torch.allclose(x, y, atol=1e-4)
        for (a, x), (b, y) in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("matting", [False, True], ids=["masks", "mattes"])
@pytest.mark.parametrize("setting", PARTS)
def test_a_part_of_the_recipe_is_a_part_of_the_network(packed, soft, tmp_path, setting, matting):
    parts = PARTS[setting]
    more = [f"{name}={toml(value)}" for name, value in parts.items() if not setting.startswith(f"{name}=")]
    settings = [f"model.deeplab.{each}" for each in [*([] if "channels" in parts else ["channels=16"]), *more, setting]]
    data = (soft if matting else packed).folder
    plain = recipe(data, ema_decay=0.0, evaluate_every=Train().evaluate_every)
    chosen = apply(plain, ["model.name=deeplab:test_resnet", "data.validation=", *settings])
    ours = begun(chosen, tmp_path)
    with torch.no_grad():  # a new residual branch ends in zeros, and would not be seen
        for parameter in ours.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    classes, base = 2 if matting else 6, {"channels": 16}
    theirs = build_segmenter("deeplab:test_resnet", classes, "none", DeepLab(**{**base, **parts}))
    theirs.load_state_dict(ours.state_dict())
    images = torch.randn((2, 3, 96, 96), generator=torch.Generator().manual_seed(0))
    found = answers(copy.deepcopy(ours), images)

    assert same(found, answers(theirs, images))
    name = setting.partition("=")[0]
    plain = build_segmenter(
        "deeplab:test_resnet",
        classes,
        "none",
        DeepLab(**{key: value for key, value in {**base, **parts}.items() if key != name}),
    )
    if {k: v.shape for k, v in plain.state_dict().items()} == {k: v.shape for k, v in ours.state_dict().items()}:
        plain.load_state_dict(ours.state_dict())
        assert not same(found, answers(plain, images))


def toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)


@pytest.fixture(scope="module")
def soft(tmp_path_factory):
    return mattes(tmp_path_factory.mktemp("soft"))


def test_the_published_cell_is_the_paper_s():
    """Figure 5 of Chen et al. 2018, as core/dense_prediction_cell_branch5_top1_cityscapes.json has it."""
    assert [(branch.of, branch.rate, branch.grid) for branch in DPC] == [
        (-1, (1, 6), (0, 0)), (0, (18, 15), (0, 0)), (1, (6, 3), (0, 0)), (0, (1, 1), (0, 0)), (0, (6, 21), (0, 0)),
    ]  # fmt: skip


def test_runs_are_numbered_whatever_their_names_and_go_on_where_they_are(packed, tmp_path, capsys):
    """Another start for weights that have already moved is refused, not passed over."""
    for name in ("one", "other"):
        words = ["--name", name, "--runs", tmp_path, "--model", "unet:test_resnet", "--weights", "none", "--steps", 1]
        assert call("train", packed.folder, *words, "--batch", 4, "--crop", 32, 32, capsys=capsys)[0] == 0
    first, second = sorted(tmp_path.iterdir())
    assert (first.name, second.name) == ("0001-one", "0002-other")
    code, _, errors = call("train", "--resume", second, "--init", first, capsys=capsys)
    assert (code, "init: expected " in errors) == (2, True)
    assert call("train", "--resume", second, "--steps", 2, capsys=capsys)[0] == 0

    assert sorted(tmp_path.iterdir()) == [first, second]
    assert (second / "checkpoints" / "last").resolve().name == "step-00000002"


def test_the_last_factor_of_multi_grid_is_for_all_blocks_that_follow():
    def dilations(*grid):
        torch.manual_seed(0)
        network = build_segmenter("deeplab:resnet18", 3, "none", DeepLab(channels=8, output_stride=8, multi_grid=grid))
        layers = [m for m in list(network.encoder.children())[-1].modules() if isinstance(m, nn.Conv2d)]
        return [m.dilation[0] for m in layers if m.kernel_size[0] > 1]

    assert dilations(3) == [3 * rate for rate in dilations()]


@pytest.mark.parametrize("separable", [True, False])
def test_both_convolutions_of_a_decoder_are_separable_or_neither(separable):
    network = build_segmenter("deeplab:test_resnet", 3, "none", DeepLab(channels=8, separable=separable))
    found = [
        [m.groups == m.in_channels for m in refine.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)]
        for refine in network.decoder.refine
    ]

    assert found == [[separable], [separable]]


def test_norms_of_all_depths_are_those_of_all_ranks():
    network = build_segmenter("unet:test_resnet", 3, "none")
    count = sum(isinstance(module, nn.BatchNorm2d) for module in network.modules())
    changed = synchronise_norms(network)

    assert count > 10
    assert sum(isinstance(module, SyncNorm) for module in changed.modules()) == count


def test_a_cell_without_norms_has_biases():
    network = build_segmenter("deeplab:test_resnet", 3, "none", DeepLab(channels=8, cell=DPC, norms=False))
    layers = list(network.aspp.modules())

    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in layers)
    assert all(layer.bias is not None for layer in layers if isinstance(layer, nn.Conv2d))
