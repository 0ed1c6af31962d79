from __future__ import annotations

import math

import pytest
import torch
from support.line import CPU, SPEC, Line
from torch import nn

from penstock.feed import Batch
from penstock.models import synchronise_norms
from penstock.models.sync_batchnorm import SyncNorm
from penstock.ranks import Ranks
from penstock.session import Learner
from penstock.session.diagnosis import Cause
from penstock.settings import Train
from penstock.values import Cursor


class Experiment(nn.Module):
    """Three layers; the second one has a norm, in which one sample spoils all of a batch."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(2, 4)
        self.middle = nn.Sequential(nn.BatchNorm1d(4), nn.ReLU())
        self.last = nn.Linear(4, 1)

    def forward(self, values):
        return self.last(self.middle(self.first(values)))


def learner(model, accumulate=1):
    options = Train(steps=9, accumulate=accumulate)
    made = Learner.of(model, options=options, optimizer=SPEC, ranks=Ranks(), device=CPU)
    made.begin()
    return made


def batch(**spoiled):
    x = torch.arange(12.0).reshape(6, 2) / 12
    y = torch.linspace(0, 1, 6)
    for name, rows in spoiled.items():
        {"x": x, "y": y}[name][rows] = math.inf
    return Batch({"x": x, "y": y}, torch.ones(6), Cursor(6, "plan"), tuple(f"n#{row}" for row in range(6)))


def diagnosed(made, given):
    made.backward(Line(), given, 0, 0)
    before = {name: buffer.clone() for name, buffer in made.model.named_buffers()}
    cause = made.diagnose(Line(), given, 0, 0)
    started = {name: buffer.clone() for name, buffer in Experiment().named_buffers()}
    for name, buffer in made.model.named_buffers():
        assert torch.equal(buffer, started[name]), name
        assert name.endswith("running_mean") is False or not torch.equal(before[name], started[name])
    assert all(module.training for module in made.model.modules())
    assert not any(module._forward_hooks for module in made.model.modules())
    return cause


@pytest.mark.parametrize("accumulate", [1, 3])
class TestCause:
    def test_a_sample_that_spoils_a_batch_is_named(self, accumulate):
        assert diagnosed(learner(Experiment(), accumulate), batch(x=[3])) == Cause("first", ("n#3",))

    def test_so_are_two(self, accumulate):
        assert diagnosed(learner(Experiment(), accumulate), batch(x=[1, 5])) == Cause("first", ("n#1", "n#5"))

    def test_a_label_spoils_the_loss(self, accumulate):
        assert diagnosed(learner(Experiment(), accumulate), batch(y=[2])) == Cause("the loss", ("n#2",))

    def test_a_weight_spoils_all_samples_and_none_is_named(self, accumulate):
        model = Experiment()
        model.last.weight.data[0, 1] = math.nan
        assert diagnosed(learner(model, accumulate), batch()) == Cause("last", ())


def test_gradients_alone_are_named_from_the_loss_on():
    class Steep(Line):
        def loss(self, outputs, tensors):
            return (outputs[:, 0] - outputs[:, 0].detach()).abs().sqrt().sum().unsqueeze(0)

    made = learner(Experiment())
    made.backward(Steep(), batch(), 0, 0)
    cause = made.diagnose(Steep(), batch(), 0, 0)

    assert cause == Cause("the gradient of last.bias", ())


@pytest.mark.parametrize("spoiled", [{"x": [3]}, {}])
def test_norms_over_all_ranks_are_not_waited_for(spoiled):
    """Their statistics need a group of processes, which there is none of here: each rank takes its own."""

    class Wrong(Line):
        def loss(self, outputs, tensors):
            seen.append(outputs.detach())
            return super().loss(outputs * (1 if spoiled else torch.inf), tensors)

    seen = []
    plain, model = learner(Experiment()), synchronise_norms(Experiment())
    plain.backward(Wrong(), batch(**spoiled), 0, 0)
    made = learner(model)
    made.model.eval()
    made.backward(Wrong(), batch(**spoiled), 0, 0)
    made.model.train()

    samples = ("n#3",) if spoiled else ()
    assert made.diagnose(Wrong(), batch(**spoiled), 0, 0) == Cause("first" if spoiled else "the loss", samples)
    if not spoiled:
        torch.testing.assert_close(seen[2], seen[0])
    assert not any(module.alone for module in model.modules() if isinstance(module, SyncNorm))


def test_samples_of_weight_0_are_not_blamed():
    class Holes(Line):
        def mask_padding(self, tensors, weight):
            return tensors

    given = batch(x=[0, 4])
    given = Batch(given.tensors, torch.tensor([0.0, 1, 1, 1, 1, 1]), given.cursor, given.origins)
    made = learner(Experiment())
    made.backward(Holes(), given, 0, 0)

    assert made.diagnose(Holes(), given, 0, 0) == Cause("first", ("n#4",))


def test_a_diagnosis_that_fails_leaves_the_model_as_it_was():
    class Wrong(Line):
        def inputs(self, tensors):
            if torch.is_grad_enabled():
                return tensors["x"]
            model.middle(torch.ones(2, 4))
            raise ValueError("the test breaks it")

    model = Experiment()
    made = learner(model)
    made.backward(Wrong(), batch(), 0, 0)
    with pytest.raises(ValueError, match="the test breaks it"):
        made.diagnose(Wrong(), batch(), 0, 0)

    assert all(torch.equal(one, other) for one, other in zip(model.buffers(), Experiment().buffers(), strict=True))
    assert all(module.training for module in model.modules())


def test_causes_are_sentences():
    assert str(Cause("encoder.layer1", ("a#1", "b#2"))) == "it began in encoder.layer1, with a#1, b#2"
    assert str(Cause("the loss")) == "it began in the loss"
    assert str(Cause()) == "where it began is not known"
