"""Options that several commands have."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import msgspec
from cyclopts import Parameter

TASKS: Final = "segmentation, matting, classification, detection, instances, volumes"
"""The built-in tasks, as help texts list them."""
Trust = Annotated[
    bool,
    Parameter(help="Execute custom code that is stored in the run or dataset even if it is not yours."),
]
Json = Annotated[bool, Parameter(help="Print JSON, for other programs.")]
Crop = Annotated[tuple[int, int] | None, Parameter(help="Height and width of the training crop, in pixels.")]
ModelName = Annotated[
    str,
    Parameter(
        help="Model, such as deeplabv3plus:resnet50, resnet50 (classification), fasterrcnn:resnet50 (detection), "
        "maskrcnn:resnet50 (instances), or FILE.py:NAME."
    ),
]
TaskName = Annotated[str, Parameter(help="Task: a built-in name or FILE.py:NAME. By default the task of the dataset.")]


def crop_setting(crop: tuple[int, int] | None) -> list[str]:
    """A crop as a setting, KEY=VALUE; none where none was given."""
    return [f"augment.crop=[{crop[0]}, {crop[1]}]"] if crop else []


def as_json(value: Any) -> str:
    """A value of dataclasses, paths and the like as JSON; numbers that JSON does not know are null."""
    try:
        return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
    except UnicodeEncodeError:  # a name of a file that is no UTF-8
        return json.dumps(msgspec.to_builtins(value, enc_hook=str), indent=2)
