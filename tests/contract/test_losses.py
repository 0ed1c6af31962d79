from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from support.losses import CLASSES, IGNORE, TERMS, drawn, value
from torch.nn import functional

from penstock.losses.custom import PerImage


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


def test_a_custom_loss_counts_images_with_a_label_alone():
    """Whatever its function gives for the others."""
    loss = PerImage(lambda logits, target, ignore: torch.ones(len(logits)), "mine.py:ones")
    logits, target = drawn(5)
    target[1:] = IGNORE
    assert (float(loss.sum(logits, target, IGNORE)), int(loss.count(target, IGNORE))) == (1, 1)
