"""The seam between records and tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from penstock.seeds import Generator, Generators
from penstock.values import Record


@dataclass(frozen=True, slots=True)
class Field:
    """One tensor of a sample: its shape without the batch axis, and its numpy dtype."""

    shape: tuple[int, ...]
    dtype: str


class Prepare(Protocol):
    """Turns one record into one row of every tensor of the batch.

    Called from many threads at once. It must be a pure function of its arguments, and write every element of every
    row: rows are reused and hold another sample's values.
    """

    @property
    def fields(self) -> Mapping[str, Field]:
        """The tensors of a sample, by name."""

    def __call__(self, record: Record, generator: Generator | None, out: Mapping[str, NDArray[Any]]) -> None:
        """Write the sample into `out`, augmented with numbers from `generator` unless it is None.

        Raises:
            DataError: the record is not what it should be; the error names its origin.
        """


@runtime_checkable
class Composing(Prepare, Protocol):
    """Makes some samples of several records of the same global batch."""

    def partners(self, generator: Generator) -> int:
        """How many records a sample is made of beside its own; drawn before anything else."""

    def compose(self, records: Sequence[Record], generator: Generator, out: Mapping[str, NDArray[Any]]) -> None:
        """Write one sample of several records into `out`; the first one is the sample's own.

        Raises:
            DataError: a record is not what it should be; the error names its origin.
        """


@runtime_checkable
class Gathering(Prepare, Protocol):
    """Makes many samples at once, of records that were decoded before: the same samples, byte for byte."""

    @property
    def gathers(self) -> bool:
        """Whether many samples can be made at once with the augmentation of the recipe."""

    def decode(self, record: Record) -> Mapping[str, NDArray[Any]] | None:
        """What is kept of a record, for any number of samples; None where `gather` cannot make its samples.

        Raises:
            DataError: the record is not what it should be.
        """

    def gather(
        self,
        decoded: Mapping[str, NDArray[Any]],
        chosen: NDArray[np.int64],
        generators: Generators | None,
        out: Mapping[str, NDArray[Any]],
    ) -> None:
        """Write samples, augmented with numbers of `generators` unless it is None.

        Args:
            decoded: what was kept of all records, (records, ...) each.
            chosen: the records of the samples, (n,).
            generators: of the samples.
            out: where they go, (n, ...) each.
        """
