"""Losses that compare regions: the overlap of what is predicted and what is true, image by image.

Each is a mean over the classes that an image's labels hold, then over the images that hold any; classes that are not
there would be a constant, or would punish a single wrong pixel as much as a missed object.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention


@dataclass(frozen=True)
class Tversky:
    """Tversky loss (Salehi et al. 2017): `1 - tp / (tp + tversky_alpha * fp + tversky_beta * fn)`, soft counts.

    Both weights 0.5 make it the Dice loss, both 1 the Jaccard loss.

    Attributes:
        tversky_alpha, tversky_beta: what the two mistakes weigh.
    """

    tversky_alpha: float = 0.5
    tversky_beta: float = 0.5

    def count(self, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The number of images with a label, int64."""
        return _labelled(target, ignore)

    def sum(self, logits: torch.Tensor, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The summed losses of the images, in float32."""
        truth, guess = _regions(logits, target, ignore)
        hit, true, guessed = (truth * guess).sum(dim=2), truth.sum(dim=2), guess.sum(dim=2)
        mistakes = self.tversky_alpha * (guessed - hit) + self.tversky_beta * (true - hit)
        present = true > 0
        # Where a class is absent the quotient may be 0 / 0, whose gradient is not a number even if it is not used.
        loss = 1 - hit / torch.where(present, hit + mistakes, 1.0)
        return _mean_of_present(loss, present).sum()


@dataclass(frozen=True)
class Lovasz:
    """Lovasz-softmax loss (Berman et al. 2018), the convex extension of the Jaccard index, image by image."""

    def count(self, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The number of images with a label, int64."""
        return _labelled(target, ignore)

    def sum(self, logits: torch.Tensor, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The summed losses of the images, in float32."""
        truth, guess = _regions(logits, target, ignore)
        errors, order = (truth - guess).abs().sort(dim=2, descending=True)
        loss = (errors * _gradient(truth.gather(2, order))).sum(dim=2)
        return _mean_of_present(loss, truth.sum(dim=2) > 0).sum()


def _regions(logits: torch.Tensor, target: torch.Tensor, ignore: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Truth and probabilities, float32 (samples, classes, pixels), both 0 where there is no label."""
    valid = (target != ignore).flatten(1)
    ids = torch.where(valid, target.flatten(1), 0).long()
    truth = F.one_hot(ids, logits.shape[1]).transpose(1, 2).float() * valid.unsqueeze(1)
    return truth, logits.float().softmax(dim=1).flatten(2) * valid.unsqueeze(1)


def _gradient(truth: torch.Tensor) -> torch.Tensor:
    """The gradient of the Lovasz extension for truths sorted by error, algorithm 1 of the paper."""
    total = truth.sum(dim=2, keepdim=True)
    hits = truth.long().cumsum(dim=2)  # of integers: on CUDA that of floats is not deterministic
    wrong = torch.arange(1, truth.shape[2] + 1, device=truth.device) - hits
    jaccard = 1 - (total - hits) / (total + wrong)
    return torch.cat([jaccard[:, :, :1], jaccard[:, :, 1:] - jaccard[:, :, :-1]], dim=2)


def _mean_of_present(loss: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    return torch.where(present, loss, 0.0).sum(dim=1) / present.sum(dim=1).clamp(min=1)


def _labelled(target: torch.Tensor, ignore: int) -> torch.Tensor:
    return (target != ignore).flatten(1).any(dim=1).sum()
