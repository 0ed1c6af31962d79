"""JPEGs that something is wrong with: read right, or refused; never whatever was in memory before."""

from __future__ import annotations

import io
import struct
import subprocess
import sys

import cv2
import numpy as np
import pytest
import simplejpeg
from PIL import Image
from support.commands import call

from penstock.errors import ImageError
from penstock.images import Affine, codecs, decode_image, fetch_image, probe
from penstock.images.geometry import Region
from penstock.images.header import jpeg_segments

SIZE = (96, 128)


POISON = 0xA5


class Poisoned(codecs.Scratch):
    """Memory that shows where nothing was decoded to."""

    def array(self, *shape):
        memory = super().array(*shape)
        memory[...] = POISON
        return memory


def make_image(seed=0, size=SIZE):
    noise = np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)
    return cv2.blur(noise, (9, 9))


def encoded(pixels=None, **options):
    buffer = io.BytesIO()
    Image.fromarray(make_image() if pixels is None else pixels).save(buffer, "JPEG", quality=90, **options)
    return buffer.getvalue()


def segment(data, marker):
    """Where the first segment of a kind begins, its 255 included."""
    return next(start - 2 for found, start, _ in jpeg_segments(data) if found == marker)


def with_profile(data, content=b"ICC_PROFILE\0" + bytes([5, 2]) + b"abcd"):
    """With a colour profile's fifth chunk of two."""
    return data[:2] + b"\xff\xe2" + struct.pack(">H", 2 + len(content)) + content + data[2:]


def stray(data, marker, junk=b"\0"):
    place = segment(data, marker)
    return data[:place] + junk + data[place:]


def padded(data, junk=b"\0\0\0"):
    end = data.rindex(b"\xff\xd9")
    return data[:end] + junk + data[end:]


PLAIN = encoded()


PROGRESSIVE = encoded(progressive=True)


SOUND = {
    "a byte before the codes": (stray(PLAIN, 0xC4), PLAIN),
    "a byte before the scan": (stray(PLAIN, 0xDA), PLAIN),
    "a byte before the frame": (stray(PLAIN, 0xC0), PLAIN),
    "255 and 0 before the codes": (stray(PLAIN, 0xC4, b"\xff\0"), PLAIN),
    "more bytes, twice": (stray(stray(PLAIN, 0xC4, b"abc"), 0xDB, b"de"), PLAIN),
    "padding at the end": (padded(PLAIN), PLAIN),
    "padding, and a byte before the codes": (padded(stray(PLAIN, 0xC4)), PLAIN),
    "padding of a progressive one": (padded(PROGRESSIVE), PROGRESSIVE),
    "a bad profile": (with_profile(PLAIN), PLAIN),
    "a bad profile of a progressive one": (with_profile(PROGRESSIVE), PROGRESSIVE),
    "another revision of JFIF": (PLAIN.replace(b"JFIF\0\1", b"JFIF\0\7"), PLAIN),
    "restart markers and padding": (padded(encoded(restart_marker_blocks=4)), PLAIN),
}


def views():
    """Of a few rows at the top, a whole one, and one that is reduced."""
    return [Affine(), Affine(y0=40.0), Affine(xx=2.0, yy=2.0)]


