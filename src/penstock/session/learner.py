"""What learns: a model, its optimizer, and the moving average of its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from penstock import devices, seeds
from penstock.session import finite, state
from penstock.session.ema import Average
from penstock.session.optimizer import OptimizerSpec, make_optimizer
from penstock.session.step import Gradients
from penstock.session.undo import Undo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    from penstock.feed import Batch
    from penstock.ranks import Ranks
    from penstock.session.options import Options
    from penstock.tasks import Task


@dataclass(frozen=True)
class Learner:
    """A model that is trained.

    Attributes:
        model: on its device, laid out in memory as it trains fastest there.
        optimizer: of its parameters.
        spec: what the optimizer was made of; gives the learning rate of every step.
        gradients: computes those of a global batch.
        options: how the session trains.
        average: the moving average of the weights, if one is kept.
        undo: undoes a step that fails before its update.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    spec: OptimizerSpec
    gradients: Gradients
    options: Options
    undo: Undo
    average: Average | None = None

    @classmethod
    def of(
        cls, model: nn.Module, *, options: Options, optimizer: OptimizerSpec, ranks: Ranks, device: torch.device
    ) -> Learner:
        """A model with all that training it takes, on its device."""
        layout = devices.training_layout(model, device)
        placed = devices.place(model, device, layout)
        average = Average(placed, options.ema_decay) if options.ema_decay else None
        made = make_optimizer(optimizer, placed)
        wrapped = ranks.wrap(placed, device)
        network = torch.compile(wrapped) if options.compile else wrapped
        gradients = Gradients(placed, network, ranks=ranks, device=device, options=options, layout=layout)
        return cls(placed, made, optimizer, gradients, options, Undo(placed), average)

    @property
    def evaluated(self) -> nn.Module:
        """The model that is evaluated: the average, where there is one."""
        return self.average.model if self.average else self.model

    def begin(self) -> None:
        """Put the model into training mode, but for what is to stay as it is."""
        self.model.train()
        if self.options.freeze_backbone:
            self.model.get_submodule("encoder").eval()
        if self.options.freeze_bn:
            for module in self.model.modules():
                if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):  # noqa: SLF001 - the common base
                    module.eval()

    def backward(self, task: Task, batch: Batch, step: int, rank: int) -> torch.Tensor:
        """Leave the gradients of a global batch in the parameters.

        Args:
            task: as it is after `step` finished steps.
            batch: this rank's share.
            step: finished steps.
            rank: this one.

        Returns:
            The loss of the global batch, a scalar on the device.
        """
        self.undo.begin()
        torch.manual_seed(_model_seed(self.options.seed, step, rank))
        self.optimizer.zero_grad(set_to_none=True)
        return self.gradients.compute(task, batch)

    def update(self, loss: torch.Tensor, batch: Batch, step: int) -> tuple[float, float]:
        """Update the weights and their average by the gradients that `backward` left.

        Returns:
            The loss, and the learning rate of the step.

        Raises:
            NonFiniteError: the loss or a gradient is not finite; no weight was changed.
        """
        value, norm = finite.checked_step(self.model, loss, batch, step + 1)
        if self.spec.grad_clip:
            torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), self.spec.grad_clip, norm)
        rate = self.spec.rate(step, self.options.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["lr_mult"]
        self.undo.update()
        self.optimizer.step()
        if self.average:
            self.average.update(self.model, step)
        self.undo.end()
        return value, rate

    def tensors(self) -> dict[str, dict[str, torch.Tensor]]:
        """All that a checkpoint keeps of it, by the file that it is kept in."""
        kept = {
            "model": self.model.state_dict(),
            "optimizer": state.optimizer_tensors(self.optimizer, self.model),
        }
        if self.average:
            kept["ema"] = self.average.model.state_dict()
        return kept

    def load(self, tensors: Mapping[str, Mapping[str, torch.Tensor]], where: str) -> None:
        """Put back what `tensors` gave.

        Args:
            tensors: of a checkpoint.
            where: names the checkpoint in errors.

        Raises:
            CheckpointError: they are of another model.
        """
        state.load_model(self.model, tensors["model"], where)
        state.load_optimizer(self.optimizer, self.model, tensors["optimizer"])
        if self.average:
            state.load_model(self.average.model, tensors["ema"], where)


def _model_seed(seed: int, step: int, rank: int) -> int:
    """Seeds torch's generators for one step, so that there is no generator state to save."""
    return seeds.below(2**63, seeds.key(seed, "model", step, rank))
