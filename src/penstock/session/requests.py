"""What hooks and signals ask for, and what all ranks agree to do after a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import torch

from penstock.ranks import Ranks
from penstock.settings import Train


class Due(NamedTuple):
    """What is to be done after a step."""

    stop: bool
    save: bool
    evaluate: bool


NOTHING: Final = Due(stop=False, save=False, evaluate=False)
"""What nobody has asked for."""


@dataclass(slots=True)
class Requests:
    """What was asked for on this rank.

    Attributes:
        stop: the reason to stop; "" if nobody asked.
        pause: whether the training is to go on later.
        save: whether a checkpoint was asked for.
        evaluate: whether an evaluation was asked for.
    """

    stop: str = ""
    pause: bool = False
    save: bool = False
    evaluate: bool = False

    def agree(self, ranks: Ranks, device: torch.device, *, interrupted: bool) -> Due:
        """What any rank was asked for; a signal counts as a request to stop. Only the request to stop stays."""
        own = Due(bool(self.stop) or interrupted, self.save, self.evaluate)
        self.save = self.evaluate = False
        if ranks.world_size == 1:  # no step waits for the device to say what is known
            return own
        flags = torch.tensor([int(flag) for flag in own], device=device)
        return Due(*(bool(flag) for flag in ranks.sum(flags).tolist()))


def due_after(step: int, options: Train, asked: Due, *, last: bool) -> Due:
    """What is due after a step: what was asked for, and what the options say. What is evaluated is saved before."""
    evaluate = asked.evaluate or last or step % options.evaluate_every == 0
    save = asked.save or evaluate or asked.stop or step % options.save_every == 0
    return Due(asked.stop, save, evaluate)
