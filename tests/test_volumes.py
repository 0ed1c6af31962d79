"""Volumes: the same slices whatever way they were stored, and labels back in the geometry that they came from."""

from __future__ import annotations

import csv
import itertools
import shutil
import struct
import sys

import miniatures
import numpy as np
import pytest
from test_cli import call
from test_packing import records

from penstock.assembly import open_parts
from penstock.config import apply, load
from penstock.datasets import FolderDataset, How, inspect, pack
from penstock.datasets.layouts import nifti
from penstock.errors import DatasetError, ImageError, RecipeError
from penstock.images import decode_image, decode_mask, fetch_image, geometry, probe
from penstock.images.codecs import encode_png
from penstock.images.volumes import Volume, channels_of, read_labels, read_volume, write_labels
from penstock.inference import load_model
from penstock.metrics import dice
from penstock.records.schema import decode_segmentation

nibabel = pytest.importorskip("nibabel")
CODES = ["".join(code) for axes in itertools.permutations(("RL", "AP", "SI")) for code in itertools.product(*axes)]


def scene(seed=0, shape=(12, 15, 9)):
    """A volume and its labels in RAS: a bright block that is class 1 in its front and class 2 in its back."""
    draw = np.random.default_rng(seed)
    voxels, labels = draw.normal(100, 10, shape).astype(np.float32), np.zeros(shape, np.uint8)
    x, y, z = (int(draw.integers(1, side - 6)) for side in shape)
    labels[x : x + 5, y : y + 3, z : z + 4], labels[x : x + 5, y + 3 : y + 6, z : z + 4] = 2, 1
    voxels[labels > 0] += 200
    return voxels, labels


def stored(array, code, spacing=(1.0, 1.0, 1.0), shift=(5.0, -7.0, 11.0)):
    """An array of RAS as a NIfTI image whose axes go another way."""
    image = nibabel.Nifti1Image(array, np.diag([*spacing, 1.0]) + np.array([[0, 0, 0, s] for s in (*shift, 0)]))
    turn = nibabel.orientations.axcodes2ornt(code)
    return image.as_reoriented(turn if code == "RAS" else nibabel.orientations.ornt_transform(
        nibabel.orientations.axcodes2ornt("RAS"), turn
    ))  # fmt: skip


def write(path, image):
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(image, path)
    return path


def cases(root, count=6, codes=("RAS", "LPS", "PIR")):
    for number in range(count):
        voxels, labels = scene(number)
        code = codes[number % len(codes)]
        write(root / f"images/case_{number:02d}.nii.gz", stored(voxels, code))
        write(root / f"labels/case_{number:02d}.nii.gz", stored(labels, code))


@pytest.mark.parametrize("code", CODES)
def test_the_way_a_volume_is_stored_changes_nothing(tmp_path, code):
    voxels, labels = scene()
    plain = read_volume([write(tmp_path / "plain.nii", stored(voxels, "RAS", (1, 1, 2)))])
    path, truth = tmp_path / "turned.nii.gz", tmp_path / "labels.nii.gz"
    write(path, stored(voxels, code, (1, 1, 2)))
    write(truth, stored(labels, code, (1, 1, 2)))
    turned = read_volume([path])
    own = read_labels(truth, turned)

    assert nibabel.aff2axcodes(turned.affine) == tuple(code)
    assert (turned.images() == plain.images()).all()
    assert (turned.masks(own) == plain.masks(labels)).all()
    assert (turned.labels(turned.masks(own)) == own).all()


def test_slices_are_seen_from_below_with_the_front_up(tmp_path):
    """As radiologists' axial slices, but for the sides: rows from the front to the back, columns from left to right."""
    voxels = np.zeros((4, 6, 3), np.float32)
    voxels[3, 5, 1] = 100.0  # right, front
    voxels[0, 0, 1] = 50.0  # left, back
    volume = read_volume([write(tmp_path / "v.nii", stored(voxels, "RAS"))])
    picture = volume.images()[1, :, :, 0]

    assert volume.size == (6, 4)
    assert picture[0, 3] == 255
    assert picture[5, 0] < 255


@pytest.mark.parametrize(
    ("spacing", "across", "size"), [((1, 1, 3), 2, (15, 12)), ((1, 4, 1), 1, (9, 12)), ((2, 1, 3), 2, (15, 24))]
)
def test_slices_go_across_the_largest_spacing_and_have_square_pixels(tmp_path, spacing, across, size):
    voxels, labels = scene()
    volume = read_volume([write(tmp_path / "v.nii", stored(voxels, "LIP", spacing))])
    own = read_labels(write(tmp_path / "l.nii", stored(labels, "LIP", spacing)), volume)

    assert volume.spacing == spacing
    assert (volume.across, volume.size, volume.slices) == (across, size, voxels.shape[across])
    assert (volume.labels(volume.masks(own)) == own).all()


