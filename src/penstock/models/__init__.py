"""Models: decoders from segmentation_models.pytorch, detectors from torchvision, backbones from timm.

architectures.py  names of networks, by their task
segmentation.py   names to segmentation models
classification.py names to classifiers
detection.py      names to detectors
deeplab.py        DeepLab, every part a setting
atrous.py         its pyramid, or a dense prediction cell, between backbone and decoder
catalogue.py      which models there are
cost.py           parameters and operations of a model
cifar.py          two small networks for CIFAR
normalization.py  what a network expects of its input
custom.py         a custom network
pretrained.py     published weights of backbones, from the hub or a file
sync_batchnorm.py batch normalisation over all ranks
tta.py            test-time augmentation
weights.py        weights of another run, with an account of every tensor
sliding_window.py a window that slides over large images
decoder.py        options of the decoders of segmentation_models.pytorch, by the names that its classes give them
keyed_dropout.py  dropout and stochastic depth whose randomness belongs to samples, not to the process that computes
published.py      published weights of whole networks, by name
"""

from penstock.models.architectures import ARCHITECTURES, DETECTORS, INSTANCE_NETWORKS
from penstock.models.cifar import FastNetwork
from penstock.models.classification import build_classifier, classifier_normalization
from penstock.models.cost import cost_of
from penstock.models.custom import InitializedFromData
from penstock.models.decoder import check_decoder, decoder_options
from penstock.models.detection import Detector, build_detector, parse_detector, unpack_masks, with_resizing
from penstock.models.keyed_dropout import key_dropout
from penstock.models.normalization import Normalization, as_floats, blank_images
from penstock.models.segmentation import build_segmenter, normalization, parse_name, segmenter_normalization
from penstock.models.sliding_window import Window, Windowed
from penstock.models.sync_batchnorm import lone_norms, silent_norms, synchronise_norms
from penstock.models.tta import TestTimeAugmentation, TTAModel
from penstock.models.weights import load_matching

__all__ = [
    "ARCHITECTURES",
    "DETECTORS",
    "INSTANCE_NETWORKS",
    "Detector",
    "FastNetwork",
    "InitializedFromData",
    "Normalization",
    "TTAModel",
    "TestTimeAugmentation",
    "Window",
    "Windowed",
    "as_floats",
    "blank_images",
    "build_classifier",
    "build_detector",
    "build_segmenter",
    "check_decoder",
    "classifier_normalization",
    "cost_of",
    "decoder_options",
    "key_dropout",
    "load_matching",
    "lone_norms",
    "normalization",
    "parse_detector",
    "parse_name",
    "segmenter_normalization",
    "silent_norms",
    "synchronise_norms",
    "unpack_masks",
    "with_resizing",
]
