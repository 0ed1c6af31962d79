from __future__ import annotations

import csv
import json

import cv2
import numpy as np
import pytest
from PIL import Image
from support import miniatures
from support.commands import call
from support.datasets import records
from support.layouts import words
from support.miniatures import gray, make_image, write

import penstock as ps
from penstock.datasets import FolderDataset, inspect, pack
from penstock.datasets.layouts import legend
from penstock.errors import DatasetError
from penstock.images import decode_mask, drawing
from penstock.kinds import Labels
from penstock.kinds.fields import decode_segmentation
from penstock.tasks import Style

COLORS = [(0, 0, 0), (128, 64, 128), (70, 130, 180)]
NAMES = ("void", "road", "sky")
LEGENDS = {
    "class_dict.csv": "name,r,g,b\n"
    + "".join(f"{n},{r},{g},{b}\n" for n, (r, g, b) in zip(NAMES, COLORS, strict=True)),
    "labelmap.txt": "# label:color_rgb:parts:actions\n"
    + "".join(f"{n}:{r},{g},{b}::\n" for n, (r, g, b) in zip(NAMES, COLORS, strict=True)),
    "label_colors.txt": "".join(f"{r} {g} {b}\t\t{n}\n" for n, (r, g, b) in zip(NAMES, COLORS, strict=True)),
    "colors.json": json.dumps(dict(zip(NAMES, [COLORS[0], "#804080", COLORS[2]], strict=True))),
}
IDS = np.random.default_rng(3).integers(0, 3, (24, 32), dtype=np.uint8)


def colored(ids):
    return cv2.imencode(".png", np.array(COLORS, np.uint8)[ids][..., ::-1])[1].tobytes()


@pytest.fixture
def raw(tmp_path):
    for number in range(2):
        write(tmp_path / f"raw/images/{number}.jpg", make_image(seed=number))
        write(tmp_path / f"raw/masks/{number}.png", colored((IDS + number) % 3))
    return tmp_path / "raw"


def packed_ids(root):
    decoded = map(decode_segmentation, records(pack(inspect(root / "raw"), root / "data"), "train"))
    return {each.name: decode_mask(each.mask, "m") for each in decoded}


@pytest.mark.parametrize("name", LEGENDS)
def test_colours_become_the_ids_of_each_legend(raw, name):
    write(raw / name, LEGENDS[name])
    found = packed_ids(raw.parent)

    assert inspect(raw).labels.classes == NAMES
    for number in range(2):
        assert np.array_equal(found[f"{number}"], (IDS + number) % 3)


def test_the_colours_are_kept_for_drawings(raw, tmp_path):
    write(raw / "class_dict.csv", LEGENDS["class_dict.csv"])
    dataset = pack(inspect(raw), tmp_path / "data")
    written = json.loads((dataset.folder / "dataset.json").read_text())

    assert FolderDataset.open(dataset.folder).description.colors == tuple(COLORS)
    assert written["colors"] == [list(color) for color in COLORS]
    (raw / "class_dict.csv").unlink()
    for path in (raw / "masks").iterdir():
        path.write_bytes(cv2.imencode(".png", IDS)[1].tobytes())
    pack(inspect(raw), tmp_path / "plain")
    assert "colors" not in json.loads((tmp_path / "plain/dataset.json").read_text())


def test_a_class_of_several_colours_has_the_first_one():
    legend_colors = {COLORS[0]: 0, COLORS[1]: 1, COLORS[2]: 2}
    merged = Labels(("void", "rest"), colors=legend_colors, mapping={2: 1})

    assert merged.class_colors == (COLORS[0], COLORS[1])
    assert Labels(NAMES, colors={COLORS[0]: 0}).class_colors == ()
    assert Labels(NAMES).class_colors == ()


