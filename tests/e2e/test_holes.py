from __future__ import annotations

import dataclasses

import pytest
import torch
from support import processes
from support.holes import CPU, SIDE, TASKS, batch
from support.paths import SUPPORT
from torch import nn

from penstock.ranks import Ranks
from penstock.session.evaluation import evaluate
from penstock.session.step import Gradients
from penstock.settings import Train


class OneOfTwo(Ranks):
    """One of two ranks, of which the other has nothing to add."""

    def __init__(self):
        super().__init__(0, 2)

    def sum(self, tensor):
        return tensor


def learnt(task, numbers, accumulate=1, ranks=None):
    """Loss, gradients and buffers after one batch."""
    torch.manual_seed(1)
    model = task.model().train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0  # its draws go by place in a batch
    options = Train(steps=1, accumulate=accumulate)
    gradients = Gradients(model, model, ranks=ranks or Ranks(), device=CPU, options=options, layout=torch.channels_last)
    torch.manual_seed(2)
    loss = gradients.compute(task, batch(task, numbers))
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.requires_grad}
    return {"loss": loss, **found, **dict(model.named_buffers())}


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert one["loss"] > 0
    for name, tensor in one.items():
        if tensor is None:
            assert other[name] is None, name
        else:
            torch.testing.assert_close(other[name], tensor, rtol=2e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("name", TASKS)
def test_a_batch_with_holes_is_the_batch_without_them(name):
    task = TASKS[name]
    assert_same(learnt(task, [1, 2, 3, 4]), learnt(task, [1, 2, None, None, 3, 4, None, None]))


@pytest.mark.parametrize("name", ["masks", "classes", "retinanet"])
def test_a_hole_may_be_anywhere(name):
    task = TASKS[name]
    plain = learnt(task, [1, 2, 3])
    for place in range(4):
        numbers = [1, 2, 3]
        numbers.insert(place, None)
        assert_same(plain, learnt(task, numbers))


def test_who_was_to_be_mixed_with_a_hole_keeps_its_tones_and_all_other_pairs_are_mixed():
    """The images that the model is shown, against each pair by itself."""
    task = TASKS["mixed classes"]
    holey = batch(task, [1, None, 2, 3, None, 4, 5])
    masked = task.mask_padding(holey.tensors, holey.weight)
    shown = task.inputs({name: each[task.kept(holey.weight > 0)] for name, each in masked.items()})
    pair = task.inputs(batch(task, [2, 3]).tensors)
    alone = [task.inputs(batch(task, [number]).tensors) for number in (1, 4, 5)]

    for found, expected in zip(shown, [*pair, *(each[0] for each in alone)], strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", ["masks", "mixed classes", "fasterrcnn"])
def test_micro_batches_may_hold_nothing_but_holes(name):
    task = TASKS[name]
    found = learnt(task, [1, 2, None, None, None, None, None, None], accumulate=4)

    assert_same(learnt(task, [1, 2]), found)


def test_a_batch_of_holes_alone_has_no_gradient_and_changes_nothing():
    found = learnt(TASKS["masks"], [None, None])
    torch.manual_seed(1)
    before = dict(TASKS["masks"].model().named_buffers())

    assert found["loss"] == 0
    assert all(found[name] is None for name, parameter in TASKS["masks"].model().named_parameters())
    assert all(torch.equal(found[name], buffer) for name, buffer in before.items())


@pytest.mark.parametrize("name", ["masks", "retinanet"])
def test_a_rank_of_holes_alone_has_gradients_of_zero_for_the_others_to_add_theirs(name):
    """Those of no parameter may be missing, or the other ranks would wait for them."""
    task = TASKS[name]
    found = learnt(task, [None, None], ranks=OneOfTwo())
    torch.manual_seed(1)
    model = task.model()

    assert found.pop("loss") == 0
    for key, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert torch.equal(found[key], torch.zeros_like(parameter)), key
    for key, buffer in model.named_buffers():
        assert torch.equal(found[key], buffer), key


def test_one_sample_that_holes_leave_is_learnt_where_a_norm_would_have_one_value():
    """`deeplab` pools over the image, so its norm there needs two; running statistics serve for one."""
    task = TASKS["pooled masks"]
    found = learnt(task, [1, None])
    torch.manual_seed(1)
    before = dict(task.model().named_buffers())

    assert found["loss"] > 0
    assert all(torch.equal(found[name], buffer) for name, buffer in before.items())
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        learnt(task, [1])


class Walk:
    """A feed of given batches, some padded."""

    def __init__(self, batches):
        self.all = batches
        self.plan = range(sum(int(each.weight.sum()) for each in batches))

    def walk(self, stop):
        yield from self.all


def how_many(inputs):
    return len(inputs["image"] if isinstance(inputs, dict) else inputs)


def parts(name):
    """Batches of 4, of 5 samples, the second one padded, and both without padding."""
    task = dataclasses.replace(TASKS[name], canvas=(SIDE, SIDE)) if hasattr(TASKS[name], "canvas") else TASKS[name]
    if name == "volumes":
        task = dataclasses.replace(TASKS[name], canvas=(16, 16, 16))
    whole = [batch(task, [1, 2, 3, 4]), batch(task, [5])]
    return task, whole, [batch(task, [1, 2, 3, 4]), batch(task, [5, None, None, None]), batch(task, [None] * 4)]


@pytest.mark.parametrize("name", ["masks", "mattes", "classes", "volumes", "retinanet"])
def test_the_padding_of_an_evaluation_leaves_no_trace(name):
    task, whole, padded = parts(name)
    seen = []
    torch.manual_seed(1)
    model = task.model().eval()
    model.register_forward_pre_hook(lambda _, given: seen.append(how_many(given[0])))
    results = [evaluate(task, model, Walk(batches), device=CPU, ranks=Ranks()) for batches in (whole, padded)]
    (one, loss), (other, padded_loss) = results

    assert one.as_json() == other.as_json()
    assert loss == padded_loss
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :], "the model never sees padding"


@pytest.fixture
def one_thread():
    """As ranks compute: in another order of sums some pixels are mined that else are not."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("synchronised", [False, True])
def test_two_ranks_of_which_one_has_holes_alone(tmp_path, synchronised):
    """Each rank's gradients and buffers, against one process that sees what the ranks together see."""
    program = SUPPORT / "holes_child.py"
    done = processes.ranks(2, program, tmp_path, int(synchronised))
    assert done.returncode == 0, done.stderr
    first, second = (torch.load(tmp_path / f"rank-{rank}") for rank in (0, 1))
    alone = learnt(TASKS["masks"], [1, 2])
    norms = [name for name in alone if "running_" in name or name.endswith("num_batches_tracked")]
    torch.manual_seed(1)
    before = dict(TASKS["masks"].model().named_buffers())

    assert_same({n: t for n, t in alone.items() if n not in norms}, {n: t for n, t in first.items() if n not in norms})
    assert_same({n: t for n, t in first.items() if n not in norms}, {n: t for n, t in second.items() if n not in norms})
    for name in norms:
        torch.testing.assert_close(first[name], alone[name], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(second[name], alone[name] if synchronised else before[name], rtol=1e-4, atol=1e-5)
    assert norms
