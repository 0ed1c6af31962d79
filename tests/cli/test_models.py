from __future__ import annotations

import timm
from support.commands import call

from penstock.models import ARCHITECTURES


def test_architectures_are_listed_by_task(capsys):
    code, out, _ = call("models", capsys=capsys)
    assert code == 0
    assert out.startswith("segmentation, matting: --model ARCHITECTURE:BACKBONE\n")
    assert all(f"  {name} " in out for name in (*ARCHITECTURES, "fasterrcnn", "ssd"))
    assert f"{len(timm.list_pretrained()):,} backbones have published weights" in out


def test_backbones_have_their_parameters_image_size_and_licence(capsys):
    code, out, _ = call("models", "resnet18", "-n", 3, capsys=capsys)
    assert code == 0
    lines = out.splitlines()
    assert len(lines) == 5
    assert lines[0].split() == ["backbone", "parameters", "image", "size", "licence", "of", "the", "weights"]
    found = next(line.split() for line in lines if line.startswith("resnet18.a1_in1k "))
    built = sum(parameter.numel() for parameter in timm.create_model("resnet18").parameters())
    assert found == ["resnet18.a1_in1k", f"{built / 1e6:.1f}", "M", "224", "x", "224", "apache-2.0"]
    every = len(timm.list_pretrained("*resnet18*"))
    assert lines[-1] == f"and {every - 3} more: add --count {every}, or give a longer name"


def test_a_pattern_is_one(capsys):
    out = call("models", "resnet18.a?_in1k", capsys=capsys)[1]
    assert [line.split()[0] for line in out.splitlines()[1:]] == [
        "resnet18.a1_in1k",
        "resnet18.a2_in1k",
        "resnet18.a3_in1k",
    ]


def test_an_architecture_is_found_by_name(capsys):
    assert call("models", "maskrcnn", capsys=capsys) == (
        0,
        "maskrcnn  Mask R-CNN (He et al. 2017) on a feature pyramid, for instances: --model maskrcnn:BACKBONE\n",
        "",
    )
    out = call("models", "*net*plus", capsys=capsys)[1]
    assert (
        out == "unetplusplus  U-Net++ (Zhou et al. 2018), for segmentation and matting: --model unetplusplus:BACKBONE\n"
    )


def test_an_unknown_name_is_refused(capsys):
    assert call("models", "resnext999", capsys=capsys)[::2] == (
        2,
        "error: The name 'resnext999' is in that of no architecture, and of no backbone of timm with published weights. "
        "Try a shorter name.\n",
    )
