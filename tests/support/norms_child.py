"""One rank of two that normalise together: norms_child.py FILE OUT, started by test_sync_batchnorm.py."""

import sys

import torch
import torch.distributed as dist
from timm.layers import BatchNormAct2d
from torch import nn

from penstock.models import synchronise_norms


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 5, 3), BatchNormAct2d(5), nn.Conv2d(5, 2, 1)
    )


def learn(model, images, steps=3):
    """Gradients and buffers after some batches, each loss summed over its images."""
    for batch in images[:steps]:
        model(batch).square().sum().backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    return found | {name: buffer.clone() for name, buffer in model.named_buffers()}


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    parts = [batch[:3] if rank == 0 else batch[3:] for batch in torch.load(sys.argv[1])]
    found = learn(synchronise_norms(network()).train(), parts)
    for name, tensor in found.items():
        if not name.endswith(("running_mean", "running_var", "num_batches_tracked")):
            dist.all_reduce(tensor)
    torch.save(found, f"{sys.argv[2]}-{rank}")
    dist.destroy_process_group()