@pytest.mark.parametrize("spacing", [(0.7, 1, 5), (1, 0.7, 5), (1, 1.1, 5), (0.9, 1, 3), (1, 1.5, 4), (1, 1.9, 4)])
def test_labels_come_back_from_slices_of_any_spacing(spacing):
    labels = np.random.default_rng(0).integers(0, 3, (40, 44, 5)).astype(np.uint8)
    volume = Volume("x", labels[None].astype(np.float32), np.diag([*spacing, 1.0]))

    assert (volume.labels(volume.masks(labels)) == labels).all()


def test_labels_of_equal_names_are_told_apart_by_their_folder(tmp_path):
    for split in ("train", "val"):
        for kind in ("images", "labels"):
            write(tmp_path / kind / split / "c0.nii.gz", stored(scene()[kind == "labels"], "RAS"))
    both = nifti.cases(tmp_path / "images", tmp_path / "labels")

    assert [case.labels for case in both] == [tmp_path / "labels" / split / "c0.nii.gz" for split in ("train", "val")]
    with pytest.raises(DatasetError) as caught:
        nifti.cases(tmp_path / "images" / "train", tmp_path / "labels")
    assert str(caught.value) == (
        f"c0: expected one file of labels for this case, found {tmp_path}/labels/train/c0.nii.gz, "
        f"{tmp_path}/labels/val/c0.nii.gz. Name the folder that holds the right ones alone."
    )


def test_intensities_are_spread_by_themselves():
    """Units differ between scanners: a volume times seven, plus three, gives the same images."""
    voxels, _ = scene()
    one, other = (Volume("v", array[np.newaxis], np.eye(4)).images() for array in (voxels, 7 * voxels + 3))

    assert np.abs(one.astype(int) - other).max() <= 1
    assert one.min() == 0
    assert one.max() == 255


def test_labels_are_written_in_the_geometry_of_the_input(tmp_path):
    voxels, labels = scene()
    source = write(tmp_path / "v.nii.gz", stored(voxels, "PIR", (0.8, 1.1, 2.5)))
    image = nibabel.load(source)
    image.header.set_xyzt_units("mm")
    image.header["descrip"] = b"scanner 7"
    nibabel.save(image, source)
    volume = read_volume([source])
    own = read_labels(write(tmp_path / "l.nii", stored(labels, "PIR", (0.8, 1.1, 2.5))), volume)
    write_labels(tmp_path / "answer.nii.gz", own, source)
    answer = nibabel.load(tmp_path / "answer.nii.gz")

    assert answer.get_data_dtype() == np.uint8
    assert np.array_equal(answer.affine, image.affine)
    assert answer.header.get_zooms() == image.header.get_zooms()
    assert answer.header.get_xyzt_units() == ("mm", "unknown")
    assert bytes(answer.header["descrip"]).startswith(b"scanner 7")
    assert [float(answer.header[name]) for name in ("cal_min", "cal_max")] == [0.0, 0.0]
    assert (answer.header["sform_code"], answer.header["qform_code"]) == (
        image.header["sform_code"],
        image.header["qform_code"],
    )
    assert (np.asanyarray(answer.dataobj) == own).all()


@pytest.mark.parametrize("scale", [1e-6, 0.01, 1e6])
def test_intensities_are_spread_however_small_they_are(scale):
    voxels, _ = scene()
    one, other = (Volume("v", array[np.newaxis], np.eye(4)).images() for array in (voxels, scale * voxels))

    assert np.abs(one.astype(int) - other).max() <= 1
    assert not Volume("v", np.zeros((1, 4, 4, 4), np.float32), np.eye(4)).images().any()


def test_a_single_modality_is_gray_with_square_pixels():
    """Columns twice as far apart as rows: each becomes two, between which a slope goes on."""
    voxels = np.broadcast_to(np.arange(1, 21, dtype=np.float32)[:, None, None], (20, 8, 3))
    images = Volume("v", voxels[np.newaxis], np.diag([2.0, 1, 5, 1])).images()
    at = np.clip((np.arange(40) + 0.5) / 2 - 0.5, 0, 19) + 1
    low, high = np.percentile(voxels, (0.5, 99.5))
    expected = ((at - low) / (high - low) * 255).clip(0, 255)

    assert images.shape == (3, 8, 40, 3)
    assert np.abs(images - expected[:, None]).max() <= 2
    assert Volume("v", voxels[np.newaxis], np.diag([2.0, 1, 5, 1])).images(1).shape == (3, 8, 40, 1)
    assert [channels_of(count) for count in (1, 2, 3, 4)] == [1, 3, 3, 4]


