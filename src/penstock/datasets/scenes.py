"""Made-up scenes: textured images of several shapes with exact masks, of any size and number.

The load generator of tests, benchmarks and the demo. Everything follows from `(seed, split, index)`. Classes are
imbalanced on purpose: most pixels are ground, rings are rare and thin. A shape is told by its form and its texture;
colours overlap between classes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import cv2
import numpy as np
import simplejpeg

from penstock import files, seeds
from penstock.errors import OutputError
from penstock.images import codecs
from penstock.kinds.fields import SegmentationRecord, encode_segmentation
from penstock.values import Pixels

CLASSES: Final = ("ground", "disk", "box", "triangle", "star", "ring")
_LIKELY: Final = (1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5)
_HUES: Final = (0.0, 5.0, 28.0, 62.0, 100.0, 140.0)
_QUALITY: Final = 90
_CLASSES: Final = "classes.txt"
_FILES: Final = re.compile(r"classes\.txt|(images|masks)/[^/]+/scene-\d{5}\.(jpg|png)")


class Scene(NamedTuple):
    """An image, uint8 RGB (height, width, 3), and its mask of class ids, uint8 (height, width)."""

    image: Pixels
    mask: Pixels


def draw(seed: int, split: str, index: int, size: tuple[int, int]) -> Scene:
    """One scene of `size` (height, width)."""
    generator = seeds.Generator(seeds.key(seed, "scene", split, index))
    noise = generator.numpy()
    image = _texture(size, generator.uniform(0, 180), 60, 0, noise)
    mask = np.zeros(size, np.uint8)
    for _ in range(3 + generator.integer(5)):
        kind = generator.choice(_LIKELY)
        shape = _shape(kind, size, generator)
        painted = _texture(size, _HUES[kind] + generator.uniform(-12, 12), 170, kind, noise)
        image[shape > 0] = painted[shape > 0]
        mask[shape > 0] = kind
    light = np.linspace(generator.uniform(0.7, 1.0), generator.uniform(0.7, 1.0), size[1])[None, :, None]
    grain = noise.normal(0, 3, image.shape)
    return Scene(np.clip(image * light + grain, 0, 255).astype(np.uint8), mask)


def _texture(size: tuple[int, int], hue: float, saturation: int, kind: int, noise: np.random.Generator) -> Pixels:
    """A ground with soft blotches, and a pattern of its own for every class."""
    blotches = noise.normal(0, 1, (max(2, size[0] // 16), max(2, size[1] // 16))).astype(np.float32)
    value = 150 + 30 * np.asarray(cv2.resize(blotches, size[::-1], interpolation=cv2.INTER_CUBIC))
    y, x = np.mgrid[: size[0], : size[1]]
    period = 6 + 2 * (kind % 3)
    pattern = {1: x + y, 2: x, 3: y, 4: x - y, 5: np.hypot(y - size[0] / 2, x - size[1] / 2)}.get(kind)
    if pattern is not None:
        value = value + 28 * np.sin(math.tau * pattern / period)
    hsv = np.empty((*size, 3), np.uint8)
    hsv[..., 0] = int(hue) % 180
    hsv[..., 1] = saturation
    hsv[..., 2] = np.clip(value, 30, 255)
    return np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB), np.uint8)


def _shape(kind: int, size: tuple[int, int], generator: seeds.Generator) -> Pixels:
    """Where a shape is: 1 inside, 0 outside; no soft edges, so that the mask is exact."""
    canvas = np.zeros(size, np.uint8)
    x, y = int(generator.uniform(0, size[1])), int(generator.uniform(0, size[0]))
    radius = int(generator.uniform(0.08, 0.22) * min(size)) + 2
    turn = generator.uniform(0, math.tau)
    if kind == 1:
        cv2.circle(canvas, (x, y), radius, 1, cv2.FILLED)
    elif kind == 5:  # noqa: PLR2004 - the ring
        cv2.circle(canvas, (x, y), radius, 1, max(2, radius // 4))
    else:
        corners = {2: _corners(4, 1.0), 3: _corners(3, 1.0), 4: _corners(10, 0.45)}[kind]
        points = [
            (x + radius * r * math.cos(turn + angle), y + radius * r * math.sin(turn + angle)) for angle, r in corners
        ]
        cv2.fillPoly(canvas, [np.array(points, np.int32)], 1)
    return canvas


def _corners(count: int, inner: float) -> list[tuple[float, float]]:
    """Corners as (angle, radius); every other one at the inner radius."""
    return [(math.tau * i / count, inner if i % 2 else 1.0) for i in range(count)]


def encode(scene: Scene) -> tuple[bytes, bytes]:
    """The scene as files: the image as JPEG, the mask as PNG."""
    image = simplejpeg.encode_jpeg(np.ascontiguousarray(scene.image), quality=_QUALITY)
    return image, codecs.encode_mask(scene.mask)


def payload(seed: int, split: str, index: int, size: tuple[int, int]) -> bytes:
    """One scene as the payload of a segmentation record."""
    image, mask = encode(draw(seed, split, index, size))
    record = SegmentationRecord(image, mask, f"{split}-{index:06d}", "jpeg", *size)
    return encode_segmentation(record)


def fills(root: Path) -> bool:
    """Whether a folder holds nothing but what `write_folder` writes."""
    paths = [path for path in root.rglob("*") if not path.is_dir() and not path.name.startswith(".")]
    classes = root / _CLASSES  # written last
    others = [path for path in paths if not _FILES.fullmatch(path.relative_to(root).as_posix())]
    return not others and (not classes.exists() or classes.read_bytes() == _names())


def _write(path: Path, data: bytes) -> None:
    if path.exists() and path.read_bytes() != data:
        raise OutputError(
            str(path),
            expected="no file, or the same scene",
            found="another one",
            remedy="Choose another folder with -o",
        )
    files.replace_whole(path, data)


def _names() -> bytes:
    return ("\n".join(CLASSES) + "\n").encode()


def write_folder(root: Path, counts: Mapping[str, int], size: tuple[int, int], seed: int = 0) -> None:
    """Scenes as a folder of raw data: images/SPLIT/*.jpg, masks/SPLIT/*.png and classes.txt.

    Args:
        root: made if it is not there.
        counts: images by split.
        size: (height, width) in pixels.
        seed: other seeds give other scenes.

    Raises:
        OutputError: another scene, or one that was changed, is in the place of one.
    """
    jobs = [(split, index) for split, count in counts.items() for index in range(count)]
    for kind in ("images", "masks"):
        for split in counts:
            (root / kind / split).mkdir(parents=True, exist_ok=True)

    def write(job: tuple[str, int]) -> None:
        split, index = job
        image, mask = encode(draw(seed, split, index, size))
        _write(root / "images" / split / f"scene-{index:05d}.jpg", image)
        _write(root / "masks" / split / f"scene-{index:05d}.png", mask)

    with ThreadPoolExecutor(2) as pool:
        try:
            list(pool.map(write, jobs))
        except BaseException:  # such as Ctrl-C
            pool.shutdown(cancel_futures=True)
            raise
    files.write_atomically(root / _CLASSES, _names())
