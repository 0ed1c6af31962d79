from __future__ import annotations

import dataclasses
import re

import cv2
import numpy as np
import pytest
import torch
from support import miniatures
from support.commands import call
from support.datasets import classes, records
from support.defaults import default_recipe
from support.shaking import Looks
from support.training import recipe
from support.watching import Given

from penstock.assembly import open_experiment, open_run
from penstock.config import apply, load
from penstock.datasets import inspect, pack
from penstock.extensions.kafka import FakeLog, KafkaSource
from penstock.feed import Feed
from penstock.images import decode_image, decode_mask, drawing
from penstock.images.codecs import encode_png
from penstock.kinds.fields import ClassificationRecord, decode_segmentation, encode_classification
from penstock.order import Plan
from penstock.report import predictions_sheet, records_sheet, samples_sheet
from penstock.settings import Augment, DataSettings, Regularize
from penstock.settings.views import PadCrop
from penstock.tasks import Classification
from penstock.tasks.classification import ClassDrawing
from penstock.tasks.segmentation import MaskDrawing
from penstock.training import train


@pytest.fixture
def drawn(monkeypatch):
    """The arrays of all samples that are drawn."""
    found = []
    for kind in (MaskDrawing, ClassDrawing):
        own = kind.draw

        def draw(self, arrays, outputs=None, record=None, own=own):
            found.append({name: array.copy() for name, array in arrays.items()})
            return own(self, arrays, outputs, record)

        monkeypatch.setattr(kind, "draw", draw)
    return found


def test_replay_and_show_draw_what_the_model_saw(packed, tmp_path, drawn, capsys):
    given = Given()
    folder, _ = train(recipe(packed.folder, steps=2), tmp_path / "runs", hooks=[given])
    for words, batch in (
        (["replay", folder.path, "--step", 2], given.batches[1]),
        (["show", packed.folder, "--augmented", "--recipe", folder.path / "recipe.toml", "-n", 4], given.batches[0]),
    ):
        drawn.clear()
        assert call(*words, "-o", tmp_path / f"{words[0]}.png", capsys=capsys)[0] == 0
        for name in ("image", "mask"):
            assert np.array_equal(np.stack([each[name] for each in drawn]), batch[name].numpy())


