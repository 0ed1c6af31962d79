"""Run lengths as Kaggle's competitions have them, against an encoder of our own."""

from __future__ import annotations

import numpy as np
import pytest
from support.datasets import records
from support.layouts import words
from support.miniatures import make_image, write

from penstock.datasets import LayoutOptions, inspect, pack
from penstock.images import decode_mask
from penstock.kinds.fields import decode_segmentation

SIZE = (24, 32)


def disc(y, x, radius):
    rows, columns = np.ogrid[: SIZE[0], : SIZE[1]]
    return (rows - y) ** 2 + (columns - x) ** 2 <= radius**2


NOTHING = np.zeros(SIZE, bool)
DISCS = {0: [("fish", disc(8, 8, 5)), ("fish", disc(15, 22, 6))], 1: [("flower", disc(10, 16, 7))], 2: []}


def runs(mask, order):
    """The pairs of Kaggle's evaluation: starts from 1, and lengths."""
    flat = [0, *mask.ravel(order).astype(int).tolist(), 0]
    starts = [n for n in range(1, len(flat)) if flat[n] > flat[n - 1]]
    ends = [n for n in range(1, len(flat)) if flat[n] < flat[n - 1]]
    return " ".join(f"{start} {end - start}" for start, end in zip(starts, ends, strict=True))


def table(order, header, row):
    lines = [row(n, name, runs(mask, order)) for n, discs in DISCS.items() for name, mask in discs or [("", NOTHING)]]
    return "\n".join([header, *lines]) + "\n"


def test_starts_that_are_counted_from_the_run_before_are_refused(tmp_path):
    """SIIM-ACR pneumothorax."""
    write(tmp_path / "0.jpg", make_image(SIZE))
    write(tmp_path / "train-rle.csv", "ImageId,EncodedPixels\n0,100 5 19 5 19 5\n")
    assert words(tmp_path)[0] == (
        "train-rle.csv, line 2: expected starts that grow, each counted from the first pixel, and runs that do not overlap, "
        "found 100 5 19 5 19 5. If starts are counted from the end of the run before, add them up first."
    )


FORMS = {
    "Airbus": ("ImageId,EncodedPixels", lambda n, _, text: f"{n}.jpg,{text}"),
    "clouds": ("image_id,class,rle", lambda n, name, text: f"{n},{name},{text}"),
    "Severstal": ("ImageId_ClassId,EncodedPixels", lambda n, name, text: f"{n}.jpg_{name or 'fish'},{text}"),
    "none is -1": ("id,label,rle_mask", lambda n, name, text: f"{n},{name},{text or -1}"),
}


@pytest.fixture
def raw(tmp_path):
    for number in DISCS:
        write(tmp_path / f"raw/train_images/{number}.jpg", make_image(SIZE, seed=number))
    write(tmp_path / "raw/sample_submission.csv", "ImageId,EncodedPixels\n9.jpg,1 1\n")
    return tmp_path / "raw"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", ["F", "C"])
def test_each_pixel_has_its_class(raw, form, order):
    write(raw / "train.csv", table(order, *FORMS[form]))
    found = inspect(raw)
    classes = ("background", "object") if form == "Airbus" else ("background", "fish", "flower")
    packed = {
        r.name: decode_mask(r.mask, "m")
        for r in map(decode_segmentation, records(pack(found, raw.parent / "d"), "train"))
    }

    assert (found.fatal, found.labels.classes) == ([], classes)
    assert found.layout.reasons == (
        f"train.csv: runs are read {'column by column' if order == 'F' else 'row by row'}, which makes the shapes compact",
    )
    for number, discs in DISCS.items():
        want = np.zeros(SIZE, np.uint8)
        for name, mask in discs:
            want[mask] = 1 if form == "Airbus" else classes.index(name)
        assert (packed[f"train_images/{number}"] == want).all()