def test_records_and_predictions_have_the_colours_of_the_legend(raw, tmp_path, capsys):
    """Colours of the legend that `show` and `predict` put above or beside masks, and those of the masks themselves."""
    write(raw / "class_dict.csv", LEGENDS["class_dict.csv"])
    assert call("pack", raw, "-o", tmp_path / "data", capsys=capsys)[0] == 0
    assert call("show", tmp_path / "data", "-n", 1, "-o", tmp_path / "sheet.png", capsys=capsys)[0] == 0
    sheet = cv2.imread(str(tmp_path / "sheet.png"))[..., ::-1]
    words = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 2, "--steps", 1]
    words += ["--set", "data.validation=''"]
    assert call("train", tmp_path / "data", *words, "--runs", tmp_path / "runs", capsys=capsys)[0] == 0
    (run,) = (tmp_path / "runs").iterdir()
    (tmp_path / "data").rename(tmp_path / "moved")  # a run has all that its predictions need
    image = raw / "images/0.jpg"
    found = {}
    for name, more in (("own", []), ("distinct", ["--palette", "distinct"])):
        words = [run, image, "-o", tmp_path / name, "--color", *more]
        assert call("predict", *words, capsys=capsys)[0] == 0
        found[name] = cv2.imread(str(tmp_path / name / "0-color.png"))[..., ::-1]
    ids = cv2.imread(str(tmp_path / "own/0.png"), 0)
    rows = list(csv.reader((tmp_path / "own/classes.csv").read_text().splitlines()))[1:]

    for number, color in enumerate(COLORS):
        assert (sheet[10, :] == color).all(axis=1).any(), number
    assert np.array_equal(found["own"], np.array(COLORS, np.uint8)[ids])
    assert np.array_equal(found["distinct"], drawing.palette()[ids])
    assert [tuple(map(int, row[2:])) for row in rows] == COLORS
    assert (
        ps.load(run).predict(image).draw(Style()).tolist()
        == cv2.imread(str(tmp_path / "own/0-overlay.png"))[..., ::-1].tolist()
    )


def test_a_legend_from_elsewhere(raw, capsys):
    write(raw.parent / "mine.csv", LEGENDS["class_dict.csv"].replace(",", ";"))
    code, out, _ = call("inspect", raw, "--colors", raw.parent / "mine.csv", capsys=capsys)

    assert code == 0
    assert "classes (3): void, road, sky\n" in out
    assert call("inspect", raw, "--colors", raw / "gone.csv", capsys=capsys)[2] == (
        f"error: --colors {raw}/gone.csv: expected a legend, found no such file. Check the path.\n"
    )


@pytest.mark.parametrize("name", ["colour_key.txt", "Palette.csv", "my legend.json", "color.txt"])
def test_a_file_may_have_another_name_that_says_it(raw, name):
    form = {".csv": "class_dict.csv", ".json": "colors.json", ".txt": "labelmap.txt"}[(raw / name).suffix]
    write(raw / name, LEGENDS[form].replace("::", ""))
    assert inspect(raw).labels.classes == NAMES
    for number in range(2):
        assert np.array_equal(packed_ids(raw.parent)[f"{number}"], (IDS + number) % 3)


def test_a_file_of_such_a_name_that_is_no_legend_is_passed_over(raw):
    write(raw / "colors of the walls.txt", "white and grey")
    write(raw / "colour_key.txt", LEGENDS["labelmap.txt"])
    assert inspect(raw).labels.classes == NAMES


def test_a_palette_in_the_legends_colours(raw):
    write(raw / "class_dict.csv", LEGENDS["class_dict.csv"])
    image = Image.new("P", (32, 24))
    image.putdata((2 - IDS).ravel().tolist())
    image.putpalette([channel for color in COLORS[::-1] for channel in color])
    image.save(raw / "masks/0.png")

    assert np.array_equal(packed_ids(raw.parent)["0"], IDS)


