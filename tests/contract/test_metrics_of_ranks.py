from __future__ import annotations

import json
from itertools import pairwise

import pytest
import torch
from support.samples import cases

from penstock.session.custom_metrics import merged


class Others:
    """Ranks of which the others have counted what was counted before."""

    def __init__(self, sums, texts):
        self.sums, self.texts = list(sums), texts

    def sum(self, tensor):
        return tensor.add_(self.sums.pop(0))

    def gather(self, texts):
        return [*self.texts, *texts]


class Noted:
    """What a metric gives to other ranks."""

    def __init__(self):
        self.sums, self.texts = [], []

    def sum(self, tensor):
        self.sums.append(tensor.clone())
        return tensor

    def gather(self, texts):
        self.texts = list(texts)
        return self.texts


@pytest.mark.parametrize("stops", [(2, 4), (1, 3, 4), (1, 2, 3, 4)], ids=["2 ranks", "3 ranks", "4 ranks"])
@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{type(case[0]).__name__}-{len(case[2])}")
def test_ranks_score_together_what_one_scores_alone(case, stops):
    task, outputs, tensors = case
    origins = [f"s#{number}" for number in range(4)]

    def counted(start, stop, metric):
        part = {name: tensor[start:stop] for name, tensor in tensors.items()}
        metric.update(outputs[start:stop], part, origins[start:stop])
        return metric

    alone = counted(0, 4, task.metric())
    alone.gather(Noted())
    *others, last = [counted(start, stop, task.metric()) for start, stop in pairwise((0, *stops))]
    noted = [Noted() for _ in others]
    for each, note in zip(others, noted, strict=True):
        each.gather(note)
    sums = [sum(parts) for parts in zip(*(note.sums for note in noted), strict=True)]
    texts = [text for note in noted for text in note.texts]
    last.gather(Others(sums, texts))

    assert json.dumps(last.scores().as_json()) == json.dumps(alone.scores().as_json())
    assert sums or texts
    values = alone.scores().summary()
    assert 0.0 < values[task.best_metric] < 1.0


class Images:
    """A custom metric: how many images were counted, and the sum of their labels."""

    lower_is_better = True

    def __init__(self):
        self.state = torch.zeros(2, dtype=torch.int64)

    def update(self, outputs, tensors):
        self.state += torch.tensor([len(outputs), int(tensors["label"].sum())])

    def compute(self):
        return {"images": float(self.state[0]), "labels": float(self.state[1])}


class Plain:
    """The scores of a task."""

    def summary(self):
        return {"score": 0.5}

    def as_json(self):
        return {"score": 0.5}


@pytest.mark.parametrize("stops", [(4,), (2, 4), (1, 3, 4)], ids=["1 rank", "2 ranks", "3 ranks"])
def test_custom_metrics_count_the_images_of_all_ranks(stops):
    labels = torch.tensor([3, 1, 4, 1])
    counted = []
    for start, stop in pairwise((0, *stops)):
        counted.append((Images(), Images()))
        for metric in counted[-1]:
            metric.update(labels[start:stop], {"label": labels[start:stop]})
    *others, last = counted
    sums = [sum((pair[number].state for pair in others), torch.zeros(2, dtype=torch.int64)) for number in range(2)]
    found = merged(Plain(), last, Others(sums, []))

    assert found.summary() == {"score": 0.5, "images": 4.0, "labels": 9.0}
    assert found.as_json() == found.summary()
    assert found.lower_is_better == {"images", "labels"}
