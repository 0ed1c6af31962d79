"""The commands and what they do, printed without a library: `penstock --help` is to be there at once."""

from __future__ import annotations

from typing import Final

HELP: Final = "From raw images to a trained vision model: pack, feed, train, resume, replay."

_GROUPS: Final = {
    "Try it": {
        "demo:demo": "Make images, pack, train, evaluate, predict: the whole path in a few minutes.",
        "data:scenes_command": "Generate a synthetic segmentation dataset, to try things with.",
        "downloads:new": "Make a project with a recipe, a layout, a task, a hook and a test.",
        "downloads:download": "Download and unpack CIFAR-10 or CIFAR-100.",
    },
    "Data": {
        "packing:inspect": "Report the contents and the problems of a folder of raw images.",
        "packing:pack": "Pack a folder of raw images into TFRecord shards.",
        "data:show": "Draw packed records, or what the network will be fed, as an image grid.",
        "data:verify": "Read every record of a packed dataset: checksums, images, labels.",
        "topics:publish": "Send a packed dataset to Kafka topics.",
        "data:unpack": "Write a packed dataset as images and labels again: masks, class folders, COCO, YOLO, VOC.",
        "topics:pull": "Write a snapshot of Kafka topics to TFRecord shards.",
    },
    "Training": {
        "training:train": "Train a model on a packed dataset, or resume a run.",
        "advising:doctor": "Check this machine, or print what train would choose for a dataset, and why.",
        "training:recipe": "Print all settings of a training run, as TOML.",
        "runs:replay": "Draw the images of any step of a run, and name their records.",
        "runs:report": "Write the report of a run, or a page that compares several.",
        "experiments:runs_command": "List runs: state, steps, best score, model, data, time, tags and note.",
        "experiments:compare": "Compare runs, and say which scores may be compared.",
        "experiments:note": "Keep a note or tags with a run.",
        "experiments:prune": "Remove all checkpoints but the best of runs that have ended.",
    },
    "Models": {
        "listing:models": "List architectures, and backbones with published weights.",
        "runs:evaluate": "Score a run's model on a split, class by class.",
        "predicting:predict": "Predict masks, classes or boxes for images of any size.",
        "exporting:export": "Write a run's model as one file for other programs: ONNX or torch.export.",
    },
}

_EXAMPLES: Final = """
demo
demo -o work/demo
scenes -o scenes --train 400
scenes -o small --size 64 96 --seed 1
new mushrooms
new work/mushrooms
download cifar10 -o cifar10
download cifar100 -o cifar100 --url http://HOST/FILE.tar.gz
inspect photos
inspect photos --task detection --boxes xywh
pack photos -o data --validation 0.1
pack photos -o data --classes sky,road,car --skip-bad
show data -n 24 -o sheet.png
show data --augmented --crop 256 256 --set augment.flip=0.5
verify data
verify data --split val
publish data kafka://localhost:9092/photos
publish data kafka://localhost:9092/photos --retention 72
unpack data -o coco --layout coco
unpack data -o photos
pull kafka://localhost:9092/photos -o data
pull kafka://localhost:9092/photos -o data --until 2026-11-30T12:00
train data --model unet:resnet50 --crop 256 256 --steps 2000
train --resume runs/0001-unet
doctor
doctor data --model unet:resnet50 --find-time
recipe > recipe.toml
recipe recipe.toml --set optimizer.lr=0.01
replay runs/0001-unet --step 1234
replay runs/0001-unet --step 1 -o step.png
report runs/0001-unet
report runs/0001-unet runs/0002-fpn -o comparison.html
runs
runs --where 'model=unet*' --where 'mean_iou>0.8' --sort best
compare runs/0001-unet runs/0002-fpn
compare runs/0001-unet runs/0002-fpn --json
note runs/0001-unet "the one of the talk"
note runs/0001-unet --tag keep
prune
prune --where 'model=unet*' --yes
models
models 'convnext*' -n 50
evaluate runs/0001-unet --split test
evaluate runs/0001-unet runs/0002-fpn --on today:val
predict runs/0001-unet photos -o predictions
predict runs/0001-unet photos -o masks --sliding-window 512
export runs/0001-unet -o model.onnx
export runs/0001-unet -o model.onnx --dynamic
"""
"""Two for each command, in the order of the commands."""

COMMANDS: Final = {place: text for group in _GROUPS.values() for place, text in group.items()}
"""What every command does, by the module and the function that it is."""


def name_of(place: str) -> str:
    """How a command is called on the command line."""
    return place.partition(":")[2].removesuffix("_command")


def examples(name: str) -> str:
    """Lines that show how a command is used."""
    lines = [f"  penstock {line}" for line in _EXAMPLES.split("\n") if line.split(" ")[0] == name]
    return "\n".join(["Examples:", *lines])


def overview() -> str:
    """The text of `penstock --help`."""
    width = max(len(name_of(place)) for place in COMMANDS)
    lines = ["Usage: penstock COMMAND [ARGUMENTS] [OPTIONS]", "", HELP]
    for title, group in _GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name_of(place):<{width}}  {text}" for place, text in group.items())]
    lines += ["", "penstock COMMAND --help explains a command, penstock --version prints the version, and"]
    lines += ["penstock --install-completion lets bash, zsh, fish or PowerShell complete commands and options."]
    return "\n".join(lines)