def test_a_file_of_one_modality_may_say_so_with_a_fourth_axis(tmp_path):
    voxels = [scene(number)[0] for number in (1, 2)]
    plain = [write(tmp_path / f"plain{n}.nii", stored(each, "RAS")) for n, each in enumerate(voxels)]
    fourth = [
        write(tmp_path / f"fourth{n}.nii", nibabel.Nifti1Image(each[..., None], nibabel.load(plain[0]).affine))
        for n, each in enumerate(voxels)
    ]

    assert (read_volume(fourth).voxels == read_volume(plain).voxels).all()


def test_modalities_become_channels(tmp_path):
    first, second = scene(1)[0], scene(2)[0]
    paths = [write(tmp_path / f"c_000{n}.nii", stored(array, "RAS")) for n, array in enumerate((first, second))]
    both = read_volume(paths).images()
    joined = write(
        tmp_path / "joined.nii", nibabel.Nifti1Image(np.stack([first, second], axis=3), nibabel.load(paths[0]).affine)
    )

    assert (both[..., 0] == read_volume(paths[:1]).images()[..., 0]).all()
    assert (both[..., 1] == read_volume(paths[1:]).images()[..., 0]).all()
    assert not both[..., 2].any()
    assert (read_volume([joined]).images() == both).all()


