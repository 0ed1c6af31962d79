"""Losses against independent implementations, and against themselves in pieces."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import segmentation_models_pytorch as smp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from penstock.errors import RecipeError
from penstock.losses import CrossEntropy, Focal, Lovasz, Mixture, Tversky, class_weights
from penstock.tasks import Objective, weights_of

CLASSES = 5
IGNORE = 255
TERMS = {
    "cross-entropy": CrossEntropy(),
    "weighted": CrossEntropy((0.2, 1.0, 3.0, 0.5, 1.5)),
    "smoothed": CrossEntropy(label_smoothing=0.1),
    "weighted and smoothed": CrossEntropy((0.2, 1.0, 3.0, 0.5, 1.5), 0.2),
    "hardest": CrossEntropy(ohem_ratio=0.3),
    "threshold": CrossEntropy(ohem_threshold=0.2),
    "focal": Focal(1.5),
    "dice": Tversky(),
    "jaccard": Tversky(1.0, 1.0),
    "tversky": Tversky(0.3, 0.7),
    "lovasz": Lovasz(),
}


def drawn(seed, samples=4, size=(9, 11), ignored=0.2):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn((samples, CLASSES, *size), generator=generator) * 2
    target = torch.randint(0, CLASSES, (samples, *size), generator=generator)
    target[torch.rand(target.shape, generator=generator) < ignored] = IGNORE
    return logits, target.to(torch.uint8)


def value(term, logits, target):
    return term.sum(logits, target, IGNORE) / term.count(target, IGNORE)


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

    @pytest.mark.parametrize(
        ("term", "other"),
        [
            (Tversky(), smp.losses.DiceLoss("multiclass", ignore_index=IGNORE, smooth=0, eps=1e-12)),
            (Tversky(1.0, 1.0), smp.losses.JaccardLoss("multiclass", smooth=0, eps=1e-12)),
            (
                Tversky(0.3, 0.7),
                smp.losses.TverskyLoss("multiclass", ignore_index=IGNORE, smooth=0, alpha=0.3, beta=0.7),
            ),
        ],
    )
    def test_regions_are_those_of_segmentation_models_pytorch(self, seed, term, other):
        """Theirs takes a batch as one image, and counts classes that are not there as found."""
        ignored = 0.0 if isinstance(other, smp.losses.JaccardLoss) else 0.2
        logits, target = drawn(seed, samples=1, ignored=ignored)
        present = len(set(target.flatten().tolist()) - {IGNORE})

        assert value(term, logits, target).item() == pytest.approx(
            other(logits, target.long()).item() * CLASSES / present, rel=1e-4
        )

    @pytest.mark.parametrize("absent", [False, True])
    def test_lovasz_is_that_of_segmentation_models_pytorch(self, seed, absent):
        logits, target = drawn(seed)
        target[(target < 2) & absent] = IGNORE
        other = smp.losses.LovaszLoss("multiclass", per_image=True, ignore_index=IGNORE)

        assert value(Lovasz(), logits, target).item() == pytest.approx(other(logits, target.long()).item(), rel=1e-4)

    def test_the_hardest_pixels_are_those_with_the_largest_loss(self, seed):
        logits, target = drawn(seed)
        loss = functional.cross_entropy(logits, target.long(), ignore_index=IGNORE, reduction="none")
        total, count = 0.0, 0
        for picture, label in zip(loss, target, strict=True):
            valid = sorted(picture[label != IGNORE].tolist(), reverse=True)
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


def zip_pixels(label):
    return [
        ((y, x), label[y, x]) for y in range(label.shape[0]) for x in range(label.shape[1]) if label[y, x] != IGNORE
    ]


@pytest.mark.parametrize("name", TERMS)
class TestEvery:
    def test_pieces_of_a_batch_add_up_to_it_with_the_same_gradients(self, name):
        """What ranks and micro-batches rest on."""
        term, (logits, target) = TERMS[name], drawn(7)
        whole = logits.clone().requires_grad_()
        value(term, whole, target).backward()
        for cuts in ([0, 1, 4], [0, 1, 2, 3, 4], [0, 3, 4]):
            pieces = logits.clone().requires_grad_()
            count = sum(term.count(target[a:b], IGNORE) for a, b in pairwise(cuts))
            total = sum(term.sum(pieces[a:b], target[a:b], IGNORE) / count for a, b in pairwise(cuts))
            total.backward()
            torch.testing.assert_close(total, value(term, logits, target), rtol=1e-5, atol=1e-7)
            torch.testing.assert_close(pieces.grad, whole.grad, rtol=1e-4, atol=1e-8)

    def test_ignored_pixels_and_padding_change_nothing_and_get_no_gradient(self, name):
        term, (logits, target) = TERMS[name], drawn(3)
        logits.requires_grad_()
        value(term, logits, target).backward()
        ignored = (target == IGNORE).unsqueeze(1).expand_as(logits)
        assert logits.grad[ignored].abs().max() == 0
        more = torch.cat([logits.detach(), torch.randn(1, *logits.shape[1:])])
        padded = torch.cat([target, torch.full((1, *target.shape[1:]), IGNORE, dtype=torch.uint8)])

        torch.testing.assert_close(value(term, more, padded), value(term, logits, target))

    def test_a_batch_without_any_label_is_zero_with_finite_gradients(self, name):
        term, (logits, target) = TERMS[name], drawn(3)
        logits.requires_grad_()
        total = term.sum(logits, torch.full_like(target, IGNORE), IGNORE)
        total.backward()

        assert (total.item(), term.count(torch.full_like(target, IGNORE), IGNORE).item()) == (0, 0)
        assert torch.isfinite(logits.grad).all()

    def test_right_and_sure_is_nearly_nothing_and_wrong_is_more(self, name):
        term, (_, target) = TERMS[name], drawn(3, ignored=0.0)
        truth = functional.one_hot(target.long(), CLASSES).movedim(-1, 1).float()
        right, wrong = value(term, 20 * truth, target), value(term, -20 * truth, target)

        assert right < 0.05 + 20 * getattr(term, "label_smoothing", 0)
        assert wrong > 0.9

    def test_classes_that_are_not_there_leave_finite_gradients(self, name):
        term, (logits, target) = TERMS[name], drawn(3)
        logits.requires_grad_()
        value(term, logits, torch.where(target == IGNORE, IGNORE, 2).to(torch.uint8)).backward()

        assert torch.isfinite(logits.grad).all()


def test_a_mixture_divides_each_by_its_own_count():
    logits, target = drawn(1)
    mixture = Mixture([(1.0, CrossEntropy()), (0.5, Tversky())])
    expected = value(CrossEntropy(), logits, target) + 0.5 * value(Tversky(), logits, target)

    assert mixture.count(target, IGNORE).shape == (2,)
    alone = Mixture([(1.0, CrossEntropy())]).count(target, IGNORE)
    assert alone.tolist() == [int((target != IGNORE).sum())]
    assert not alone.dtype.is_floating_point  # which could not count beyond 2^24
    torch.testing.assert_close((mixture.sum(logits, target, IGNORE) / mixture.count(target, IGNORE)).sum(), expected)


@given(
    st.lists(st.integers(0, 10**9), min_size=1, max_size=30).filter(any),
    st.sampled_from(["inverse", "effective"]),
)
def test_class_weights_favour_what_is_rare(pixels, how):
    weights = class_weights(pixels, how)
    present = [(count, weight) for count, weight in zip(pixels, weights, strict=True) if count]

    assert sum(weight for _, weight in present) / len(present) == pytest.approx(1)
    assert all(weight > 0 for weight in weights)
    for (count, weight), (other, less) in pairwise(sorted(present)):
        assert count == other or weight >= less * (1 - 1e-9)


def test_class_weights_as_published():
    assert class_weights((10, 30), "inverse") == pytest.approx((1.5, 0.5))
    frequencies = (
        10 / 100,
        20 / 40,
        40 / 100,
    )  # of images of 40 and 60 pixels, the second class in the first one alone
    weights = [sorted(frequencies)[1] / each for each in frequencies]
    found = class_weights((10, 20, 40), "median", (100, 40, 100))
    assert found == pytest.approx([3 * weight / sum(weights) for weight in weights])
    beta = 1 - 1 / 40
    raw = [(1 - beta) / (1 - beta**n) for n in (10, 30)]
    assert class_weights((10, 30), "effective") == pytest.approx([2 * w / sum(raw) for w in raw])
    assert class_weights((10, 0), "inverse") == (1.0, 1.0)
    assert class_weights((1, 1), "effective") == (1.0, 1.0)
    assert class_weights((1, 0), "effective") == (1.0, 1.0)
    assert class_weights((10, 30), "none") == ()
    with pytest.raises(ValueError, match=r"^no class has a pixel$"):
        class_weights((0, 0), "inverse")


def test_mining_begins_slowly():
    objective = Objective(ohem_ratio=0.2, ohem_warmup_steps=100)
    shares = [objective.mixture(step=step).terms[0][1].ohem_ratio for step in (0, 50, 100, 1000)]

    assert shares == pytest.approx([1.0, 0.6, 0.2, 0.2])
    assert objective.mixture().terms[0][1].ohem_ratio == 0.2


def test_weights_that_do_not_fit_are_refused():
    with pytest.raises(RecipeError) as caught:
        weights_of(Objective(class_weights=(1.0, 2.0)), ("a", "b", "c"), (1, 1, 1))
    assert str(caught.value) == (
        "loss.class_weights: expected 3 numbers, one for each of a, b, c, found 2. Write as many, in the order of the ids."
    )
    for weights in ((0.0, 0.0), (-1.0, 1.0), (1.0, math.nan), (1.0, math.inf)):
        with pytest.raises(
            RecipeError, match=r"loss.class_weights: expected numbers from 0 on, at least one of them abov"
        ):
            weights_of(Objective(class_weights=weights), ("a", "b"), (1, 1))
    with pytest.raises(RecipeError, match="expected a dataset whose description counts the pixels of every class"):
        weights_of(Objective(class_weights="median"), ("a", "b"), (0, 0))
    with pytest.raises(RecipeError) as caught:
        weights_of(Objective(class_weights="median"), ("a", "b"), (1, 1))
    assert str(caught.value) == (
        "loss.class_weights: expected a dataset whose description counts the pixels of the images that each class occurs "
        "in, found one that does not: classes of whole images, or packed by an earlier version. Take "
        "loss.class_weights=inverse, or pack masks again."
    )
    assert weights_of(Objective(), ("a", "b"), (0, 0)) == ()
