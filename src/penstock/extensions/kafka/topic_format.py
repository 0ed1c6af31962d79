"""How a packed dataset lies in Kafka: a topic per split, every record carrying the dataset's description in a header.

The format, which any producer may write: the value is a `tf.train.Example` with the keys of `kinds.fields`; the
headers are `penstock-origin` (text), `penstock-digest` (BLAKE2b of the value, 32 hexadecimal digits) and
`penstock-dataset` (JSON: task, classes, ignore_label, height, width; perhaps channels, bits, mean, std, slices,
modalities, original).
Only the last one is needed, and only in the first record of a snapshot.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Final

import msgspec

from penstock.datasets.bounds import Bits, Channels, Count, LabelId, Side
from penstock.datasets.description import Description, SplitInfo
from penstock.errors import DatasetError

ORIGIN: Final = "penstock-origin"
DIGEST: Final = "penstock-digest"
ABOUT: Final = "penstock-dataset"


@dataclass(frozen=True)
class About:
    """What a record says of its dataset.

    Attributes:
        task: "segmentation", "matting", "classification", "detection", "instances" or "volumes".
        classes: names by id.
        ignore_label: the id that does not count.
        height, width: the largest upright image's, each by itself, in pixels.
        channels, bits: of the images.
        value_range: the values of TIFF and DICOM images that became 0 and 65535; None where they were taken as they
            are.
        mean, std: of every channel, as fractions of the highest value; empty where nobody measured them.
        slices: the most in a volume; 0 where the records are images.
        modalities: of the volumes that the records were made from; 0 where there were none.
        original: of every class, the id that it had in the raw masks; empty where it was the same.
        mapping: of raw ids, old to new, as they were packed.
        objects: the most boxes of an image; 0 where nobody counted.
        colors: (red, green, blue) of every class in masks in colour; empty where they had none.
    """

    task: str
    classes: tuple[str, ...]
    ignore_label: LabelId = 255
    height: Side = 0
    width: Side = 0
    channels: Channels = 3
    slices: Side = 0
    modalities: Channels = 0
    original: tuple[int, ...] = ()
    mapping: tuple[tuple[int, int], ...] = ()
    objects: Count = 0
    bits: Bits = 8
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    value_range: tuple[float, float] | None = None
    colors: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def of(cls, described: Description, split: SplitInfo) -> About:
        """What the records of a split say."""
        return cls(
            described.task,
            described.classes,
            described.ignore_label,
            split.height,
            split.width,
            described.channels,
            split.slices,
            described.modalities,
            described.original,
            described.mapping,
            split.objects,
            described.bits,
            described.mean,
            described.std,
            described.value_range,
            described.colors,
        )

    def encoded(self) -> bytes:
        """As JSON; what says nothing is left out."""
        unsaid = {"channels": 3, "slices": 0, "modalities": 0, "original": (), "mapping": (), "objects": 0, "bits": 8}
        unsaid |= {"mean": (), "std": (), "value_range": None, "colors": ()}
        return msgspec.json.encode({k: v for k, v in asdict(self).items() if k not in unsaid or unsaid[k] != v})


def topic_of(base: str, split: str) -> str:
    """The topic that holds a split: `train` is in the one that is named, others in topics beside it."""
    return base if split == "train" else f"{base}.{split}"


def digest(payload: bytes) -> bytes:
    """The digest of a record, as its header says it."""
    return hashlib.blake2b(payload, digest_size=16).hexdigest().encode()


def parsed(value: bytes, topic: str) -> About:
    """What a header says.

    Raises:
        DatasetError: it is no such description.
    """
    try:
        return msgspec.json.decode(value, type=About)
    except msgspec.DecodeError as error:
        raise DatasetError(
            f"kafka://{topic}",
            expected=f"a description of the dataset in the header {ABOUT}",
            found=str(error),
            remedy="Fix the producer: docs/kafka.md gives the format",
        ) from None
