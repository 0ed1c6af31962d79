"""What learns: a model, its optimizer, and the moving average of its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from penstock import devices, seeds
from penstock.feed import Batch
from penstock.ranks import Ranks
from penstock.runs import manifests
from penstock.session import diagnosis, finite, sharding, state
from penstock.session.activation_checkpointing import recompute_blocks
from penstock.session.diagnosis import Cause
from penstock.session.ema import EMA
from penstock.session.kept import KeptValues
from penstock.session.memory import MemoryLimitedGradients
from penstock.session.optimizer import make_optimizer
from penstock.session.step import Gradients
from penstock.session.undo import Undo
from penstock.settings import Train
from penstock.settings.optimizer import AnyOptimizer
from penstock.tasks import Task


class Update(NamedTuple):
    """What an update says of its step: the loss, the learning rate, and the norm of the gradients before clipping."""

    loss: float
    lr: float
    grad_norm: float


@dataclass(frozen=True)
class Learner:
    """A model that is trained.

    Attributes:
        model: on its device, laid out in memory as it trains fastest there.
        optimizer: of its parameters.
        spec: what the optimizer was made of; gives the learning rate of every step.
        gradients: computes those of a global batch.
        options: how the session trains.
        ema: the moving average of the weights, if one is kept.
        undo: undoes a step that fails before its update.
        fitting: computes gradients in the memory that there is.
        random_seed: of the randomness inside the model.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    spec: AnyOptimizer
    gradients: Gradients
    options: Train
    undo: Undo
    fitting: MemoryLimitedGradients
    ema: EMA | None = None
    random_seed: int = 0

    @classmethod
    def of(
        cls, model: nn.Module, *, options: Train, optimizer: AnyOptimizer, ranks: Ranks, device: torch.device,
        seed: int = 0, note: Callable[[str], None] = lambda _: None,
    ) -> Learner:  # fmt: skip
        """A model with all that training it takes, on its device. `note` tells people a line."""
        layout = devices.training_layout(model, device)
        is_cut = options.fsdp and ranks.world_size > 1
        placed = devices.place(model, device, torch.contiguous_format if is_cut else layout)
        averaged = EMA.copy(placed) if options.ema_decay else None
        if options.activation_checkpointing:
            recompute_blocks(placed)
        if is_cut:
            sharding.shard(placed, device)
        if is_cut and averaged:
            sharding.shard(averaged, device)
        ema = EMA(averaged, placed, options.ema_decay) if averaged else None
        made = make_optimizer(optimizer, placed)
        wrapped = placed if is_cut else ranks.wrap(placed, device)
        network = torch.compile(wrapped) if options.compile else wrapped
        gradients = Gradients(placed, network, ranks=ranks, device=device, options=options, layout=layout)
        undo = Undo(placed)
        fitting = MemoryLimitedGradients(gradients, undo, halve=options.halve_on_oom, note=note)
        return cls(placed, made, optimizer, gradients, options, undo, fitting, ema, seed)

    @property
    def evaluated(self) -> nn.Module:
        """The model that is evaluated: the average, where there is one."""
        return self.ema.model if self.ema else self.model

    def begin(self) -> None:
        """Put the model into training mode, but for what is to stay as it is."""
        self.model.train()
        if self.options.freeze_backbone:
            self.model.get_submodule("encoder").eval()
        if self.options.freeze_bn:
            for module in self.model.modules():
                if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):  # noqa: SLF001 - the common base
                    module.eval()

    def backward(self, task: Task, batch: Batch, step: int, rank: int, kept: KeptValues | None = None) -> torch.Tensor:
        """Leave the gradients of a global batch in the parameters.

        Returns:
            The loss of the global batch, a scalar on the device.

        Raises:
            OutOfMemoryError: it does not fit into the memory of the device.
        """

        def begin() -> None:
            self.seed(step, rank)
            self.optimizer.zero_grad(set_to_none=True)

        self.undo.begin()
        return self.fitting.compute(task, batch, step, begin, kept or KeptValues())

    def seed(self, step: int, rank: int) -> None:
        """Begin the randomness inside the model for the step after `step` finished ones."""
        devices.seed(self.gradients.device, _model_seed(self.random_seed, step, rank))
        if self.gradients.keys:
            self.gradients.keys.begin(seeds.key(self.random_seed, "dropout", step))

    def update(self, loss: torch.Tensor, batch: Batch, step: int) -> Update:
        """Update the weights and their average by the gradients that `backward` left.

        Raises:
            NonFiniteError: the loss or a gradient is not finite; no weight was changed.
        """
        value, size, norm = finite.checked_step(self.gradients.parameters, loss, batch, step + 1)
        if self.options.grad_clip:
            torch.nn.utils.clip_grads_with_norm_(self.gradients.parameters, self.options.grad_clip, norm)
        rate = self.spec.rate(step, self.options.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["lr_mult"]
        self.undo.update()
        self.optimizer.step()
        if self.ema:
            self.ema.update(self.model, step)
        self.undo.end()
        return Update(value, rate, size)

    def diagnose(self, task: Task, batch: Batch, step: int, rank: int) -> Cause:
        """Undo a step that was not finite, whose gradients `backward` has just left, and find out where it began."""
        self.undo.restore()
        self.seed(step, rank)
        try:
            return diagnosis.diagnose(self.gradients, task, batch, self.undo.restore_again)
        finally:
            self.undo.restore_again()
            self.begin()

    def tensors(self) -> dict[str, dict[str, torch.Tensor]]:
        """All that a checkpoint keeps of it, by file, on the main rank. All ranks must call it."""
        kept = {"model": self.model.state_dict(), "optimizer": state.optimizer_tensors(self.optimizer, self.model)}
        if self.ema:
            kept["ema"] = self.ema.model.state_dict()
        if not sharding.is_cut(self.model):
            return kept
        main = self.gradients.ranks.is_main
        return {file: sharding.joined(named, keep=main) for file, named in kept.items()}

    def load(self, tensors: Mapping[str, Mapping[str, torch.Tensor]], where: str) -> None:
        """Put back what `tensors` gave.

        Raises:
            CheckpointError: they are of another model.
        """
        wanted = {"model", "optimizer", *(["ema"] if self.ema else [])}
        if missing := sorted(wanted - set(tensors)):
            found = f"no {missing[0]}.safetensors"
            raise manifests.damaged(Path(where), "the weights and the state of the optimizer", found)
        state.load_model(self.model, tensors["model"], where)
        state.load_optimizer(self.optimizer, self.model, tensors["optimizer"], where)
        if self.ema:
            state.load_model(self.ema.model, tensors["ema"], where)


def _model_seed(seed: int, step: int, rank: int) -> int:
    """Seeds torch's generators for one step, so that there is no generator state to save."""
    return seeds.below(2**63, seeds.key(seed, "model", step, rank))