class TestMistakes:
    @pytest.mark.parametrize("modality", [0, 1])
    def test_a_volume_of_nothing_but_nan_is_named(self, tmp_path, modality):
        arrays = [scene(seed)[0].astype(np.float32) for seed in (1, 2)]
        arrays[modality][...] = np.nan
        paths = [write(tmp_path / f"c_000{n}.nii", stored(array, "RAS")) for n, array in enumerate(arrays)]
        with pytest.raises(ImageError) as caught:
            read_volume(paths)

        assert str(caught.value) == (
            f"c_000{modality}.nii: expected a volume of numbers, found none but NaN and infinity in modality "
            f"{modality + 1} of 2. Export it again."
        )

    def test_labels_without_a_volume_are_told_of(self, tmp_path):
        cases(tmp_path)
        for path in sorted(tmp_path.rglob("images/*"))[:1]:
            path.unlink()
        (name,) = {path.name for path in tmp_path.rglob("labels/*")} - {
            path.name for path in tmp_path.rglob("images/*")
        }

        found = inspect(tmp_path)
        assert not found.fatal
        assert f"labels/{name}: no volume goes with these labels, or it has others already: they are left out." in [
            problem.message for problem in found.problems
        ]

    def test_second_labels_of_a_case_are_told_of_and_those_outside_the_splits_are_not(self, tmp_path):
        brats(tmp_path)
        (first, *_) = sorted(tmp_path.rglob("*seg.nii.gz"))
        shutil.copy(first, first.with_name(f"{first.parent.name}_b_seg.nii.gz"))
        shutil.copytree(first.parent, tmp_path / "holdout" / first.parent.name)
        found = inspect(tmp_path)

        assert [problem.message for problem in found.problems if problem.kind == "labels of no volume"] == [
            f"{path.relative_to(tmp_path).as_posix()}: no volume goes with these labels, or it has others already: they are "
            "left out."
            for path in sorted(first.parent.glob("*seg.nii.gz"))[1:]
        ]

    def test_modalities_that_do_not_lie_on_one_another(self, tmp_path):
        paths = [
            write(tmp_path / "a.nii", stored(scene()[0], "RAS")),
            write(tmp_path / "b.nii", stored(scene(1, (12, 15, 8))[0], "RAS")),
        ]
        with pytest.raises(ImageError) as caught:
            read_volume(paths)

        assert str(caught.value) == (
            "b.nii: expected the shape and geometry of a.nii: (12, 15, 9), found (12, 15, 8). Register the modalities of a "
            "case to one another."
        )

    @pytest.mark.parametrize("geometry", [{"shift": (5.0, -7.0, 16.0)}, {"spacing": (1.0, 1.0, 1.5)}])
    def test_modalities_of_one_shape_in_other_places(self, tmp_path, geometry):
        paths = [
            write(tmp_path / "a.nii", stored(scene()[0], "RAS")),
            write(tmp_path / "b.nii", stored(scene(1)[0], "RAS", **geometry)),
        ]
        with pytest.raises(ImageError) as caught:
            read_volume(paths)

        assert str(caught.value) == (
            "b.nii: expected the shape and geometry of a.nii: (12, 15, 9), found another affine. Register the modalities "
            "of a case to one another."
        )

    def test_five_modalities(self, tmp_path):
        path = write(tmp_path / "a.nii", nibabel.Nifti1Image(np.zeros((4, 4, 4, 5), np.float32), np.eye(4)))
        with pytest.raises(ImageError) as caught:
            read_volume([path])

        assert str(caught.value) == (
            "a.nii: expected a volume of up to 4 modalities, found arrays of shape (4, 4, 4, 5) in 1 file. Choose 4 "
            "modalities, and leave the others out of the folder."
        )

    def test_a_case_with_fewer_modalities_than_others(self, tmp_path):
        brats(tmp_path)
        (tmp_path / "train/c1/c1_t2.nii.gz").unlink()

        assert [problem.message for problem in inspect(tmp_path).fatal] == [
            "train/c1/c1_flair.nii.gz: expected 4 modalities, as other cases have, found 3. Add the missing ones, or move the "
            "case away."
        ]

    def test_a_volume_to_predict_with_fewer_modalities(self):
        volume = Volume("v.nii", np.zeros((2, 4, 4, 4), np.float32), np.eye(4))
        messages = []
        for channels in (4, 1):
            with pytest.raises(ImageError) as caught:
                volume.images(channels)
            messages.append(str(caught.value))

        assert messages == [
            "v.nii: expected 4 modalities, found 2. Give all volumes the same modalities.",
            "v.nii: expected at most 1 modality, found 2. Give all volumes the same modalities.",
        ]

    def test_labels_that_were_interpolated(self, tmp_path):
        volume = read_volume([write(tmp_path / "v.nii", stored(scene()[0], "RAS"))])
        path = write(tmp_path / "l.nii", stored(scene()[1].astype(np.float32) / 2, "RAS"))
        with pytest.raises(ImageError) as caught:
            read_labels(path, volume)

        assert str(caught.value) == (
            "l.nii: expected whole ids from 0 to 255, found values from 0 to 1. Export the labels as ids, without "
            "interpolation."
        )

    def test_labels_of_another_geometry(self, tmp_path):
        volume = read_volume([write(tmp_path / "v.nii", stored(scene()[0], "RAS"))])
        path = write(tmp_path / "l.nii", stored(scene()[1], "RAS", (1, 1, 2)))
        with pytest.raises(ImageError) as caught:
            read_labels(path, volume)

        assert str(caught.value) == (
            "l.nii: expected the shape and geometry of v.nii: (12, 15, 9), found another affine. Resample the labels to "
            "their volume."
        )

    def test_who_lacks_nibabel_is_told_what_to_install(self, tmp_path, monkeypatch):
        path = write(tmp_path / "v.nii", stored(scene()[0], "RAS"))
        monkeypatch.setitem(sys.modules, "nibabel", None)
        with pytest.raises(RecipeError) as caught:
            read_volume([path])

        assert str(caught.value) == (
            "a NIfTI file: expected nibabel to be installed, found that it is not. Install penstock[volumes]."
        )

    @pytest.mark.parametrize("channels", [1, 4])
    def test_a_slice_that_is_cut_short(self, channels):
        whole = encode_png(np.random.default_rng(0).integers(0, 256, (30, 40, channels), np.uint8))
        with pytest.raises(ImageError, match=r"^s#3: expected a whole image, found .*\. Restore the file from a copy"):
            decode_image(whole[:-300], "s#3", channels=channels)

    def test_a_file_that_is_cut_short(self, tmp_path):
        path = write(tmp_path / "v.nii.gz", stored(scene()[0], "RAS"))
        path.write_bytes(path.read_bytes()[:600])
        with pytest.raises(ImageError, match=r"v.nii.gz: expected a NIfTI file, found .*Export or copy it again."):
            read_volume([path])

    def test_a_case_without_labels(self, tmp_path):
        cases(tmp_path)
        (tmp_path / "labels/case_03.nii.gz").unlink()

        assert [problem.message for problem in inspect(tmp_path).fatal] == [
            "images/case_03.nii.gz: expected labels of the same name, found none. Add them, or move the volume away."
        ]


MODALITIES = ("flair", "t1", "t1ce", "t2")


def brats(root, count=3, split="train"):
    """A folder for every case, four modalities in files of their own, labels in _seg."""
    for number in range(count):
        _, labels = scene(number)
        for place, name in enumerate(MODALITIES):
            voxels = (
                np.random.default_rng(100 * number + place + 1000 * (split == "val"))
                .normal(100, 10, labels.shape)
                .astype(np.float32)
            )
            voxels[labels == 1 + place % 2] += 100 + 50 * place
            write(root / split / f"c{number}/c{number}_{name}.nii.gz", stored(voxels, ("RAS", "LPS")[number % 2]))
        write(root / split / f"c{number}/c{number}_seg.nii.gz", stored(labels, ("RAS", "LPS")[number % 2]))


