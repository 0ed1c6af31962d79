from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from support.images import exif, jpeg, make_image, rng

from penstock.errors import ImageError
from penstock.images import codecs, color, fetch_image, geometry, probe
from penstock.images.geometry import Affine, Region
from penstock.images.warp import warp_image
from penstock.seeds import generator
from penstock.settings import Augment
from penstock.settings.views import ResizedCrop, ScaleCrop


class TestRows:
    """Decoding no further than is looked at must not change what is looked at."""

    KINDS: ClassVar = {
        **{name: {"subsampling": name} for name in ("4:4:4", "4:2:2", "4:2:0")},
        "progressive": {"progressive": True},
        "restarts": {"restart_marker_rows": 1},
        "gray": {"mode": "L"},
        "CMYK": {"mode": "CMYK"},
    }

    @pytest.mark.parametrize("reduction", [1, 2, 4, 8])
    @pytest.mark.parametrize("kind", KINDS)
    def test_every_row_that_is_asked_for_is_the_same(self, kind, reduction):
        data = jpeg(rng.integers(0, 256, (150, 131, 3), dtype=np.uint8), **self.KINDS[kind])
        whole = codecs.decode_image(data, "a", reduction=reduction)
        heights = set()
        for rows in range(1, 160):
            found = codecs.decode_image(data, "a", reduction=reduction, region=Region(0, 0, rows, 131))
            wanted = -(-min(rows, 150) // reduction)
            heights.add(len(found))
            assert np.array_equal(found[:wanted], whole[:wanted]), rows
        assert (len(heights) > 1) == (kind != "progressive")

    @pytest.mark.parametrize("sampling", ["440", "411"])
    def test_rare_samplings_too(self, sampling):
        data = simplejpeg.encode_jpeg(make_image(150, 131), colorsubsampling=sampling)
        whole = codecs.decode_image(data, "a")
        for rows in range(1, 160):
            found = codecs.decode_image(data, "a", region=Region(0, 0, rows, 131))
            assert np.array_equal(found[:rows], whole[: min(rows, len(found))][:rows]), rows

    @given(
        st.integers(0, 2**32),
        st.sampled_from([ScaleCrop(scale=(0.05, 3.0), scale_step=0), ResizedCrop()]),
        st.sampled_from([0.0, 30.0]),
        st.sampled_from([0, 1, 13, 26]),
        st.booleans(),
    )
    def test_a_view_sees_the_same(self, seed, view, rotate, restarts, recolored):
        draw = generator(seed, "t", 0)
        options = {"subsampling": "4:2:0", "exif": exif(1 + draw.integer(8)), "restart_marker_blocks": restarts}
        data = jpeg(make_image(300, 200), **options)
        colors = np.array([[0.9, 0.2, 0, 0.1], [0, 1.1, 0, 0], [0.1, 0, 0.8, -0.1]], np.float32) if recolored else None
        info = probe(data, "a")
        augment = Augment((40 + draw.integer(60), 50), view, rotate=rotate)
        affine = augment.draw(info.size, draw).affine
        found, expected = (np.zeros((*augment.crop, 3), np.uint8) for _ in range(2))
        fetch_image(data, "a", info, affine, (9, 9, 9), found, colors)
        stored = affine.then(geometry.upright_to_stored(info.orientation, (300, 200)))
        step = geometry.reduction(stored.shrink)
        whole = codecs.decode_image(data, "a", reduction=step)
        warp_image(color.apply(whole, colors), stored.then(Affine(xx=1 / step, yy=1 / step)), (9, 9, 9), expected)

        assert np.array_equal(found, expected)

    def test_a_file_cut_anywhere_is_named_though_few_rows_are_wanted(self):
        data = jpeg(make_image(150, 131))
        for end in range(len(data) // 3, len(data) - 2):
            with pytest.raises(ImageError, match=r"a damaged JPEG \(Premature end of JPEG file\)"):
                codecs.decode_image(data[:end], "cut.jpg", region=Region(0, 0, 10, 131))

    def test_damage_in_the_rows_that_are_wanted_is_named(self):
        data = jpeg(make_image(150, 131), restart_marker_rows=1)
        third = [i for i in range(len(data)) if data[i] == 0xFF and 0xD0 <= data[i + 1] <= 0xD7][2]
        damaged = data[: third - 20] + data[third:]
        with pytest.raises(ImageError, match="premature end of data segment"):
            codecs.decode_image(damaged, "cut.jpg", region=Region(0, 0, 100, 131))
        assert len(codecs.decode_image(damaged, "cut.jpg", region=Region(0, 0, 10, 131))) == 16
