from __future__ import annotations

import copy

import pytest
import torch
from support.holes import CPU, TASKS, batch
from torch import nn

from penstock.errors import RecipeError
from penstock.models import build_classifier, build_segmenter
from penstock.session import Learner
from penstock.session.activation_checkpointing import recompute_blocks
from penstock.session.kept import KeptValues
from penstock.settings import Train
from penstock.settings.optimizer import AdamW


def learner(task, *, checkpointing, **more):
    torch.manual_seed(0)
    options = Train(steps=9, activation_checkpointing=checkpointing, **more)
    made = Learner.of(task.model(), options=options, optimizer=AdamW(lr=1e-3), ranks=_ranks(), device=CPU, seed=4)
    made.begin()
    return made


def _ranks():
    from penstock.ranks import Ranks

    return Ranks()


def stepped(task, given, steps=2, kept=None, **more):
    """What a few steps leave: weights, running statistics, optimizer and average."""
    made = learner(task, **more)
    for step in range(steps):
        made.update(made.backward(task, given, step, 0, kept), given, step)
    return {f"{file}/{name}": each.clone() for file, named in made.tensors().items() for name, each in named.items()}


@pytest.mark.parametrize(
    ("name", "accumulate"),
    [
        pytest.param(name, accumulate, marks=pytest.mark.soak if name == "fasterrcnn" else [])
        for name in sorted(TASKS)
        for accumulate in (1, 2)
    ],
)
def test_steps_end_in_the_same_bytes(name, accumulate):
    """Of every task, beside samples that weigh nothing, in one piece and in two."""
    task = TASKS[name]
    given = batch(task, [0, 1, None, 2])
    more = {"accumulate": accumulate, "ema_decay": 0.9}
    one, other = (stepped(task, given, checkpointing=each, **more) for each in (False, True))

    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def held(model, images):
    """Bytes that a forward pass keeps for the backward one, without weights."""
    seen, own = {}, {each.data_ptr() for each in (*model.parameters(), *model.buffers())}

    def pack(tensor):
        if tensor.data_ptr() not in own:
            seen[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(images)
    return sum(seen.values())


def test_less_is_kept_for_the_backward_pass():
    model = build_segmenter("unet:resnet18", 2, "none").train()
    lighter = copy.deepcopy(model)
    recompute_blocks(lighter)
    images = torch.randn(1, 3, 128, 128)

    assert held(lighter, images) < 0.6 * held(model, images)


def test_hooks_see_a_module_once_for_every_micro_batch():
    task, name = TASKS["masks"], "encoder.model.layer1.0.conv1"
    given, kept = batch(task, [0, 1, 2, 3]), KeptValues({name})
    names = [each for each, _ in task.model().named_modules() if each.endswith("conv1")]
    kept = KeptValues({names[-1]})
    stepped(task, given, steps=1, kept=kept, checkpointing=True, accumulate=2)

    assert len(kept.values[names[-1]]) == 2


def test_nothing_is_computed_again_where_no_gradient_is_asked_for():
    model, calls = build_classifier("test_resnet", 2, "none"), []
    recompute_blocks(model)
    inner = next(module for name, module in model.named_modules() if name.endswith("conv1") and "layer" in name)
    inner.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        model.train()(torch.randn(2, 3, 64, 64))
    assert len(calls) == 1
    model(torch.randn(2, 3, 64, 64)).sum().backward()
    assert len(calls) == 3


def test_a_model_without_blocks_is_refused():
    with pytest.raises(RecipeError) as error:
        recompute_blocks(nn.Sequential(nn.Linear(2, 2)))

    assert str(error.value) == (
        "train.activation_checkpointing: expected a model with blocks in nn.Sequential, nn.ModuleList or nn.ModuleDict, "
        "found none in Sequential. Remove it, or build the model of such blocks."
    )