def test_four_modalities_go_through_training_and_back(tmp_path, capsys):
    brats(tmp_path / "raw")
    brats(tmp_path / "raw", 2, "val")
    assert call("pack", tmp_path / "raw", "-o", tmp_path / "data", capsys=capsys)[0] == 0
    dataset = FolderDataset.open(tmp_path / "data")
    first = read_volume([tmp_path / f"raw/train/c1/c1_{name}.nii.gz" for name in MODALITIES])
    packed = {decode_segmentation(r).name: decode_segmentation(r).image for r in records(dataset, "train")}
    assert dataset.description.channels == 4
    assert len(packed) == 27
    for number in range(9):
        pixels = decode_image(packed[f"c1/{number:04d}"], "x", channels=4)
        assert (pixels == first.images(4)[number]).all()
    assert call("show", tmp_path / "data", "-o", tmp_path / "sheet.png", capsys=capsys)[0] == 0
    assert call("verify", tmp_path / "data", capsys=capsys)[0] == 0

    words = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 4, "--steps", 2]
    assert call("train", tmp_path / "data", *words, "--runs", tmp_path / "runs", capsys=capsys)[0] == 0
    (run,) = (tmp_path / "runs").iterdir()
    task = load_model(run, device="cpu").parts.task
    assert (task.channels, len(task.normalization.mean)) == (4, 4)
    assert call("predict", run, tmp_path / "raw/val", "-o", tmp_path / "out", capsys=capsys)[0] == 0
    assert call("predict", run, tmp_path / "sheet.png", "-o", tmp_path / "x", capsys=capsys) == (
        2,
        "",
        "error: penstock predict: expected NIfTI volumes, as the run learnt slices of 4 modalities, found images. Name "
        "volumes.\n",
    )
    code, out, _ = call("export", run, "-o", tmp_path / "model.pt2", capsys=capsys)
    assert (code, "image, uint8 (n, 32, 32, 4); gives" in out) == (0, True)
    with pytest.raises(RecipeError, match=r"augment.jitter: expected nothing: images of 4 channels have no colours"):
        _ = open_parts(apply(load(run / "recipe.toml"), ["augment.jitter.brightness=0.2"])).task
    for number in range(2):
        found = nibabel.load(tmp_path / f"out/c{number}.nii.gz")
        like = nibabel.load(tmp_path / f"raw/val/c{number}/c{number}_t2.nii.gz")
        assert found.shape == like.shape
        assert (found.affine == like.affine).all()


def test_who_learnt_two_modalities_answers_no_pictures(tmp_path, capsys):
    for number in range(2):
        for kind in ("0000", "0001"):
            write(tmp_path / f"raw/images/c{number}_{kind}.nii", stored(scene(number + int(kind))[0], "RAS"))
        write(tmp_path / f"raw/labels/c{number}.nii", stored(scene(number)[1], "RAS"))
    assert call("pack", tmp_path / "raw", "-o", tmp_path / "data", capsys=capsys)[0] == 0
    words = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 4, "--steps", 1]
    words += ["--set", "data.validation=", "--runs", tmp_path / "runs"]
    assert call("train", tmp_path / "data", *words, capsys=capsys)[0] == 0
    (run,) = (tmp_path / "runs").iterdir()
    (tmp_path / "a.jpg").write_bytes(miniatures.picture())

    assert call("predict", run, tmp_path / "a.jpg", "-o", tmp_path / "out", capsys=capsys) == (
        2,
        "",
        "error: penstock predict: expected NIfTI volumes, as the run learnt slices of 2 modalities, found images. Name "
        "volumes.\n",
    )


@pytest.mark.parametrize("channels", [1, 4])
def test_pictures_of_other_channels_are_fetched_as_definitions_say(channels):
    pixels = np.random.default_rng(channels).integers(0, 256, (20, 30, channels), np.uint8)
    data, out = encode_png(pixels), np.empty((16, 16, channels), np.uint8)
    crop = geometry.scale_and_crop((20, 30), (16, 16), 1.0, (0.5, 0.5))
    fetch_image(data, "x", probe(data, "x"), crop.affine, tuple(range(channels)), out)
    turned = np.empty((16, 16, channels), np.uint8)
    fetch_image(data, "x", probe(data, "x"), geometry.rotate(crop, 30.0).affine, tuple(range(channels)), turned)

    assert (decode_image(data, "x", channels=channels) == pixels).all()
    assert (out == pixels[2:18, 7:23]).all()
    for channel in range(channels):  # each as if it were alone
        gray = np.ascontiguousarray(pixels[..., channel : channel + 1]).repeat(3, axis=2)
        alone = np.empty((16, 16, 3), np.uint8)
        fetch_image(encode_png(gray), "x", probe(data, "x"), geometry.rotate(crop, 30.0).affine, (channel,) * 3, alone)
        assert (turned[..., channel] == alone[..., 0]).all()


