from __future__ import annotations

import pytest
import torch

from penstock.metrics import PredictionCounts


class TestScores:
    def counted(self, classes=7, samples=500):
        generator = torch.Generator().manual_seed(1)
        probabilities = (3 * torch.randn((samples, classes), generator=generator)).softmax(dim=1)
        target = torch.randint(0, classes, (samples,), generator=generator)
        predictions = PredictionCounts(classes)
        for part in torch.arange(samples).split(64):
            predictions.update(probabilities[part], target[part])
        return predictions.scores([f"c{i}" for i in range(classes)]), probabilities, target

    def test_they_are_those_of_torchmetrics(self):
        functional = pytest.importorskip("torchmetrics.functional.classification")
        scores, probabilities, target = self.counted()
        every = functional.multiclass_accuracy(probabilities, target, 7, average=None)
        precision = functional.multiclass_precision(probabilities, target, 7, average=None)

        assert scores.top1 == pytest.approx(
            float(functional.multiclass_accuracy(probabilities, target, 7, average="micro"))
        )
        assert scores.top5 == pytest.approx(
            float(functional.multiclass_accuracy(probabilities, target, 7, average="micro", top_k=5))
        )
        assert scores.recall == pytest.approx(every.tolist())
        assert scores.precision == pytest.approx(precision.tolist())
        expected = float(functional.multiclass_calibration_error(probabilities, target, 7, n_bins=15, norm="l1"))
        assert scores.calibration_error == pytest.approx(expected, abs=1e-6)

    def test_ranks_add_up_to_the_same_integers(self):
        _, probabilities, target = self.counted()
        whole = PredictionCounts(7)
        whole.update(probabilities, target)
        for ranks in (2, 3):
            parts = [PredictionCounts(7) for _ in range(ranks)]
            for rank, part in enumerate(parts):
                part.update(probabilities[rank::ranks], target[rank::ranks])
            assert torch.equal(sum(part.counts for part in parts), whole.counts)

    def test_the_five_likeliest_of_five_classes_are_no_score(self):
        assert set(self.counted(5)[0].as_json()) == set(self.counted(6)[0].as_json()) - {"top5"}

    def test_padding_does_not_count_and_absent_classes_are_named(self):
        predictions = PredictionCounts(3)
        predictions.update(torch.tensor([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1]]), torch.tensor([0, -1]))
        scores = predictions.scores(["a", "b", "c"])

        assert (scores.true, scores.absent, scores.recall) == ([1, 0, 0], ["b", "c"], [1.0, None, None])


def test_classifiers_that_have_diverged_are_scored_as_wrong():
    from penstock.metrics import PredictionCounts

    predictions = PredictionCounts(7)
    probabilities = torch.full((4, 7), float("nan"))
    predictions.update(probabilities, torch.tensor([0, 1, 6, 3]))
    found = predictions.scores([str(n) for n in range(7)]).as_json()

    assert (found["top1"], found["top5"]) == (0.0, 0.0)

    predictions = PredictionCounts(7)
    probabilities[1:] = torch.eye(7)[[1, 6, 2]]  # one image alone
    predictions.update(probabilities, torch.tensor([0, 1, 6, 3]))
    assert predictions.scores([str(n) for n in range(7)]).as_json()["top1"] == 0.5


def test_calibration_is_counted_in_all_of_fifteen_bins():
    """Of 40 classes the surest predicted may be less sure than a fifteenth."""
    draw = torch.Generator().manual_seed(2)
    logits = torch.randn((500, 40), generator=draw) * torch.linspace(0, 6, 500).unsqueeze(1)
    logits[0, 7] = 1000.0  # as sure as can be
    probabilities, target = logits.softmax(dim=1), torch.randint(0, 40, (500,), generator=draw)
    predictions = PredictionCounts(40)
    predictions.update(probabilities, target)
    scores = predictions.scores([str(number) for number in range(40)])
    confidence, predicted = probabilities.double().max(dim=1)
    gaps = 0.0
    for number in range(15):
        edge = 1.0 if number == 14 else (number + 1) / 15
        own = (confidence >= number / 15) & ((confidence < edge) | (number == 14))
        gaps += abs(float((predicted == target)[own].sum() - confidence[own].sum()))
        assert scores.bins[number][0] == int(own.sum())

    assert min(count for count, *_ in scores.bins) > 0
    assert scores.calibration_error == pytest.approx(gaps / 500)
