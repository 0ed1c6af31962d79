"""doctor."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

import penstock as ps
from penstock.cli.options import Crop, Json, ModelName, TaskName, as_json, crop_setting
from penstock.progress import Progress


def doctor(
    dataset: Annotated[
        str, Parameter(help="A packed dataset, or a topic: kafka://HOST:PORT/TOPIC. By default the machine is checked.")
    ] = "", /, *,
    model: ModelName = "", crop: Crop = None, task: TaskName = "",
    settings: Annotated[
        tuple[str, ...], Parameter(name="--set", help="Setting of the training: KEY=VALUE. May be repeated.")
    ] = (),
    find_lr: Annotated[
        bool, Parameter(help="Train for up to 100 steps with a rising learning rate, and suggest one.")
    ] = False,
    find_time: Annotated[
        bool, Parameter(help="Train for four steps, and say how long the whole training would take.")
    ] = False,
    find_batch: Annotated[
        bool, Parameter(help="Find the largest batch that fits into the memory of the GPU.")
    ] = False,
    json: Json = False,
) -> None:  # fmt: skip
    """Check this machine, or print what `penstock train` would choose for a dataset, and why.

    Of the machine: versions, cores, memory, GPU, disk, and what each missing extra needs.

    A reason is the task, the model, the size of the images, or a general default. Any of them can be changed with an
    option of `penstock train`, or with --set.
    """
    with Progress("find lr", "steps") as progress:
        rows = ps.advise(
            dataset, find_lr=find_lr, find_time=find_time, find_batch=find_batch, progress=progress, model=model,
            task=task, settings=[*crop_setting(crop), *settings],
        )  # fmt: skip
    if json:
        print(as_json([row._asdict() for row in rows]))
        return
    about, value = max(len(row.about) for row in rows), max(len(row.value) for row in rows)
    for row in rows:
        print(f"{row.about:<{about}}  {row.value:<{value}}  {row.reason}".rstrip())
