"""Images and their encoded bytes."""

from __future__ import annotations

import io

import cv2
import numpy as np
from PIL import Image


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
