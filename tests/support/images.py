"""Images and their encoded bytes."""

from __future__ import annotations

import base64
import io

import cv2
import numpy as np
from PIL import Image

HEIC = base64.b85decode(
    "0000SW^{RQXk}?*00000ZE0pPXk}?*ZE0a<0004eZDn*}000000000XXk=`10000000000aA{+700000000000000000000B57=IV*mgE07O6l0R"
    "RC200001pa1~?00000002t>001LtX>Mi!000000RR916=`l}WdZ;I000310BCk&F#rGn01j|zbZr0t000010002|X>f9I0002oX>en20001WXm(>"
    "m0RwOV0058x000009`FGC{rLC*01pFT0096PKmiN^|NjGU00093kN^M!000939=ZZRVE_RDDMA4O18@KU0|1Z!00RI30{|YNAb|yz>aLpR;31&Ef"
    "B*mtfB*mk0EA)y0RRR>0l{;@i2wiq6Ju{|a&BX6cmM$a4FCp!0000KX>)L8000000000$0000$0000eV{Bn?0000O000010000G00001|NsBk000"
    "02|NsBc000020000GaA|mH000000|*ER0000OX>e^}0000000001009Mo0s{qv0000}ZDe6|0000-C;_ht$Z7~0Bb!nGIk)<Sp|fhyfTPpbWe7wj"
    "ZjC9c7f`ha9(;Z;QDHGoU#4R3K!6!j$M@d&j)3Xd5$W~5K;wI*kk;4"
)
"""16 x 24 pixels: the left half (200, 30, 30), the right half (20, 60, 200), about."""


def array_png(array, **options):
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(array)).save(buffer, "PNG", **options)
    return buffer.getvalue()


def color_png(pixels):
    return cv2.imencode(".png", pixels[..., ::-1])[1].tobytes()


rng = np.random.default_rng(0)


def make_image(height=40, width=60):
    smooth = cv2.resize(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8), (width, height), interpolation=cv2.INTER_CUBIC)
    return np.ascontiguousarray(smooth)


def jpeg(pixels, mode="RGB", **options):
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, "JPEG", quality=95, **options)
    return buffer.getvalue()


def png(image, **options):
    buffer = io.BytesIO()
    image.save(buffer, "PNG", **options)
    return buffer.getvalue()


def exif(orientation):
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags
