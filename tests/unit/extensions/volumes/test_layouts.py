from __future__ import annotations

import csv
import dataclasses
import gzip
import itertools
import json
import shutil
import struct
import sys

import numpy as np
import pytest
from support.commands import call
from support.datasets import records
from support.errors import refused
from support.training import recipe
from support.volumes import HOW, brats, learn_volumes, nibabel, stored, volume_scene, write_cases, write_volume

from penstock.assembly import open_experiment
from penstock.config import apply
from penstock.datasets import FolderDataset, LayoutOptions, inspect, pack
from penstock.errors import ImageError, RecipeError
from penstock.extensions.volumes import volume as volumes
from penstock.extensions.volumes.layouts import cases
from penstock.extensions.volumes.predictors import SlicePredictor, predictor_of
from penstock.extensions.volumes.volume import Volume, channels_of, read_labels, read_volume
from penstock.images import PixelFormat, decode_image, decode_mask
from penstock.images.codecs import encode_png
from penstock.inference import load_model
from penstock.kinds.fields import decode_segmentation
from penstock.tasks import ReadyModel
from penstock.training import train

CODES = ["".join(code) for axes in itertools.permutations(("RL", "AP", "SI")) for code in itertools.product(*axes)]


@pytest.mark.parametrize("code", CODES)
def test_the_way_a_volume_is_stored_changes_nothing(tmp_path, code):
    voxels, labels = volume_scene()
    plain = read_volume([write_volume(tmp_path / "plain.nii", stored(voxels, "RAS", (1, 1, 2)))])
    path, truth = tmp_path / "turned.nii.gz", tmp_path / "labels.nii.gz"
    write_volume(path, stored(voxels, code, (1, 1, 2)))
    write_volume(truth, stored(labels, code, (1, 1, 2)))
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
    volume = read_volume([write_volume(tmp_path / "v.nii", stored(voxels, "RAS"))])
    image = volume.images()[1, :, :, 0]

    assert volume.size == (6, 4)
    assert image[0, 3] == 255
    assert image[5, 0] < 255


@pytest.mark.parametrize(
    ("spacing", "across", "size"), [((1, 1, 3), 2, (15, 12)), ((1, 4, 1), 1, (9, 12)), ((2, 1, 3), 2, (15, 24))]
)
def test_slices_go_across_the_largest_spacing_and_have_square_pixels(tmp_path, spacing, across, size):
    voxels, labels = volume_scene()
    volume = read_volume([write_volume(tmp_path / "v.nii", stored(voxels, "LIP", spacing))])
    own = read_labels(write_volume(tmp_path / "l.nii", stored(labels, "LIP", spacing)), volume)

    assert volume.spacing == spacing
    assert (volume.across, volume.size, volume.slices) == (across, size, voxels.shape[across])
    assert (volume.labels(volume.masks(own)) == own).all()


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


def test_values_of_0_and_the_ends_do_not_count_for_the_range():
    """Most of a scan is air, and a single voxel may be a hundred times as bright as the rest."""
    voxels = np.zeros((20, 20, 10), np.float32)
    voxels[5:15, 5:15] = np.random.default_rng(0).uniform(100, 200, (10, 10, 10))
    voxels[5, 5, 5], voxels[6, 6, 6] = 20_000, -20_000
    low, high = np.percentile(voxels[voxels != 0], (0.5, 99.5))
    expected = ((voxels - low) / (high - low) * 255).clip(0, 255)
    images = Volume("v", voxels[np.newaxis], np.diag([1.0, 1, 5, 1])).images(1)

    assert np.abs(np.sort(images.ravel()) - np.sort(expected.ravel())).max() <= 1


def test_a_file_of_one_modality_may_say_so_with_a_fourth_axis(tmp_path):
    voxels = [volume_scene(number)[0] for number in (1, 2)]
    plain = [write_volume(tmp_path / f"plain{n}.nii", stored(each, "RAS")) for n, each in enumerate(voxels)]
    fourth = [
        write_volume(tmp_path / f"fourth{n}.nii", nibabel.Nifti1Image(each[..., None], nibabel.load(plain[0]).affine))
        for n, each in enumerate(voxels)
    ]

    assert (read_volume(fourth).voxels == read_volume(plain).voxels).all()


