from __future__ import annotations

import numpy as np
import pytest
import torch
from support.recorded import recorded
from support.samples import PNG, filled

from penstock.errors import ImageError
from penstock.kinds.fields import ClassificationRecord
from penstock.settings import Augment, Regularize
from penstock.tasks import Classification
from penstock.tasks.classes import NOTHING


class TestClasses:
    def test_a_damaged_image_is_named(self):
        record = recorded(ClassificationRecord(PNG[:-30], 0, "x", "png", 30, 40), "s#4")
        task = Classification("test_resnet", ("a", "b"), Augment((8, 8)))
        with pytest.raises(ImageError, match=r"^s#4: "):
            filled(task.prepare(train=False), record)

    @pytest.mark.parametrize("regularized", [Regularize(mixup=0.5), Regularize(random_erasing=0.5), Regularize()])
    def test_what_a_loss_is_divided_by(self, regularized):
        """Images by the weights of their classes; of mixed ones, of the classes that are mixed in them."""
        task = Classification("test_resnet", ("a", "b"), Augment((8, 8)), regularized, class_weights=(1.0, 10.0))
        tensors = {"label": torch.tensor([0, 1, 1, -1]), "image": torch.zeros(4, 8, 8, 3)}
        draws = torch.tensor(np.stack([NOTHING] * 4))
        draws[0, 0] = 0.25  # a quarter of the first, the rest of the second

        assert task.count(tensors).tolist() == [1 + 10 + 10]
        mixed = 0.25 * 1 + 0.75 * 10 + 10 + 10
        expected = mixed if regularized.mixes else 21
        assert task.count(tensors | {"draws": draws}).tolist() == [pytest.approx(expected)]
