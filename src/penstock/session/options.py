"""What a session is given, what it asks for, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.feed import Feed

ENDLESS: Final = 1_000_000_000  # steps that stand for "until it is stopped"


@dataclass(frozen=True)
class Options:
    """How a session trains.

    Attributes:
        steps: where training ends, in optimizer steps from the very beginning; from ENDLESS on, when it is stopped.
        save_every: steps between checkpoints; there is always one at the end.
        evaluate_every: steps between evaluations; there is always one at the end.
        accumulate: micro-batches that one rank's share is cut into; does not change the mathematics.
        precision: "float32", or "bfloat16" for autocast.
        ema_decay: decay of the moving average of the weights; 0 keeps none.
        compile: whether the model goes through torch.compile.
        activation_checkpointing: whether blocks compute their activations again in the backward pass.
        fsdp: whether weights, gradients and optimizer states are cut over the ranks.
        freeze_bn: whether batch normalisation keeps the statistics it has, as in evaluation.
        freeze_backbone: whether the model's `encoder` stays as it is, its norms included.
        seed: of the randomness inside the model.
        best_metric: the score that decides which checkpoint is best; "" for the task's.
        nonfinite: what becomes of a step whose loss or gradients are not finite: "stop" ends the training, "skip"
            leaves the step out, "rewind" goes back to the last checkpoint and leaves the step out.
        nonfinite_limit: steps that may be left out in a training.
        halve_on_oom: whether batches are computed in smaller micro-batches once memory runs out.
    """

    steps: int
    save_every: int = 500
    evaluate_every: int = 500
    accumulate: int = 1
    precision: str = "float32"
    ema_decay: float = 0.0
    compile: bool = False
    activation_checkpointing: bool = False
    fsdp: bool = False
    freeze_bn: bool = False
    freeze_backbone: bool = False
    seed: int = 0
    best_metric: str = ""
    nonfinite: str = "stop"
    nonfinite_limit: int = 10
    halve_on_oom: bool = False


class Follow(Protocol):
    """Where more comes from once a plan has ended."""

    reason: str

    def next(self, stop: Callable[[], bool]) -> Feed | None:
        """A feed whose plan goes on; waits for it until `stop`. None if nothing more comes, for the `reason`."""
        ...

    def feed(self, position: int) -> Feed:
        """The feed of all that was taken up, to be read from a position on."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What was taken up, as JSON can hold it."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How training ended: "finished", "stopped" (a hook asked), "interrupted" (a signal) or "failed".

    Attributes:
        status: one of these.
        reason: why, in words.
        step: finished steps.
        signal: its number, where one ended the training.
        is_saved: whether there is a checkpoint of the step; of a training that failed at the first there is none.
        is_paused: whether it was stopped to go on later, as at the end of its time.
    """

    status: str
    reason: str
    step: int
    signal: int = 0
    is_saved: bool = True
    is_paused: bool = False
