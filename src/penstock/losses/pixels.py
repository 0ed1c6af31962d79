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
    so its loss depends on which classes a batch happens to hold). Where only some pixels count, an image's loss is the
    mean over those, with weights the weighted mean.

    Attributes:
        weights: one per class, or none.
        label_smoothing: fraction of the target that is spread evenly over all classes (Szegedy et al. 2016), from 0 to
            below 1.
        ohem_ratio: only this fraction of the labelled pixels of each image counts, those with the largest loss
            (DeepLab's hard pixel mining, which draws on all pixels of a batch, ignored ones too); 1 takes all. At least
            one pixel. An image weighs as much as this fraction of its labelled pixels.
        ohem_threshold: only pixels whose own class gets a smaller probability than this count, but at least a sixteenth
            of the labelled pixels of each image (OHEM, Shrivastava et al. 2016); 0 takes all. An image weighs as much
            as all its labelled pixels.
    """

    weights: tuple[float, ...] = ()
    label_smoothing: float = 0.0
    ohem_ratio: float = 1.0
    ohem_threshold: float = 0.0

    def count(self, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """Pixels with a label, int64, or the sum of their classes' weights, float32; of the hardest, their fraction."""
        valid = target != ignore
        if self.ohem_ratio < 1:
            return self._worth(target, valid).sum()
        return self._weight(target, valid).sum() if self.weights else valid.sum()

    def sum(self, logits: torch.Tensor, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The summed cross-entropies, in float32."""
        mined = self.ohem_ratio < 1 or self.ohem_threshold > 0
        # CUDA's own reduction is not deterministic, a sum is.
        alone = mined or torch.are_deterministic_algorithms_enabled()
        weight = torch.tensor(self.weights, device=logits.device) if self.weights else None
        loss = F.cross_entropy(
            logits.float(),
            target.long(),
            weight,
            ignore_index=ignore,
            reduction="none" if alone else "sum",
            label_smoothing=self.label_smoothing,
        )
        if not mined:
            return loss.sum()
        valid = target != ignore
        kept = self._hardest(loss, valid) if self.ohem_ratio < 1 else self._hard(logits, target, valid)
        weights = torch.where(kept, self._weight(target, valid).flatten(1), 0.0).sum(dim=1)
        means = torch.where(kept, loss.flatten(1), 0.0).sum(dim=1) / torch.where(weights > 0, weights, 1.0)
        return (means * self._worth(target, valid)).sum()

    def _weight(self, target: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        """Weight of each pixel: that of its class, or 1 without class weights; 0 where there is no label."""
        weights = torch.tensor(self.weights or (1.0,), device=target.device)
        own = torch.where(valid, target, 0).long() if self.weights else torch.zeros_like(target, dtype=torch.int64)
        return torch.where(valid, weights[own], 0.0)

    def _worth(self, target: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        """What each image's mean weighs: its pixels' weights, and of the hardest their fraction."""
        weights = self._weight(target, valid).flatten(1).sum(dim=1)
        if self.ohem_ratio >= 1:
            return weights
        labelled = valid.flatten(1).sum(dim=1)
        return weights * _fraction(labelled, self.ohem_ratio) / labelled.clamp(min=1)

    def _hardest(self, loss: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        """Which pixels of each image, flat, have its largest losses."""
        with torch.no_grad():
            loss = torch.where(valid, loss, -1.0).flatten(1)
            order = loss.argsort(dim=1, descending=True)
            kept = _fraction(valid.flatten(1).sum(dim=1), self.ohem_ratio).unsqueeze(1)
            first = torch.arange(loss.shape[1], device=loss.device) < kept
            return torch.zeros_like(first).scatter(1, order, first)

    def _hard(self, logits: torch.Tensor, target: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        """Which pixels of each image, flat, are hard: their own class is less probable than the threshold."""
        with torch.no_grad():
            own = torch.where(valid, target, 0).long().unsqueeze(1)
            probability = logits.float().softmax(dim=1).gather(1, own).flatten(1)
            valid = valid.flatten(1)
            probability = torch.where(valid, probability, 2.0)
            least = _fraction(valid.sum(dim=1), 1 / 16)
            ordered = probability.sort(dim=1).values
            limit = ordered.gather(1, (least - 1).clamp(min=0).unsqueeze(1))
            return valid & ((probability < self.ohem_threshold) | (probability <= limit))


@dataclass(frozen=True)
class Focal:
    """Focal loss (Lin et al. 2017): cross-entropy times `(1 - p) ** gamma`, p being the probability of the true class.

    Attributes:
        focal_gamma: how much easy pixels are discounted; 0 is cross-entropy.
    """

    focal_gamma: float = 2.0

    def count(self, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The number of pixels with a label, int64."""
        return (target != ignore).sum()

    def sum(self, logits: torch.Tensor, target: torch.Tensor, ignore: int) -> torch.Tensor:
        """The summed losses, in float32."""
        loss = F.cross_entropy(logits.float(), target.long(), ignore_index=ignore, reduction="none")
        wrong = (1 - torch.exp(-loss)).clamp(min=_TINY)  # a root's slope at 0 is infinite
        return (wrong**self.focal_gamma * loss).sum()


def _fraction(count: torch.Tensor, fraction: float) -> torch.Tensor:
    """A fraction of some pixels, rounded up."""
    return torch.ceil(count * fraction).long()
