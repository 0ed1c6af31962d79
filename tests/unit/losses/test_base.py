from __future__ import annotations

import torch
from support.losses import IGNORE, drawn, value

from penstock.losses import CrossEntropy, Mixture, Tversky


def test_a_mixture_divides_each_by_its_own_count():
    logits, target = drawn(1)
    mixture = Mixture([(1.0, CrossEntropy()), (0.5, Tversky())])
    expected = value(CrossEntropy(), logits, target) + 0.5 * value(Tversky(), logits, target)

    assert mixture.count(target, IGNORE).shape == (2,)
    alone = Mixture([(1.0, CrossEntropy())]).count(target, IGNORE)
    assert alone.tolist() == [int((target != IGNORE).sum())]
    assert not alone.dtype.is_floating_point  # which could not count beyond 2^24
    torch.testing.assert_close((mixture.sum(logits, target, IGNORE) / mixture.count(target, IGNORE)).sum(), expected)
