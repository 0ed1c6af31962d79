"""The loop that trains.

One step: next batch -> before_step -> forward, loss sum, global count -> backward -> after_backward -> finite? (if not,
on_nonfinite) -> optimizer, schedule, average -> cursor kept, step counted -> after_step. Then, where it is time or a
hook asked, always in this order: save -> evaluate -> mark best -> after_eval (which writes the log).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from penstock.errors import NonFiniteError
from penstock.feed import Batch, Feed
from penstock.ranks import Ranks
from penstock.session import finite, signals
from penstock.session.best import BestMetric, is_best
from penstock.session.checkpoint import Checkpoint
from penstock.session.hook_list import HookList
from penstock.session.kept import KeptValues
from penstock.session.learner import Learner
from penstock.session.leaving_out import leave_out
from penstock.session.options import MoreRecords, Outcome
from penstock.session.requests import NOTHING, Requests, due_after
from penstock.session.saving import Saver, TrainingState
from penstock.settings import Train
from penstock.sources import waiting
from penstock.tasks import Task
from penstock.tasks.scoring import Scores
from penstock.values import Cursor

Evaluate = Callable[[nn.Module, Callable[[], bool]], tuple[Scores, float | None] | None]


class Session:
    """Trains: batch after batch, with hooks, checkpoints and evaluations, for as long as a training lasts.

    Args:
        task: what is learnt.
        learner: the model and its optimizer.
        feed: gives the batches.
        saver: keeps checkpoints.
        attached: the hooks.
        evaluate: evaluates a model; None evaluates nothing.
        follow: where more comes from when the feed's plan ends.
        note: tells people a line, for hooks; on the main rank alone.

    Attributes:
        batch: the batch of the step at hand.
        loss: of the last step, over the global batch; NaN if it was left out.
        lr: the learning rate of the last step.
        grad_norm: the norm of its gradients over the global batch, before they are clipped.
        values: what the step at hand has computed of what hooks want (`Hook.wants`), by name.
        is_best: whether the last evaluation is the best so far.
        timing: seconds of the last step: "step" in all, of them "wait" for data.
        outcome: how training ended, once it has.
    """

    def __init__(
        self,
        task: Task,
        learner: Learner,
        feed: Feed,
        *,
        saver: Saver,
        attached: HookList,
        evaluate: Evaluate | None = None,
        follow: MoreRecords | None = None,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.task, self.learner, self.feed, self.saver, self.attached = task, learner, feed, saver, attached
        self.evaluate_with, self.follow, self.note = evaluate, follow, note
        self.standing = TrainingState()
        self.batch: Batch | None = None
        self.loss, self.lr, self.grad_norm = math.nan, 0.0, math.nan
        self.values: Mapping[str, Any] = {}
        self.is_best = False
        self.timing = {"step": 0.0, "wait": 0.0}
        self.outcome: Outcome | None = None
        self._requests = Requests()
        self._is_saving = self._owes_evaluation = False
        self._flag = signals.Flag()

    @property
    def step(self) -> int:
        """Finished optimizer steps."""
        return self.standing.step

    @property
    def cursor(self) -> Cursor:
        """The state of the data path after the finished steps."""
        return self.standing.cursor

    @property
    def best(self) -> tuple[int, float] | None:
        """(step, score) of the best evaluation so far; a larger score is better."""
        return self.standing.best

    @property
    def is_left_out(self) -> bool:
        """Whether the last finished step learnt nothing, because its loss or gradients were not finite."""
        return self.step in self.standing.left_out

    @property
    def model(self) -> nn.Module:
        """What is trained."""
        return self.learner.model

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer of the model."""
        return self.learner.optimizer

    @property
    def options(self) -> Train:
        """The settings of the section `train`."""
        return self.learner.options

    @property
    def ranks(self) -> Ranks:
        """The processes that train together."""
        return self.saver.ranks

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.saver.device

    def request_stop(self, reason: str, *, pause: bool = False) -> None:
        """Ask for an end after this step, with a checkpoint; `pause` if the training is to go on later."""
        self._requests.stop, self._requests.pause = reason, pause

    def request_save(self) -> None:
        """Ask for a checkpoint after this step."""
        self._requests.save = True

    def request_eval(self) -> None:
        """Ask for an evaluation after this step."""
        self._requests.evaluate = True

    def restore(self, checkpoint: Checkpoint | None) -> None:
        """Continue from a checkpoint; None starts from nothing, as hooks are told too.

        Raises:
            CheckpointError: it is of another model.
            PlanError: it is of other data.
        """
        if checkpoint is None:
            self.attached.load_state_dict(None, self.ranks.rank)
            return
        where = f"{self.saver.store.folder}/step-{checkpoint.step:08d}"
        self.learner.load(checkpoint.tensors, where)
        self.standing = TrainingState.from_json(checkpoint.step, checkpoint.state, where)
        self.standing.check_position(self.feed.batch, where)
        if self.follow:
            self.follow.load_state_dict(checkpoint.state["follow"])
            self.feed = self.follow.feed(self.cursor.position)
        self.feed.plan.start(self.cursor)
        if not self.saver.rewind(checkpoint):
            self.standing.best = None
        self.attached.load_state_dict(checkpoint.state["hooks"], self.ranks.rank)

    def train(self) -> Outcome:
        """Train until the last step, a request to stop, or a signal.

        Raises:
            NonFiniteError: the loss or a gradient is not finite; the step before is saved.
            Exception: what the feed or a hook raised; the last good step is saved.
        """
        with signals.caught() as self._flag, waiting.bound(self._gives_up):
            try:
                self.attached.check(self.model, compiled=self.options.compile)
                self.attached.call(self, "on_start")
                self.outcome = self._run()
            except BaseException as error:
                is_saved = self._rescued(error)
                self.outcome = Outcome("failed", f"{type(error).__name__}: {error}", self.step, is_saved=is_saved)
                self.attached.wind_down(self, "on_exception", error, error)
                self.attached.wind_down(self, "on_end", error)
                raise
            self.attached.close(self)
            return self.outcome

    def _rescued(self, error: BaseException) -> bool:
        """Save the last good step of a training that fails; whether there is a checkpoint of it.

        Several ranks save only what all of them have failed with: the others would wait for those that have not.
        """
        agreed = self.ranks.world_size == 1 or isinstance(error, NonFiniteError)
        saves = agreed and isinstance(error, Exception) and not self._is_saving  # who interrupts twice wants no more
        try:
            self.saver.join()
            lost = self.step > self.saver.step
            if lost and saves and self.learner.undo.restore():
                self._save(pending_evaluation=self._owes_evaluation)
                self.saver.join()
        except Exception as other:  # noqa: BLE001 - it must not hide the original
            error.add_note(f"step {self.step:,} could not be saved: {other!r}")
            if isinstance(error, NonFiniteError) and isinstance(other, NonFiniteError) and error.where != other.where:
                finite.explain_unsaved(error, other, self.saver.step)
        return 0 < self.step <= self.saver.step

    def _run(self) -> Outcome:
        """Train to the end, from where training stands; and again, for as long as it may go back to a checkpoint."""
        if self.options.nonfinite == "rewind" and self.step == 0:
            self._save(pending_evaluation=False)  # to go back to
        while True:
            try:
                outcome = self._to_the_end()
            except NonFiniteError as error:
                self._go_back(error)
            else:
                self._await_saved()
                return outcome

    def _go_back(self, error: NonFiniteError) -> None:
        """Restore the last checkpoint, and leave out the step that failed, whether its own numbers are not finite or
        what it would save.
        """
        step = self.step if self._is_saving else self.step + 1
        self._is_saving = False
        self.saver.join()
        left_out = self.standing.left_out
        if self.options.nonfinite != "rewind" or step in left_out or len(left_out) >= self.options.nonfinite_limit:
            raise error
        self.restore(self.saver.store.load())
        self.standing.left_out = (*left_out, step)

    def _to_the_end(self) -> Outcome:
        if self.standing.pending_evaluation and self._evaluated_to_stop():
            return self._ended(stop=True)
        stop = False
        self.learner.begin()
        while self.step < self.options.steps and not stop:
            if self._at_end():
                stop = not self._go_on()
                continue
            with contextlib.closing(self.feed.batches(self.cursor, self._gives_up)) as batches:  # type: ignore[type-var]
                stop = self._through(batches)
        return self._ended(stop=stop)

    def _gives_up(self) -> bool:
        """Whether to wait no longer for data that does not come. Several ranks cannot: the others may have theirs."""
        return bool(self._flag) and self.ranks.world_size == 1

    def _interrupted(self) -> bool:
        """Whether a signal came, on any rank."""
        return self.ranks.any(bool(self._flag), self.device)

    def _through(self, batches: Iterator[Batch]) -> bool:
        """Steps until training or the feed's plan ends; whether to stop."""
        stop = False
        while self.step < self.options.steps and not self._at_end() and not stop:
            if not self._step(batches):
                if self.saver.begun < self.step:
                    self._save(pending_evaluation=False)
                return True
            if self.ranks.world_size == 1 and self.saver.is_written:
                self._await_saved()
            if self._flag.save:
                self._flag.save, self._requests.save = False, True
            asked = self._requests.agree(self.ranks, self.device, interrupted=bool(self._flag))
            due = due_after(self.step, self.options, asked, last=self._is_last())
            stop = due.stop
            self._owes_evaluation = due.evaluate
            if due.save:
                self._save(pending_evaluation=due.evaluate)
            if due.evaluate and not stop:
                stop = self._evaluated_to_stop()
            self._owes_evaluation = False
        return stop

    def _at_end(self) -> bool:
        """Whether all of a plan that has an end was trained on."""
        return self.cursor.position == self.feed.plan.end

    def _is_last(self) -> bool:
        """Whether the finished step is the last one, for all that is known."""
        return self.step == self.options.steps or self._at_end()

    def _go_on(self) -> bool:
        """Take up what has come since; False if nothing more comes, or a signal ended the wait."""
        feed = None
        with contextlib.suppress(InterruptedError):
            feed = self.follow.next(self._interrupted) if self.follow else None
        if feed is None:
            reason = self.follow.reason if self.follow else "the plan has ended"
            self._requests.stop = self._requests.stop or reason
            return False
        self.feed = feed
        return True

    def _ended(self, *, stop: bool) -> Outcome:
        if self._flag.signal:
            return Outcome("interrupted", self._flag.signal.name, self.step, int(self._flag.signal))
        if stop:
            reason = self._requests.stop or "another rank was stopped"
            return Outcome("stopped", reason, self.step, is_paused=self._requests.pause)
        return Outcome("finished", f"step {self.step} reached", self.step)

    def _step(self, batches: Iterator[Batch]) -> bool:
        """One step; False if a signal ended the wait for its batch."""
        began, step = time.perf_counter(), self.step
        try:
            self.batch = next(batches)
        except InterruptedError:
            return False
        waited = time.perf_counter() - began
        self.standing.fed = self.batch
        self.attached.decide(self.step + 1, is_last=self._ends_with(self.batch))
        self.batch = self.attached.change(self, self.batch)
        self.attached.call_due(self, "before_step")
        self.loss, self.lr, self.grad_norm = math.nan, self.learner.spec.rate(step, self.options.steps), math.nan
        if step + 1 not in self.standing.left_out:
            self._learn(self.batch, step)
        self.standing.step, self.standing.cursor = step + 1, self.batch.cursor
        self._owes_evaluation = due_after(self.step, self.options, NOTHING, last=self._is_last()).evaluate
        self.timing = {"step": time.perf_counter() - began, "wait": waited}
        self.attached.call_due(self, "after_step")
        self.values = {}
        return True

    def _learn(self, batch: Batch, step: int) -> None:
        """Update the weights by a batch, or leave the step out where its numbers are not finite and that is allowed."""
        task = self.task.after(step)
        kept = KeptValues(self.attached.wanted())
        loss = self.learner.backward(task, batch, step, self.ranks.rank, kept)
        self.values = kept.values
        self.attached.call_due(self, "after_backward")
        try:
            self.loss, self.lr, self.grad_norm = self.learner.update(loss, batch, step)
        except NonFiniteError as error:
            leave_out(self, error, task, batch, step)

    def _ends_with(self, batch: Batch) -> bool:
        return self.step + 1 == self.options.steps or batch.cursor.position == self.feed.plan.end

    def _save(self, *, pending_evaluation: bool) -> None:
        self._await_saved()
        self._is_saving = True
        self.standing.pending_evaluation = pending_evaluation
        more = {"follow": self.follow.state_dict()} if self.follow else {}
        more["hooks"] = self.attached.state_dict(self.ranks)
        self.saver.save(self.learner, self.standing, more)
        self._is_saving = False
        if not self.saver.in_background:
            self._await_saved()

    def _await_saved(self) -> None:
        """Wait for the checkpoint that is being written, if one is, and tell hooks of it."""
        path = self.saver.wait()
        if path is not None:
            self.attached.call(self, "after_save", path)

    def _evaluated_to_stop(self) -> bool:
        """Evaluate; whether a signal ended it, or a hook asks for the end now that it knows the scores."""
        whole = self._evaluate()
        asked = bool(self._requests.stop)
        return not whole or (self.step < self.options.steps and self.ranks.any(asked, self.device))

    def _evaluate(self) -> bool:
        """Evaluate what was just saved; False if a signal cut it short (it is then done after a resume)."""
        if self.evaluate_with is None:
            self.standing.pending_evaluation = False
            return True
        model = self.learner.evaluated
        self.ranks.broadcast_buffers(model)
        result = self.evaluate_with(model, self._interrupted)
        self.learner.begin()
        if result is None:
            return False
        scores, loss = result
        self._await_saved()
        self.standing.pending_evaluation = False
        value = BestMetric.of(self.task, self.options.best_metric).value(scores)
        self.is_best = is_best(value, self.best)
        if self.is_best:
            self.standing.best = (self.step, value)
            self.saver.mark("best", self.step)
        self.attached.call(self, "after_eval", scores, loss)
        return True
