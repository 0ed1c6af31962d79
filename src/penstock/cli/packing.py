"""inspect, pack."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import penstock as ps
from penstock.cli.options import Json, as_json
from penstock.cli.raw_options import NOTHING_GIVEN, RawArguments, Some
from penstock.progress import Progress, counted

_SHOWN = 8  # classes in a line


def inspect(
    folder: Annotated[str, Parameter(help="A folder of raw images, or a topic: kafka://HOST:PORT/TOPIC.")],
    /,
    *,
    raw: RawArguments = NOTHING_GIVEN,
    draw_duplicates: Annotated[
        Path | None, Parameter(help="PNG file for a drawing of images that resemble training images, beside those.")
    ] = None,
    json: Json = False,
) -> int:
    """Report the contents and the problems of a folder of raw images.

    Exits with 1 where packing would be refused.
    """
    if "://" in folder or folder.startswith("kafka:"):
        data = ps.open(folder)
        raw.refuse_for_topic(*(["--draw-duplicates"] if draw_duplicates else []))
        print(as_json(data.opened.description) if json else data.describe())
        return 0
    with redirect_stdout(sys.stderr) if json else nullcontext():
        found = _parted(_inspect(Path(folder), raw, draw_duplicates), raw)
    print(as_json(found.as_json()) if json else found.describe())
    if draw_duplicates:
        drawn, pairs = found.draw_duplicates(draw_duplicates)
        nothing = "no image outside train looks nearly like a training image: nothing is drawn"
        stream = sys.stderr if json else sys.stdout
        print(f"drawn {draw_duplicates} ({drawn} of {counted(pairs, 'pair')})" if pairs else nothing, file=stream)
    if raw.skip_bad and not found.items:
        print("nothing is left to pack", file=sys.stderr if json else sys.stdout)
        return 1
    return 1 if found.fatal else 0


def pack(
    folder: Annotated[Path, Parameter(help="A folder of raw images.")],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder to fill.")],
    raw: RawArguments = NOTHING_GIVEN,
    shard_size: Annotated[int, Parameter(validator=Some, help="Approximate size of a shard in MiB.")] = 64,
) -> None:
    """Pack a folder of raw images into TFRecord shards.

    Refuses data with problems. Packing the same data again writes nothing; a pack that was killed goes on.
    """
    found = _parted(_inspect(folder, raw), raw)
    print(found.describe_briefly(rewritten=raw.seekable or raw.quality > 0))
    with Progress("pack", "records") as progress:
        data = ps.pack(found, output, shard_size=shard_size, threads=raw.threads, progress=progress)
    described = data.opened.description
    for name, split in described.splits.items():
        print(f"{name}: {counted(split.records, 'record')} in {counted(len(split.shards), 'shard')}")
    if raw.validation:
        print(_set_aside(data))
    ignored = f"ignore label {described.ignore_label}, " if described.kind.ignores else ""
    print(f"{counted(len(described.classes), 'class')}, {ignored}fingerprint {described.content}")
    print(f"dataset {output}")


def _set_aside(data: ps.Data) -> str:
    """How much of each class is in val, of many classes the first ones."""
    described, counts = data.opened.description, data["val"].counts
    shown = [f"{name} {count:,}" for name, count in counts.items()][:_SHOWN]
    more = ", ..." if len(counts) > _SHOWN else ""
    missing = sum(count == 0 for count in counts.values())
    none = f". Nothing in it is of {counted(missing, 'class')}" if missing else ""
    return f"in val, {counted(2, described.kind.unit).split()[1]} by class: {', '.join(shown)}{more}{none}"


def _parted(found: ps.Inspection, raw: RawArguments) -> ps.Inspection:
    """The inspection without items that have problems (--skip-bad) and with a split val (--validation)."""
    if raw.skip_bad and found.fatal:
        found = _without_bad(found)
    return found.divided(raw.validation) if raw.validation else found


def _without_bad(found: ps.Inspection) -> ps.Inspection:
    """The inspection without what has problems, once that is named."""
    sound = found.sound()
    single = [problem for problem in found.fatal if not problem.whole]
    for problem in single:
        print(f"skipped: {problem.file} ({problem.kind})")
    known = found.files
    others = sum(problem.file not in known for problem in single)
    more = f", and {counted(others, 'other entry')}" if others else ""
    print(f"skipped {len(found.items) - len(sound.items)} of {counted(len(found.items), 'image')}{more}")
    for split, items in found.splits.items():
        if sound.items and split not in sound.splits:
            print(f"note: nothing is left of {split}, which had {counted(len(items), 'image')} with problems")
    return sound


def _inspect(folder: Path, raw: RawArguments, duplicates: Path | None = None) -> ps.Inspection:
    given = raw.given()
    with Progress("inspect", "images") as progress:
        return ps.inspect(folder, duplicates=duplicates or "", progress=progress, on_layout=_warn, **given)


def _warn(layout: ps.Layout) -> None:
    """Say what the annotations alone show to be wrong, as reading the images may take long."""
    kinds = Counter(problem.kind for problem in layout.problems if problem.fatal)
    if kinds:
        listed = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
        print(f"problems before any image is read: {listed}", flush=True)
