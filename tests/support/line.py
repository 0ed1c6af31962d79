"""A network of three numbers, trained by hand and by the session."""

from __future__ import annotations

import dataclasses
import itertools
from types import SimpleNamespace

import torch
from torch import nn

from penstock.feed import Batch
from penstock.ranks import Ranks
from penstock.session import CheckpointStore, Hook, HookList, Learner, Saver, Session, Steps
from penstock.settings import Train
from penstock.settings.optimizer import SGD
from penstock.settings.schedules import Constant
from penstock.tasks.base import Task
from penstock.tasks.scoring import Scores
from penstock.values import Cursor

CPU, BATCH = torch.device("cpu"), 4


SPEC = SGD(lr=0.02, momentum=0.5, weight_decay=0.0, schedule=Constant())


class Line(Task):
    """Learns y from two numbers."""

    classes, ignore, best_metric = ("y",), -1, "score"
    of = None

    def prepare(self, *, train):
        raise NotImplementedError

    def model(self):
        torch.manual_seed(0)
        return nn.Linear(2, 1)

    def inputs(self, tensors):
        return tensors["x"]

    def mask_padding(self, tensors, weight):
        raise NotImplementedError

    def count(self, tensors):
        return torch.tensor([len(tensors["x"])])

    def loss(self, outputs, tensors):
        return ((outputs[:, 0] - tensors["y"]) ** 2).sum().unsqueeze(0)

    def metric(self):
        raise NotImplementedError

    @property
    def drawing(self):
        raise NotImplementedError


def numbers(position):
    """The batch from a position on."""
    drawn = torch.sin(torch.arange(position, position + BATCH).float().unsqueeze(1) * torch.tensor([1.0, 2.0, 3.0]))
    return {"x": drawn[:, :2], "y": drawn[:, 2]}


class Numbers:
    """A feed; `end` is the plan's, `gone` the position from which on it waits until nobody does."""

    batch = BATCH

    def __init__(self, end=None, gone=None):
        self.plan = SimpleNamespace(
            end=end, start=lambda cursor: self.started.append(cursor.position), epoch=lambda position: position / 12
        )
        self.started, self.closed, self.gone = [], 0, gone

    def batches(self, cursor, given_up):
        try:
            for position in itertools.count(cursor.position, BATCH):
                if position == self.gone:
                    assert given_up()
                    raise InterruptedError
                origins = tuple(f"n#{position + row}" for row in range(BATCH))
                yield Batch(numbers(position), torch.ones(BATCH), Cursor(position + BATCH, "plan"), origins)
        finally:
            self.closed += 1


class Told(Hook):
    """Writes down what is called; `asks` maps steps to what is asked for after them."""

    def __init__(self, asks=None, every=1):
        self.every, self.asks, self.told, self.state = Steps(every), asks or {}, [], 0

    def on_start(self, session):
        self.told.append(f"start {session.step}")

    def before_step(self, session):
        self.told.append(f"before {session.step}")

    def after_backward(self, session):
        self.told.append(f"backward {session.step}")

    def after_step(self, session):
        self.state += 1
        self.told.append(f"after {session.step}")
        if session.step in self.asks:
            self.asks[session.step](session)

    def after_eval(self, session, scores, loss):
        self.told.append(f"eval {session.step} {loss}{' best' if session.is_best else ''}")

    def on_exception(self, session, error):
        self.told.append(f"exception {error}")

    def on_end(self, session):
        self.told.append(f"end {session.outcome.status}")

    def state_dict(self):
        return {"state": self.state}

    def load_state_dict(self, state):
        self.state = state.get("state", 0)
        self.told.append(f"load {self.state}")


class Score(Scores):
    def __init__(self, value):
        self.value = value

    def summary(self):
        return {"other": 0.0, "score": self.value}


class Scorer:
    """Gives scores in their order, the last for ever; None says that a signal ended the evaluation."""

    def __init__(self, *values):
        self.values, self.models = list(values), []

    def __call__(self, model, stop):
        self.models.append((model, stop()))
        value = self.values.pop(0) if len(self.values) > 1 else self.values[0]
        return None if value is None else (Score(value), 0.25)


def session(
    folder, steps=6, feed=None, hooks=(), spec=SPEC, ranks=None, evaluate=None, follow=None, keep=9, seed=0, **options
):
    task = Line()
    ranks, store = ranks or Ranks(), CheckpointStore(folder, keep)
    options = Train(**{"steps": steps, "save_every": 500, "evaluate_every": 500, **options})
    learner = Learner.of(task.model(), options=options, optimizer=spec, ranks=ranks, device=CPU, seed=seed)
    made = Session(
        task, learner, feed or Numbers(), saver=Saver(store, ranks, CPU), attached=HookList(tuple(hooks)),
        evaluate=evaluate, follow=follow,
    )  # fmt: skip
    made.restore(store.load())
    return made


def by_hand(steps, spec=SPEC, ema_decay=0.0, left_out=(), grad_clip=0.0):
    """Weights after some steps, those of their average, and the losses; of steps that are left out there is none."""
    model, mean = Line().model(), [p.detach().clone() for p in Line().model().parameters()]
    momenta, losses = [torch.zeros_like(p) for p in model.parameters()], []
    for step in range(steps):
        if step + 1 in left_out:
            continue
        batch = numbers(step * BATCH)
        loss = ((model(batch["x"])[:, 0] - batch["y"]) ** 2).mean()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        norm = torch.sqrt(sum((g**2).sum() for g in gradients))
        cut = min(1.0, grad_clip / float(norm)) if grad_clip else 1.0
        rate = spec.rate(step, steps)
        with torch.no_grad():
            for weight, gradient, momentum in zip(model.parameters(), gradients, momenta, strict=True):
                momentum.mul_(spec.momentum).add_(cut * gradient)
                weight.sub_(rate * momentum)
            decay = min(ema_decay, (1 + step) / (10 + step))
            for own, weight in zip(mean, model.parameters(), strict=True):
                own.mul_(decay).add_((1 - decay) * weight)
        losses.append(float(loss.detach()))
    return [p.detach() for p in model.parameters()], mean, losses


def close(found, expected):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@dataclasses.dataclass(frozen=True)
class Others(Ranks):
    """One of two ranks; what the other adds to sums of flags is given, and whether it says yes to what is asked."""

    world_size: int = 2
    flags: list = dataclasses.field(default_factory=list)
    agrees: bool = False
    equalized: list = dataclasses.field(default_factory=list)

    def sum(self, tensor):
        if tensor.shape == (3,) and self.flags:
            return tensor + torch.tensor(self.flags.pop(0))
        return 2 * tensor if tensor.is_floating_point() else tensor

    def any(self, flag, device):
        return flag or self.agrees

    def gather(self, texts):
        return list(texts)

    def barrier(self):
        pass

    def broadcast_buffers(self, model):
        self.equalized.append(model)

    def wrap(self, model, device):
        return model
