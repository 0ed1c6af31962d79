"""Random logits and labels, and every loss."""

from __future__ import annotations

import torch

from penstock.losses import CrossEntropy, Focal, Lovasz, Tversky

CLASSES = 5


IGNORE = 255


TERMS = {
    "cross-entropy": CrossEntropy(),
    "weighted": CrossEntropy((0.2, 1.0, 3.0, 0.5, 1.5)),
    "smoothed": CrossEntropy(label_smoothing=0.1),
    "weighted and smoothed": CrossEntropy((0.2, 1.0, 3.0, 0.5, 1.5), 0.2),
    "hardest": CrossEntropy(ohem_ratio=0.3),
    "threshold": CrossEntropy(ohem_threshold=0.2),
    "focal": Focal(1.5),
    "dice": Tversky(),
    "jaccard": Tversky(1.0, 1.0),
    "tversky": Tversky(0.3, 0.7),
    "lovasz": Lovasz(),
}


def drawn(seed, samples=4, size=(9, 11), ignored=0.2):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn((samples, CLASSES, *size), generator=generator) * 2
    target = torch.randint(0, CLASSES, (samples, *size), generator=generator)
    target[torch.rand(target.shape, generator=generator) < ignored] = IGNORE
    return logits, target.to(torch.uint8)


def value(term, logits, target):
    return term.sum(logits, target, IGNORE) / term.count(target, IGNORE)


def zip_pixels(label):
    return [
        ((y, x), label[y, x]) for y in range(label.shape[0]) for x in range(label.shape[1]) if label[y, x] != IGNORE
    ]
