"""One of two ranks, the second of which has nothing but holes: holes_child.py OUT SYNCHRONISED (see test_holes.py)."""

import sys

import torch
import torch.distributed as dist

from penstock.models import synchronise_norms
from penstock.ranks import from_environment
from penstock.session.step import Gradients
from penstock.settings import Train
from support.holes import CPU, TASKS, batch

if __name__ == "__main__":
    dist.init_process_group("gloo")
    ranks, task = from_environment(), TASKS["masks"]
    torch.manual_seed(1)
    model = task.model().train()
    if int(sys.argv[2]):
        model = synchronise_norms(model)
    network = ranks.wrap(model, CPU)
    options = Train(steps=1, accumulate=2 if int(sys.argv[2]) else 1)
    gradients = Gradients(model, network, ranks=ranks, device=CPU, options=options, layout=torch.channels_last)
    numbers = [1, 2, None, None] if ranks.rank == 0 else [None, None, None, None]
    loss = gradients.compute(task, batch(task, numbers))
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    torch.save({"loss": loss, **found, **dict(model.named_buffers())}, f"{sys.argv[1]}/rank-{ranks.rank}")
    dist.destroy_process_group()