def test_a_picture_of_other_channels_than_the_dataset_says_is_named():
    with pytest.raises(ImageError) as caught:
        decode_image(encode_png(np.zeros((4, 4, 3), np.uint8)), "a.png", channels=4)

    assert str(caught.value) == (
        "a.png: expected an 8-bit PNG of 4 channels, as the dataset says, found 8 bits and 3 channels (png). Pack the "
        "dataset again."
    )


def test_slices_are_divided_case_by_case(tmp_path):
    cases(tmp_path / "raw", 9)
    dataset = pack(inspect(tmp_path / "raw").divided(0.34), tmp_path / "data")
    split = {
        name: {decode_segmentation(r).name.partition("/")[0] for r in records(dataset, name)}
        for name in ("train", "val")
    }

    assert (len(split["train"]), len(split["val"])) == (6, 3)
    assert not split["train"] & split["val"]


@pytest.mark.parametrize("layout", ["brats", "nnunet"])
def test_other_arrangements_are_recognised(tmp_path, layout):
    for number in range(2):
        (first, labels), (second, _) = scene(number), scene(number + 10)
        names = {
            "brats": (
                f"train/c{number}/c{number}_flair.nii.gz",
                f"train/c{number}/c{number}_t1.nii.gz",
                f"train/c{number}/c{number}_seg.nii.gz",
            ),
            "nnunet": (
                f"imagesTr/c{number}_0000.nii.gz",
                f"imagesTr/c{number}_0001.nii.gz",
                f"labelsTr/c{number}.nii.gz",
            ),
        }[layout]
        for name, array in zip(names, (first, second, labels), strict=True):
            write(tmp_path / "raw" / name, stored(array, "RAS"))
    dataset = pack(inspect(tmp_path / "raw", how=How()), tmp_path / "data")
    found = {decode_segmentation(r).name: decode_segmentation(r) for r in records(dataset, "train")}

    assert sorted(found) == [f"c{case}/{number:04d}" for case in range(2) for number in range(9)]
    volume = Volume("v", scene(1)[0][np.newaxis], np.eye(4))
    masks = volume.masks(scene(1)[1])
    assert all((decode_mask(found[f"c1/{n:04d}"].mask, "m") == masks[n]).all() for n in range(9))


def test_from_volumes_to_volumes(tmp_path, capsys):
    cases(tmp_path / "raw")
    assert call("pack", tmp_path / "raw", "-o", tmp_path / "data", "--validation", 0.34, capsys=capsys)[0] == 0
    words = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 4, "--steps", 2]
    assert call("train", tmp_path / "data", *words, "--runs", tmp_path / "runs", capsys=capsys)[0] == 0
    (run,) = (tmp_path / "runs").iterdir()
    code, out, _ = call(
        "predict",
        run,
        tmp_path / "raw/images",
        "-o",
        tmp_path / "out",
        "--labels",
        tmp_path / "raw/labels",
        capsys=capsys,
    )
    rows = list(csv.DictReader((tmp_path / "out/dice.csv").read_text().splitlines()))

    assert code == 0
    assert out.startswith(f"predicted 6 of 6 volumes into {tmp_path / 'out'}, each in its own geometry\n")
    assert [row["case"] for row in rows] == [f"case_{number:02d}" for number in range(6)]
    for row in rows:
        answer, true = (nibabel.load(tmp_path / folder / f"{row['case']}.nii.gz") for folder in ("out", "raw/labels"))
        assert np.array_equal(answer.affine, true.affine)
        found, wanted = (np.asanyarray(image.dataobj) for image in (answer, true))
        for label in (1, 2):
            both = ((found == label) & (wanted == label)).sum()
            assert float(row[f"class{label}"]) == pytest.approx(
                2 * both / ((found == label).sum() + (wanted == label).sum()), abs=1e-6
            )

    (tmp_path / "odd").mkdir()
    shutil.copy(tmp_path / "raw/images/case_00.nii.gz", tmp_path / "odd/a.nii.gz")
    write(tmp_path / "odd/b.nii.gz", stored(np.stack([scene(1)[0]] * 2, axis=-1), "RAS"))
    (tmp_path / "odd/c.nii.gz").write_bytes(b"no volume")
    code, out, err = call("predict", run, tmp_path / "odd", "-o", tmp_path / "odd-out", capsys=capsys)
    assert (code, out, err.rpartition(",")[0]) == (
        1,
        "b.nii.gz: expected 1 modality a case, as the run learnt, found 2. Give the case the files that the training cases "
        "had.\nc.nii.gz: expected a NIfTI file, found Not a gzipped file (b'no'). Export or copy it again.\n"
        f"predicted 1 of 3 volumes into {tmp_path / 'odd-out'}, each in its own geometry\n",
        "predict: 3 of 3 volumes",
    )
    assert [path.name for path in (tmp_path / "odd-out").glob("[!.]*")] == ["a.nii.gz"]

    write(tmp_path / "odd-labels/a.nii.gz", stored(np.zeros((5, 5, 5), np.uint8), "RAS"))
    (tmp_path / "odd/b.nii.gz").unlink()
    (tmp_path / "odd/c.nii.gz").unlink()
    words = ["predict", run, tmp_path / "odd", "-o", tmp_path / "odd-out2", "--labels", tmp_path / "odd-labels"]
    code, out, _ = call(*words, capsys=capsys)
    assert (code, out.splitlines()[1:]) == (
        1,
        [f"predicted 1 of 1 volume into {tmp_path / 'odd-out2'}, each in its own geometry"],
    )
    assert out.startswith("a.nii.gz: expected the shape and geometry of a.nii.gz: ")
    assert (tmp_path / "odd-out2/a.nii.gz").is_file()


