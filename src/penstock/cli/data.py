"""show, verify, unpack, scenes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import penstock as ps
from penstock.cli.options import Crop, Json, Trust, as_json, crop_setting
from penstock.cli.raw_options import Natural, Some
from penstock.progress import Progress, counted

Packed = Annotated[str, Parameter(help="A packed dataset, or a topic: kafka://HOST:PORT/TOPIC.")]


def show(
    dataset: Packed, /, *, split: Annotated[str, Parameter(help="Split to draw. By default the first one.")] = "",
    count: Annotated[int, Parameter(name=["--count", "-n"], validator=Some, help="Number of images.")] = 12,
    augmented: Annotated[
        bool, Parameter(help="Draw the augmented samples that the network is fed.")
    ] = False,
    recipe: Annotated[
        Path | None, Parameter(help="Recipe whose augmentation is drawn, for example recipe.toml of a run.")
    ] = None,
    crop: Crop = None,
    settings: Annotated[tuple[str, ...], Parameter(name="--set", help="A setting of the recipe: KEY=VALUE.")] = (),
    task: Annotated[str, Parameter(help="Custom task, for --augmented: FILE.py:NAME.")] = "",
    seed: Annotated[int, Parameter(help="Random seed: other seeds draw other images.")] = 0,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="PNG file to write.")] = Path("sheet.png"),
    trust: Trust = False,
) -> None:  # fmt: skip
    """Draw packed records, or what the network will be fed, as an image grid."""
    given = [*crop_setting(crop), *settings, *([f"task={task}"] if task else [])]
    sheet = ps.open(dataset, trust=trust).show(
        split, count=count, seed=seed, augmented=augmented, recipe=recipe or "", settings=given, output=output
    )
    for note in sheet.notes:
        print(note)
    print(f"drawn {output}")


def verify(
    dataset: Packed, /, *, split: Annotated[str, Parameter(help="Split to read. By default all of them.")] = "",
    threads: Annotated[
        int, Parameter(validator=Natural, help="Number of threads; 0: one per core, at least four.")
    ] = 0,
    json: Json = False, trust: Trust = False,
) -> int:  # fmt: skip
    """Read every record of a packed dataset: checksums, images, labels.

    Exits with 1 where something is wrong.
    """
    data = ps.open(dataset, trust=trust)
    with Progress("verify", "records") as progress:
        verdict = data.verify(split, threads=threads, progress=progress)
    holes = f", {counted(verdict.holes, 'offset')} without a record" if verdict.holes else ""
    are = "is" if verdict.sound == 1 else "are"
    line = f"{counted(verdict.sound, 'record')} {are} sound, {counted(len(verdict.faults), 'fault')}{holes}"
    print(as_json(verdict) if json else "\n".join([*verdict.faults, line]))
    return 1 if verdict.faults else 0


def unpack(
    dataset: Packed, /, *, output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder to fill.")],
    layout: Annotated[
        str,
        Parameter(
            help="Layout to write: masks or voc for masks, classes for classes, coco, yolo or voc for boxes, coco for "
            "instances. By default the first of these."
        ),
    ] = "",
    trust: Trust = False,
) -> None:  # fmt: skip
    """Write a packed dataset as a folder of images and labels again, for other tools.

    Images are written byte for byte as they were packed.
    """
    data = ps.open(dataset, trust=trust)
    with Progress("unpack", "records") as progress:
        unpacked = data.unpack(output, layout=layout, progress=progress)
    for name, count in unpacked.lost.items():
        print(f"note: the layout {unpacked.layout} has no place for {count:,} {name}, which are written as others are")
    for split, records in unpacked.records.items():
        print(f"{split}: {counted(records, 'image')}")
    print(f"{unpacked.layout} in {output}")


def scenes_command(
    *, output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder to fill.")],
    train: Annotated[int, Parameter(validator=Some, help="Images to train on.")] = 240,
    val: Annotated[int, Parameter(validator=Natural, help="Images to evaluate on.")] = 48,
    test: Annotated[int, Parameter(validator=Natural, help="Images to test on.")] = 24,
    size: Annotated[tuple[int, int], Parameter(help="Height and width in pixels, 16 at least.")] = (192, 256),
    seed: Annotated[int, Parameter(help="Random seed.")] = 0,
) -> None:  # fmt: skip
    """Generate a synthetic segmentation dataset, to try things with."""
    ps.scenes(output, train=train, val=val, test=test, size=size, seed=seed)
    print(f"made {train + val + test:,} scenes of {size[0]} x {size[1]} in {output}")
