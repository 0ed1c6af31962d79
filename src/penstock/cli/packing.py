"""inspect, pack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock import outputs
from penstock.cli.describing import SHOWN, describe, left_out, notes_on, taken_as, warn
from penstock.cli.raw_options import NOTHING_GIVEN, RawOptions, Some
from penstock.datasets import PackOptions, locate
from penstock.datasets import inspect as inspect_folder
from penstock.datasets import pack as pack_folder
from penstock.datasets.duplicates import pairs_of
from penstock.datasets.inspection import grouped
from penstock.progress import Progress, counted

if TYPE_CHECKING:
    from penstock.datasets import Inspection
    from penstock.datasets.description import Description

_DUPLICATES = "penstock inspect --draw-duplicates"
_PAIRS = 24  # of near-duplicates in a drawing


def inspect(
    folder: Annotated[str, Parameter(help="A folder of raw images, or a topic: kafka://HOST:PORT/TOPIC.")],
    /,
    *,
    raw: RawOptions = NOTHING_GIVEN,
    draw_duplicates: Annotated[
        Path | None, Parameter(help="PNG file to draw images outside train in that look nearly like training images.")
    ] = None,
) -> int:
    """Report the contents and the problems of a folder of raw images.

    Exits with 1 where packing would be refused.
    """
    if locate(folder).remote:
        from penstock.cli.topics import describe as describe_topic

        raw.refuse_for_topic(*(["--draw-duplicates"] if draw_duplicates else []))
        print(describe_topic(folder))
        return 0
    if draw_duplicates:
        outputs.check(draw_duplicates, _DUPLICATES, (".png",))
    found = _parted(_inspect(Path(folder), raw), raw)
    print(describe(found))
    if draw_duplicates:
        print(_drawn_duplicates(found, draw_duplicates))
    if raw.skip_bad and not found.items:
        print("nothing is left to pack")
        return 1
    return 1 if found.fatal else 0


def _drawn_duplicates(found: Inspection, output: Path) -> str:
    pairs = pairs_of(found.items)
    if not pairs:
        return "no image outside train looks nearly like a training image: nothing is drawn"
    from penstock.report.sheets import duplicates_sheet, encode

    outputs.write(output, encode(duplicates_sheet(pairs, found.folder, _PAIRS)), _DUPLICATES)
    return f"drawn {output} ({min(len(pairs), _PAIRS)} of {counted(len(pairs), 'pair')})"


def pack(
    folder: Annotated[Path, Parameter(help="A folder of raw images.")],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder to fill.")],
    raw: RawOptions = NOTHING_GIVEN,
    shard_size: Annotated[int, Parameter(validator=Some, help="Approximate size of a shard in MiB.")] = 64,
) -> None:
    """Pack a folder of raw images into TFRecord shards.

    Refuses data with problems. Packing the same data again writes nothing; a pack that was killed goes on.
    """
    found = _parted(_inspect(folder, raw), raw)
    print(taken_as(found))
    read = found.layout.reasons[1:] if found.layout.kind.shows_boxes_read else ()  # how boxes were read
    if not read and (raw.quality or raw.seekable):
        read = found.layout.reasons[-1:]  # how images are written anew
    notes = [*(f"note: {reason}" for reason in read), *left_out(found.layout), *notes_on(found)]
    notes += grouped([problem for problem in found.problems if not problem.fatal], SHOWN)
    if found.items and notes:
        print(*notes, sep="\n")
    with Progress("pack", "records") as progress:
        options = PackOptions(shard_bytes=shard_size << 20, threads=raw.threads)
        dataset = pack_folder(found, output, options, progress=progress)
    described = dataset.description
    for name, split in described.splits.items():
        print(f"{name}: {counted(split.records, 'record')} in {counted(len(split.shards), 'shard')}")
    if raw.validation:
        print(_set_aside(described))
    ignored = f"ignore label {described.ignore_label}, " if described.kind.ignores else ""
    print(f"{counted(len(described.classes), 'class')}, {ignored}fingerprint {described.content}")
    print(f"dataset {output}")


def _set_aside(described: Description) -> str:
    """How much of each class is in val, of many classes the first ones."""
    counts = dict(zip(described.classes, described.splits["val"].per_class, strict=True))
    shown = [f"{name} {count:,}" for name, count in counts.items()][:SHOWN]
    more = ", ..." if len(counts) > SHOWN else ""
    missing = sum(count == 0 for count in counts.values())
    none = f". Nothing in it is of {counted(missing, 'class')}" if missing else ""
    return f"in val, {counted(2, described.kind.unit).split()[1]} by class: {', '.join(shown)}{more}{none}"


def _parted(found: Inspection, raw: RawOptions) -> Inspection:
    """The inspection without what has problems, and with a split val, where that is wanted."""
    if raw.skip_bad and found.fatal:
        found = _without_bad(found)
    return found.divided(raw.validation) if raw.validation else found


def _without_bad(found: Inspection) -> Inspection:
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


def _inspect(folder: Path, raw: RawOptions) -> Inspection:
    labels, how = raw.labels(), raw.how()
    with Progress("inspect", "images") as progress:
        return inspect_folder(folder, labels, how=how, threads=raw.threads, progress=progress, on_layout=warn)