@pytest.mark.parametrize("name", SOUND)
def test_what_no_pixel_depends_on_changes_none(name, monkeypatch):
    """By rows and whole, each after another image was decoded into the same memory."""
    monkeypatch.setattr("penstock.images.fetch._SCRATCH", Poisoned())
    data, same = SOUND[name]
    info = probe(data, "a.jpg")
    assert (info.height, info.width) == SIZE
    np.testing.assert_array_equal(decode_image(data, "a.jpg"), simplejpeg.decode_jpeg(same))
    for view in views():
        for rows in (16, 40, 96):
            out, expected = (np.empty((rows, 60, 3), np.uint8) for _ in range(2))
            fetch_image(data, "a.jpg", info, view, (0, 0, 0), out)
            fetch_image(same, "a.jpg", probe(same, "a.jpg"), view, (0, 0, 0), expected)
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("broken", [lambda data: stray(data, 0xC4), with_profile])
@pytest.mark.parametrize("mode", ["CMYK", "RGB"])
def test_a_repaired_file_keeps_adobes_mark_of_its_colours(mode, broken):
    """Without it, inks would be taken for their opposites, and red, green and blue for luma and chroma."""
    buffer = io.BytesIO()
    Image.fromarray(make_image()).convert(mode).save(buffer, "JPEG", quality=90, keep_rgb=True)
    data = buffer.getvalue()
    assert b"Adobe" in data

    np.testing.assert_array_equal(decode_image(broken(data), "a.jpg"), decode_image(data, "a.jpg"))


def without_scans(data, kept):
    """A progressive file that ends in the middle, after some scans, without its end."""
    return data[: [place for place in range(len(data)) if data[place : place + 2] == b"\xff\xda"][kept]]


def scrambled(data, fraction):
    """Bytes of the coded pixels set to what no code begins with, and padding behind them."""
    start = segment(data, 0xDA) + 14
    place = start + int(fraction * (len(data) - start))
    return data[:place] + b"\xff\0" * 24 + data[place + 48 :]


def no_restart(data, number):
    """The marker of one restart is no marker any more."""
    return data.replace(bytes([0xFF, 0xD0 + number]), b"\x55\x55", 1)


RESTARTS = encoded(restart_marker_blocks=6)


