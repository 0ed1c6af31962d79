"""The random numbers of samples, keyed by their positions."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock import seeds
from penstock.order import Chain, Plan
from penstock.values import Address

_STAGE: Final = "augment"


def generator(plan: Plan | Chain, position: int, address: Address) -> seeds.Generator:
    """The numbers of the sample at a position, whose record lies at `address`."""
    return seeds.generator(plan.seed, _STAGE, position, lambda: int(plan.epoch(position)) + first_turn(plan, address))


def generators(plan: Plan, positions: NDArray[np.int64], first_turns: NDArray[np.int64]) -> seeds.Generators:
    """The numbers of the samples at many positions, (n,), with `first_turn` of their records."""
    each = positions.tolist()
    return seeds.Generators(
        plan.seed, _STAGE, each, lambda: np.array([int(plan.epoch(position)) for position in each]) + first_turns
    )


def first_turn(plan: Plan | Chain, address: Address) -> int:
    """What the turns of a record begin with: 0 or 1, so that half of all records begin with each."""
    return seeds.below(2, seeds.key(plan.seed, "turn", address.partition, address.offset))
