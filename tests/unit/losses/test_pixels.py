from __future__ import annotations

import pytest
import torch
from monai.losses import FocalLoss
from support.errors import refused
from support.losses import CLASSES, IGNORE, TERMS, drawn, value, zip_pixels
from support.training import recipe
from torch.nn import functional
from torchvision.ops import sigmoid_focal_loss

from penstock.config import apply
from penstock.config.checks import check_new
from penstock.losses import CrossEntropy, Focal
from penstock.settings import Objective
from penstock.tasks.objective import mixture


@pytest.mark.parametrize("seed", range(5))
class TestAgainstOthers:
    @pytest.mark.parametrize("name", ["cross-entropy", "weighted", "smoothed", "weighted and smoothed"])
    def test_cross_entropy_is_that_of_pytorch(self, seed, name):
        logits, target = drawn(seed)
        term = TERMS[name]
        weight = torch.tensor(term.weights) if term.weights else None
        theirs = functional.cross_entropy(
            logits, target.long(), weight, ignore_index=IGNORE, label_smoothing=term.label_smoothing
        )

        assert value(term, logits, target).item() == pytest.approx(theirs.item(), rel=1e-5)

    @pytest.mark.parametrize("gamma", [0.0, 1.0, 2.5])
    def test_focal(self, seed, gamma):
        logits, target = drawn(seed)
        theirs = 0.0
        for c in range(CLASSES):  # smp's multiclass focal loss is one of binary losses: the paper's, written out, here
            where = target == c
            p = logits.softmax(dim=1)[:, c][where]
            theirs += (-((1 - p) ** gamma) * p.log()).sum()

        assert Focal(gamma).sum(logits, target, IGNORE).item() == pytest.approx(theirs.item(), rel=1e-4)

    def test_the_hardest_pixels_are_those_with_the_largest_loss(self, seed):
        logits, target = drawn(seed)
        loss = functional.cross_entropy(logits, target.long(), ignore_index=IGNORE, reduction="none")
        total, count = 0.0, 0
        for image, label in zip(loss, target, strict=True):
            valid = sorted(image[label != IGNORE].tolist(), reverse=True)
            kept = -(-len(valid) * 3 // 10)
            total, count = total + sum(valid[:kept]), count + kept
        term = TERMS["hardest"]

        assert term.count(target, IGNORE).item() == count
        assert term.sum(logits, target, IGNORE).item() == pytest.approx(total, rel=1e-4)

    def test_pixels_that_are_surely_right_do_not_count_below_a_threshold(self, seed):
        logits, target = drawn(seed)
        probability, total = logits.softmax(dim=1), 0.0
        for p, label in zip(probability, target, strict=True):
            own = sorted(p[int(c), y, x].item() for (y, x), c in zip_pixels(label))
            kept = max(-(-len(own) // 16), sum(value < 0.2 for value in own))
            total += -torch.tensor(own[:kept]).log().mean().item() * len(own)
        term = TERMS["threshold"]

        assert term.count(target, IGNORE).item() == (target != IGNORE).sum().item()
        assert term.sum(logits, target, IGNORE).item() == pytest.approx(total, rel=1e-4)


def test_mining_begins_slowly():
    objective = Objective(ohem_ratio=0.2, ohem_warmup_steps=100)
    shares = [mixture(objective, step=step).terms[0][1].ohem_ratio for step in (0, 50, 100, 1000)]

    assert shares == pytest.approx([1.0, 0.6, 0.2, 0.2])
    assert mixture(objective).terms[0][1].ohem_ratio == 0.2


def test_focal_loss_below_one_has_a_slope_where_pixels_are_right():
    logits = torch.tensor([[100.0, 0.0], [-100.0, 0.0]]).view(1, 2, 1, 2).requires_grad_()
    Focal(0.5).sum(logits, torch.tensor([[[0, 1]]]), 255).backward()

    assert bool(logits.grad.isfinite().all())
    assert bool(logits.grad[..., 1].abs().min() > 0)


def test_two_ways_to_choose_pixels_are_refused():
    refused(
        check_new,
        apply(recipe("data"), ["loss.ohem_threshold=0.7", "loss.ohem_ratio=0.25"]),
        message="loss.ohem_threshold: expected either a threshold or a ratio, found 0.7 and loss.ohem_ratio=0.25. Remove one "
        "of the two settings.",
    )


IGNORED, COUNT = 255, 5


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.5])
def test_the_focal_loss_is_that_of_monai_and_of_torchvision(gamma):
    logits = torch.randn(2, COUNT, 9, 7)
    target = torch.randint(0, COUNT, (2, 9, 7))
    monai = FocalLoss(gamma=gamma, use_softmax=True, to_onehot_y=True, reduction="none")
    assert Focal(gamma).sum(logits, target, IGNORED).item() == pytest.approx(
        monai(logits, target[:, None]).sum().item(), rel=1e-4
    )

    one, two = torch.randn(50), torch.randint(0, 2, (50,))
    pair = torch.stack([torch.zeros(50), one], dim=0)[None, :, :, None]
    torchvision = sigmoid_focal_loss(one, two.float(), alpha=-1, gamma=gamma, reduction="sum")
    assert Focal(gamma).sum(pair, two[None, :, None], IGNORED).item() == pytest.approx(torchvision.item(), rel=1e-4)


def test_cross_entropy_is_a_sum_over_labelled_pixels():
    logits = torch.randn(2, 3, 4, 5)
    target = torch.randint(0, 3, (2, 4, 5))
    target[0, 0] = 255
    probabilities = logits.softmax(1)
    expected = sum(
        -probabilities[n, target[n, y, x], y, x].log()
        for n in range(2)
        for y in range(4)
        for x in range(5)
        if target[n, y, x] != 255
    )

    assert CrossEntropy().sum(logits, target.to(torch.uint8), 255).item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_sixteenth_of_the_pixels_counts_though_all_are_right():
    """Otherwise the mean of none would be no number."""
    logits, target = torch.zeros(1, 2, 8, 8), torch.zeros(1, 8, 8, dtype=torch.uint8)
    logits[:, 0] = torch.linspace(5, 9, 64).reshape(8, 8)
    own = sorted(logits.softmax(dim=1)[:, 0].flatten().tolist())[:4]
    loss = CrossEntropy(ohem_threshold=0.2).sum(logits, target, IGNORE)

    assert loss.item() == pytest.approx(-torch.tensor(own).log().mean().item() * 64, rel=1e-4)
