"""What suits a training: a learning rate, and a batch that fits into the memory of the device."""

from __future__ import annotations

import contextlib
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from penstock import devices
from penstock.assembly import Advice, open_experiment
from penstock.errors import NonFiniteError, OutOfMemoryError, RecipeError, is_out_of_memory
from penstock.events import Events
from penstock.feed import Batch
from penstock.progress import counted, duration, silent
from penstock.ranks import Ranks
from penstock.session import Learner
from penstock.settings import Recipe
from penstock.settings.schedules import Constant
from penstock.tasks import Task
from penstock.training.reproducibility import isolated
from penstock.training.weights import initial_model

LOWEST: Final = 1e-6
HIGHEST: Final = 1.0
STEPS: Final = 100
LARGEST: Final = 1024
"""Images in a batch that is tried."""

_SMOOTH: Final = 0.9  # of the mean of losses that forgets
_DIVERGED: Final = 4.0  # times the lowest loss
_BEFORE: Final = 10  # steps after which a training may be ended
_TIMED: Final = 4  # steps of which the first does not count
_TRIED: Final = 2  # steps with a batch: the second one has the optimizer's state too


@dataclass(frozen=True)
class LRFinding:
    """A short training with a rising learning rate.

    Attributes:
        rates: of every step.
        losses: smoothed, of every step.
        suggested: the rate at which the loss fell fastest, with two digits.
    """

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    suggested: float

    def advice(self) -> Advice:
        """The suggested rate, and why."""
        fell = f"the loss falls fastest there, from {self.losses[0]:.3g} to {min(self.losses):.3g} in all"
        tried = f"{counted(len(self.rates), 'step')} from {self.rates[0]:g} to {self.rates[-1]:.2g}"
        return Advice("lr found", f"{self.suggested:g}", f"{fell}; {tried}", self.suggested)


@dataclass(frozen=True)
class TimeFound:
    """How long a step takes.

    Attributes:
        seconds: of a step, the median of some after the first.
        steps: of the whole training.
        device: its name.
    """

    seconds: float
    steps: int
    device: str

    def advice(self) -> Advice:
        """The time of the whole training, and why."""
        reason = f"{counted(self.steps, 'step')} of {self.seconds:,.3g} s on {self.device}; evaluations come on top"
        return Advice("time found", duration(self.seconds * self.steps), reason, self.seconds)


@dataclass(frozen=True)
class BatchFound:
    """What fits on the device.

    Attributes:
        fits: the largest power of two of images that was trained on.
        fails: the smallest that ran out of memory; 0 where none did.
        device: its name.
    """

    fits: int
    fails: int
    device: str

    def advice(self) -> Advice:
        """The largest batch, and why."""
        fails = f"{self.fails:,} images do not" if self.fails else "more were not tried"
        reason = f"fit into the memory of {self.device}; {fails}"
        return Advice("batch found", counted(self.fits, "image"), reason, self.fits)


def find_lr(recipe: Recipe, *, steps: int = STEPS, progress: Callable[[int, int], None] = silent) -> LRFinding:
    """Train for some steps with a learning rate that rises from 1e-6 to 1 in equal factors (Smith 2017,
    arXiv:1506.01186).

    The training ends early where the loss diverges. Nothing of it is kept.

    Args:
        recipe: its learning rate and schedule are not used.
        steps: at most.
        progress: called with the steps done and the steps in all.

    Raises:
        RecipeError: the loss falls at no rate.
        PenstockError: the dataset or the weights cannot be had.
    """
    device = devices.choose(recipe.train.device)
    rates: list[float] = []
    losses: list[float] = []
    mean = 0.0
    with _training(recipe, device, steps) as (task, learner, batches):
        for step, batch in enumerate(batches):
            rate = LOWEST * (HIGHEST / LOWEST) ** (step / (steps - 1))
            fixed = replace(recipe.optimizer, lr=rate, schedule=Constant(), warmup_steps=0)
            try:
                loss = learner.backward(task.after(step), batch, step, 0)
                value = replace(learner, spec=fixed).update(loss, batch, step).loss
            except NonFiniteError:
                break
            mean = _SMOOTH * mean + (1 - _SMOOTH) * value
            rates.append(rate)
            losses.append(mean / (1 - _SMOOTH ** (step + 1)))
            progress(step + 1, steps)
            if step >= _BEFORE and losses[-1] > _DIVERGED * min(losses):
                break
    return LRFinding(tuple(rates), tuple(losses), _steepest(rates, losses))