def test_modalities_become_channels(tmp_path):
    first, second = volume_scene(1)[0], volume_scene(2)[0]
    paths = [write_volume(tmp_path / f"c_000{n}.nii", stored(array, "RAS")) for n, array in enumerate((first, second))]
    both = read_volume(paths).images()
    joined = write_volume(
        tmp_path / "joined.nii", nibabel.Nifti1Image(np.stack([first, second], axis=3), nibabel.load(paths[0]).affine)
    )

    assert (both[..., 0] == read_volume(paths[:1]).images()[..., 0]).all()
    assert (both[..., 1] == read_volume(paths[1:]).images()[..., 0]).all()
    assert not both[..., 2].any()
    assert (read_volume([joined]).images() == both).all()


class TestMistakes:
    @pytest.mark.parametrize("modality", [0, 1])
    def test_a_volume_of_nothing_but_nan_is_named(self, tmp_path, modality):
        arrays = [volume_scene(seed)[0].astype(np.float32) for seed in (1, 2)]
        arrays[modality][...] = np.nan
        paths = [write_volume(tmp_path / f"c_000{n}.nii", stored(array, "RAS")) for n, array in enumerate(arrays)]
        with pytest.raises(ImageError) as caught:
            read_volume(paths)

        assert str(caught.value) == (
            f"c_000{modality}.nii: expected a volume of numbers, found only NaN and infinity in modality "
            f"{modality + 1} of 2. Export it again."
        )

    def test_a_modality_of_one_file_is_named_by_the_file(self, tmp_path):
        arrays = [volume_scene(seed)[0].astype(np.float32) for seed in (1, 2)]
        arrays[1][...] = np.nan
        path = write_volume(tmp_path / "both.nii", nibabel.Nifti1Image(np.stack(arrays, axis=3), np.eye(4)))
        with pytest.raises(ImageError) as caught:
            read_volume([path])

        assert str(caught.value) == (
            "both.nii: expected a volume of numbers, found only NaN and infinity in modality 2 of 2. Export it again."
        )

    def test_labels_without_a_volume_are_told_of(self, tmp_path):
        write_cases(tmp_path)
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
            write_volume(tmp_path / "a.nii", stored(volume_scene()[0], "RAS")),
            write_volume(tmp_path / "b.nii", stored(volume_scene(1, (12, 15, 8))[0], "RAS")),
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
            write_volume(tmp_path / "a.nii", stored(volume_scene()[0], "RAS")),
            write_volume(tmp_path / "b.nii", stored(volume_scene(1)[0], "RAS", **geometry)),
        ]
        with pytest.raises(ImageError) as caught:
            read_volume(paths)

        assert str(caught.value) == (
            "b.nii: expected the shape and geometry of a.nii: (12, 15, 9), found another affine. Register the modalities "
            "of a case to one another."
        )

    def test_five_modalities(self, tmp_path):
        path = write_volume(tmp_path / "a.nii", nibabel.Nifti1Image(np.zeros((4, 4, 4, 5), np.float32), np.eye(4)))
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
        volume = read_volume([write_volume(tmp_path / "v.nii", stored(volume_scene()[0], "RAS"))])
        path = write_volume(tmp_path / "l.nii", stored(volume_scene()[1].astype(np.float32) / 2, "RAS"))
        with pytest.raises(ImageError) as caught:
            read_labels(path, volume)

        assert str(caught.value) == (
            "l.nii: expected whole ids from 0 to 255, found values from 0 to 1. Export the labels as ids, without "
            "interpolation."
        )

    def test_labels_of_another_geometry(self, tmp_path):
        volume = read_volume([write_volume(tmp_path / "v.nii", stored(volume_scene()[0], "RAS"))])
        path = write_volume(tmp_path / "l.nii", stored(volume_scene()[1], "RAS", (1, 1, 2)))
        with pytest.raises(ImageError) as caught:
            read_labels(path, volume)

        assert str(caught.value) == (
            "l.nii: expected the shape and geometry of v.nii: (12, 15, 9), found another affine. Resample the labels to "
            "their volume."
        )

    def test_who_lacks_nibabel_is_told_what_to_install(self, tmp_path, monkeypatch):
        path = write_volume(tmp_path / "v.nii", stored(volume_scene()[0], "RAS"))
        monkeypatch.setitem(sys.modules, "nibabel", None)
        with pytest.raises(RecipeError) as caught:
            read_volume([path])

        assert str(caught.value) == ("Reading NIfTI files needs nibabel. Install penstock[volumes].")

    @pytest.mark.parametrize("channels", [1, 4])
    def test_a_slice_that_is_cut_short(self, channels):
        whole = encode_png(np.random.default_rng(0).integers(0, 256, (30, 40, channels), np.uint8))
        with pytest.raises(
            ImageError, match=r"^s#3: expected a complete image, found .*\. Restore the file from a copy"
        ):
            decode_image(whole[:-300], "s#3", pixels=PixelFormat(channels))

    def test_a_file_that_is_cut_short(self, tmp_path):
        path = write_volume(tmp_path / "v.nii.gz", stored(volume_scene()[0], "RAS"))
        path.write_bytes(path.read_bytes()[:600])
        with pytest.raises(ImageError, match=r"v.nii.gz: expected a NIfTI file, found .*Export or copy it again."):
            read_volume([path])

    def test_a_case_without_labels(self, tmp_path):
        write_cases(tmp_path)
        (tmp_path / "labels/case_03.nii.gz").unlink()

        assert [problem.message for problem in inspect(tmp_path).fatal] == [
            "images/case_03.nii.gz: expected labels of the same name, found none. Add them, or move the volume away."
        ]


