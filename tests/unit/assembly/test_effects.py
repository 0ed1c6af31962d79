"""Settings that would have no effect are refused where a run begins, by whichever door they come."""

from __future__ import annotations

import dataclasses

import pytest
from support.commands import call
from support.defaults import default_recipe
from support.errors import refused
from support.training import Stop, recipe

from penstock.assembly.effects import ABILITIES, NEEDS, check_abilities, check_chosen, check_effects, check_parts
from penstock.config import apply
from penstock.errors import RecipeError
from penstock.settings import Recipe
from penstock.tasks import TASKS
from penstock.training import resume, train

# Every setting that others decide about: how it is set, what takes its effect away, and what gives it back.
CASES = [
    ("loss.class_weights", '"median"', ["loss.cross_entropy=0", "loss.dice=1"], ["loss.cross_entropy=1"]),
    ("loss.label_smoothing", "0.1", ["loss.cross_entropy=0", "loss.dice=1"], ["loss.cross_entropy=0.5"]),
    ("loss.ohem_ratio", "0.5", ["loss.cross_entropy=0", "loss.focal=1"], ["loss.cross_entropy=0.5"]),
    ("loss.ohem_threshold", "0.5", ["loss.cross_entropy=0", "loss.focal=1"], ["loss.cross_entropy=0.5"]),
    ("loss.ohem_warmup_steps", "100", [], ["loss.ohem_ratio=0.5"]),
    ("loss.focal_gamma", "3.0", [], ["loss.focal=0.5"]),
    ("loss.tversky_alpha", "0.6", ["loss.dice=1"], ["loss.tversky=0.5"]),
    ("loss.tversky_beta", "0.6", [], ["loss.tversky=0.5"]),
    ("loss.custom_weight", "2.0", [], ["loss.custom=a.py:loss"]),
    ("optimizer.decay_biases", "true", ["optimizer.weight_decay=0"], ["optimizer.weight_decay=0.1"]),
    ("optimizer.warmup_start_ratio", "0.1", [], ["optimizer.warmup_steps=3"]),
    ("optimizer.head", "logits", [], ["optimizer.head_lr_mult=10"]),
    ("augment.flip", "0.2", ["augment.alternating_flip=true"], ["augment.alternating_flip=false"]),
    ("train.sliding_window", "32", ['data.validation=""'], ["data.validation=val"]),
    ("train.patience", "3", ['data.validation=""'], ["data.validation=val"]),
    ("train.nonfinite_limit", "3", ["train.nonfinite=stop"], ["train.nonfinite=rewind"]),
    ("train.epochs", "2.0", ["follow.on=true"], ["follow.on=false"]),
    ("data.limit", "4", ["follow.on=true"], ["follow.on=false"]),
    ("data.repeat_threshold", "0.5", ["follow.on=true"], ["follow.on=false"]),
    ("follow.records", "7", [], ["follow.on=true"]),
    ("follow.seconds", "7.0", [], ["follow.on=true"]),
    ("follow.idle_timeout", "7.0", [], ["follow.on=true"]),
    ("follow.group", "g", [], ["follow.on=true"]),
    ("model.deeplab.pooling_size", "[8]", ["model.deeplab.pooling=false"], ["model.deeplab.pooling=true"]),
    ("model.deeplab.pooling_stride", "[2, 2]", [], ["model.deeplab.pooling_size=[8]"]),
    ("model.deeplab.decoder_strides", "[8, 4]", ["model.deeplab.decoder=false"], ["model.deeplab.decoder=true"]),
    ("model.deeplab.decoder_sum", "true", ["model.deeplab.decoder=false"], ["model.deeplab.decoder=true"]),
    ("model.deeplab.decoder_logits", "true", ["model.deeplab.decoder=false"], ["model.deeplab.decoder=true"]),
    ("model.deeplab.logits_kernel", "3", ["model.deeplab.decoder_logits=true"], ["model.deeplab.decoder_logits=false"]),
    ("model.deeplab.merge", "average", [], ["model.deeplab.image_pyramid=[0.5, 1.0]"]),
    ("model.deeplab.rates", "[2, 4]", ["model.deeplab.cell=[{source=-1, rate=[1, 6]}]"], ["model.deeplab.cell=[]"]),
]  # fmt: skip


# What is for some tasks: a value, the tasks that take it, and what the others do not support.
MASKS = {"segmentation", "matting"}


IMAGES = {*MASKS, "classification", "detection", "instances"}


OF_TASKS = {
    "augment.min_visibility": (0.5, {"detection", "instances"}, "A minimum visibility of boxes"),
    "augment.slices": (16, {"volumes"}, "Cropping in depth"),
    "augment.view.crop_pct": (0.5, {"classification"}, "Evaluating the middle of an image"),
    "augment.border": ("reflect", {"classification"}, "A reflected border"),
    "augment.alternating_flip": ("true", IMAGES, "Augmentation beyond crop, slices and flip"),
    "augment.mosaic": (0.5, IMAGES - {"classification"}, "A mosaic of images"),
    "augment.perspective": (0.5, IMAGES, "Augmentation beyond crop, slices and flip"),
    "augment.elastic": (5.0, IMAGES, "Augmentation beyond crop, slices and flip"),
    "model.normalization": ("data", IMAGES, "Normalisation by the data"),
    "augment.rotate": (5.0, IMAGES, "Augmentation beyond crop, slices and flip"),
    "augment.jitter": ("{hue = 0.1}", IMAGES, "Augmentation beyond crop, slices and flip"),
    "augment.resize_range": ([20, 40], IMAGES, "Augmentation beyond crop, slices and flip"),
    "regularize.mixup": (
        0.5,
        {"classification"},
        "Batch augmentation (mixup, CutMix, random erasing, brightness, contrast)",
    ),
    "loss.lovasz": (0.5, {"segmentation", "classification", "volumes"}, "A choice of losses"),
    "model.weights": ("w.pth", IMAGES, "A pretrained backbone"),
    "train.sliding_window": (64, MASKS, "A sliding window"),
}


