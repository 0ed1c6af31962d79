from __future__ import annotations

import io

import numpy as np
import pytest
import simplejpeg
from PIL import Image
from support.images import jpeg, make_image, rng

from penstock.errors import ImageError
from penstock.images import codecs, intervals, probe
from penstock.images.geometry import Region

NOISE = rng.integers(0, 256, (150, 131, 3), dtype=np.uint8)
REGIONS = [
    Region(top, left, top + height, left + width)
    for top in (-20, 0, 1, 31, 32, 100, 149)
    for left in (-20, 0, 17, 64, 130)
    for height, width in ((1, 1), (9, 40), (40, 9))
]
LEFT = Region(0, 0, 150, 20)


def inside(region, step, size):
    """The part of an image of a size, reduced, that a region covers."""
    rows, columns = (
        slice(max(0, low) // step, max(0, -(-min(high, side) // step)))
        for low, high, side in ((region.top, region.bottom, size[0]), (region.left, region.right, size[1]))
    )
    return rows, columns


@pytest.mark.parametrize("reduction", [1, 2, 8])
@pytest.mark.parametrize("sampling", ["4:4:4", "4:2:2", "4:2:0", "gray"])
def test_every_region_has_the_pixels_of_the_whole_decode(sampling, reduction):
    options = {"mode": "L"} if sampling == "gray" else {"subsampling": sampling}
    blocks = -(-131 // (8 if sampling in {"4:4:4", "gray"} else 16))
    cut = 0
    for restarts in (1, blocks, 2 * blocks, 4):  # a block, a row, two rows, and neither
        data = jpeg(NOISE, restart_marker_blocks=restarts, **options)
        info = probe(data, "a")
        whole = codecs.decode_image(data, "a", reduction=reduction)
        scratch = codecs.Scratch()
        for region in REGIONS:
            scratch.array(*NOISE.shape)[:] = 255 - NOISE  # what was decoded before
            found = codecs.decode_image(data, "a", info=info, reduction=reduction, region=region, scratch=scratch)
            part = inside(region, reduction, NOISE.shape)
            assert np.array_equal(found[part], whole[part]), (restarts, region)
            cut += intervals.cut(data, info, region) is not None
    assert cut > len(REGIONS)


def test_rare_samplings_too():
    for sampling in ("440", "411"):
        plain = Image.open(io.BytesIO(simplejpeg.encode_jpeg(NOISE, colorsubsampling=sampling)))
        again = io.BytesIO()
        plain.save(again, "JPEG", quality="keep", restart_marker_blocks=1)
        whole = codecs.decode_image(again.getvalue(), "a")
        for region in REGIONS:
            part = inside(region, 1, NOISE.shape)
            assert np.array_equal(codecs.decode_image(again.getvalue(), "a", region=region)[part], whole[part])


def test_a_part_holds_little_more_than_the_region():
    data = jpeg(make_image(640, 960), subsampling="4:2:0", restart_marker_blocks=4)
    part = intervals.cut(data, probe(data, "a"), Region(200, 300, 260, 420))

    assert part[1:] == (176, 256, 112, 192)
    assert len(part.data) < len(data) / 8
    found = simplejpeg.decode_jpeg(part.data)[24:84, 44:164]
    assert np.array_equal(found, codecs.decode_image(data, "a")[200:260, 300:420])


@pytest.mark.parametrize(
    ("data", "region"),
    [
        (jpeg(NOISE), LEFT),
        (jpeg(NOISE, progressive=True, restart_marker_blocks=1), LEFT),
        (jpeg(NOISE, subsampling="4:2:0", restart_marker_blocks=4), LEFT),  # of 9 in a row
        (jpeg(NOISE, restart_marker_blocks=1), Region(0, 0, 150, 120)),
    ],
    ids=["no markers", "many scans", "intervals that end within rows", "nearly all of it"],
)
def test_other_files_and_regions_are_not_cut(data, region):
    assert intervals.cut(data, probe(data, "a"), region) is None


def markers(data):
    return [at for at in range(len(data)) if data[at] == 0xFF and 0xD0 <= data[at + 1] <= 0xD7]


def test_a_file_whose_markers_are_not_in_order_is_decoded_from_its_top_and_its_damage_named():
    data = jpeg(NOISE, subsampling="4:2:0", restart_marker_blocks=1)
    third = markers(data)[2]
    for broken in (
        data[:third] + data[third + 2 :],
        data[: third + 1] + b"\xd6" + data[third + 2 :],
        data[: markers(data)[-1]],
    ):
        assert intervals.cut(broken, probe(broken, "a"), LEFT) is None
        with pytest.raises(ImageError, match="a damaged JPEG"):
            codecs.decode_image(broken, "a", region=LEFT)


def test_damage_in_the_intervals_of_a_region_is_named():
    data = jpeg(NOISE, subsampling="4:2:0", restart_marker_blocks=1)
    first, second = markers(data)[:2]
    damaged = data[: first + 2] + data[second - 8 :]
    with pytest.raises(ImageError, match="a damaged JPEG"):
        codecs.decode_image(damaged, "a", region=LEFT)


def test_damage_beside_a_region_does_not_matter():
    """As it does not below it: nothing of it is decoded."""
    data = jpeg(NOISE, subsampling="4:2:0", restart_marker_blocks=1)
    last = markers(data)[7]  # of the first row's ninth block
    damaged = data[: last + 12] + data[last + 32 :]
    found = codecs.decode_image(damaged, "a", region=LEFT)

    assert np.array_equal(found[:, :20], codecs.decode_image(data, "a")[:, :20])
    with pytest.raises(ImageError, match="a damaged JPEG"):
        codecs.decode_image(damaged, "a")


def test_what_lies_behind_the_end_of_the_image_does_not_matter():
    """Cameras put smaller images there, with markers of their own."""
    data = jpeg(NOISE, restart_marker_blocks=1)
    longer = data + data
    assert intervals.cut(longer, probe(longer, "a"), LEFT) == intervals.cut(data, probe(data, "a"), LEFT)


def test_a_header_without_sampling_factors_is_named():
    data = bytearray(jpeg(NOISE, restart_marker_blocks=1))
    for number in range(3):
        data[probe(bytes(data), "a").frame + 6 + 3 * number] = 0
    for region in (LEFT, Region(0, 0, 10, 131)):
        with pytest.raises(ImageError, match="a damaged JPEG"):
            codecs.decode_image(bytes(data), "a", region=region)
