"""Which classes every record of a shard has: a file beside it, so that sampling by class reads no record.

The file is an array of NumPy (.npy): uint8 (records, ceil(classes / 8)), a bit for every class, the first one in the
highest bit.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock import files
from penstock.errors import DatasetError
from penstock.kinds import Kind
from penstock.kinds.items import InspectedItem, hashed

_LARGEST: Final = 1 << 28  # bytes
_SUFFIX: Final = ".classes.npy"


def path_of(shard: Path) -> Path:
    """The file that belongs to a shard."""
    return shard.with_name(shard.name + _SUFFIX)


def write_occurrences(shard: Path, items: Sequence[InspectedItem], kind: Kind, classes: int) -> None:
    """Write which classes the records of a shard have, atomically."""
    present = np.array([kind.count([item], classes) for item in items], np.int64).reshape(len(items), classes) > 0
    made = io.BytesIO()
    np.save(made, np.packbits(present, axis=1), allow_pickle=False)
    files.write_atomically(path_of(shard), made.getvalue())


def digest_of(shard: Path) -> str:
    """The hash of the file that belongs to a shard; "" where there is none."""
    path = path_of(shard)
    try:
        files.check_regular(path, _LARGEST)
    except OSError:
        return ""
    return hashed(path.read_bytes())


def read_occurrences(shard: Path, records: int, classes: int, digest: str) -> NDArray[np.bool_]:
    """Which classes the records of a shard have: bool (records, classes).

    Raises:
        DatasetError: there is no such file, or it is of other records.
    """
    path = path_of(shard)
    bits: NDArray[Any] = np.zeros(0, np.uint8)
    if digest == digest_of(shard):
        with contextlib.suppress(Exception):  # NumPy's parser of headers has many
            bits = np.load(path, allow_pickle=False)
    if bits.dtype != np.uint8 or bits.shape != (records, -(-classes // 8)):
        raise DatasetError(
            str(path),
            expected="the classes of every record, for data.repeat_threshold",
            found="a file of something else" if path.is_file() else "no such file",
            remedy="Pack the dataset again into another folder, or leave data.repeat_threshold out",
        )
    return np.unpackbits(bits, axis=1)[:, :classes] > 0
