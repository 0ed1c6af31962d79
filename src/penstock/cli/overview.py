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
        "advising:doctor": "Print what train would choose for a dataset, and why.",
        "training:recipe": "Print all settings of a training run, as TOML.",
        "runs:replay": "Draw the images of any step of a run, and name their records.",
        "runs:report": "Write the report of a run, or a page that compares several.",
        "experiments:runs_command": "List runs: state, steps, best score, model, data, time, tags and note.",
        "experiments:compare": "Print in what runs differ, and which scores may be compared.",
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

COMMANDS: Final = {place: text for group in _GROUPS.values() for place, text in group.items()}
"""What every command does, by the module and the function that it is."""


def name_of(place: str) -> str:
    """How a command is called on the command line."""
    return place.partition(":")[2].removesuffix("_command")


def overview() -> str:
    """The text of `penstock --help`."""
    width = max(len(name_of(place)) for place in COMMANDS)
    lines = ["Usage: penstock COMMAND [ARGUMENTS] [OPTIONS]", "", HELP]
    for title, group in _GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name_of(place):<{width}}  {text}" for place, text in group.items())]
    lines += ["", "penstock COMMAND --help explains a command, penstock --version prints the version, and"]
    lines += ["penstock --install-completion lets bash, zsh, fish or PowerShell complete commands and options."]
    return "\n".join(lines)
