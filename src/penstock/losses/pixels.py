"""Losses that look at one pixel at a time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention

_TINY = 1e-12


@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy over the pixels with a label.

    Divided by the number of pixels; with class weights by the sum of their weights (DeepLab divides by the number,
    so its loss depends on which classes a batch happens to hold).

    Attributes:
        weights: one per class, or none.
        smoothing: share of the target that is spread evenly over all classes (Szegedy et al. 2016), from 0 to below 1.
        hardest: only this share of each picture's labelled pixels counts, those with the largest loss (DeepLab's hard
            pixel mining, which draws on all pixels of a batch, ignored ones too); 1 takes all. At least one pixel.
        threshold: only pixels whose own class gets a smaller probability than this count, but at least a sixteenth of
            each picture's labelled pixels (OHEM, Shrivastava et al. 2016); 0 takes all. The mean over those that count
            stands for the picture with the weight of all its labelled pixels.
    """

    weights: tuple[float, ...] = ()
    smoothing: float = 0.0
    hardest: float = 1.0
    threshold: float = 0.0

    def count(self, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """Pixels with a label, int64; of the hardest their number; or the sum of their classes' weights, float32."""
        valid = target != ignore
        if self.hardest < 1:
            return _share(valid.flatten(1).sum(dim=1), self.hardest).sum()
        if self.weights and not self.threshold:
            return self._weight(target, valid).sum()
        return valid.sum()

    def sum(self, logits: torch.Tensor, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The summed cross-entropies, in float32."""
        mined = self.hardest < 1 or self.threshold > 0
        # CUDA's own reduction is not deterministic, a sum is.
        alone = mined or torch.are_deterministic_algorithms_enabled()
        weight = torch.tensor(self.weights, device=logits.device) if self.weights else None
        loss = F.cross_entropy(
            logits.float(),
            target.long(),
            weight,
            ignore_index=ignore,
            reduction="none" if alone else "sum",
            label_smoothing=self.smoothing,
        )
        if not mined:
            return loss.sum()
        valid = (target != ignore).flatten(1)
        if self.hardest < 1:
            return _hardest(loss.flatten(1), _share(valid.sum(dim=1), self.hardest))
        return self._hard(logits, target, loss.flatten(1), valid)

    def _weight(self, target: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        weights = torch.tensor(self.weights, device=target.device)
        return torch.where(valid, weights[torch.where(valid, target, 0).long()], 0.0)

    def _hard(
        self, logits: torch.Tensor, target: torch.Tensor, loss: torch.Tensor, valid: torch.Tensor
    ) -> torch.Tensor:
        """Picture by picture, the mean over its hard pixels times the number of its labelled ones."""
        with torch.no_grad():
            own = torch.where(valid.view_as(target), target, 0).long().unsqueeze(1)
            probability = logits.float().softmax(dim=1).gather(1, own).flatten(1)
            probability = torch.where(valid, probability, 2.0)
            labelled = valid.sum(dim=1)
            least = _share(labelled, 1 / 16)
            ordered = probability.sort(dim=1).values
            limit = ordered.gather(1, (least - 1).clamp(min=0).unsqueeze(1))
            hard = valid & ((probability < self.threshold) | (probability <= limit))
        kept = hard.sum(dim=1)
        means = torch.where(hard, loss, 0.0).sum(dim=1) / kept.clamp(min=1)
        return (means * labelled).sum()


@dataclass(frozen=True)
class Focal:
    """Focal loss (Lin et al. 2017): cross-entropy times `(1 - p) ** gamma`, p being the probability of the true class.

    Attributes:
        gamma: how much easy pixels are discounted; 0 is cross-entropy.
    """

    gamma: float = 2.0

    def count(self, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The number of pixels with a label, int64."""
        return (target != ignore).sum()

    def sum(self, logits: torch.Tensor, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The summed losses, in float32."""
        loss = F.cross_entropy(logits.float(), target.long(), ignore_index=ignore, reduction="none")
        wrong = (1 - torch.exp(-loss)).clamp(min=_TINY)  # a root's slope at 0 is infinite
        return (wrong**self.gamma * loss).sum()


def _share(count: torch.Tensor, share: float) -> torch.Tensor:
    """A share of some pixels, rounded up."""
    return torch.ceil(count * share).long()


def _hardest(loss: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """The sum of each row's largest losses, as many as `kept` says; ignored pixels have none and come last."""
    ordered = loss.sort(dim=1, descending=True).values
    places = torch.arange(loss.shape[1], device=loss.device)
    return torch.where(places < kept.unsqueeze(1), ordered, 0.0).sum()
