from __future__ import annotations

import dataclasses

import pytest
import torch
from support.errors import refused
from support.line import CPU, SPEC, Line, Numbers, Told, by_hand, close, numbers, session
from torch import nn

from penstock.session import Hook, HookList, Learner, Steps
from penstock.session.kept import KeptValues, check_wants
from penstock.settings import Train


class Looks(Hook):
    """Keeps what a step has kept for it, at every point of a step."""

    def __init__(self, wants, every=1):
        self.wants, self.every, self.seen = wants, Steps(every), []

    def after_backward(self, session):
        self.seen.append((session.step + 1, dict(session.values)))

    def after_step(self, session):
        assert session.values == self.seen[-1][1]


class Deep(Line):
    def model(self):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))

    def count(self, tensors):
        return torch.tensor([len(tensors["x"])] * 2)

    def loss(self, outputs, tensors):
        error = outputs[:, 0] - tensors["y"]
        return torch.stack([(error**2).sum(), error.abs().sum()])


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_step_keeps_exactly_what_is_wanted(tmp_path, accumulate):
    task = Deep()
    hook = Looks(("outputs", "loss_parts", "1.0"))
    made = session(tmp_path, 1, hooks=[hook])
    made.task, model = task, task.model()
    before = task.model()
    options = Train(steps=1, accumulate=accumulate)
    made.learner = Learner.of(model, options=options, optimizer=SPEC, ranks=made.ranks, device=CPU)
    made.train()
    ((step, values),) = hook.seen
    batch = numbers(0)
    outputs = before(batch["x"])

    assert (step, set(values)) == (1, {"outputs", "loss_parts", "1.0"})
    assert [len(part) for part in values["outputs"]] == [4 // accumulate] * accumulate
    close([torch.cat(values["outputs"])], [outputs.detach()])
    close([torch.cat(values["1.0"])], [before[1][0](before[0](batch["x"])).detach()])
    close([values["loss_parts"]], [task.loss(outputs, batch).detach() / 4])
    assert not any(tensor.requires_grad for tensor in (*values["outputs"], *values["1.0"], values["loss_parts"]))
    assert not any(module._forward_hooks for module in model.modules())


def test_nothing_is_kept_for_hooks_that_are_not_due(tmp_path):
    seldom, always, nothing = Looks(["outputs"], every=2), Looks(["loss_parts"]), Looks([])
    made = session(tmp_path, 4, hooks=[seldom, always, nothing])
    made.train()

    assert [(step, set(values)) for step, values in nothing.seen] == [
        (1, {"loss_parts"}), (2, {"loss_parts", "outputs"}), (3, {"loss_parts"}), (4, {"loss_parts", "outputs"}),
    ]  # fmt: skip
    assert made.values == {}
    close(list(made.model.parameters()), by_hand(4)[0])


@pytest.mark.parametrize(
    ("wants", "compiled", "message"),
    [
        (
            ["0.weigth", "outputs"], False,
            "Mine.wants: expected outputs, loss_parts or the name of a module of the model, found 0.weigth. See the names "
            "with model.named_modules().",
        ),
        (
            ["encoder.layer"], False,
            "Mine.wants: expected outputs, loss_parts or the name of a module of the model, found encoder.layer. Did you "
            "mean encoder.layer4?",
        ),
        (
            ["encoder.layer4"], True,
            "Mine.wants: expected no outputs of modules with train.compile, found encoder.layer4. Set train.compile=false, "
            "or remove the hook.",
        ),
    ],
)  # fmt: skip
def test_what_no_step_can_keep_is_refused(wants, compiled, message):
    model = nn.Module()
    model.encoder = nn.Module()
    model.encoder.layer4 = nn.Linear(2, 2)
    refused(check_wants, "Mine", wants, model, compiled=compiled, message=message)


def test_outputs_may_be_wanted_of_a_compiled_model():
    check_wants("Mine", ["outputs", "loss_parts"], nn.Linear(2, 2), compiled=True)


def test_it_is_refused_before_the_first_step(tmp_path):
    told = Told()
    made = session(tmp_path, hooks=[told, Looks(["nowhere"])])
    with pytest.raises(Exception, match=r"^Looks\.wants: expected outputs, loss_parts or the name of a module"):
        made.train()
    assert told.told[:2] == ["load 0", "exception " + str(made.outcome.reason).removeprefix("RecipeError: ")]


def test_outputs_of_any_structure_lose_their_gradients():
    kept = KeptValues(["outputs"])
    number = torch.ones(2, requires_grad=True)
    kept.keep_outputs({"a": [number, (number * 2, "text")]})

    ((first, (second, text)),) = (value["a"] for value in kept.values["outputs"])
    assert (first.requires_grad, second.requires_grad, text) == (False, False, "text")


class Doubles(Hook):
    """Learns from twice the numbers, at every second step."""

    every = Steps(2)

    def change_batch(self, session, batch):
        return dataclasses.replace(batch, tensors={"x": 2 * batch.tensors["x"], "y": batch.tensors["y"]})


def test_a_hook_may_change_what_is_learnt(tmp_path):
    class Feed(Numbers):
        def batches(self, cursor, given_up):
            for batch in super().batches(cursor, given_up):
                if batch.cursor.position // 4 % 2 == 0:
                    batch.tensors["x"].mul_(2)
                yield batch

    found, expected = session(tmp_path / "a", 5, hooks=[Doubles()]), session(tmp_path / "b", 5, Feed())
    found.train()
    expected.train()

    close(list(found.model.parameters()), list(expected.model.parameters()))
    assert not torch.allclose(next(found.model.parameters()), by_hand(5)[0][0])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda _: None, "it returned NoneType"),
        (lambda b: dataclasses.replace(b, origins=b.origins[::-1]), "cursor and origins must stay the same"),
        (
            lambda b: dataclasses.replace(b, tensors={"x": b.tensors["x"][:3], "y": b.tensors["y"]}),
            "expected tensors of lengths {'x': 4, 'y': 4}, found {'x': 3, 'y': 4}",
        ),
        (
            lambda b: dataclasses.replace(b, tensors={"z": b.tensors["x"], "y": b.tensors["y"]}),
            "expected tensors of lengths {'x': 4, 'y': 4}, found {'z': 4, 'y': 4}",
        ),
    ],
)
def test_a_batch_that_cannot_take_its_place_is_refused(tmp_path, change, problem):
    class Changes(Hook):
        def change_batch(self, session, batch):
            return change(batch)

    with pytest.raises(TypeError) as caught:
        session(tmp_path, hooks=[Changes()]).train()
    assert str(caught.value) == f"Changes.change_batch must return a batch like the one that it got: {problem}"


def test_hooks_change_a_batch_one_after_the_other(tmp_path):
    class Adds(Hook):
        band = "decide"

        def change_batch(self, session, batch):
            return dataclasses.replace(batch, tensors={**batch.tensors, "x": batch.tensors["x"] + 1})

    made = session(tmp_path, 2, hooks=[Adds(), Doubles()])
    assert isinstance(made.attached, HookList)
    made.train()

    close([made.batch.tensors["x"]], [2 * numbers(4)["x"] + 1])


def test_a_misspelt_change_is_an_error():
    with pytest.raises(TypeError, match=r"Wrong\.change_batches is not a method of penstock\.Hook"):

        class Wrong(Hook):
            def change_batches(self, session, batch):
                return batch
