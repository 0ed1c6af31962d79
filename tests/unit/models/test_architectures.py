from __future__ import annotations

import pytest
from support.errors import refused

from penstock.models import ARCHITECTURES, DETECTORS, parse_detector, parse_name


@pytest.mark.parametrize("name", ["fasterrcnn:resnet50", "ssd:resnet18", "maskrcnn:resnet50"])
def test_a_network_of_another_task_is_called_so(name):
    found = name.partition(":")[0]
    other = "instances" if found == "maskrcnn" else "detection"
    message = (
        f"model.name = {name!r}: {found} is a network for {other}, which this data is not packed for. Choose one of "
        f"{', '.join(ARCHITECTURES)}, or pack the data with --task {other}."
    )
    refused(parse_name, name, message=message)


def test_a_network_for_masks_finds_no_boxes():
    message = (
        "model.name = 'unet:resnet18': unet is a network for segmentation, which this data is not packed for. Choose one of "
        f"{', '.join(DETECTORS)}, or pack the data with --task segmentation."
    )
    refused(parse_detector, "unet:resnet18", message=message)


def test_a_backbone_alone_needs_a_detector():
    message = (
        "model.name = 'resnet18': expected ARCHITECTURE:BACKBONE, found a backbone of timm without an architecture. Name one, "
        "for example fasterrcnn:resnet18."
    )
    refused(parse_detector, "resnet18", message=message)


@pytest.mark.parametrize("name", ["", "nothing"])
def test_what_is_no_network_lists_those_of_the_task(name):
    message = (
        f"model.name = {name!r}: expected ARCHITECTURE:BACKBONE, for example fasterrcnn:resnet50, found {name or 'nothing'}. "
        "The architectures are fasterrcnn, retinanet, fcos, ssd; the backbones are those of timm."
    )
    refused(parse_detector, name, message=message)