def test_options_that_do_nothing_are_refused(tmp_path, capsys):
    cases(tmp_path / "raw", 2)
    call("pack", tmp_path / "raw", "-o", tmp_path / "data", capsys=capsys)
    words = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 2, "--steps", 1]
    call("train", tmp_path / "data", *words, "--set", "data.validation=''", "--runs", tmp_path / "runs", capsys=capsys)
    (run,) = (tmp_path / "runs").iterdir()
    images = tmp_path / "raw/images"

    for more, message in (
        (
            ["--color"],
            "Writing masks in colour is not supported for NIfTI volumes. Remove --color.",
        ),
        (
            ["--labels", tmp_path / "gone"],
            f"{tmp_path / 'gone'}: expected a folder of labels, found none. Check --labels.",
        ),
    ):
        assert call("predict", run, images, "-o", tmp_path / "out", *more, capsys=capsys) == (
            2,
            "",
            f"error: {message}\n",
        )
    (tmp_path / "raw/labels/case_01.nii.gz").unlink()
    code, out, _ = call(
        "predict", run, images, "-o", tmp_path / "out", "--labels", tmp_path / "raw/labels", capsys=capsys
    )
    assert (code, out.splitlines()[1]) == (0, f"no labels in {tmp_path / 'raw/labels'} for 1 of them")


def test_answers_never_take_the_place_of_volumes(tmp_path, capsys):
    cases(tmp_path / "raw", 2)
    call("pack", tmp_path / "raw", "-o", tmp_path / "data", capsys=capsys)
    words = [
        "--model",
        "unet:test_resnet",
        "--weights",
        "none",
        "--crop",
        32,
        32,
        "--batch",
        2,
        "--steps",
        1,
        "--set",
        "data.validation=''",
    ]
    call("train", tmp_path / "data", *words, "--runs", tmp_path / "runs", capsys=capsys)
    (run,) = (tmp_path / "runs").iterdir()

    assert call("predict", run, tmp_path / "raw/images", "-o", tmp_path / "raw/images", capsys=capsys) == (
        2,
        "",
        f"error: {tmp_path}/raw/images/case_00.nii.gz: expected volumes whose answers go to files of their own, found that "
        "case_00.nii.gz is wanted twice, or is a volume itself. Choose another folder with -o, or predict the volumes into "
        "two.\n",
    )
    with pytest.raises(DatasetError):
        inspect(tmp_path / "runs")


