"""The exception tree. Everything a user can cause is a `PenstockError`; anything else that escapes is a bug.

PenstockError
├── DataError            a record, an image or a label is not what it should be
│   ├── CorruptRecord    the framing of a shard does not hold: length, checksum, end of file
│   ├── SchemaError      the bytes are sound, but a field is missing or of another type
│   ├── ImageError       an image cannot be decoded, or is too large to be
│   └── LabelError       a mask or a class does not fit its image or its dataset
├── SourceError          a place that should hold records does not, or has changed
│   ├── AwayError        nothing answers there now; it may come back
│   ├── StalledError     it has not answered for too long
│   ├── UnknownSourceError there is nothing of its name
│   ├── EmptySourceError it holds no record yet
│   └── ExpiredError     its own retention deleted records that are needed
├── PlanError            a cursor, slice or batch does not fit the plan
├── DatasetError         a folder of raw data cannot be packed as it is
├── RecipeError          a configuration does not make sense
├── WeightsError         pretrained or initial weights cannot be had or do not fit
├── CheckpointError      a checkpoint is missing, damaged, or belongs to another run
├── RunError             a run folder is not one, or is in use
├── OutputError          what would be written would take the place of something else
├── OutOfMemoryError     a step of a training does not fit into the memory of its device
└── NonFiniteError       the loss or a gradient became infinite or not a number
"""

from __future__ import annotations

import errno
import functools
import math
import textwrap
from typing import Final

_NO_MEMORY: Final = (
    "can't allocate memory", "out of memory", "ALLOC_FAILED", "Insufficient memory", "bad alloc", "bad_alloc",
    "could not create a primitive", "could not create a memory object",  # oneDNN
    "Cannot allocate memory", "failed to map segment", "can't start new thread", "Unable to allocate",
)  # fmt: skip


class PenstockError(Exception):
    """An error made of four parts: where it is, what was expected, what was found, and what to do.

    `str()` gives "WHERE: expected EXPECTED, found FOUND. REMEDY.", or "MESSAGE REMEDY." where that would be crooked and
    a message takes the place of what was expected and found; tests compare the whole text.
    """

    def __init__(self, where: str, *, expected: str = "", found: str = "", remedy: str, message: str = "") -> None:
        super().__init__(where, expected, found, remedy)
        self.where = where
        self.expected = expected
        self.found = found
        self.remedy = remedy
        self.message = message

    def __str__(self) -> str:
        begin = self.message or f"{self.where}: expected {self.expected}, found {self.found}."
        gap = "" if begin.endswith("\n") else " "
        whole = "\n" in self.remedy or self.remedy.endswith(("?", "."))
        return f"{begin}{gap}{self.remedy}{'' if whole else '.'}"

    def __reduce__(self) -> tuple[object, ...]:
        """Let errors cross process boundaries although their arguments are keywords."""
        parts = {"expected": self.expected, "found": self.found, "remedy": self.remedy, "message": self.message}
        return functools.partial(type(self), **parts), (self.where,)


def at(where: str, key: str) -> str:
    """The place of a setting, for errors: its file and its name, or the name alone where it was given by itself."""
    return f"{where}: {key}" if where else key


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error of Python, the system or a device says that memory ran out; PyTorch has no one type for it."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return any(words in str(error) for words in _NO_MEMORY)


def reason_of(error: Exception) -> str:
    """The first line of somebody else's error, with its type; at most 160 characters of it."""
    line = [*str(error).strip().splitlines(), "no reason given"][0].removesuffix(".")
    return f"{type(error).__name__}: {textwrap.shorten(line, 160, placeholder=' ...')}"


class DataError(PenstockError):
    """A record, an image or a label is not what it should be."""


class CorruptRecord(DataError):
    """The framing of a shard does not hold."""


class SchemaError(DataError):
    """A field of a record is missing or of another type."""


class ImageError(DataError):
    """An image cannot be decoded, or is too large to be."""


class LabelError(DataError):
    """A mask or a class does not fit its image or its dataset."""


class SourceError(PenstockError):
    """A place that should hold records does not, or has changed."""


class AwayError(SourceError):
    """Nothing answers at a place that should hold records; it may come back."""


class StalledError(SourceError):
    """Records were asked for, and have not come for too long."""


class UnknownSourceError(SourceError):
    """There is nothing of a name where records should be."""


class EmptySourceError(SourceError):
    """A place that should hold records holds none yet."""


class ExpiredError(SourceError):
    """Records that are needed were deleted by the source's own retention."""


class PlanError(PenstockError):
    """A cursor, slice or batch does not fit the plan."""


class DatasetError(PenstockError):
    """A folder of raw data cannot be packed as it is."""


class RecipeError(PenstockError):
    """A configuration does not make sense."""


def not_installed(purpose: str, packages: str, remedy: str) -> RecipeError:
    """The error for packages of an extra that something needs."""
    message = f"{purpose} needs {packages}."
    return RecipeError(purpose, remedy=remedy, message=message)


class WeightsError(PenstockError):
    """Pretrained or initial weights cannot be had or do not fit."""


class CheckpointError(PenstockError):
    """A checkpoint is missing, damaged, or belongs to another run."""


class RunError(PenstockError):
    """A run folder is not one, or is in use."""


class OutputError(PenstockError):
    """What a command would write would take the place of something that is not the command's."""


class OutOfMemoryError(PenstockError):
    """A step of a training does not fit into the memory of its device."""


class NonFiniteError(PenstockError):
    """The loss or a gradient became infinite or not a number.

    Attributes:
        loss, norm: the loss of the step and the norm of its gradients, where it is a step that failed.
    """

    loss = norm = math.nan
