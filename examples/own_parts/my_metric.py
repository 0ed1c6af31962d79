"""A metric of one's own: `penstock train DATA --set 'train.metrics=["examples/own_parts/my_metric.py:Worst"]'`."""

import torch


class Worst:
    """The accuracy of the class that is recognised worst; what it counts is added up over all ranks."""

    def __init__(self, classes, ignore):
        self.ignore = ignore
        self.state = torch.zeros((2, len(classes)), dtype=torch.float64)

    def update(self, outputs, tensors):
        """Count one batch: logits (n, classes, h, w), and `mask`, class ids (n, h, w)."""
        mask = tensors["mask"].long()
        counts = mask != self.ignore
        right = (outputs.argmax(dim=1) == mask) & counts
        size = self.state.shape[1]
        self.state[0] += torch.bincount(mask[right], minlength=size)[:size].cpu()
        self.state[1] += torch.bincount(mask[counts], minlength=size)[:size].cpu()

    def compute(self):
        """The score by its name."""
        right, pixels = self.state
        return {"worst_accuracy": float((right[pixels > 0] / pixels[pixels > 0]).min())}
