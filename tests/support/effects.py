"""The effect of every setting: one row each, and what a training of a few steps shows of it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.config import apply
from penstock.session import Hook
from penstock.training import train

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.settings import Recipe

BATCHES, WEIGHTS, SCORES, LOG, NOTHING = "batches", "weights", "scores", "log", "nothing"
ORDER = (BATCHES, WEIGHTS, SCORES, LOG, NOTHING)
"""What a setting changes first; what comes before it must be as it was."""


class Effect(NamedTuple):
    """A value that a setting is changed to, the first thing that this changes, and the settings that it is tried beside.

    Attributes:
        value: as on the command line.
        first: of `ORDER`.
        beside: settings of both trainings.
        data: the dataset, and the model for it.
    """

    value: str
    first: str
    beside: tuple[str, ...] = ()
    data: str = "masks"


class Elsewhere(NamedTuple):
    """The test that shows the effect of a setting, for which a few steps in one process are not enough."""

    test: str


EVALUATED = ("data.validation=val",)
DEEPLAB = ("model.name=deeplab:test_resnet", "model.deeplab.channels=8")
RICH = {
    "masks": (
        "augment.rotate=10.0", "augment.jitter.brightness=0.2", "augment.blur=1.0", "augment.noise=4.0",
        "augment.perspective=0.2", "augment.mosaic=0.3",
        "loss.dice=0.5", "loss.focal=0.5", "loss.tversky=0.5", "loss.label_smoothing=0.1", "loss.class_weights=inverse",
        "loss.ohem_ratio=0.7", "optimizer.warmup_steps=1", "train.grad_clip=1.0", "optimizer.head_lr_mult=2.0",
        "optimizer.bias_lr_mult=2.0", "optimizer.weight_decay=0.01", "train.accumulate=2", "data.limit=17",
        "data.shuffle_window=2", "data.block=2", "data.repeat_threshold=0.4",
    ),
    "classes": (
        "regularize.mixup=0.4", "regularize.random_erasing=0.4", "augment.rotate=10.0", "loss.label_smoothing=0.1",
        "data.limit=7", "data.repeat_threshold=0.6",
    ),
    "boxes": ("augment.rotate=10.0", "augment.jitter.hue=0.1"),
}  # fmt: skip
"""Many settings at once, beside which each must still have its effect."""

EFFECTS: dict[str, Effect | Elsewhere] = {
    "seed": Effect("4", BATCHES),
    "init": Elsewhere("cli/test_train.py"),
    "strict": Elsewhere("unit/training/test_weights.py"),
    "task": Elsewhere("e2e/test_example_tasks.py"),
    "task_options": Elsewhere("e2e/test_example_tasks.py"),
    "hooks": Elsewhere("e2e/test_examples.py"),
    "data.path": Elsewhere("e2e/test_training.py"),
    "data.train": Effect("val", BATCHES, ("data.limit=0",)),
    "data.validation": Effect("val", SCORES),
    "data.block": Effect("4", BATCHES),
    "data.shuffle_window": Effect("4", BATCHES, ("data.block=2",)),
    "data.repeat_threshold": Effect("0.9", BATCHES),
    "data.limit": Effect("9", BATCHES),
    "data.start": Elsewhere("e2e/kafka/test_training.py"),
    "data.until": Elsewhere("e2e/kafka/test_training.py"),
    **{
        f"follow.{name}": Elsewhere("e2e/kafka/test_following.py")
        for name in ("on", "records", "seconds", "replay_ratio", "idle_timeout", "group")
    },
    "model.name": Effect("unet:test_convnext", WEIGHTS),
    "model.weights": Elsewhere("unit/models/test_pretrained.py"),
    "model.deeplab.output_stride": Effect("32", WEIGHTS, DEEPLAB),
    "model.deeplab.rates": Effect("[1, 2, 3]", WEIGHTS, DEEPLAB),
    "model.deeplab.multi_grid": Effect("[2, 1]", WEIGHTS, (*DEEPLAB, "augment.crop=[64, 64]")),
    "model.deeplab.pooling": Effect("false", WEIGHTS, DEEPLAB),
    "model.deeplab.pooling_size": Effect("[32, 32]", WEIGHTS, (*DEEPLAB, "augment.crop=[64, 64]")),
    "model.deeplab.pooling_stride": Effect("[2, 2]", WEIGHTS, (*DEEPLAB, "augment.crop=[64, 64]", "model.deeplab.pooling_size=[16, 16]")),
    "model.deeplab.squeeze_excite": Effect("true", WEIGHTS, DEEPLAB),
    "model.deeplab.norms": Effect("false", WEIGHTS, DEEPLAB),
    "model.deeplab.separable": Effect("false", WEIGHTS, DEEPLAB),
    "model.deeplab.channels": Effect("12", WEIGHTS, DEEPLAB),
    "model.deeplab.projection": Effect("false", WEIGHTS, DEEPLAB),
    "model.deeplab.cell": Effect("[{ of = -1, rates = [1, 2] }, { of = 0, rates = [2, 1] }]", WEIGHTS, DEEPLAB),
    "model.deeplab.decoder": Effect("false", WEIGHTS, DEEPLAB),
    "model.deeplab.decoder_strides": Effect("[8, 4]", WEIGHTS, DEEPLAB),
    "model.deeplab.decoder_sum": Effect("true", WEIGHTS, DEEPLAB),
    "model.deeplab.decoder_logits": Effect("true", WEIGHTS, DEEPLAB),
    "model.deeplab.logits_kernel": Effect("3", WEIGHTS, DEEPLAB),
    "model.deeplab.image_pyramid": Effect("[0.5, 1.0]", WEIGHTS, DEEPLAB),
    "model.deeplab.merge": Effect('"average"', WEIGHTS, (*DEEPLAB, "model.deeplab.image_pyramid=[0.5, 1.0]")),
    "model.deeplab.aux_loss_weight": Effect("0.4", WEIGHTS, DEEPLAB),
    "model.deeplab.upsample": Effect("false", WEIGHTS, DEEPLAB),
    "model.decoder": Effect("{ decoder_channels = [32, 16, 16, 16, 16] }", WEIGHTS),
    "model.normalization": Effect("data", WEIGHTS),
    "augment.crop": Effect("[64, 32]", BATCHES),
    "augment.view.name": Effect("resized-crop", BATCHES),
    "augment.view.crop_pct": Effect("0.5", SCORES, EVALUATED, data="classes"),
    "augment.view.scale": Effect("[0.8, 1.0]", BATCHES),
    "augment.view.scale_step": Effect("0.5", BATCHES),
    "augment.view.ratio": Effect("[1.0, 1.0]", BATCHES, data="classes"),
    "augment.view.margin": Effect("6", BATCHES, ("augment.view=pad-crop",)),
    "augment.resize_range": Effect("[48, 64]", BATCHES),
    "augment.border": Effect("reflect", BATCHES, ("augment.rotate=45.0",), data="classes"),
    "augment.flip": Effect("0.0", BATCHES),
    "augment.alternating_flip": Effect("true", BATCHES, data="classes"),
    "augment.rotate": Effect("30.0", BATCHES),
    "augment.jitter.brightness": Effect("0.5", BATCHES),
    "augment.jitter.contrast": Effect("0.5", BATCHES),
    "augment.jitter.saturation": Effect("0.5", BATCHES),
    "augment.jitter.hue": Effect("0.2", BATCHES),
    "augment.mosaic": Effect("1.0", BATCHES),
    "augment.perspective": Effect("0.5", BATCHES),
    "augment.elastic": Effect("6.0", BATCHES),
    "augment.blur": Effect("3.0", BATCHES),
    "augment.noise": Effect("20.0", BATCHES),
    "augment.min_visibility": Effect("1.0", BATCHES, ("augment.crop=[32, 32]", "augment.view.scale=[2.0, 3.0]"), data="boxes"),
    "augment.slices": Elsewhere("e2e/test_settings.py"),
    "regularize.mixup": Effect("0.8", BATCHES, data="classes"),
    "regularize.cutmix": Effect("1.0", BATCHES, data="classes"),
    "regularize.random_erasing": Effect("1.0", BATCHES, data="classes"),
    "regularize.brightness": Effect("60.0", BATCHES, data="classes"),
    "regularize.contrast": Effect("[0.2, 1.8]", BATCHES, data="classes"),
    "loss.cross_entropy": Effect("0.5", WEIGHTS),
    "loss.focal": Effect("1.0", WEIGHTS),
    "loss.dice": Effect("1.0", WEIGHTS),
    "loss.jaccard": Effect("1.0", WEIGHTS),
    "loss.tversky": Effect("1.0", WEIGHTS),
    "loss.lovasz": Effect("1.0", WEIGHTS),
    "loss.custom": Effect("support.effects:squared", WEIGHTS),
    "loss.custom_weight": Effect("3.0", WEIGHTS, ("loss.custom=support.effects:squared",)),
    "loss.class_weights": Effect("median", WEIGHTS),
    "loss.label_smoothing": Effect("0.3", WEIGHTS),
    "loss.ohem_ratio": Effect("0.2", WEIGHTS),
    "loss.ohem_warmup_steps": Effect("3", WEIGHTS, ("loss.ohem_ratio=0.3",)),
    "loss.ohem_threshold": Effect("0.2", WEIGHTS, ("loss.ohem_ratio=1.0",)),
    "loss.focal_gamma": Effect("4.0", WEIGHTS, ("loss.focal=1.0",)),
    "loss.tversky_alpha": Effect("0.9", WEIGHTS, ("loss.tversky=1.0",)),
    "loss.tversky_beta": Effect("0.1", WEIGHTS, ("loss.tversky=1.0",)),
    "optimizer.name": Effect("adamw", WEIGHTS),
    "optimizer.lr": Effect("0.02", WEIGHTS),
    "optimizer.weight_decay": Effect("0.1", WEIGHTS),
    "optimizer.decay_biases": Effect("true", WEIGHTS, ("optimizer.weight_decay=0.1",)),
    "optimizer.schedule.name": Effect("cosine", WEIGHTS),
    "optimizer.schedule.min_lr_ratio": Effect("0.9", WEIGHTS),
    "optimizer.schedule.power": Effect("3.0", WEIGHTS),
    "optimizer.schedule.gamma": Effect("0.5", WEIGHTS, ("optimizer.schedule=step", "optimizer.schedule.step_size=1")),
    "optimizer.schedule.step_size": Effect("1", WEIGHTS, ("optimizer.schedule=step",)),
    "optimizer.schedule.milestones": Effect("[1]", WEIGHTS, ("optimizer.schedule=multistep", "optimizer.schedule.milestones=[2]")),
    "optimizer.warmup_steps": Effect("2", WEIGHTS, ("optimizer.warmup_steps=1",)),
    "optimizer.warmup_start_ratio": Effect("0.5", WEIGHTS, ("optimizer.warmup_steps=2",)),
        "optimizer.bias_lr_mult": Effect("9.0", WEIGHTS),
    "optimizer.norm_bias_lr_mult": Effect("9.0", WEIGHTS),
    "optimizer.head_lr_mult": Effect("9.0", WEIGHTS),
    "optimizer.head": Effect("logits", WEIGHTS, ("optimizer.head_lr_mult=5.0",)),
    "optimizer.momentum": Effect("0.5", WEIGHTS),
    "optimizer.sgd_momentum": Effect("0.5", WEIGHTS, ("optimizer.name=muon",)),
    "optimizer.unit_filters": Effect("true", WEIGHTS, ("optimizer.name=muon",)),
    "train.steps": Effect("2", BATCHES),
    "train.epochs": Elsewhere("e2e/test_trying.py"),
    "train.batch": Effect("8", BATCHES),
    "train.accumulate": Elsewhere("e2e/test_settings.py"),
    "train.halve_on_oom": Effect("true", NOTHING),
    "train.evaluate_every": Effect("1", SCORES, EVALUATED),
    "train.save_every": Effect("1", LOG),
    "train.patience": Elsewhere("e2e/test_trying.py"),
    "train.save_minutes": Effect("0.5", NOTHING),
    "train.async_save": Effect("false", NOTHING),
    "train.keep": Effect("1", LOG, ("train.save_every=1",)),
    "train.nonfinite": Effect("skip", NOTHING),
    "train.nonfinite_limit": Effect("3", NOTHING, ("train.nonfinite=skip",)),
    "train.grad_clip": Effect("0.01", WEIGHTS),
    "train.precision": Effect("bfloat16", WEIGHTS),
    "train.ema_decay": Effect("0.5", SCORES, EVALUATED),
    "train.sliding_window": Effect("32", SCORES, EVALUATED),
    "train.compile": Elsewhere("unit/session/test_kept.py"),
    "train.activation_checkpointing": Effect("true", NOTHING, ("model.name=test_resnet",), data="classes"),
    "train.fsdp": Elsewhere("e2e/test_ranks.py"),
    "train.freeze_bn": Effect("true", WEIGHTS),
    "train.freeze_backbone": Effect("true", WEIGHTS),
    "train.sync_bn": Elsewhere("e2e/test_ranks.py"),
    "train.deterministic": Effect("true", NOTHING),
    "train.device": Effect("cpu", NOTHING),
    "train.num_threads": Effect("3", NOTHING),
    "train.stall_timeout": Elsewhere("e2e/test_stalling.py"),
    "train.retries": Elsewhere("e2e/test_retrying.py"),
    "train.log_every": Effect("1", LOG),
    "train.metrics": Elsewhere("unit/session/test_custom_metrics.py"),
    "train.best_metric": Elsewhere("unit/session/test_best.py"),
    "train.log_origins": Effect("true", LOG),
}  # fmt: skip


CHOICES: dict[str, tuple[tuple[str, ...], ...]] = {
    "optimizer.momentum": (("optimizer.name=rmsprop",), ("optimizer.name=muon",)),
    "optimizer.weight_decay": (("optimizer.name=adamw",), ("optimizer.name=rmsprop",), ("optimizer.name=muon",)),
    "optimizer.lr": (("optimizer.name=adamw",), ("optimizer.name=rmsprop",), ("optimizer.name=muon",)),
    "optimizer.schedule.gamma": (
        ("optimizer.schedule=multistep", "optimizer.schedule.milestones=[1]"),
        ("optimizer.schedule=exponential", "optimizer.schedule.step_size=1"),
    ),
    "optimizer.schedule.step_size": (("optimizer.schedule=exponential",),),
    "optimizer.schedule.min_lr_ratio": (("optimizer.schedule=cosine",), ("optimizer.schedule=exponential", "optimizer.schedule.step_size=1")),
    "optimizer.warmup_steps": (("optimizer.schedule=cosine",), ("optimizer.schedule=constant",)),
    "augment.flip": (("augment.view=resized-crop",),),
    "augment.rotate": (("augment.view=resized-crop",),),
    "augment.view.scale": (("augment.view=resized-crop",),),
    "augment.view.ratio": (("augment.view=resized-crop",),),
}  # fmt: skip
"""Choices of another setting beside which a setting has its effect too, with the data of masks."""

CLASSES_TOO = (
    "seed", "data.repeat_threshold", "augment.flip", "augment.rotate", "augment.jitter.hue", "augment.elastic",
    "loss.cross_entropy", "loss.label_smoothing", "train.freeze_bn",
)  # fmt: skip
"""Settings that are tried with classifiers too."""


def squared(logits, target, ignore):
    """A custom loss: the mean of the squared logits of each image."""
    return (logits**2).flatten(1).mean(dim=1)


class _Watch(Hook):
    """Hashes the batches of the steps, and the weights at the end."""

    def __init__(self):
        self.batches = hashlib.sha256()
        self.weights = ""

    def before_step(self, session):
        for name, tensor in sorted(session.batch.tensors.items()):
            self.batches.update(name.encode() + str(tensor.shape).encode() + tensor.cpu().numpy().tobytes())

    def after_step(self, session):
        found = hashlib.sha256()
        for name, tensor in sorted(session.model.state_dict().items()):
            found.update(name.encode() + tensor.detach().cpu().float().numpy().tobytes())
        self.weights = found.hexdigest()


def observe(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """What a training shows, by `ORDER`: hashes of batches and weights, the scores, and what is written."""
    watch = _Watch()
    events: list[str] = []
    run, _ = train(recipe, folder, hooks=[watch], on_event=lambda event: events.append(type(event).__name__))
    entries = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    scores = [entry["evaluation"] for entry in entries if "evaluation" in entry]
    paths = (path.relative_to(run.path) for path in run.path.rglob("*"))
    files = sorted(path.as_posix() for path in paths if path.parts[0] != "tensorboard")  # whose names hold the time
    best = (run.path / "checkpoints" / "best").resolve().name
    return {
        BATCHES: watch.batches.hexdigest(),
        WEIGHTS: watch.weights,
        SCORES: scores,
        LOG: (files, events, best, len(entries)),
    }


def changed(recipe: Recipe, effect: Effect, name: str, *, rich: bool) -> tuple[Recipe, Recipe]:
    """The recipe with what the effect is tried beside, without and with the changed value.

    Args:
        recipe: for the effect's data.
        effect: the row.
        name: of the setting.
        rich: whether many other settings are set too.
    """
    own = {each.partition("=")[0] for each in effect.beside} | {name}
    many = [each for each in RICH[effect.data] if rich and each.partition("=")[0] not in own]
    begun = apply(recipe, [*many, *effect.beside])
    return begun, apply(begun, [f"{name}={effect.value}"])