def test_slices_are_divided_case_by_case(tmp_path):
    write_cases(tmp_path / "raw", 9)
    dataset = pack(inspect(tmp_path / "raw").divided(0.34), tmp_path / "data")
    split = {
        name: {decode_segmentation(r).name.partition("/")[0] for r in records(dataset, name)}
        for name in ("train", "val")
    }

    assert (len(split["train"]), len(split["val"])) == (6, 3)
    assert not split["train"] & split["val"]


def test_labels_that_changed_are_read_again(tmp_path):
    """By the same process, as a notebook does."""
    write_cases(tmp_path / "raw", 2)
    before = inspect(tmp_path / "raw").items
    _, labels = volume_scene(1)
    write_volume(tmp_path / "raw/labels/case_01.nii.gz", stored(np.minimum(labels, 1), "LPS"))
    now = inspect(tmp_path / "raw").items

    ids = [
        {label for each in items if each.item.group == "case_01" for label, _ in each.pixels} for items in (before, now)
    ]
    assert ids == [{0, 1, 2}, {0, 1}]


@pytest.mark.parametrize("layout", ["brats", "nnunet"])
def test_other_arrangements_are_recognised(tmp_path, layout):
    for number in range(2):
        (first, labels), (second, _) = volume_scene(number), volume_scene(number + 10)
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
            write_volume(tmp_path / "raw" / name, stored(array, "RAS"))
    dataset = pack(inspect(tmp_path / "raw", how=LayoutOptions()), tmp_path / "data")
    found = {decode_segmentation(r).name: decode_segmentation(r) for r in records(dataset, "train")}

    assert sorted(found) == [f"c{case}/{number:04d}" for case in range(2) for number in range(9)]
    volume = Volume("v", volume_scene(1)[0][np.newaxis], np.eye(4))
    masks = volume.masks(volume_scene(1)[1])
    assert all((decode_mask(found[f"c1/{n:04d}"].mask, "m") == masks[n]).all() for n in range(9))


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
    path = write_volume(tmp_path / name, stored(volume_scene(shape=(30, 30, 30))[0], "RAS"))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ImageError, match=rf"^{name}: expected a NIfTI file, found .* Export or copy it again.$"):
        read_volume([path])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda data: data + bytes(3 << 20), "more bytes than its header announces"),
        (
            lambda data: data[:40] + struct.pack("<4h", 3, 2048, 2048, 2048) + data[48:],
            "8,589,934,592 voxels, more than 536,870,912",
        ),
    ],
)
def test_a_small_file_does_not_unpack_without_end(tmp_path, change, found):
    path = write_volume(tmp_path / "v.nii.gz", stored(volume_scene()[0], "RAS"))
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))
    refused(read_volume, [path], message=f"v.nii.gz: expected a NIfTI file, found {found}. Export or copy it again.")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.astype(np.complex64), "v.nii: expected real numbers on three axes, or four with the modality last, found complex64 of shape (12, 15, 9). Export the volume in one of these shapes."),
        (lambda a: a[:, :, 0], "v.nii: expected real numbers on three axes, or four with the modality last, found float32 of shape (12, 15). Export the volume in one of these shapes."),
    ],
)  # fmt: skip
def test_what_is_no_volume_is_named(tmp_path, change, message):
    path = write_volume(tmp_path / "v.nii", nibabel.Nifti1Image(change(volume_scene()[0]), np.eye(4)))
    with pytest.raises(ImageError) as caught:
        read_volume([path])

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("offset", "kind", "values", "message"),
    [  # offsets of the NIfTI-1 header: datatype, dim, vox_offset, srow_x to srow_z
        (70, "<h", (999,), "v.nii: expected a NIfTI file, found data code 999 not recognized. Export or copy it again."),
        (108, "<f", (1e30,), "v.nii: expected a NIfTI file, found Python int too large to convert to C long. Export or copy it again."),
        (280, "<12f", (float("nan"),) * 12, "v.nii: expected a NIfTI file, found SVD did not converge. Export or copy it again."),
        (280, "<12f", (0,) * 12, "v.nii: expected an affine with three axes, found a singular one, which drops an axis. Fix its header."),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")  # numpy's, of what is NaN
def test_damaged_headers_are_named(tmp_path, offset, kind, values, message):
    path = write_volume(tmp_path / "v.nii", stored(volume_scene()[0], "RAS"))
    data = bytearray(path.read_bytes())
    struct.pack_into(kind, data, offset, *values)
    path.write_bytes(data)
    with pytest.raises(ImageError) as caught:
        read_volume([path])

    assert str(caught.value) == message


def test_patients_are_never_taken_for_modalities(tmp_path):
    write_cases(tmp_path / "d", 2)
    assert [(case.name, len(case.images)) for case in cases(tmp_path / "d")] == [
        ("images/case_00", 1),
        ("images/case_01", 1),
    ]
    for site in ("a", "b"):
        for end in ("t1", "seg"):
            write_volume(tmp_path / f"sites/{site}/case1/case1_{end}.nii.gz", stored(volume_scene()[0], "RAS"))
    assert [(case.name, len(case.images), case.labels is not None) for case in cases(tmp_path / "sites")] == [
        ("a/case1", 1, True),
        ("b/case1", 1, True),
    ]


def test_one_damaged_case_is_left_out(tmp_path, capsys):
    write_cases(tmp_path / "raw", 3)
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


class TestVolumes:
    @pytest.fixture(autouse=True)
    def extra(self):
        self.nibabel = pytest.importorskip("nibabel")

    def write(self, path, array):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.nibabel.save(self.nibabel.Nifti1Image(array, np.eye(4)), path)
        return path

    def test_modalities_may_have_a_lone_fourth_axis(self, tmp_path):
        draw = np.random.default_rng(0)
        arrays = [draw.normal(100, 10, (6, 7, 8, 1)).astype(np.float32) for _ in range(2)]
        paths = [self.write(tmp_path / f"a_000{n}.nii.gz", array) for n, array in enumerate(arrays)]

        assert np.array_equal(volumes.read_volume(paths).voxels, np.stack([array[..., 0] for array in arrays]))

    def test_cases_may_end_in_four_digits(self, tmp_path):
        draw = np.random.default_rng(0)
        for number in range(1, 4):
            self.write(tmp_path / f"images/p_{number:04d}.nii.gz", draw.normal(100, 10, (6, 7, 8)).astype(np.float32))
            self.write(tmp_path / f"labels/p_{number:04d}.nii.gz", draw.integers(0, 2, (6, 7, 8)).astype(np.uint8))
        found = inspect(tmp_path)

        assert found.fatal == []
        assert {item.group for item in found.layout.items} == {"p_0001", "p_0002", "p_0003"}

    def test_a_case_may_be_named_by_its_folder(self, tmp_path):
        from penstock.extensions.volumes.layouts import cases

        for name in ("t1", "flair"):
            self.write(tmp_path / f"c1/c1_{name}.nii.gz", np.ones((4, 4, 4), np.float32))
        for name in ("001", "002"):
            self.write(tmp_path / f"case/case_{name}.nii.gz", np.ones((4, 4, 4), np.float32))

        assert [(case.name, len(case.images)) for case in cases(tmp_path / "c1")] == [("c1", 2)]
        assert [(case.name, len(case.images)) for case in cases(tmp_path / "case")] == [
            ("case_001", 1),
            ("case_002", 1),
        ]

    def test_labels_are_scored_and_written_by_their_raw_ids(self, tmp_path, capsys):
        """Raw ids 2 and 4 became one class, and 9 does not count."""
        draw = np.random.default_rng(0)
        for number in range(3):
            raw = np.zeros((8, 8, 6), np.uint8)
            raw[2:6, 2:4], raw[2:6, 4:6], raw[0] = 2, 4, 9
            scan = draw.normal(100, 5, raw.shape) + 100 * (raw == 2) + 100 * (raw == 4)
            self.write(tmp_path / f"raw/images/c{number}.nii.gz", scan.astype(np.float32))
            self.write(tmp_path / f"raw/labels/c{number}.nii.gz", raw)
        words = ["--map", "2=1", "--map", "4=1", "--map", "9=255", "--classes", "ground,thing"]
        assert call("pack", tmp_path / "raw", "-o", tmp_path / "data", *words, capsys=capsys)[0] == 0
        dataset = FolderDataset.open(tmp_path / "data")
        assert dataset.description.of_raw == {2: 1, 4: 1, 9: 255}
        chosen = apply(recipe(dataset.folder, steps=1), ["data.validation=''", "augment.crop=[32, 32]"])
        folder, _ = train(chosen, tmp_path / "runs")
        trained = load_model(folder.path, device="cpu")
        prediction = np.zeros((8, 8, 6), np.uint8)
        prediction[2:6, 2:6], prediction[0, 0] = 1, 1  # the truth, and something where nothing counts
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SlicePredictor, "predict", lambda *_: prediction)
            out = ["-o", tmp_path / "out", "--labels", tmp_path / "raw/labels", "--ids", "original"]
            code, _, _ = call("predict", folder.path, tmp_path / "raw/images", *out, capsys=capsys)
        rows = list(csv.reader((tmp_path / "out/dice.csv").read_text().splitlines()))
        written = np.asarray(self.nibabel.load(tmp_path / "out/c0.nii.gz").dataobj)

        assert (code, trained.parts.dataset.description.of_raw) == (0, {2: 1, 4: 1, 9: 255})
        assert rows == [["case", "thing"], *([f"c{number}", "1.000000"] for number in range(3))]
        assert np.array_equal(written, np.where(prediction == 1, 2, 0))