def test_without_a_legend_the_way_is_named(raw):
    assert words(raw)[0] == (
        "masks/0.png: expected a mask with one channel of class ids, as PNG, found an RGB PNG. List the colours of the "
        "classes in class_dict.csv beside images/, or in another file with --colors FILE."
    )


def test_a_colour_that_is_not_in_the_legend_is_named(raw):
    write(raw / "class_dict.csv", LEGENDS["class_dict.csv"])
    pixels = np.array(COLORS, np.uint8)[IDS]
    pixels[5, 7:9] = 1, 2, 3
    write(raw / "masks/1.png", cv2.imencode(".png", pixels[..., ::-1])[1].tobytes())

    assert words(raw) == [
        "masks/1.png: expected the colours of the legend, found 1, 2, 3 in 2 pixels, first at x 7, y 5. Add the colour to "
        "the legend, or export the masks again without smoothing."
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("class_dict.csv", "name,r,g\na,1,2\n", "expected a name and the three numbers of a colour, 0 to 255, for every class, "
         "found 'b'. Write a CSV file with the columns name, r, g and b."),
        ("class_dict.csv", "name,r,g,b\na,1,2,300\n", "expected a name and the three numbers of a colour, 0 to 255, for every "
         "class, found 1, 2, 300. Write a CSV file with the columns name, r, g and b."),
        ("labelmap.txt", "a:1,2,3::\nb:1,2,3::\n", "expected 1 to 256 classes, each of a colour of its own, found the colour "
         "(1, 2, 3) twice. Fix the file."),
        ("colors.json", "[1]", "expected a name and the three numbers of a colour, 0 to 255, for every class, found 'list' "
         "object has no attribute 'items'. Write a CSV file with the columns name, r, g and b."),
        ("colors.json", "{}", "expected 1 to 256 classes, each of a colour of its own, found 0 classes. Fix the file."),
    ],
)  # fmt: skip
def test_what_is_no_legend_is_refused(tmp_path, name, text, message):
    write(tmp_path / name, text)
    with pytest.raises(DatasetError) as caught:
        legend.read(tmp_path / name)

    assert str(caught.value) == f"{tmp_path}/{name}: {message}"


@pytest.mark.parametrize("name", ["class_names.txt", "labels.txt", "classes.names", "obj.names"])
def test_files_of_names_alone(tmp_path, name):
    write(tmp_path / "images/0.jpg", make_image())
    write(tmp_path / "masks/0.png", cv2.imencode(".png", IDS)[1].tobytes())
    write(tmp_path / name, "void\nroad\nsky\n")

    assert inspect(tmp_path).labels.classes == NAMES


def test_a_legend_without_colours_names_the_classes(tmp_path):
    miniatures.masks(tmp_path)
    (tmp_path / "classes.txt").unlink(missing_ok=True)
    for text in ("# label:color_rgb:parts:actions\na:::\nb:::\nc:::\n", " a\n b\n c\n"):
        write(tmp_path / "labelmap.txt", text)
        assert inspect(tmp_path).labels.classes == ("a", "b", "c")
    write(tmp_path / "labelmap.txt", "a:1,2,3::\nb:::\n")
    with pytest.raises(DatasetError, match="found classes with a colour and classes without one"):
        inspect(tmp_path)