@pytest.mark.parametrize("own", [(), tuple((9 + 40 * i, 8 * i, 250 - 30 * i) for i in range(6))])
def test_records_are_drawn_below_their_colours_and_that_of_what_is_ignored(packed, own):
    described = dataclasses.replace(packed.description, colors=own)
    sheet = records_sheet(dataclasses.replace(packed, description=described), "train", 2, 0)
    colors = drawing.palette(255, own)
    colors[6] = 255
    key = drawing.legend([*described.classes, "(ignored)"], colors, sheet.shape[1])
    record = records(packed, "train")[0]
    fields = decode_segmentation(record)
    mask, tile = decode_mask(fields.mask, "m"), described.kind.draw(record, described)
    gray = cv2.cvtColor(decode_image(fields.image, "i"), cv2.COLOR_RGB2GRAY)[0, 0]
    pixel = tile[0, tile.shape[1] // 2].astype(int)  # of the mask's corner, which no border of classes touches

    assert len(described.classes) == 6
    assert np.array_equal(sheet[: len(key)], key)
    assert np.abs(pixel - (0.5 * gray + 0.5 * colors[mask[0, 0]])).max() <= 1


def test_a_predicted_class_is_drawn_no_higher_than_a_screen_has_room_for(tmp_path, monkeypatch):
    """Its caption names the record, but no panels, as there are none."""
    lines, caption = [], drawing.caption
    monkeypatch.setattr(drawing, "caption", lambda image, text: lines.append(text) or caption(image, text))
    folder, _ = train(classes(tmp_path), tmp_path / "runs")
    parts = open_run(folder.path)
    task, feed = parts.evaluation("train")
    model = parts.model().eval()
    sheet = predictions_sheet(task, model, feed, [0, 1, 2, 3], torch.device("cpu"), "float32")

    assert 2 * 400 < sheet.shape[0] < 2 * (480 + 100)  # two rows, each with up to five lines below
    assert len(lines) == 12
    assert all(re.search(r"^\S+ \(train-\S+#\d+\)$", line) for line in lines[2::3])


def test_replay_draws_mixed_images_as_the_model_saw_them(tmp_path, drawn, capsys):
    miniatures.folders(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    settings = [
        "model.name=test_resnet",
        "model.weights=none",
        "augment.crop=[32, 32]",
        "train.steps=1",
        "train.batch=2",
    ]
    settings += [
        "regularize.mixup=0.5",
        "regularize.random_erasing=1.0",
        "regularize.brightness=20",
        "train.device=cpu",
    ]
    chosen, given = (
        dataclasses.replace(default_recipe("classification"), data=DataSettings(str(dataset.folder))),
        Given(),
    )
    folder, _ = train(apply(chosen, settings), tmp_path / "runs", hooks=[given])
    assert call("replay", folder.path, "--step", 1, capsys=capsys)[0] == 0
    normal = open_experiment(load(folder.path / "recipe.toml")).task.normalization
    mean, std = (torch.tensor(value).view(3, 1, 1) for value in (normal.mean, normal.std))
    seen = (255 * (given.inputs[0] * std + mean)).clamp(0, 255).movedim(1, -1).numpy()

    assert np.abs(np.stack([each["image"] for each in drawn]) - seen).mean() < 3  # what is beyond 0 to 255 is cut
    assert np.abs(given.batches[0]["image"].numpy() - seen).mean() > 10


def test_as_many_predictions_are_drawn_as_asked_and_they_are_the_models(shaken_run, capsys):
    drawn = {}
    for step, count in ((1, 1), (1, 3), (2, 1)):
        words = ["--checkpoint", f"step-{step:08d}", "--images", count]
        assert call("evaluate", shaken_run, *words, capsys=capsys)[0] == 0
        drawn[step, count] = cv2.imread(str(shaken_run / f"figures/predictions-val-{step:08d}.png"))
    assert drawn[1, 3].shape[0] > 2 * drawn[1, 1].shape[0]
    assert drawn[1, 1].shape == drawn[2, 1].shape
    assert (drawn[1, 1] != drawn[2, 1]).mean() > 0.01


def test_replay_draws_what_the_step_saw(packed, tmp_path, monkeypatch, capsys):
    looks = Looks()
    folder, _ = train(recipe(packed.folder, steps=3, evaluate_every=9), tmp_path, hooks=[looks])
    drawn, draw = [], MaskDrawing.draw
    monkeypatch.setattr(
        MaskDrawing, "draw", lambda task, arrays, *rest: (drawn.append(dict(arrays)), draw(task, arrays, *rest))[1]
    )
    for step in (1, 3):
        drawn.clear()
        assert call("replay", folder.path, "--step", step, capsys=capsys)[0] == 0
        for name, tensor in looks.batches[step - 1].items():
            assert np.array_equal(np.stack([each[name] for each in drawn]), tensor.numpy()), (step, name)


def test_a_sheet_shows_what_is_learnt_beside_a_hole(monkeypatch):
    """Who was to be mixed with it is not; the hole itself has no class."""
    log = FakeLog("t")
    image = np.full((8, 8, 3), 200, np.uint8)
    log.append(encode_classification(ClassificationRecord(encode_png(image), 1, "x", "png", 8, 8)))
    log.append(None)
    source = KafkaSource(log)
    task = Classification("test_resnet", ("a", "b"), Augment((8, 8), PadCrop(), flip=0.0), Regularize(mixup=1.0))
    feed = Feed(Plan(source.snapshot(), 1), source, task.prepare(train=True), batch=2)
    drawn = []
    monkeypatch.setattr(
        ClassDrawing, "draw", lambda self, arrays, *_: drawn.append(arrays) or np.zeros((8, 8, 3), np.uint8)
    )
    _, records = samples_sheet(task, feed, [0, 1])

    assert records == ["x (t/0#0)", "no record (t/0#1)"]
    assert (drawn[0]["image"] == 200).all()
    assert [arrays["target"].tolist() for arrays in drawn] == [[0.0, 1.0], [0.0, 0.0]]
    monkeypatch.undo()
    arrays = {"image": image, "label": np.array(-1)}
    assert task.drawing.words(arrays) == ("",)
    np.testing.assert_array_equal(task.drawing.draw(arrays), drawing.fit(image, 192))


def test_words_are_written_below_and_not_enlarged_with_the_image(tmp_path):
    """A sample of 8 x 8 is drawn three times as large as it is fed, its words once."""
    log = FakeLog("t")
    image = np.full((8, 8, 3), 200, np.uint8)
    log.append(encode_classification(ClassificationRecord(encode_png(image), 1, "x", "png", 8, 8)))
    source = KafkaSource(log)
    task = Classification("test_resnet", ("a", "b"), Augment((8, 8), PadCrop(), flip=0.0))
    feed = Feed(Plan(source.snapshot(), 1), source, task.prepare(train=False), batch=1)
    sheet, _ = samples_sheet(task, feed, [0])
    large = drawing.fit(drawing.fit(feed[0].arrays["image"], 192), 640)
    expected = drawing.caption(drawing.caption(large, "b"), "0: x (t/0#0)")
    np.testing.assert_array_equal(sheet[6:-6, 6:-6], expected)
