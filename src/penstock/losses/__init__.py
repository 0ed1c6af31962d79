"""Losses as sums with counts of their own: the session divides each by its count over the global batch.

What an image adds to a sum depends on that image alone, and what it adds to a count on its labels alone; so ranks,
micro-batches and one process do the same mathematics, whatever is mined or compared by region.

base.py       Term, the contract, and Mixture, a weighted sum of terms
pixels.py     cross-entropy (weighted, smoothed, of the hardest pixels) and focal loss
regions.py    Dice, Jaccard, Tversky, Lovasz
soft.py       cross-entropy against probabilities
weighting.py  class weights from pixel counts
custom.py     a custom loss, by its place
"""

from penstock.losses.base import Mixture, Term
from penstock.losses.pixels import CrossEntropy, Focal
from penstock.losses.regions import Lovasz, Tversky
from penstock.losses.soft import SoftCrossEntropy, SoftLabels
from penstock.losses.weighting import class_weights

__all__ = [
    "CrossEntropy",
    "Focal",
    "Lovasz",
    "Mixture",
    "SoftCrossEntropy",
    "SoftLabels",
    "Term",
    "Tversky",
    "class_weights",
]
