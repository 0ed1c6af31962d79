from __future__ import annotations

import html
import os
import shutil
import subprocess
import sys

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from support import miniatures, processes
from support.errors import refused
from support.training import recipe

import penstock as ps
from penstock.config.options import settings_of
from penstock.events import Evaluated, RunCreated, StepFinished, TrainingEnded, TrainingStarted
from penstock.images import codecs
from penstock.images.codecs import decode_mask
from penstock.settings import Recipe
from penstock.training import train


@pytest.fixture(scope="module")
def color_folders(tmp_path_factory):
    """Images with a class each."""
    folder = tmp_path_factory.mktemp("colors")
    miniatures.folders(folder / "raw")
    return ps.pack(folder / "raw", folder / "data")


@pytest.fixture(scope="module")
def trained(packed, tmp_path_factory):
    folder, _ = train(recipe(packed.folder, wide=True, steps=4), tmp_path_factory.mktemp("runs"))
    return folder.path


class TestFace:
    def test_its_names_are_there_documented_and_few(self):
        assert len(ps.__all__) <= 55
        for name in ps.__all__:
            assert getattr(ps, name).__doc__, name
        assert set(ps.__all__) <= set(dir(ps))
        with pytest.raises(AttributeError, match="module 'penstock' has no attribute 'zzz'"):
            _ = ps.zzz

    def test_nothing_heavy_is_imported_before_it_is_used(self):
        lines = (
            "import sys, penstock as ps; assert not {'torch', 'cv2', 'numpy'} & set(sys.modules); ps.Layout; "
            "assert 'torch' not in sys.modules; ps.Feed; assert 'torch' in sys.modules"
        )
        done = subprocess.run(
            [sys.executable, "-c", lines], env=processes.quiet(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def test_a_dataset_shows_itself_and_its_records(self, color_folders, packed):
        data = ps.open(packed.folder)
        sample = data["val"][-1]

        assert (data.task, data.splits, data.classes) == ("segmentation", ("train", "val"), packed.description.classes)
        assert len(data["val"]) == 7
        assert [each.origin for each in data["val"]][-1] == sample.origin
        assert sample._repr_png_().startswith(b"\x89PNG")
        assert sample.image.std() > 0
        assert "<td>val</td><td>7</td><td>64 x 96</td>" in data._repr_html_()
        assert data.verify().faults == ()
        assert sum(color_folders["train"].counts.values()) == len(color_folders["train"])
        with pytest.raises(IndexError, match="val has 7 records, and none of number 7"):
            data["val"][7]

    def test_what_there_is_has_a_line_in_a_plain_interpreter(self, raw, packed, trained, tmp_path):
        data, found = ps.open(packed.folder), ps.inspect(raw)
        sample = data["val"][0]
        images = len(found.items)
        counts = f"train {len(data['train'])}, val {len(data['val'])}"
        classes = len(data.classes)

        assert repr(data) == f"<Data {packed.folder}: segmentation, {classes} classes, records: {counts}>"
        assert repr(data["val"]) == f"<Split val of {packed.folder}: 7 records>"
        assert repr(sample) == (
            f"<Sample {sample.name} ({sample.origin}), image uint8 (64, 96, 3), label uint8 (64, 96)>"
        )
        assert repr(found) == f"<Inspection {raw}: segmentation, image and mask folders, {images} images, 0 problems>"
        assert repr(ps.load(trained, device="cpu")).startswith(
            "<LoadedModel unet:test_resnet for segmentation, after step "
        )
        assert repr(ps.Run(trained)) == f"<Run {trained}>"
        (listed,) = ps.list_runs(trained.parent)
        assert repr(listed).startswith(f"<RunSummary {trained.name}: finished, step ")
        compared = ps.compare(trained, trained)
        assert repr(compared) == f"<RunComparison of {trained.name}, {trained.name}: 0 differences, 0 cautions>"
        evaluated = ps.Run(trained).evaluate()
        assert repr(evaluated).startswith("<Evaluation of val, step ")
        assert "mean_iou 0." in repr(evaluated)
        feed = data["train"].feed(batch=4, crop=(32, 32), seed=5)
        assert repr(feed) == "<Feed: batches of 4>"
        assert repr(next(feed.batches())) == "<Batch of 4 up to position 4: image (4, 32, 32, 3), mask (4, 32, 32)>"

    def test_a_feed_gives_the_batches_of_a_training(self, packed, tmp_path):
        seen = []

        class Look(ps.Hook):
            def before_step(self, session):
                seen.append(session.batch.tensors["image"].clone())

        ps.train(
            str(packed.folder), model="unet:test_resnet", weights="none", steps=3, crop=(32, 32), batch=4, seed=5,
            device="cpu", hooks=[Look()], runs=tmp_path, settings={"data.validation": ""},
        )  # fmt: skip
        feed = ps.open(packed.folder)["train"].feed(batch=4, crop=(32, 32), seed=5)
        batches = feed.batches()
        given = [next(batches) for _ in range(3)]

        assert all(torch.equal(one.tensors["image"], other) for one, other in zip(given, seen, strict=True))
        shape = "<td>image</td><td>(4, 32, 32, 3)</td><td>uint8</td>"
        assert shape in given[0]._repr_html_()
        assert given[0].origins[0] in given[0]._repr_html_()
        again = next(feed.batches(given[1].cursor))
        assert torch.equal(again.tensors["image"], given[2].tensors["image"])
        halves = [
            next(
                ps.open(packed.folder)["train"].feed(batch=4, crop=(32, 32), seed=5, rank=rank, world_size=2).batches()
            )
            for rank in (0, 1)
        ]
        assert torch.equal(torch.cat([half.tensors["image"] for half in halves]), given[0].tensors["image"])

    def test_a_run_is_loaded_and_predicts(self, packed, raw, tmp_path, capsys):
        run = ps.train(
            str(packed.folder), model="unet:test_resnet", weights="none", steps=2, crop=(32, 32), batch=4, device="cpu",
            runs=tmp_path / "runs", settings={"train.evaluate_every": 1},
        )  # fmt: skip
        image = next((raw / "images" / "val").iterdir())
        model = run.load(device="cpu")
        from_file = model.predict(image)
        shown = ps.export(run, tmp_path / "a.pt2", size=(64, 96))

        assert from_file.mask.shape == from_file.image.shape[:2]
        assert (model.predict(from_file.image).mask == from_file.mask).all()
        assert from_file.draw().shape == from_file.image.shape
        assert from_file._repr_png_() == codecs.encode_png(from_file.draw())
        saved = from_file.save(tmp_path / "saved", "scene")
        assert [path.name for path in saved] == ["scene.png", "scene-overlay.png"]
        assert (decode_mask(saved[0].read_bytes(), "scene.png") == from_file.mask).all()
        assert model.write(tmp_path / "out", raw / "images" / "val").done == 7
        assert (shown.shape, (tmp_path / "a.pt2").is_file()) == (("n", "64", "96", "3"), True)
        assert run.best["mean_iou"] == max(e["evaluation"]["mean_iou"] for e in run.metrics if "evaluation" in e)
        assert f"mean_iou: {run.best['mean_iou']}" in run._repr_html_()
        assert run.evaluate("val").step == run.best["step"]
        assert ps.load(run.path, device="cpu").trained.step == run.best["step"]

    def test_images_of_a_folder_are_predicted_and_those_that_cannot_be_read_are_named(
        self, trained, raw, tmp_path, caplog
    ):
        shutil.copytree(raw / "images" / "val", tmp_path / "images")
        (tmp_path / "images" / "torn.jpg").write_bytes(b"nothing")
        names = sorted(path.stem for path in (raw / "images" / "val").iterdir())
        model = ps.load(trained, device="cpu")
        found = dict(model.predict_all(tmp_path / "images"))

        assert sorted(found) == names
        first = next(path for path in (raw / "images" / "val").iterdir() if path.stem == names[0])
        assert (found[names[0]].mask == model.predict(first).mask).all()
        (record,) = [record for record in caplog.records if record.name == "penstock.inference"]
        assert record.message.startswith(f"{tmp_path}/images/torn.jpg: expected ")

    def test_what_a_training_says_are_events(self, packed, tmp_path, capsys, caplog):
        caplog.set_level("INFO", "penstock.training")
        events = []
        run = ps.train(
            str(packed.folder), model="unet:test_resnet", weights="none", steps=2, crop=(32, 32), batch=4, device="cpu",
            runs=tmp_path, settings={"train.log_every": 1}, on_event=events.append,
        )  # fmt: skip
        kinds = [type(event) for event in events]

        assert kinds == [RunCreated, TrainingStarted, StepFinished, StepFinished, Evaluated, TrainingEnded]
        assert events[0].folder == run.path
        assert [event.step for event in events[2:4]] == [1, 2]
        assert events[4].scores["mean_iou"] == run.best["mean_iou"]
        assert (events[5].status, events[5].step) == ("finished", 2)
        assert capsys.readouterr().out == ""
        assert [r.message for r in caplog.records if r.name == "penstock.training"] == [
            line for event in events for line in event.message.splitlines()
        ]

    @pytest.mark.parametrize("deterministic", [True, False])
    def test_a_training_leaves_no_trace_in_the_process(self, packed, tmp_path, deterministic, monkeypatch):
        monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
        threads = cv2.getNumThreads()
        cv2.setNumThreads(3)
        before = torch.get_rng_state(), dict(os.environ), torch.are_deterministic_algorithms_enabled()
        run = ps.train(
            str(packed.folder), model="unet:test_resnet", weights="none", steps=1, crop=(32, 32), batch=4, device="cpu",
            runs=tmp_path, settings={"train.deterministic": deterministic},
        )  # fmt: skip
        run.evaluate("val")
        run.load().predict(packed_image())

        assert torch.equal(torch.get_rng_state(), before[0])
        assert dict(os.environ) == before[1]
        assert torch.are_deterministic_algorithms_enabled() == before[2]
        assert cv2.getNumThreads() == 3
        cv2.setNumThreads(threads)

    def test_a_recipe_may_be_given_whole(self, packed, tmp_path):
        run = ps.train(recipe(packed.folder, steps=2), steps=1, runs=tmp_path)

        assert isinstance(run.recipe, Recipe)
        assert (run.outcome.step, run.recipe.train.batch) == (1, 4)


def packed_image():
    import numpy as np

    return np.zeros((40, 50, 3), np.uint8)


@pytest.mark.parametrize("mode", ["P", "RGBA", "CMYK", "1", "L", "LA", "RGB"])
def test_an_image_of_pillow_is_what_its_file_is(trained, tmp_path, mode):
    pixels = np.random.default_rng(3).integers(0, 256, (9, 12, 3), np.uint8)
    image = Image.fromarray(pixels).resize((96, 64)).convert(mode)
    image.save(tmp_path / f"a.{'tif' if mode == 'CMYK' else 'png'}")
    model = ps.load(trained)
    (path,) = tmp_path.glob("a.*")
    if mode == "CMYK":
        image.convert("RGB").save(path.with_suffix(".png"))
    expected = model.predict(path.with_suffix(".png")).mask
    for each in (image, Image.open(path)):
        np.testing.assert_array_equal(model.predict(each).mask, expected)


def test_an_image_of_pillow_is_turned_as_its_file_is(trained, tmp_path):
    pixels = np.random.default_rng(3).integers(0, 256, (8, 12, 3), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).resize((96, 64)).save(tmp_path / "a.png", exif=exif)
    model = ps.load(trained)
    expected = model.predict(tmp_path / "a.png").mask
    assert expected.shape == (96, 64)
    np.testing.assert_array_equal(model.predict(Image.open(tmp_path / "a.png")).mask, expected)


def test_a_dataset_is_walked_as_a_table_of_its_splits(packed):
    data = ps.open(packed.folder)
    assert ([*data], len(data), "val" in data, "nothing" in data) == (["train", "val"], 2, True, False)
    assert [each.name for each in data["train"][2:5]] == [data["train"][number].name for number in (2, 3, 4)]
    assert [each.name for each in data["train"][-1:]] == [data["train"][len(data["train"]) - 1].name]


def test_objects_of_another_kind_are_refused_in_a_sentence(trained, packed, tmp_path):
    refused(
        ps.load, None, message="run: expected a run or its folder, found NoneType. Name the folder that train made."
    )
    split = ps.open(packed.folder)["val"]
    message = (
        'split: expected the name of a split, found Split. Name the split, and another dataset with on="DATA:SPLIT".'
    )
    refused(ps.Run(trained).evaluate, split, message=message)
    message = f"{tmp_path}: expected an image file, found a folder. Use predict_all."
    refused(ps.load(trained).predict, tmp_path, message=message)


def test_a_model_names_its_classes_and_has_its_network(trained, packed):
    model = ps.load(trained)
    assert model.classes == packed.description.classes
    assert model.network.training is False
    assert model.network(torch.zeros(1, 3, 32, 32)).shape == (1, len(model.classes), 32, 32)


def test_what_is_compared_and_evaluated_is_shown_in_a_notebook_as_its_text(trained):
    found = ps.compare(trained, trained)
    assert str(found) == "\n".join(found.lines())
    assert found._repr_html_() == f"<pre>{html.escape(str(found))}</pre>"
    scores = ps.Run(trained).evaluate()
    assert scores._repr_html_() == f"<pre>{html.escape(repr(scores))}\n{html.escape(scores.table)}</pre>"


def test_a_run_that_is_gone_on_with_by_its_name_must_be_there(tmp_path):
    message = (
        f"{tmp_path}: expected a run called x, found none. Name the dataset too, to start it, or the folder of the runs with "
        "--runs."
    )
    refused(ps.train, "", runs=tmp_path, name="x", go_on=True, message=message)


def test_the_beginning_of_an_argument_leads_to_it(tmp_path):
    with pytest.raises(TypeError) as caught:
        ps.pack(tmp_path, tmp_path / "data", val=0.2)
    assert str(caught.value) == "pack() has no argument 'val'. Did you mean validation or value_range?"


def test_bytes_of_a_file_are_predicted_as_the_file(trained, raw):
    path = next((raw / "images/val").iterdir())
    model = ps.load(trained, device=torch.device("cpu"))

    assert (model.predict(path.read_bytes()).mask == model.predict(path).mask).all()


def test_a_number_is_a_square_crop_and_a_device_an_object_of_pytorch(packed):
    feed = ps.open(packed.folder)["train"].feed(batch=2, crop=32, seed=1)
    assert next(iter(feed)).arrays["image"].shape[:2] == (32, 32)
    assert settings_of(crop=64, device=torch.device("cpu")) == {"augment.crop": (64, 64), "train.device": "cpu"}
    assert settings_of(crop=None, device=None) == {}