@pytest.mark.filterwarnings("ignore")  # MONAI's imports
def test_dice_is_monais():
    metrics, torch = pytest.importorskip("monai.metrics"), pytest.importorskip("torch")
    found, true = (np.random.default_rng(seed).integers(0, 4, (8, 9, 7), np.uint8) for seed in (0, 1))
    encoded = (
        torch.nn.functional.one_hot(torch.from_numpy(ids).long(), 4).permute(3, 0, 1, 2)[None] for ids in (found, true)
    )

    assert dice(found, true, 4) == pytest.approx(metrics.compute_dice(*encoded, include_background=False)[0].tolist())
    assert dice(np.zeros((2, 2, 2), np.uint8), np.zeros((2, 2, 2), np.uint8), 2) == [None]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("v.nii.gz", lambda data: data[: 2 * len(data) // 3]),
        ("v.nii", lambda data: data[: 2 * len(data) // 3]),
        ("v.nii.gz", lambda data: data[: len(data) // 2] + bytes(40) + data[len(data) // 2 + 40 :]),
        ("v.nii.gz", lambda data: data[:-8] + bytes(4) + data[-4:]),
    ],
)
def test_damaged_files_are_named(tmp_path, name, damage):
    path = write(tmp_path / name, stored(scene(shape=(30, 30, 30))[0], "RAS"))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ImageError, match=rf"^{name}: expected a NIfTI file, found .* Export or copy it again.$"):
        read_volume([path])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.astype(np.complex64), "v.nii: expected real numbers on three axes, or four with the modality last, found complex64 of shape (12, 15, 9). Export it so."),
        (lambda a: a[:, :, 0], "v.nii: expected real numbers on three axes, or four with the modality last, found float32 of shape (12, 15). Export it so."),
    ],
)  # fmt: skip
def test_what_is_no_volume_is_named(tmp_path, change, message):
    path = write(tmp_path / "v.nii", nibabel.Nifti1Image(change(scene()[0]), np.eye(4)))
    with pytest.raises(ImageError) as caught:
        read_volume([path])

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("offset", "kind", "values", "message"),
    [  # offsets of the NIfTI-1 header: datatype, dim, vox_offset, srow_x to srow_z
        (70, "<h", (999,), "v.nii: expected a NIfTI file, found data code 999 not recognized. Export or copy it again."),
        (108, "<f", (1e30,), "v.nii: expected a NIfTI file, found Python int too large to convert to C long. Export or copy it again."),
        (280, "<12f", (float("nan"),) * 12, "v.nii: expected a NIfTI file, found SVD did not converge. Export or copy it again."),
        (280, "<12f", (0,) * 12, "v.nii: expected an affine with three axes, found one that drops an axis. Fix its header."),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")  # numpy's, of what is NaN
def test_damaged_headers_are_named(tmp_path, offset, kind, values, message):
    path = write(tmp_path / "v.nii", stored(scene()[0], "RAS"))
    data = bytearray(path.read_bytes())
    struct.pack_into(kind, data, offset, *values)
    path.write_bytes(data)
    with pytest.raises(ImageError) as caught:
        read_volume([path])

    assert str(caught.value) == message


def test_patients_are_never_taken_for_modalities(tmp_path):
    cases(tmp_path / "d", 2)
    assert [(case.name, len(case.images)) for case in nifti.cases(tmp_path / "d")] == [
        ("images/case_00", 1),
        ("images/case_01", 1),
    ]
    for site in ("a", "b"):
        for end in ("t1", "seg"):
            write(tmp_path / f"sites/{site}/case1/case1_{end}.nii.gz", stored(scene()[0], "RAS"))
    assert [(case.name, len(case.images), case.labels is not None) for case in nifti.cases(tmp_path / "sites")] == [
        ("a/case1", 1, True),
        ("b/case1", 1, True),
    ]


def test_one_damaged_case_is_left_out(tmp_path, capsys):
    cases(tmp_path / "raw", 3)
    path = sorted((tmp_path / "raw/images").iterdir())[1]
    for damaged in (path.read_bytes()[:-200], b"no volume"):
        path.write_bytes(damaged)
        assert [problem.file for problem in inspect(tmp_path / "raw").fatal] == ["images/case_01.nii.gz"]
    assert call("pack", tmp_path / "raw", "-o", tmp_path / "data", "--skip-bad", capsys=capsys)[0] == 0
    found = {
        decode_segmentation(r).name.partition("/")[0] for r in records(FolderDataset.open(tmp_path / "data"), "train")
    }

    assert found == {"case_00", "case_02"}


def test_cases_and_splits_without_labels_are_told_of(tmp_path):
    brats(tmp_path / "raw")
    brats(tmp_path / "raw", 2, "val")
    (tmp_path / "raw/train/c1/c1_seg.nii.gz").unlink()
    for path in (tmp_path / "raw/val").rglob("*_seg.nii.gz"):
        path.unlink()

    assert [(problem.fatal, problem.message) for problem in inspect(tmp_path / "raw").problems] == [
        (
            True,
            "train/c1/c1_flair.nii.gz: expected labels of the same name, found none. Add them, or move the volume away.",
        ),
        (False, "val: no labels for it in val: all of this split is left out."),
    ]


def test_cases_of_other_modalities_are_named(tmp_path):
    brats(tmp_path / "raw")
    (tmp_path / "raw/train/c1/c1_t2.nii.gz").rename(tmp_path / "raw/train/c1/c1_swi.nii.gz")

    assert [problem.message for problem in inspect(tmp_path / "raw").fatal] == [
        "train/c1/c1_flair.nii.gz: expected the modalities _flair, _t1, _t1ce, _t2, as most cases have, found _flair, _swi, "
        "_t1, _t1ce. Name or replace them, or move the case away."
    ]