@pytest.fixture(scope="module")
def whole_volumes(tmp_path_factory):
    """Nine volumes of 12 x 15 x 9, three of them to validate."""
    root = tmp_path_factory.mktemp("whole")
    write_cases(root / "raw", 9)
    return pack(inspect(root / "raw", how=HOW).divided(0.34), root / "data")


def test_one_file_of_a_case_with_more(whole_volumes):
    task = dataclasses.replace(open_experiment(learn_volumes(whole_volumes)).task, pixel_format=PixelFormat(3))
    volume = Volume("c_0000.nii.gz", volume_scene()[0][np.newaxis], np.eye(4))
    with pytest.raises(ImageError) as caught:
        predictor_of(task).predict(ReadyModel(task.model()), volume)

    assert str(caught.value) == (
        "c_0000.nii.gz: expected the two or three modalities that the run learnt, found one. Name the folder of the "
        "case's files, or one file with all of them."
    )


def test_the_same_volume_in_two_splits(tmp_path):
    voxels, labels = volume_scene()
    for split in ("train", "val"):
        write_volume(tmp_path / f"images/{split}/c_{split}.nii.gz", stored(voxels, "RAS"))
        write_volume(tmp_path / f"labels/{split}/c_{split}.nii.gz", stored(labels, "RAS"))

    assert [problem.kind for problem in inspect(tmp_path, how=HOW).fatal] == ["duplicate across splits"]


def test_the_classes_have_the_names_of_nnunets_dataset_json(tmp_path):
    write_cases(tmp_path, 2)
    count = len(inspect(tmp_path).labels.classes)
    names = [f"organ {n}" for n in range(count)]
    (tmp_path / "dataset.json").write_text(
        json.dumps({"labels": {name: n for n, name in reversed([*enumerate(names)])}})
    )

    assert inspect(tmp_path).labels.classes == tuple(names)
    assert inspect(tmp_path, how=HOW).labels.classes == tuple(names)