@pytest.mark.parametrize(("setting", "value", "without", "beside"), CASES)
def test_each_is_refused_without_what_it_needs_and_taken_beside_it(setting, value, without, beside):
    begun = default_recipe("segmentation")
    idle = apply(begun, [*without, f"{setting}={value}"])
    with pytest.raises(RecipeError) as caught:
        check_effects(idle, begun)
    assert caught.value.where == setting
    check_effects(apply(idle, beside), begun)
    check_effects(idle, idle)  # a run that began with it goes on


@pytest.mark.parametrize("setting", OF_TASKS)
def test_what_is_for_one_task_is_refused_for_others(setting):
    value, tasks, what = OF_TASKS[setting]
    for learnt in ("segmentation", "classification", "detection", "instances", "volumes", "matting"):
        begun = default_recipe(learnt)
        changed = apply(begun, [f"{setting}={value}"])
        if learnt in tasks:
            check_abilities(changed, TASKS[learnt], begun)
        else:
            with pytest.raises(RecipeError) as caught:
                check_abilities(changed, TASKS[learnt], begun)
            assert str(caught.value) == f"{what} is not supported for {learnt}. Remove {setting}."


def test_what_asks_for_nothing_is_refused_for_no_task():
    for learnt in TASKS:
        begun = apply(default_recipe(learnt), ["model.weights=pretrained"])
        check_abilities(apply(begun, ["model.weights=none"]), TASKS[learnt], begun)


@pytest.mark.parametrize("model", ["deeplab:resnet18", "resnet18", "fasterrcnn:resnet18", "net.py:build"])
def test_options_of_a_decoder_need_a_network_that_has_them(model):
    chosen = apply(Recipe(), [f"model.name={model}", "model.decoder.decoder_channels=[8, 8]"])
    message = (
        f"model.decoder has no effect on {model}, which is no network of segmentation_models.pytorch. Remove "
        "model.decoder."
    )
    refused(check_parts, chosen, message=message)


def test_every_need_has_a_case():
    listed = {setting for need in NEEDS for setting in need.settings}
    of_tasks = {setting for _, settings in ABILITIES for setting in settings}

    assert listed == {case[0] for case in CASES}
    assert {need.other for need in NEEDS} <= settings_of(Recipe())
    assert listed <= settings_of(Recipe())
    assert of_tasks <= settings_of(Recipe()) | {"augment.jitter", "augment.view"}
    assert set(OF_TASKS) <= of_tasks
    tried = {what for _, _, what in OF_TASKS.values()}
    assert tried == {ability.title for ability, _ in ABILITIES}


def settings_of(value, prefix=""):
    found = set()
    for field in dataclasses.fields(value):
        inner = getattr(value, field.name)
        if dataclasses.is_dataclass(inner) and not isinstance(inner, type):
            found |= settings_of(inner, f"{prefix}{field.name}.")
        else:
            found.add(f"{prefix}{field.name}")
    return found


@pytest.mark.parametrize("task", ["segmentation", "classification", "detection", "instances", "volumes", "matting"])
def test_the_defaults_of_every_task_and_model_are_taken(task):
    check_chosen(default_recipe(task), TASKS[task])
    for model in ("cifar10-tutorial", "cifar10-fast"):
        check_chosen(default_recipe(task, model), TASKS[task])


def test_through_the_command_line(packed, tmp_path, capsys):
    small = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 4, "--steps", 2]
    code, out, err = call(
        "train", packed.folder, *small, "--set", "loss.focal_gamma=3", "--runs", tmp_path, capsys=capsys
    )

    assert (code, out) == (2, "")
    assert err == (
        "error: loss.focal_gamma has no effect: it needs loss.focal above 0, but loss.focal is 0. Remove loss.focal_gamma, "
        "or change loss.focal.\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_through_python_and_at_a_resume(packed, tmp_path):
    chosen = recipe(packed.folder)
    with pytest.raises(RecipeError, match=r"^loss\.focal_gamma has no effect: it needs loss\.focal above 0, but "):
        train(apply(chosen, ["loss.focal_gamma=3.0"]), tmp_path)
    assert list(tmp_path.iterdir()) == []
    folder, _ = train(chosen, tmp_path, hooks=[Stop(2)])
    with pytest.raises(
        RecipeError, match=r"^optimizer\.decay_biases has no effect: it needs optimizer\.weight_decay above 0, but "
    ):
        resume(folder.path, ["optimizer.decay_biases=true", "optimizer.weight_decay=0"])