class TestColormap:
    """Masks as CVAT and Datumaro export them: a legend beside Pascal VOC's and CamVid's folders."""

    @pytest.mark.parametrize("mode", ["RGB", "P"])
    @pytest.mark.parametrize("legend_of", ["labelmap.txt", "label_colors.txt"])
    def test_the_colours_of_a_legend_are_read(self, tmp_path, mode, legend_of):
        places = {"labelmap.txt": ("JPEGImages/a.jpg", "SegmentationClass/a.png"), "label_colors.txt": ("train/a.jpg", "trainannot/a.png")}  # fmt: skip
        image, mask = places[legend_of]
        write(tmp_path / "raw" / image, make_image())
        write(tmp_path / "raw/ImageSets/Segmentation/train.txt", "a\n")
        (tmp_path / "raw" / mask).parent.mkdir()
        rgb = Image.fromarray(np.array(COLORS, np.uint8)[IDS])
        (rgb if mode == "RGB" else rgb.quantize(8)).save(tmp_path / "raw" / mask)
        write(tmp_path / "raw" / legend_of, LEGENDS[legend_of])

        assert inspect(tmp_path / "raw").labels.classes == NAMES
        assert (packed_ids(tmp_path)["a"] == IDS).all()

    def test_names_without_colours_mean_those_of_vocs_colormap(self, tmp_path):
        write(tmp_path / "raw/JPEGImages/a.jpg", make_image())
        write(tmp_path / "raw/ImageSets/Segmentation/train.txt", "a\n")
        voc = np.array([(0, 0, 0), (128, 0, 0), (0, 128, 0)], np.uint8)[IDS]
        voc[0] = (224, 224, 192)
        (tmp_path / "raw/SegmentationClass").mkdir()
        Image.fromarray(voc).save(tmp_path / "raw/SegmentationClass/a.png")
        write(tmp_path / "raw/labelmap.txt", "background:::\ncat:::\ndog:::\n")
        ids = packed_ids(tmp_path)["a"]

        assert (ids[1:] == IDS[1:]).all()
        assert (ids[0] == 255).all()


class TestDatasetOfNnunet:
    def folder(self, root, labels, ids):
        write(root / "imagesTr/a_0000.png", make_image())
        write(root / "labelsTr/a.png", gray(np.array(ids, np.uint8).repeat(24 * 32 // len(ids)).reshape(24, 32)))
        write(root / "dataset.json", json.dumps({"labels": labels}))
        return root

    def test_its_ignore_label_is_no_class(self, tmp_path):
        raw = self.folder(tmp_path, {"background": 0, "cat": 1, "ignore": 2}, [0, 1, 2])
        found = inspect(raw)

        assert (found.labels.classes, dict(found.labels.mapping)) == (("background", "cat"), {2: 255})
        assert dict(found.items[0].pixels) == {0: 256, 1: 256, 255: 256}

    def test_lists_of_something_else_are_no_regions(self, tmp_path):
        found = inspect(self.folder(tmp_path, {"train": ["a"]}, [0, 1]))

        assert (found.labels.classes, found.fatal) == (("class0", "class1"), [])

    def test_regions_are_refused(self, tmp_path):
        raw = self.folder(tmp_path, {"background": 0, "whole": [1, 2], "core": [2]}, [0, 1, 2])

        assert words(raw) == [
            f"{raw}/dataset.json: labels: expected an id for each class, found regions of several ids: whole, core. Write "
            "the class of each id that the masks hold."
        ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("classes.csv", "name,color\nsky,#0000ff\nroad,#00FF00\n"),
        ("labelmap.json", '[{"name": "sky", "color": "#0000ff"}, {"name": "road", "color": [0, 255, 0]}]'),
    ],
)
def test_colours_may_be_hexadecimal_beside_names(tmp_path, name, text):
    write(tmp_path / name, text)
    found = legend.find(tmp_path)

    assert (found.classes, dict(found.colors)) == (("sky", "road"), {(0, 0, 255): 0, (0, 255, 0): 1})


def test_colours_have_the_ids_of_their_legend(tmp_path):
    write(tmp_path / "images/a.png", make_image())
    write(tmp_path / "masks/a.png", make_image())
    write(tmp_path / "class_dict.csv", "id,name,r,g,b\n2,tree,0,255,0\n0,ground,0,0,0\n1,road,255,0,0\n")
    labels = legend.find(tmp_path)
    assert labels.classes == ("ground", "road", "tree")
    assert labels.colors == {(0, 0, 0): 0, (255, 0, 0): 1, (0, 255, 0): 2}
