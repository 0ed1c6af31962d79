from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from support.datasets import learn_colors
from torch.nn import functional as F  # noqa: N812

from penstock.assembly import open_experiment
from penstock.losses import SoftCrossEntropy, SoftLabels
from penstock.settings import Objective, Regularize

MIXED = Regularize(mixup=0.4, cutmix=1.0, random_erasing=0.5)


@pytest.mark.parametrize("weights", [(), (1.0, 2.0, 0.5)])
def test_the_loss_is_that_of_pytorch(weights):
    logits, target = torch.randn(6, 3), torch.rand(6, 3).softmax(dim=1)
    expected = F.cross_entropy(
        logits, target, torch.tensor(weights) if weights else None, label_smoothing=0.1, reduction="sum"
    )

    assert torch.allclose(SoftCrossEntropy(weights, 0.1).sum(logits, target), expected)


@pytest.mark.parametrize("mix", [Regularize(), MIXED])
def test_pieces_have_the_same_gradients(colors, mix):
    """Micro-batches and ranks of whole pairs do the mathematics of one batch."""
    parts = open_experiment(
        learn_colors(colors, regularize=mix, loss=Objective(class_weights=(1.0, 2.0, 3.0), label_smoothing=0.1))
    )
    task, model = parts.task, parts.model().eval()
    (batch,) = itertools.islice(dataclasses.replace(parts.training_feed(), batch=8).walk(), 1)

    def gradients(pieces):
        model.zero_grad()
        count = task.count(batch.tensors)
        for part in torch.arange(8).split(8 // pieces):
            tensors = {name: tensor[part] for name, tensor in batch.tensors.items()}
            (task.loss(model(task.inputs(tensors)), tensors) / count).sum().backward()
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    whole = gradients(1)
    assert whole.abs().sum() > 0
    for pieces in (2, 4):
        assert torch.allclose(gradients(pieces), whole, atol=1e-6)


def test_the_loss_is_its_definition():
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 2, 5, 6, generator=draw, requires_grad=True)
    target = torch.randint(-1, 256, (3, 5, 6), generator=draw).to(torch.int16)
    share = torch.stack([1 - target.clamp(min=0) / 255, target.clamp(min=0) / 255], dim=1)
    each = torch.nn.functional.cross_entropy(logits, share, reduction="none")
    expected = each[target >= 0].sum()

    assert torch.allclose(SoftLabels().sum(logits, target, -1), expected)
    assert SoftLabels().count(target, -1) == (target >= 0).sum()


def test_in_pieces_the_gradient_is_the_same():
    draw = torch.Generator().manual_seed(1)
    logits = torch.randn(6, 2, 4, 4, generator=draw)
    target = torch.randint(-1, 256, (6, 4, 4), generator=draw).to(torch.int16)
    target[3] = -1
    whole, parts = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    count = SoftLabels().count(target, -1)
    (SoftLabels().sum(whole, target, -1) / count).backward()
    for start, stop in ((0, 1), (1, 4), (4, 6)):
        (SoftLabels().sum(parts[start:stop], target[start:stop], -1) / count).backward()

    torch.testing.assert_close(parts.grad, whole.grad)


def test_smoothing_spreads_nothing_over_what_does_not_count():
    logits = torch.tensor([[1.0, 2.0, 0.5], [3.0, -1.0, 0.0]])
    target = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    loss = SoftCrossEntropy(label_smoothing=0.1)
    assert float(loss.sum(logits, target)) == pytest.approx(float(loss.sum(logits[:1], target[:1])))
