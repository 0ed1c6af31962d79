"""Steps that run out of memory: done in smaller micro-batches if that is allowed, else an error says what fits."""

from __future__ import annotations

from collections.abc import Callable

import torch

from penstock import devices
from penstock.errors import OutOfMemoryError, is_out_of_memory, reason_of
from penstock.feed import Batch
from penstock.progress import counted
from penstock.session.kept import KeptValues
from penstock.session.step import Gradients
from penstock.session.undo import Undo
from penstock.tasks import Task

_ALONE = "Expected more than 1 value per channel"  # a norm has but one image, and cannot


class MemoryLimitedGradients:
    """Computes gradients, in smaller micro-batches if memory runs out and `halve` is set.

    Several ranks cannot go back in a step, as the others wait for this one: their error stays as it is.

    Args:
        gradients: computes them; its `accumulate` grows where memory runs out.
        undo: takes back what a failed pass has changed.
        halve: whether a step that does not fit is done in smaller micro-batches.
        note: tells people a line.
    """

    def __init__(self, gradients: Gradients, undo: Undo, *, halve: bool, note: Callable[[str], None]) -> None:
        self.gradients, self.undo, self.halve, self.note = gradients, undo, halve, note

    def compute(self, task: Task, batch: Batch, step: int, begin: Callable[[], None], kept: KeptValues) -> torch.Tensor:
        """Leave the gradients of the global batch in the parameters; its loss, a scalar on the device.

        Args:
            task: as it is after `step` finished steps.
            batch: this rank's slice.
            step: finished steps.
            begin: called before every pass: clears gradients, and seeds the randomness inside the model.
            kept: keeps what hooks want of the step.

        Raises:
            OutOfMemoryError: it does not fit, and may not be done in smaller parts, or does not fit in those.
        """
        begin()
        try:
            return self.gradients.compute(task, batch, kept)
        except Exception as error:
            if self.gradients.ranks.world_size > 1 or not is_out_of_memory(error):
                raise
            reason = reason_of(error)
        # Only here, behind the handler, does nothing refer to the tensors of the failed pass any more.
        before = self.gradients.accumulate
        loss = self._in_smaller_parts(task, batch, begin, kept)
        if loss is None or not self.halve:
            raise self._refused(batch, step, reason, before, fits=loss is not None)
        self.note(
            f"step {step + 1:,} ran out of memory: from here on, batches are computed in {self.gradients.accumulate} "
            f"micro-batches of {counted(self._size(batch), 'image')} (train.halve_on_oom)"
        )
        return loss

    def _in_smaller_parts(
        self, task: Task, batch: Batch, begin: Callable[[], None], kept: KeptValues
    ) -> torch.Tensor | None:
        """The loss in the fewest parts that fit; None where not even single images do."""
        while self.gradients.accumulate < len(batch):
            self.gradients.accumulate = min(2 * self.gradients.accumulate, len(batch))
            self.undo.restore_again()
            kept.clear()
            begin()
            devices.release_memory(self.gradients.device)
            try:
                return self.gradients.compute(task, batch, kept)
            except Exception as error:
                if not is_out_of_memory(error) and not str(error).startswith(_ALONE):
                    raise
        return None

    def _size(self, batch: Batch) -> int:
        return -(-len(batch) // self.gradients.accumulate)

    def _refused(self, batch: Batch, step: int, reason: str, before: int, *, fits: bool) -> OutOfMemoryError:
        pieces, size = self.gradients.accumulate, self._size(batch)
        self.gradients.accumulate = before
        where = f"step {step + 1:,}"
        expected = f"memory for {counted(self._size(batch), 'image')} on {self.gradients.device}"
        remedy = "Not even one image at a time fits. Make augment.crop smaller, or choose a smaller model"
        if fits:
            remedy = (
                f"{counted(size, 'image')} at a time fit: go on with --set train.accumulate={pieces}, which computes a "
                f"batch in {pieces} parts, or start with --batch {size}. With train.halve_on_oom this is done at once"
            )
        return OutOfMemoryError(where, expected=expected, found=f"too little ({reason})", remedy=remedy)
