from __future__ import annotations

import json

import pytest
from support.samples import cases


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


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{type(case[0]).__name__}-{len(case[2])}")
def test_ranks_score_together_what_one_scores_alone(case):
    task, outputs, tensors = case
    origins = [f"s#{number}" for number in range(4)]

    def counted(start, stop, metric):
        part = {name: tensor[start:stop] for name, tensor in tensors.items()}
        metric.update(outputs[start:stop], part, origins[start:stop])
        return metric

    alone, noted = counted(0, 4, task.metric()), Noted()
    alone.gather(Noted())
    counted(0, 2, task.metric()).gather(noted)
    second = counted(2, 4, task.metric())
    second.gather(Others(noted.sums, noted.texts))

    assert json.dumps(second.scores().as_json()) == json.dumps(alone.scores().as_json())
    assert noted.sums or noted.texts
    values = alone.scores().summary()
    assert 0.0 < values[task.best_metric] < 1.0
