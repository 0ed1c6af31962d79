"""Models: decoders from segmentation_models.pytorch on backbones from timm.

segmentation.py   names to models, and the backbone's normalisation
pretrained.py     published weights of backbones, from the hub or a file
views.py          one answer from several looks at a picture
weights.py        weights of another run, with an account of every tensor
"""

from penstock.models.segmentation import ARCHITECTURES, Normalization, build_segmenter, normalization, parse_name
from penstock.models.views import Averaged, Views
from penstock.models.weights import Loaded, load_matching

__all__ = [
    "ARCHITECTURES",
    "Averaged",
    "Loaded",
    "Normalization",
    "Views",
    "build_segmenter",
    "load_matching",
    "normalization",
    "parse_name",
]
