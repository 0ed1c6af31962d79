from __future__ import annotations

import dataclasses
import os
import sys

import pytest
import torch
from support import processes
from support.training import recipe
from torch import nn

from penstock import devices
from penstock.session import Hook
from penstock.settings import Model
from penstock.training import train

CPU = torch.device("cpu")


CHURN = """
import resource, sys
import numpy
from penstock import devices
if sys.argv[1] == "keep":
    devices.keep_freed_memory()
numpy.ones(1 << 23)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    numpy.ones(1 << 23)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str, **environment: str) -> int:
    """Page faults of asking for 64 MiB, writing and freeing them, ten times after a first."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    return int(processes.run("-c", CHURN, how, env={**own, **environment}, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux" or torch.cuda.is_available(), reason="a setting of glibc, for CPUs")
def test_freed_memory_is_kept_for_the_next_step_unless_the_user_has_chosen():
    given_back, kept, chosen = faults("not"), faults("keep"), faults("keep", MALLOC_ARENA_MAX="8")

    assert kept < given_back / 10
    assert chosen > given_back / 2


@pytest.mark.parametrize(
    ("network", "layout"),
    [
        (nn.Conv2d(4, 4, 3, dilation=2), torch.contiguous_format),
        (nn.Conv2d(4, 4, 1, dilation=2), torch.channels_last),
        (nn.Conv2d(4, 4, 3, dilation=2, groups=4), torch.channels_last),
        (nn.Conv2d(4, 4, 3), torch.channels_last),
        (nn.Conv3d(4, 4, 3), torch.channels_last_3d),
    ],
)
def test_training_on_a_cpu_is_laid_out_as_it_is_fastest(network, layout):
    assert devices.training_layout(network, CPU) is layout
    assert devices.training_layout(network, torch.device("cuda")) is not torch.contiguous_format


def test_models_and_inputs_are_laid_out_alike():
    images = torch.zeros((2, 5, 6, 3)).permute(0, 3, 1, 2)
    first, last = torch.contiguous_format, torch.channels_last

    for layout in (first, last):
        model = devices.place(nn.Conv2d(3, 4, 3, dilation=2), CPU, layout)
        assert model.weight.is_contiguous(memory_format=layout)
        assert devices.lay_out(images, layout).is_contiguous(memory_format=layout)
        assert devices.lay_out({"image": images}, layout)["image"].is_contiguous(memory_format=layout)
        assert devices.lay_out("what a task of one's own takes", layout) == "what a task of one's own takes"
    assert devices.place(model, CPU).weight.is_contiguous(memory_format=last)


def test_a_session_trains_in_that_layout(packed, tmp_path):
    seen = []

    class Look(Hook):
        def on_start(self, session):
            session.model.register_forward_pre_hook(
                lambda model, given: seen.append(
                    (model.training, session.learner.gradients.layout, given[0].is_contiguous())
                )
            )

    chosen = dataclasses.replace(recipe(packed.folder, steps=2), model=Model("deeplabv3plus:test_resnet", "none"))
    train(chosen, tmp_path, hooks=[Look()])

    assert {each for each in seen if each[0]} == {(True, torch.contiguous_format, True)}