DAMAGED = {
    "cut short": PLAIN[: len(PLAIN) // 2],
    "codes that are none": scrambled(PLAIN, 0.1),
    "codes that are none, and padding": padded(scrambled(PLAIN, 0.1)),
    "codes that are none, and a byte before the tables": stray(scrambled(PLAIN, 0.1), 0xC4),
    "codes that are none, and a bad profile": with_profile(scrambled(PLAIN, 0.1)),
    "a progressive one without most scans": without_scans(PROGRESSIVE, 3),
    "that, and a byte between its header's segments": stray(without_scans(PROGRESSIVE, 3), 0xDB),
    "a restart marker that is lost": no_restart(RESTARTS, 2),
    "a byte between scans": PROGRESSIVE[: PROGRESSIVE.rindex(b"\xff\xda")]
    + b"\0"
    + PROGRESSIVE[PROGRESSIVE.rindex(b"\xff\xda") :],
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named_whatever_else_is_warned_of(name, monkeypatch):
    monkeypatch.setattr("penstock.images.fetch._SCRATCH", Poisoned())
    data = DAMAGED[name]
    with pytest.raises(ImageError, match=r"^a\.jpg: expected a complete image, found a damaged JPEG \("):
        decode_image(data, "a.jpg")
    out = np.empty((*SIZE, 3), np.uint8)
    with pytest.raises(ImageError, match=r"^a\.jpg: expected a complete image, found a damaged JPEG \("):
        fetch_image(data, "a.jpg", probe(data, "a.jpg"), Affine(), (0, 0, 0), out)


def test_damage_within_the_rows_that_are_used_is_named_and_below_them_does_not_matter():
    data = scrambled(PLAIN, 0.9)
    info, out = probe(data, "a.jpg"), np.empty((16, 60, 3), np.uint8)
    fetch_image(data, "a.jpg", info, Affine(), (0, 0, 0), out)
    np.testing.assert_array_equal(out, simplejpeg.decode_jpeg(PLAIN)[:16, :60])
    with pytest.raises(ImageError, match="a damaged JPEG"):
        fetch_image(scrambled(PLAIN, 0.02), "a.jpg", info, Affine(), (0, 0, 0), out)


def upper(rows):
    """The upper rows of an image, whole."""
    return Region(0, 0, rows, 1000)


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:0", "4:2:2"])
@pytest.mark.parametrize("blocks", [1, 5, 8, 16, 100])
def test_rows_down_to_any_restart(subsampling, blocks):
    """Intervals that end with a row and within one; a marker that is lost above is named, one that is lost below not."""
    data = encoded(subsampling=subsampling, restart_marker_blocks=blocks)
    info, whole = probe(data, "a.jpg"), simplejpeg.decode_jpeg(data)
    for rows in (10, 12, 28, 40, 96):
        found = decode_image(data, "a.jpg", region=upper(rows))
        np.testing.assert_array_equal(found[:rows], whole[:rows])
    assert len(decode_image(data, "a.jpg", info=info, region=upper(10))) == 16
    markers = [place for place in range(len(data)) if data[place] == 0xFF and 0xD0 <= data[place + 1] <= 0xD7]
    for place in markers:
        broken = data[:place] + b"\x55\x55" + data[place + 2 :]
        with pytest.raises(ImageError, match="a damaged JPEG"):
            decode_image(broken, "a.jpg")
        try:
            found = decode_image(broken, "a.jpg", region=upper(28))
        except ImageError:
            continue
        np.testing.assert_array_equal(found[:28], whole[:28])


def test_rows_alone_are_decoded_only_where_they_are_known_to_be_sound():
    assert probe(PLAIN, "a.jpg").frame == segment(PLAIN, 0xC0) + 5
    assert probe(PROGRESSIVE, "a.jpg").frame == 0
    assert probe(RESTARTS, "a.jpg").frame == segment(RESTARTS, 0xC0) + 5
    assert probe(RESTARTS, "a.jpg").restarts == 6
    assert probe(stray(PLAIN, 0xC4), "a.jpg").frame == 0
    assert probe(stray(PLAIN, 0xDA), "a.jpg").frame == 0
    scan = PLAIN.index(b"\xff\xda") + 4
    alone = PLAIN[:scan] + b"\1" + PLAIN[scan + 1 :]  # of one of three components: others are in further scans
    assert probe(alone, "a.jpg").frame == 0


def test_four_red_ones_and_four_blue_ones_are_packed_as_they_are(tmp_path, capsys):
    """Each with a byte before its codes: inspect, pack, verify and the image grid see their own pixels."""
    for name, color in (("red", (250, 10, 10)), ("blue", (10, 10, 250))):
        (tmp_path / "raw" / name).mkdir(parents=True)
        for number in range(4):
            pixels = np.full((*SIZE, 3), color, np.uint8)
            pixels[number] = 0
            (tmp_path / "raw" / name / f"{number}.jpg").write_bytes(stray(encoded(pixels), 0xC4))
    raw, data = tmp_path / "raw", tmp_path / "data"
    assert call("inspect", raw, capsys=capsys)[0] == 0
    assert call("pack", raw, "-o", data, capsys=capsys)[0] == 0
    assert call("verify", data, capsys=capsys)[:2] == (0, "8 records are sound, 0 faults\n")
    assert call("show", data, "-o", tmp_path / "sheet.png", capsys=capsys)[0] == 0
    sheet = cv2.imread(str(tmp_path / "sheet.png")).astype(int)
    red, blue = ((np.abs(sheet - color).max(axis=2) < 20).sum() for color in ((10, 10, 250), (250, 10, 10)))

    assert red == pytest.approx(blue, rel=0.05)
    assert red > 4 * 90 * 120


def test_libjpeg_still_reports_its_first_warning_alone():
    """What `decode` rests on: were it the last one, bytes left over would hide what is wrong before them."""
    code = "import sys, simplejpeg; simplejpeg.decode_jpeg(sys.stdin.buffer.read())"
    done = subprocess.run(
        [sys.executable, "-c", code], input=padded(scrambled(PLAIN, 0.1)), capture_output=True, check=False
    )

    assert b"ValueError: Corrupt JPEG data" in done.stderr
    assert b"extraneous" not in done.stderr
