from __future__ import annotations

import csv
import shutil

import cv2
import numpy as np
import pytest
from PIL import Image
from support import miniatures
from support.commands import call
from support.datasets import classes
from support.training import recipe

from penstock.config import apply
from penstock.datasets import FolderDataset, inspect, listing, pack, scenes
from penstock.datasets.layouts.legend import read as read_legend
from penstock.errors import RecipeError
from penstock.images import decode_mask, palettes
from penstock.inference import TrainedModel
from penstock.inference.writing import write_table
from penstock.kinds.items import Labels
from penstock.tasks import ReadyModel
from penstock.training import train


def test_predicting_a_folder_leaves_its_masks_out(trained, raw, tmp_path, capsys):
    out = tmp_path / "out"
    images = len(list((raw / "images").rglob("*.jpg")))
    code, printed, _ = call("predict", trained, raw, "-o", out, capsys=capsys)

    assert (code, printed.splitlines()[0]) == (0, f"predicted {images} of {images} images into {out}")
    assert {path.relative_to(out).parts[0] for path in out.rglob("*.png")} == {"images", "legend.png"}
    assert call("predict", trained, raw / "masks" / "val", "-o", tmp_path / "asked", capsys=capsys)[0] == 0


def test_a_quote_in_a_path_is_no_end_of_it(trained, packed, tmp_path, capsys):
    shutil.copytree(trained, tmp_path / 'a "run"\\', symlinks=True)
    words = ["train", packed.folder, "--init", tmp_path / 'a "run"\\', "--crop", 32, 32, "--steps", 1]
    code, out, err = call(*words, "--runs", tmp_path / "runs", capsys=capsys)

    assert (code, err) == (0, "")
    assert f'init from {tmp_path}/a "run"\\, step ' in out


def test_a_list_names_the_line_that_is_wrong_and_the_others_are_predicted(trained, raw, tmp_path, capsys):
    image = next((raw / "images" / "val").iterdir())
    (tmp_path / "list.txt").write_text(f"gone.jpg\n{image}\n")

    assert call("predict", trained, tmp_path / "list.txt", "-o", tmp_path / "out", capsys=capsys)[:2] == (
        1,
        f"{tmp_path}/list.txt, line 1: expected the path of an image, found gone.jpg, which does not exist. Fix the list.\n"
        f"predicted 1 of 2 images into {tmp_path}/out\n"
        "NAME.png holds class ids, which look nearly black; NAME-overlay.png shows them in the colours of legend.png\n",
    )