def test_each_row_is_an_object(raw):
    write(raw / "train.csv", table("F", *FORMS["Airbus"]))
    found = inspect(raw, how=LayoutOptions(task="instances"))

    for each in found.items:
        masks = [instance.pixels(SIZE) for instance in each.item.label]
        wanted = [mask for _, mask in DISCS[int(each.item.image.stem)]]
        assert all((one == other).all() for one, other in zip(masks, wanted, strict=True))


def test_what_does_not_show_is_read_as_usual(raw):
    write(raw / "train.csv", "ImageId,EncodedPixels\n0.jpg,1 1\n1.jpg,\n2.jpg,\n")

    assert inspect(raw).layout.reasons == (
        "train.csv: runs are read column by column, as is usual: their shapes do not show it",
    )


@pytest.mark.parametrize(
    "cell", ["0 4", "700 4 765 5", "1 99999999999999", "1 " + "9" * 60, "3 4 9", "-1 4", "1.5 2", "cat"]
)
def test_runs_that_are_none_are_a_problem(raw, cell):
    write(raw / "train.csv", f"ImageId,EncodedPixels\n0.jpg,{cell}\n1.jpg,3 4\n2.jpg,3 4\n")

    assert words(raw) == [
        f"train.csv, line 2: expected pairs of a start, from 1, and a length, in an image of 24 x 32, found {cell}. Fix "
        "the row, or remove it."
    ]


def test_images_without_a_row_and_rows_without_an_image_are_named(raw):
    write(raw / "train.csv", "ImageId,EncodedPixels\n0.jpg,3 4\n1.jpg,3 4\n7.jpg,3 4\n")
    write(raw / "test_images/8.jpg", make_image(SIZE, seed=8))
    found = inspect(raw)

    assert [problem.message for problem in found.problems] == [
        "train.csv: expected the image 7.jpg that it names, found nothing. Add it, or remove its rows.",
        "train_images/2.jpg: expected a row of train.csv, found none. If the image has no objects, add a row of its name "
        "without runs. If it has no labels, leave it out with --skip-bad.",
        "test_images/8.jpg: no row of train.csv names it: it is left out.",
    ]


def test_images_of_another_size_than_their_rows_state_are_refused(tmp_path):
    for number in DISCS:
        write(tmp_path / f"{number}.jpg", make_image(SIZE, seed=number))
    sides = lambda n: (48, 64) if n == 1 else SIZE  # noqa: E731
    lines = (f"{n},{sides(n)[0]},{sides(n)[1]},{runs(discs[0][1], 'F') if discs else ''}" for n, discs in DISCS.items())
    write(tmp_path / "train.csv", "id,height,width,annotation\n" + "\n".join(lines) + "\n")
    assert words(tmp_path) == [
        "1.jpg: expected an image of 48 x 64 (height x width), which its annotations were made for, found 24 x 32, as viewers "
        "show it (EXIF orientation counts). The annotations are of an image 2 times as large. Use that image."
    ]


@pytest.mark.parametrize("order", [1, -1])
def test_a_smaller_object_lies_on_a_larger_one_and_overlaps_are_noted(tmp_path, order):
    """Of two classes, one inside the other, whichever row comes first."""
    rows = ["a.jpg,small,35 4", "a.jpg,large,25 48"][::order]
    write(tmp_path / "a.jpg", make_image((24, 32)))
    write(tmp_path / "train.csv", "\n".join(["ImageId,ClassId,EncodedPixels", *rows]))
    found = inspect(tmp_path)
    assert [problem.message for problem in found.problems] == [
        "train.csv: runs of classes overlap in 1 of the first 1 image with several, such as a.jpg. There the smaller object "
        "counts."
    ]
    expected = np.zeros(24 * 32, np.uint8)
    expected[24:72], expected[34:38] = 1, 2
    (record,) = records(pack(found, tmp_path / "data"), "train")
    ids = decode_mask(decode_segmentation(record).mask, "m")
    by_order = [expected.reshape(32, 24).T, expected.reshape(24, 32)]
    assert any(np.array_equal(ids, each) for each in by_order)
