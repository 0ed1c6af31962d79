"""The loop that trains.

One step: next batch -> before_step -> forward, loss sum, global count -> backward -> after_backward -> finite? ->
optimizer, schedule, average -> cursor adopted, step counted -> after_step. Then, where it is time or a hook asked,
always in this order: save -> evaluate -> mark best -> after_eval (which writes the log).
"""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from penstock import devices, seeds
from penstock.errors import CheckpointError, RecipeError
from penstock.progress import counted
from penstock.session import finite, signals, state
from penstock.session.attached import Attached
from penstock.session.checkpoint import Checkpoint
from penstock.session.ema import Average
from penstock.session.optimizer import OptimizerSpec, make_optimizer
from penstock.session.options import Options, Outcome
from penstock.session.step import Gradients
from penstock.sources import waiting
from penstock.values import Cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import nn

    from penstock.feed import Batch, Feed
    from penstock.ranks import Ranks
    from penstock.session.checkpoint import CheckpointStore
    from penstock.session.hook import Hook
    from penstock.session.options import Follow
    from penstock.tasks import Task
    from penstock.tasks.base import Scores

    Evaluate = Callable[[nn.Module, Callable[[], bool]], tuple[Scores, float | None] | None]


@dataclass(slots=True)
class _Asked:
    """What hooks and signals ask for."""

    stop: str = ""
    save: bool = False
    evaluate: bool = False