def test_a_broken_film_and_a_line_that_is_no_name_stop_nobody(trained, raw, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    shutil.copy(next((raw / "images" / "val").iterdir()), tmp_path / "in/a.jpg")
    (tmp_path / "in/f.mp4").write_bytes(b"no film")
    (tmp_path / "list.txt").write_text("a\0b.jpg\n" + "x" * 5000 + ".jpg\nin/a.jpg\n")
    code, out, _ = call("predict", trained, tmp_path / "in", "-o", tmp_path / "out", capsys=capsys)
    assert (code, "predicted 1 of 2 images" in out, "f.mp4: expected a video that OpenCV can read" in out) == (
        1,
        True,
        True,
    )
    code, out, _ = call("predict", trained, tmp_path / "list.txt", "-o", tmp_path / "out2", capsys=capsys)
    assert (code, "predicted 1 of 3 images" in out) == (1, True)


@pytest.fixture(scope="module")
def run(packed, tmp_path_factory):
    folder, _ = train(recipe(packed.folder, wide=True, steps=1), tmp_path_factory.mktemp("runs"))
    return folder.path


class TestCommands:
    def test_predictions_take_no_others_place(self, run, raw, tmp_path, capsys):
        labels = tmp_path / "labels"
        labels.mkdir()
        (labels / "scene-00000.png").write_bytes(b"labels")
        image = next(path for path in (raw / "images").rglob("*") if path.stem == "scene-00000")
        code, _, err = call("predict", run, image, "-o", labels, capsys=capsys)

        assert (code, err) == (
            2,
            f"error: -o {labels}: expected a new or empty folder, or one that penstock predict has filled, found a folder with "
            "other files in it. Choose another folder.\n",
        )
        assert (labels / "scene-00000.png").read_bytes() == b"labels"
        for _ in range(2):  # its own it replaces
            assert call("predict", run, image, "-o", tmp_path / "out", capsys=capsys)[0] == 0

    def test_the_legend_has_the_colours_of_the_classes(self, run, raw, tmp_path, capsys):
        image = next((raw / "images").rglob("*.jpg"))
        assert call("predict", run, image, "-o", tmp_path / "out", capsys=capsys)[0] == 0
        rows = list(csv.DictReader((tmp_path / "out/classes.csv").read_text().splitlines()))
        with Image.open(tmp_path / "out/legend.png") as shown:
            colors = {color for _, color in shown.convert("RGB").getcolors(1 << 16)}
        assert {(int(row["r"]), int(row["g"]), int(row["b"])) for row in rows} <= colors

    def test_an_image_called_legend_keeps_its_mask(self, run, raw, tmp_path, capsys):
        shutil.copy(next((raw / "images").rglob("*.jpg")), tmp_path / "legend.jpg")
        for _ in range(2):
            assert call("predict", run, tmp_path / "legend.jpg", "-o", tmp_path / "out", capsys=capsys)[0] == 0
        with Image.open(tmp_path / "out/legend.png") as mask, Image.open(tmp_path / "legend.jpg") as image:
            assert (mask.mode, mask.size) == ("L", image.size)

    def test_predictions_of_another_task_are_kept_apart(self, run, raw, tmp_path, capsys):
        image = next((raw / "images").rglob("*.jpg"))
        assert call("predict", run, image, "-o", tmp_path / "out", capsys=capsys)[0] == 0
        other, _ = train(classes(tmp_path), tmp_path / "runs")
        code, _, err = call("predict", other.path, image, "-o", tmp_path / "out", capsys=capsys)

        assert (code, err) == (
            2,
            f"error: {tmp_path}/out: expected predictions of classification, or none, found predictions of segmentation. "
            "Choose another folder with -o.\n",
        )

    def test_the_tables_tell_of_all_predictions_that_lie_there(self, run, raw, tmp_path, capsys):
        first, second = sorted((raw / "images/val").iterdir())[:2]
        out = tmp_path / "out"
        assert call("predict", run, first, "-o", out, capsys=capsys)[0] == 0
        ids = (out / "classes.csv").read_text()
        shutil.copytree(run, tmp_path / "other", symlinks=True)
        data = tmp_path / "renamed"
        pack(inspect(raw, Labels(tuple("abcdef"))), data)
        folder, _ = train(recipe(data, wide=True, steps=1), tmp_path / "runs")
        code, _, err = call("predict", folder.path, second, "-o", out, capsys=capsys)

        assert (code, err) == (
            2,
            f"error: {out / 'classes.csv'} tells of other classes, and predictions that it tells of would stay. Choose another "
            "folder with -o.\n",
        )
        assert (out / "classes.csv").read_text() == ids
        assert call("predict", folder.path, first, "-o", out, capsys=capsys)[0] == 0

    def test_rows_of_other_images_stay(self, tmp_path, capsys):
        folder, _ = train(classes(tmp_path), tmp_path / "runs")
        images = sorted((tmp_path / "raw").rglob("*.jpg"))[:3]
        for chosen in (images[:2], images[1:]):
            assert call("predict", folder.path, *chosen, "-o", tmp_path / "out", capsys=capsys)[0] == 0
        rows = list(csv.DictReader((tmp_path / "out/predictions.csv").read_text().splitlines()))

        assert [row["file"] for row in rows] == list(map(str, images))

    def test_predictions_do_not_lie_among_images_records_or_checkpoints(self, run, raw, packed, capsys):
        images = raw / "images" / "val"
        places = {images: "the folder of the images", packed.folder: "a packed dataset", run: "a run"}
        for output, found in places.items():
            code, _, err = call("predict", run, images, "-o", output, capsys=capsys)
            assert (code, err) == (
                2,
                f"error: -o {output}: expected a folder for predictions, found {found}. Choose another folder, such as -o "
                "predictions.\n",
            )

    def test_predictions_are_no_images_to_predict_or_to_learn(self, run, raw, tmp_path, capsys):
        shutil.copytree(raw / "images" / "val", tmp_path / "photos")
        images = len(list((tmp_path / "photos").iterdir()))
        for _ in range(2):
            _, out, _ = call("predict", run, tmp_path / "photos", "-o", tmp_path / "photos/found", capsys=capsys)
            assert out.startswith(f"predicted {images} of {images} images into ")
        assert not any("found" in path.parts for path in listing.files(tmp_path / "photos"))
        assert listing.folders(tmp_path / "photos") == []

    def test_a_table_is_there_whoever_ends_it(self, tmp_path, capsys, monkeypatch):
        folder, _ = train(classes(tmp_path), tmp_path / "runs")
        predict, seen = TrainedModel.predict, []

        def interrupted(trained, pixels):
            seen.append(pixels)
            if len(seen) == 3:
                raise KeyboardInterrupt
            return predict(trained, pixels)

        monkeypatch.setattr(TrainedModel, "predict", interrupted)
        code, _, _ = call("predict", folder.path, tmp_path / "raw", "-o", tmp_path / "out", capsys=capsys)

        assert code == 130
        assert len((tmp_path / "out/predictions.csv").read_text().splitlines()) == 3


def test_names_that_are_no_utf_8_keep_their_bytes(tmp_path):
    write_table(tmp_path / "predictions.csv", [["file"], ["caf\udce9.jpg"]])

    assert (tmp_path / "predictions.csv").read_bytes() == b"file\r\ncaf\xe9.jpg\r\n"


def test_predict_looks_as_often_as_it_is_asked_to(packed, raw, tmp_path, capsys):
    from penstock.images.upright import read_upright
    from penstock.inference import load_model
    from penstock.models import TestTimeAugmentation, TTAModel

    chosen = apply(recipe(packed.folder, wide=True, steps=1, ema_decay=0.0), ["optimizer.lr=1e-12"])
    folder, _ = train(chosen, tmp_path / "runs")  # as it began, which sees everything everywhere
    trained = load_model(folder.path, device="cpu")
    image = min((raw / "images" / "val").iterdir())
    pixels = read_upright(image.read_bytes(), "x")
    plain = trained.parts.task.predictor.predict(ReadyModel(trained.model), pixels).mask
    averaged = TTAModel(trained.model, TestTimeAugmentation((0.5, 1.0), flip=True)).eval()
    expected = trained.parts.task.predictor.predict(ReadyModel(averaged), pixels).mask
    words = ["predict", folder.path, image, "-o", tmp_path / "out", "--scales", 0.5, 1, "--flip", "--device", "cpu"]
    assert call(*words, capsys=capsys)[0] == 0

    assert (plain != expected).any()
    assert np.array_equal(decode_mask((tmp_path / "out" / f"{image.stem}.png").read_bytes(), "x"), expected)


def test_masks_may_have_the_ids_and_colours_of_the_raw_data(tmp_path, capsys):
    """Cityscapes: train ids are learnt, label ids are what its benchmark wants."""
    miniatures.cityscapes_(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    words = ["--model", "unet:test_resnet", "--weights", "none", "--batch", 1, "--crop", 32, 32, "--steps", 1]
    call("train", dataset.folder, *words, "--set", "train.freeze_bn=true", "--runs", tmp_path / "runs", capsys=capsys)
    (run,) = (tmp_path / "runs").iterdir()
    images = tmp_path / "raw" / "leftImg8bit" / "val"
    for name, more in (("plain", []), ("ids", ["--ids", "original", "--palette", "cityscapes", "--color"])):
        assert call("predict", run, images, "-o", tmp_path / name, *more, capsys=capsys)[0] == 0
    (plain,) = (cv2.imread(str(path), 0) for path in (tmp_path / "plain").rglob("*8bit.png"))
    (raw,) = (cv2.imread(str(path), 0) for path in (tmp_path / "ids").glob("bonn/*8bit.png"))
    (color,) = (cv2.imread(str(path))[..., ::-1] for path in (tmp_path / "ids").glob("bonn/*-color.png"))
    original = FolderDataset.open(dataset.folder).description.original

    assert original == (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
    assert (raw == np.array(original)[plain]).all()
    tables = [
        list(csv.DictReader((tmp_path / name / "classes.csv").read_text().splitlines())) for name in ("plain", "ids")
    ]
    assert [[int(row["id"]) for row in table] for table in tables] == [list(range(19)), list(original)]
    assert tables[1][0] == {"id": "7", "name": "road", "r": "128", "g": "64", "b": "128"}
    legend = read_legend(tmp_path / "ids/classes.csv")  # as masks in colour are packed with
    assert legend.classes == dataset.description.classes
    assert (color == np.array(palettes.CITYSCAPES)[plain]).all()


def test_a_score_is_no_option_of_masks(run, raw, tmp_path, capsys):
    image = next((raw / "images/val").iterdir())
    assert call("predict", run, image, "-o", tmp_path / "out", "--score", 0.5, capsys=capsys) == (
        2,
        "",
        "error: A minimum score is not supported for segmentation. Remove --score.\n",
    )


def test_what_is_only_for_masks_is_refused_for_classes(tmp_path, capsys):
    miniatures.folders(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    words = ["--model", "test_resnet", "--weights", "none", "--batch", 2, "--crop", 32, 32, "--steps", 1]
    call("train", dataset.folder, *words, "--runs", tmp_path / "runs", capsys=capsys)
    (run,) = (tmp_path / "runs").iterdir()

    assert call("predict", run, tmp_path / "raw", "-o", tmp_path / "out", "--color", capsys=capsys) == (
        2,
        "",
        "error: Writing masks in colour is not supported for classification. Remove --color.\n",
    )
    assert call("evaluate", run, "--segments", capsys=capsys) == (
        2,
        "",
        "error: Scoring boundaries and segments is not supported for classification. Remove --segments.\n",
    )


def test_what_makes_no_masks_has_no_window(tmp_path, capsys):
    chosen = classes(tmp_path)
    with pytest.raises(RecipeError) as caught:
        train(apply(chosen, ["train.sliding_window=32", "data.validation=train"]), tmp_path / "runs")
    assert str(caught.value) == "A sliding window is not supported for classification. Remove train.sliding_window."
    folder, _ = train(chosen, tmp_path / "runs")
    assert call("evaluate", folder.path, "--split", "train", "--sliding-window", 32, capsys=capsys)[2] == (
        "error: A sliding window is not supported for classification. Remove --sliding-window.\n"
    )


@pytest.mark.parametrize("window", [0, 32])
def test_predict_writes_masks_of_the_images_own_size(trained, raw, tmp_path, window, capsys):
    image, _ = scenes.encode(scenes.draw(9, "x", 0, (50, 71)))
    (tmp_path / "one.jpg").write_bytes(image)
    (tmp_path / "broken.jpg").write_bytes(image[:500])
    out = tmp_path / "out"
    arguments = [
        "predict",
        trained,
        raw / "images" / "val",
        tmp_path / "one.jpg",
        "-o",
        out,
        "--sliding-window",
        window,
    ]
    assert call(*arguments, capsys=capsys)[:2] == (
        0,
        f"predicted 8 of 8 images into {out}\n"
        "NAME.png holds class ids, which look nearly black; NAME-overlay.png shows them in the colours of legend.png\n",
    )
    assert decode_mask((out / "one.png").read_bytes(), "x").shape == (50, 71)
    assert decode_mask((out / "scene-00003.png").read_bytes(), "x").max() < 6
    with Image.open(out / "one-overlay.png") as shown:
        assert shown.size == (71, 50)
    code, printed, _ = call("predict", trained, tmp_path / "broken.jpg", "-o", out, capsys=capsys)
    assert code == 1
    assert printed.startswith(f"{tmp_path}/broken.jpg: expected a complete image, found ")


def test_predict_refuses_names_that_would_meet(trained, raw, tmp_path, capsys):
    path = raw / "images" / "val" / "scene-00000.jpg"
    code, _, err = call("predict", trained, path, raw / "images" / "val", "-o", tmp_path, capsys=capsys)

    assert code == 2
    assert err == f"error: {path} is given twice. Name it once.\n"
    other = tmp_path / "other" / "scene-00000.jpg"
    other.parent.mkdir()
    other.write_bytes(path.read_bytes())
    assert call("predict", trained, path, other, "-o", tmp_path, capsys=capsys)[2] == (
        f"error: The predictions of {other} and {path} would both be written to {tmp_path}/scene-00000.png. Predict the "
        "two images into different folders.\n"
    )
    mine = tmp_path / "mine.png"
    Image.new("RGB", (32, 32)).save(mine)
    before = mine.read_bytes()
    assert call("predict", trained, mine, "-o", tmp_path, capsys=capsys)[2] == (
        f"error: The prediction of {mine} would overwrite the image {mine}. Choose another folder with -o.\n"
    )
    assert mine.read_bytes() == before
    assert call("predict", trained, tmp_path / "no", "-o", tmp_path, capsys=capsys)[0] == 2


def test_nothing_is_said_of_files_that_were_not_written(trained, tmp_path, capsys):
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    code, out, _ = call("predict", trained, tmp_path / "broken.jpg", "-o", tmp_path / "out", capsys=capsys)

    assert code == 1
    assert out.splitlines()[-1] == f"predicted 0 of 1 image into {tmp_path / 'out'}"
