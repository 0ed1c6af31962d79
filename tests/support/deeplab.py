"""Small networks of DeepLab."""

from __future__ import annotations

import dataclasses

import torch

from penstock.models import build_segmenter
from penstock.settings import DeepLabConfig, Model
from support.training import recipe


def network(**parts):
    torch.manual_seed(0)
    return build_segmenter("deeplab:resnet18", 5, "none", DeepLabConfig(channels=32, **parts))


def images(size=64, count=2):
    return torch.randn((count, 3, size, size), generator=torch.Generator().manual_seed(1))


def learn_deeplab(packed, **parts):
    chosen = recipe(packed.folder, steps=4, evaluate_every=4)
    return dataclasses.replace(chosen, model=Model("deeplab:test_resnet", "none", DeepLabConfig(channels=16, **parts)))
