from __future__ import annotations

import io
import zlib

import numpy as np
import pytest
from support.errors import refused
from support.volumes import dicom_file, stored, volume_scene, write_series, write_volume

from penstock.errors import ImageError
from penstock.extensions.volumes import volume as volumes
from penstock.extensions.volumes.volume import read_volume
from penstock.images import PixelFormat, decode_image, dicom
from penstock.images.formats import stored as as_stored

VALUES = np.random.default_rng(0).integers(0, 4096, (20, 30), np.uint16)


def data(one):
    done = io.BytesIO()
    one.save_as(done, enforce_file_format=True)
    return done.getvalue()


def deflated(one):
    one.file_meta.TransferSyntaxUID = pytest.importorskip("pydicom").uid.DeflatedExplicitVRLittleEndian
    return data(one)


def pixels(one):
    return decode_image(as_stored(data(one), "x.dcm"), "x.dcm", pixels=PixelFormat(3, 16))[..., 0]


class TestImages:
    def test_values_are_those_of_the_modality(self):
        assert np.array_equal(pixels(dicom_file(VALUES)), VALUES)
        assert np.array_equal(pixels(dicom_file(VALUES, RescaleSlope=2, RescaleIntercept=5)), 2 * VALUES + 5)

    def test_negative_values_need_a_range(self):
        message = (
            "x.dcm: expected whole numbers from 0 to 65535, found float64 values from -1024 to {}. Pack with --value-range "
            "LOW HIGH, the values that become 0 and 65535."
        )
        units = dicom_file(VALUES, RescaleSlope=1, RescaleIntercept=-1024)
        refused(as_stored, data(units), "x.dcm", message=message.format(int(VALUES.max()) - 1024))

    @pytest.mark.parametrize(
        ("values", "tags", "expected"),
        [
            (VALUES, {"BitsStored": 12}, (0, 4095)),
            (VALUES, {"BitsStored": 12, "RescaleSlope": 1, "RescaleIntercept": -1024}, (-1024, 3071)),
            (VALUES, {"RescaleSlope": 2, "RescaleIntercept": 5}, (5, 131075)),
            (VALUES, {"RescaleSlope": -1, "RescaleIntercept": 0}, (-65535, 0)),
            (VALUES.astype(np.int16), {}, (-32768, 32767)),
            (VALUES.astype(np.int16), {"BitsStored": 12}, (-2048, 2047)),
        ],
    )
    def test_the_header_says_which_values_are_possible(self, tmp_path, values, tags, expected):
        (tmp_path / "a.dcm").write_bytes(data(dicom_file(values, **tags)))

        assert dicom.possible_values(tmp_path / "a.dcm") == expected

    def test_colours_and_what_is_no_dicom_have_no_values(self, tmp_path):
        (tmp_path / "a.dcm").write_bytes(data(dicom_file(VALUES))[:100])
        (tmp_path / "b.dcm").write_bytes(data(dicom_file(VALUES, SamplesPerPixel=3, PhotometricInterpretation="RGB")))

        assert dicom.possible_values(tmp_path / "a.dcm") is None
        assert dicom.possible_values(tmp_path / "b.dcm") is None

    def test_white_is_high_whatever_the_file_calls_white(self):
        inverted = pixels(dicom_file(VALUES, PhotometricInterpretation="MONOCHROME1"))

        assert np.array_equal(inverted, int(VALUES.max()) + int(VALUES.min()) - VALUES.astype(int))

    def test_a_range_of_hounsfield_units_is_spread_over_sixteen_bits(self):
        units = dicom_file(VALUES, RescaleSlope=1, RescaleIntercept=-1024)
        inverted = dicom_file(VALUES, RescaleSlope=1, RescaleIntercept=-1024, PhotometricInterpretation="MONOCHROME1")
        wanted = np.rint((np.clip(VALUES.astype(float) - 1024, -160, 240) + 160) / 400 * 65535)
        found, turned = (
            decode_image(as_stored(data(one), "x.dcm", (-160, 240)), "x.dcm", pixels=PixelFormat(3, 16))[..., 0]
            for one in (units, inverted)
        )

        assert np.array_equal(found, wanted)
        assert np.array_equal(turned, 65535 - wanted)

    def test_colours_of_sixteen_bits_stay_sixteen_bits(self):
        colors = np.stack([VALUES, VALUES // 2, VALUES // 3], axis=2)
        one = dicom_file(colors, SamplesPerPixel=3, PhotometricInterpretation="RGB", PlanarConfiguration=0)
        found = decode_image(as_stored(data(one), "x.dcm"), "x.dcm", pixels=PixelFormat(3, 16))
        assert np.array_equal(found, colors)

    def test_indices_of_a_palette_become_its_colours(self):
        table = np.random.default_rng(1).integers(0, 65536, (3, 256), np.uint16)
        indices = (VALUES % 256).astype(np.uint8)
        one = dicom_file(indices, PhotometricInterpretation="PALETTE COLOR", BitsAllocated=8, BitsStored=8, HighBit=7)
        for name, values in zip(("Red", "Green", "Blue"), table, strict=True):
            setattr(one, f"{name}PaletteColorLookupTableDescriptor", [256, 0, 16])
            setattr(one, f"{name}PaletteColorLookupTableData", values.tobytes())
        found = decode_image(as_stored(data(one), "x.dcm"), "x.dcm", pixels=PixelFormat(3, 16))
        assert np.array_equal(found, table[:, indices].transpose(1, 2, 0))

    def test_a_table_of_the_modality_may_give_more_than_is_stored(self, tmp_path):
        pydicom = pytest.importorskip("pydicom")
        table = pydicom.dataset.Dataset()
        table.LUTDescriptor, table.ModalityLUTType = [4096, 0, 16], "US"
        table.LUTData = (15 * np.arange(4096)).astype("<u2").tobytes()
        one = dicom_file(VALUES, BitsStored=12, HighBit=11, ModalityLUTSequence=[table])
        assert np.array_equal(pixels(one), 15 * VALUES)
        (tmp_path / "a.dcm").write_bytes(data(one))
        assert dicom.possible_values(tmp_path / "a.dcm") == (0, 65535)
        table.LUTDescriptor = [4096, 0, 14]
        one.ModalityLUTSequence = [table]
        (tmp_path / "a.dcm").write_bytes(data(one))
        assert dicom.possible_values(tmp_path / "a.dcm") == (0, 16383)

    def test_another_meaning_of_pixels_is_refused_by_name(self):
        one = dicom_file(VALUES, PhotometricInterpretation="HSV")
        refused(
            as_stored, data(one), "x.dcm",
            message="x.dcm: expected pixels as MONOCHROME1, MONOCHROME2, RGB, YBR_FULL, YBR_FULL_422, YBR_RCT, YBR_ICT, "
            "PALETTE COLOR, found HSV. Convert it to RGB.",
        )  # fmt: skip

    def test_several_frames_are_refused(self):
        message = "x.dcm: expected an image of one frame, found 2 frames. Save each frame by itself."
        two = dicom_file(np.stack([VALUES, VALUES]).reshape(40, 30), Rows=20, NumberOfFrames=2)
        refused(as_stored, data(two), "x.dcm", message=message)

    def test_more_pixels_than_the_header_says_are_refused(self):
        many = dicom_file(np.stack([VALUES] * 16).reshape(16 * 20, 30), Rows=20)
        with pytest.raises(ImageError, match=r"^x\.dcm: expected "):
            as_stored(data(many), "x.dcm")

    def test_one_that_is_deflated_is_read(self, tmp_path):
        (tmp_path / "a.dcm").write_bytes(deflated(dicom_file(VALUES)))

        stored = as_stored((tmp_path / "a.dcm").read_bytes(), "x.dcm")
        assert np.array_equal(decode_image(stored, "x.dcm", pixels=PixelFormat(3, 16))[..., 0], VALUES)
        assert dicom.possible_values(tmp_path / "a.dcm") == (0, 65535)

    def test_one_that_names_the_way_to_deflate_is_not_deflated(self):
        one = dicom_file(VALUES, PatientComments="1.2.840.10008.1.2.1.99")

        assert np.array_equal(pixels(one), VALUES)

    def test_a_small_file_does_not_unpack_without_end(self, monkeypatch, tmp_path):
        file = deflated(dicom_file(np.zeros((200, 300), np.uint16)))
        (tmp_path / "a.dcm").write_bytes(file)
        monkeypatch.setattr(dicom, "_MAX_INFLATED", 100_000)
        monkeypatch.setattr(zlib, "decompress", None)  # which pydicom would do it with
        packed = len(file) - 132 - 12 - int.from_bytes(file[140:144], "little")
        message = (
            f"x.dcm: expected a DICOM image that can be decoded, found ValueError: {packed} bytes that unpack to more than "
            "100,000 bytes. Convert it, for example with dcm2niix."
        )
        refused(as_stored, file, "x.dcm", message=message)
        assert dicom.possible_values(tmp_path / "a.dcm") is None

    def test_more_values_than_fit_anywhere_are_refused(self):
        one = dicom_file(VALUES)
        one.Rows = one.Columns = 60_000
        message = (
            "x.dcm: expected a DICOM image that can be decoded, found ValueError: 3,600,000,000 values, where "
            "1,073,741,824 are the most. Convert it, for example with dcm2niix."
        )
        refused(as_stored, data(one), "x.dcm", message=message)

    def test_a_damaged_file_is_named(self):
        with pytest.raises(ImageError, match=r"^x\.dcm: expected a DICOM image that can be decoded, found "):
            as_stored(data(dicom_file(VALUES))[:-200], "x.dcm")


class TestSeries:
    @pytest.mark.parametrize("code", ["RAS", "LPS", "PIR", "SLA", "ASL"])
    def test_it_is_the_volume_that_nifti_holds(self, tmp_path, code):
        voxels, _ = volume_scene(3)
        image = stored(np.rint(voxels), code, spacing=(0.7, 1.2, 3.0))
        one = read_volume([write_volume(tmp_path / "v.nii.gz", image)])
        other = read_volume([write_series(tmp_path / "series", image)])

        assert np.allclose(one.spacing, other.spacing)
        assert np.array_equal(one.images(), other.images())
        assert np.allclose(one.affine, other.affine) or code != "RAS"

    def test_an_oblique_one(self, tmp_path):
        voxels, _ = volume_scene(4)
        image = stored(np.rint(voxels), "RAS", spacing=(1.0, 1.0, 2.0))
        cos, sin = np.cos(0.3), np.sin(0.3)
        image = type(image)(
            image.dataobj, np.array([[cos, -sin, 0, 0], [sin, cos, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]) @ image.affine
        )
        found = read_volume([write_series(tmp_path / "series", image)])

        assert np.allclose(found.affine, image.affine)
        assert np.array_equal(found.voxels[0], np.rint(voxels))

    def test_a_missing_slice_is_named(self, tmp_path):
        image = stored(np.rint(volume_scene(3)[0]), "RAS", spacing=(1, 1, 3.0))
        folder = write_series(tmp_path / "series", image, left_out=[4])
        refused(
            read_volume, [folder],
            message="series: expected slices 3 mm apart, found 6 behind slice 4. Add the slices that are missing.",
        )  # fmt: skip

    def test_two_series_in_one_folder_are_named(self, tmp_path):
        image = stored(np.rint(volume_scene(3)[0]), "RAS")
        folder = write_series(tmp_path / "series", image)
        other = dicom_file(VALUES)
        other.SeriesInstanceUID = "9.9"
        other.save_as(folder / "other.dcm", enforce_file_format=True)
        refused(
            read_volume, [folder],
            message="series: expected the slices of one series, all of one size, found 10 files of 2 series and 2 sizes. Put "
            "each series into a folder of its own.",
        )  # fmt: skip

    def test_slices_without_a_place_are_named(self, tmp_path):
        folder = tmp_path / "series"
        folder.mkdir()
        dicom_file(VALUES).save_as(folder / "a.dcm", enforce_file_format=True)
        with pytest.raises(ImageError, match=r"^series: expected slices with their place and spacing, found "):
            read_volume([folder])


def test_names_of_folders_are_whole(tmp_path):
    (tmp_path / "1.2.840.5").mkdir()
    assert volumes.stem(tmp_path / "1.2.840.5") == "1.2.840.5"
    assert volumes.stem(tmp_path / "a.b.nii") == "a.b"
    assert volumes.stem(tmp_path / "a.b.NII.GZ") == "a.b"