def find_time(recipe: Recipe) -> TimeFound:
    """Train for some steps and take their time; nothing of them is kept.

    The first step is left out: it allocates memory and chooses algorithms. Evaluations and checkpoints do not count.

    Raises:
        PenstockError: the dataset or the weights cannot be had.
    """
    device = devices.choose(recipe.train.device)
    ends: list[float] = []
    with _training(recipe, device, _TIMED) as (task, learner, batches):
        for step, batch in enumerate(batches):
            learner.update(learner.backward(task.after(step), batch, step, 0), batch, step)
            ends.append(time.perf_counter())  # an update gives its loss, so the device has done its work
    return TimeFound(statistics.median(np.diff(ends).tolist()), recipe.train.steps, str(device))


def find_batch(recipe: Recipe, *, largest: int = LARGEST) -> BatchFound:
    """Train for two steps with batches of 2, 4, 8, ... images until one runs out of memory.

    Raises:
        RecipeError: the device is a CPU, whose memory other programs need too; or not even two images fit.
        PenstockError: the dataset or the weights cannot be had.
    """
    device = devices.choose(recipe.train.device)
    if not _is_limited(device):
        raise RecipeError(
            "--find-batch",
            expected="a GPU, whose memory sets the limit",
            found="a CPU",
            remedy="Remove --find-batch, and choose the batch with --set train.batch=N",
        )
    fits, size = 0, 2
    while size <= largest:
        if not _trains(recipe, device, size):
            return BatchFound(_some(fits, size), size, str(device))
        fits, size = size, 2 * size
    return BatchFound(fits, 0, str(device))


def _some(fits: int, size: int) -> int:
    if not fits:
        raise RecipeError(
            "--find-batch",
            expected=f"a training with {size} images to fit into the memory of the device",
            found="too little memory",
            remedy="Make the crop smaller with --set augment.crop, or choose a smaller model",
        )
    return fits


def _trains(recipe: Recipe, device: torch.device, size: int) -> bool:
    """Whether a batch of some size fits."""
    sized = replace(recipe, train=replace(recipe.train, batch=size, accumulate=1))
    try:
        with _training(sized, device, _TRIED) as (task, learner, batches):
            for step, batch in enumerate(batches):
                learner.update(learner.backward(task.after(step), batch, step, 0), batch, step)
    except OutOfMemoryError:
        return False
    except RuntimeError as error:  # as of the optimizer
        if is_out_of_memory(error):
            return False
        raise
    finally:
        devices.release_memory(device)
    return True


def _is_limited(device: torch.device) -> bool:
    """Whether the memory of a device is its own: what needs more fails, and nothing else does."""
    return device.type != "cpu"


@contextlib.contextmanager
def _training(recipe: Recipe, device: torch.device, steps: int) -> Iterator[tuple[Task, Learner, Iterator[Batch]]]:
    """A new model and the batches of some steps; nothing is written."""
    with isolated(device, deterministic=False):
        parts = open_experiment(recipe)
        model = initial_model(parts, Events(None, silent=True))
        options = replace(recipe.train, steps=steps)
        learner = Learner.of(
            model, options=options, optimizer=recipe.optimizer, ranks=Ranks(), device=device, seed=recipe.seed
        )
        learner.begin()
        feed = parts.training_feed(pin_memory=device.type == "cuda")
        with contextlib.closing(feed.batches()) as batches:  # type: ignore[type-var] # a generator
            yield parts.task, learner, itertools.islice(batches, steps)


def _steepest(rates: list[float], losses: list[float]) -> float:
    """The rate at which the loss falls fastest, before it is lowest."""
    lowest = int(np.argmin(losses)) if losses else 0
    if lowest < 2:  # noqa: PLR2004 - a slope has two ends
        raise RecipeError(
            "--find-lr",
            expected=f"a loss that falls at some learning rate from {LOWEST:g} to {HIGHEST:g}",
            found="one that does not",
            remedy="Try a larger batch with --set train.batch=N, as small ones are noisy. If --lr 0.001 "
            "does not lower the loss either, check the labels with penstock show",
        )
    slopes = np.gradient(losses[: lowest + 1], np.log10(rates[: lowest + 1]))
    settled = min(_BEFORE, lowest // 2)  # the mean of the first few losses moves by chance
    return float(f"{rates[settled + int(np.argmin(slopes[settled:]))]:.1e}")