class Session:
    """Owns the model, the optimizer, the schedule, the cursor and the hooks, for as long as a training lasts.

    Attributes:
        step: finished optimizer steps.
        cursor: the state of the data path after them.
        batch: the batch of the step at hand.
        loss: of the last step, over the global batch.
        rate: the learning rate of the last step.
        follow: where more comes from when the feed's plan ends.
        best: (step, score) of the best evaluation so far.
        is_best: whether the last evaluation is it.
        timing: seconds of the last step: "step" in all, of them "wait" for data.
        outcome: how training ended, once it has.
    """

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        feed: Feed,
        *,
        options: Options,
        optimizer: OptimizerSpec,
        store: CheckpointStore,
        ranks: Ranks,
        device: torch.device,
        evaluate: Evaluate | None = None,
        follow: Follow | None = None,
        hooks: Sequence[Hook] = (),
    ) -> None:
        self.task, self.feed, self.options, self.spec = task, feed, options, optimizer
        self.store, self.ranks, self.device, self.attached = store, ranks, device, Attached(tuple(hooks))
        self.layout = devices.training_layout(model, device)
        self.model = devices.place(model, device, self.layout)
        self.average = Average(self.model, options.ema_decay) if options.ema_decay else None
        self.optimizer = make_optimizer(optimizer, self.model)
        wrapped = ranks.wrap(self.model, device)
        network = torch.compile(wrapped) if options.compile else wrapped
        self._gradients = Gradients(
            self.model, network, ranks=ranks, device=device, options=options, layout=self.layout
        )
        self.step, self.cursor = 0, Cursor()
        self.batch: Batch | None = None
        self.loss, self.rate = math.nan, 0.0
        self.best: tuple[int, float] | None = None
        self.is_best = False
        self.timing = {"step": 0.0, "wait": 0.0}
        self.outcome: Outcome | None = None
        self._evaluate_with, self.follow = evaluate, follow
        self._asked = _Asked()
        self._pending_evaluation = False
        self._saved = 0
        self._flag = signals.Flag()

    def request_stop(self, reason: str) -> None:
        """Ask for an end after this step, with a checkpoint."""
        self._asked.stop = reason

    def request_save(self) -> None:
        """Ask for a checkpoint after this step."""
        self._asked.save = True

    def request_eval(self) -> None:
        """Ask for an evaluation after this step."""
        self._asked.evaluate = True

    def restore(self, checkpoint: Checkpoint | None) -> None:
        """Continue from a checkpoint; None starts from nothing, as hooks are told too.

        Raises:
            CheckpointError: it is of another model.
            PlanError: it is of other data.
        """
        saved: dict[str, Any] = dict(checkpoint.state) if checkpoint else {}
        if checkpoint:
            where = f"{self.store.folder}/step-{checkpoint.step:08d}"
            state.load_model(self.model, checkpoint.tensors["model"], where)
            state.load_optimizer(self.optimizer, self.model, checkpoint.tensors["optimizer"])
            if self.average:
                state.load_model(self.average.model, checkpoint.tensors["ema"], where)
            self.step, self.cursor = checkpoint.step, Cursor(**saved["cursor"])
            if self.cursor.position != (position := self.step * self.feed.batch):
                raise CheckpointError(
                    where,
                    expected=f"a cursor at position {position:,}, behind {counted(self.step, 'step')}",
                    found=f"position {self.cursor.position:,}",
                    remedy="The checkpoint is of another batch size, or damaged: use another one of the run",
                )
            self._saved = self.step
            self.best = tuple(saved["best"]) if saved["best"] else None
            self._pending_evaluation = saved["pending_evaluation"]
            if self.follow:
                self.follow.load_state_dict(saved["follow"])
                self.feed = self.follow.feed(self.cursor.position)
            self.feed.plan.start(self.cursor)
            self._rewind(checkpoint)
        self.attached.load_state_dict(saved["hooks"] if checkpoint else None)

    def _rewind(self, checkpoint: Checkpoint) -> None:
        """Before logs are cut back, so that the last checkpoint never lies behind their end."""
        self.ranks.barrier()  # until all have read it
        if self.ranks.writes:
            self.store.rewind(checkpoint)
        self.ranks.barrier()
        if not (self.store.folder / "best").exists():
            self.best = None

    def train(self) -> Outcome:
        """Train until the last step, a request to stop, or a signal.

        Raises:
            NonFiniteError: the loss or a gradient is not finite; the step is not saved.
            Exception: what the feed or a hook raised.
        """
        with signals.caught() as self._flag, waiting.bound(self._gives_up):
            try:
                self.attached.call(self, "on_start")
                self.outcome = self._run()
            except BaseException as error:
                self.outcome = Outcome("failed", f"{type(error).__name__}: {error}", self.step)
                self.attached.wind_down(self, "on_exception", error, error)
                self.attached.wind_down(self, "on_end", error)
                raise
            self.attached.close(self)
            return self.outcome

    def _run(self) -> Outcome:
        if self._pending_evaluation and self._evaluated_to_stop():
            return self._ended(stop=True)
        stop = False
        self._begin_training()
        while self.step < self.options.steps and not stop:
            if self._at_end():
                stop = not self._go_on()
                continue
            with contextlib.closing(self.feed.batches(self.cursor, self._gives_up)) as batches:  # type: ignore[type-var]
                stop = self._through(batches)
        return self._ended(stop=stop)

    def _gives_up(self) -> bool:
        """Whether to wait no longer for data that does not come. Several ranks cannot: the others may have theirs."""
        return bool(self._flag) and self.ranks.of == 1

    def _begin_training(self) -> None:
        """Put the model into training mode, but for what is to stay as it is."""
        self.model.train()
        if self.options.freeze_backbone:
            self.model.get_submodule("encoder").eval()
        if self.options.freeze_bn:
            for module in self.model.modules():
                if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):  # noqa: SLF001 - the common base
                    module.eval()

    def _through(self, batches: Iterator[Batch]) -> bool:
        """Steps until training or the feed's plan ends; whether to stop."""
        stop = False
        while self.step < self.options.steps and not self._at_end() and not stop:
            if not self._step(batches):
                if self._saved < self.step:
                    self._save(pending_evaluation=False)
                return True
            stop, save, evaluate = self._agree()
            last = self.step == self.options.steps or self._at_end()
            evaluate = evaluate or last or self.step % self.options.evaluate_every == 0
            if save or evaluate or stop or self.step % self.options.save_every == 0:
                self._save(pending_evaluation=evaluate)
            if evaluate and not stop:
                stop = self._evaluated_to_stop()
        return stop

    def _evaluated_to_stop(self) -> bool:
        """Evaluate; whether a signal ended it, or a hook asks for the end now that it knows the scores."""
        whole = self._evaluate()
        return not whole or (self.step < self.options.steps and self.ranks.any(bool(self._asked.stop), self.device))

    def _at_end(self) -> bool:
        """Whether all of a plan that has an end was trained on."""
        return self.cursor.position == self.feed.plan.end

    def _go_on(self) -> bool:
        """Take up what has come since; False if nothing more comes, or a signal ended the wait."""
        feed = None
        with contextlib.suppress(InterruptedError):
            feed = self.follow.next(lambda: self.ranks.any(bool(self._flag), self.device)) if self.follow else None
        if feed is None:
            self._asked.stop = self._asked.stop or (self.follow.reason if self.follow else "the plan has ended")
            return False
        self.feed = feed
        return True

    def _ended(self, *, stop: bool) -> Outcome:
        if self._flag.signal:
            return Outcome("interrupted", self._flag.signal.name, self.step, int(self._flag.signal))
        if stop:
            return Outcome("stopped", self._asked.stop or "another rank was stopped", self.step)
        return Outcome("finished", f"step {self.step} reached", self.step)

    def _step(self, batches: Iterator[Batch]) -> bool:
        """One step; False if a signal ended the wait for its batch."""
        began = time.perf_counter()
        try:
            self.batch = next(batches)
        except InterruptedError:
            return False
        waited = time.perf_counter() - began
        self.attached.call(self, "before_step", due=self.step + 1)
        self._learn(self.batch)
        self.step += 1
        self.cursor = self.batch.cursor
        self.timing = {"step": time.perf_counter() - began, "wait": waited}
        self.attached.call(self, "after_step", due=self.step)
        return True

    def _learn(self, batch: Batch) -> None:
        """Forward, backward and update: all that changes weights."""
        torch.manual_seed(_model_seed(self.options.seed, self.step, self.ranks.rank))
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._gradients.compute(self.task.after(self.step), batch)
        self.attached.call(self, "after_backward", due=self.step + 1)
        self.loss, norm = finite.checked_step(self.model, loss, batch, self.step + 1)
        if self.spec.grad_clip:
            torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), self.spec.grad_clip, norm)
        self.rate = self.spec.rate(self.step, self.options.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * group["share"]
        self.optimizer.step()
        if self.average:
            self.average.update(self.model, self.step)

    def _agree(self) -> tuple[bool, bool, bool]:
        """What any rank was asked for: (stop, save, evaluate). Signals count as a request to stop."""
        asked, self._asked = self._asked, _Asked(stop=self._asked.stop)
        flags = torch.tensor(
            [int(bool(asked.stop or self._flag)), int(asked.save), int(asked.evaluate)], device=self.device
        )
        stop, save, evaluate = (bool(flag) for flag in self.ranks.sum(flags).tolist())
        return stop, save, evaluate

    def _save(self, *, pending_evaluation: bool) -> None:
        self._pending_evaluation = pending_evaluation
        tensors = {
            "model": self.model.state_dict(),
            "optimizer": state.optimizer_tensors(self.optimizer, self.model),
        }
        if self.average:
            tensors["ema"] = self.average.model.state_dict()
        finite.check_saved(tensors, self.step, lambda wrong: self.ranks.any(wrong, self.device))
        if self.ranks.writes:
            own = {
                "cursor": {"position": self.cursor.position, "plan": self.cursor.plan},
                "best": list(self.best) if self.best else None,
                "pending_evaluation": pending_evaluation,
                **({"follow": self.follow.state_dict()} if self.follow else {}),
                "hooks": self.attached.state_dict(),
            }
            self.store.save(Checkpoint(self.step, tensors, own))
        self.ranks.barrier()
        self._saved = self.step

    def _evaluate(self) -> bool:
        """Evaluate what was just saved; False if a signal cut it short (it is then done after a resume)."""
        if self._evaluate_with is None:
            self._pending_evaluation = False
            return True
        model = self.average.model if self.average else self.model
        self.ranks.equalize(model)
        result = self._evaluate_with(model, lambda: self.ranks.any(bool(self._flag), self.device))
        self._begin_training()
        if result is None:
            return False
        scores, loss = result
        self._pending_evaluation = False
        value = self._deciding(scores)
        self.is_best = math.isfinite(value) and (self.best is None or value >= self.best[1])  # of equals the newer
        if self.is_best:
            self.best = (self.step, value)
            if self.ranks.writes:
                self.store.mark_best(self.step)
        self.attached.call(self, "after_eval", scores, loss)
        return True

    def _deciding(self, scores: Scores) -> float:
        """The score that decides which checkpoint is best, so that a larger one is better."""
        name, summary = self.options.best_metric or self.task.main_score, scores.summary()
        if name not in summary:
            raise RecipeError(
                "train.best_metric",
                expected=f"one of {', '.join(summary)}",
                found=name,
                remedy="Choose one of those, or leave it out",
            )
        lower = {*self.task.lower_is_better, *getattr(scores, "lower_is_better", ())}
        return -summary[name] if name in lower else summary[name]


def _model_seed(seed: int, step: int, rank: int) -> int:
    """Seeds torch's generators for one step, so that there is no generator state to save."""
    return seeds.below(2**63, seeds.key(seed, "model", step, rank))
