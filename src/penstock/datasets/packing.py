"""`pack`: a sound inspection to balanced shards, in parallel, resumably, with the original bytes of the images.

Packing the same data twice writes nothing the second time; a killed pack goes on with the shards that were not done.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import re
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from penstock import cores, files, seeds
from penstock.custom import ImportPath, carried
from penstock.datasets import describing
from penstock.datasets.description import Description, FolderDataset, ShardInfo, SplitInfo
from penstock.datasets.inspection import Inspection
from penstock.datasets.listing import JOURNAL, PACKED
from penstock.datasets.occurrences import digest_of, path_of, write_occurrences
from penstock.datasets.pixel_formats import statistics
from penstock.errors import CorruptRecord, DatasetError, SourceError
from penstock.images import probe, single_threaded
from penstock.images.formats import stored
from penstock.kinds.items import InspectedItem, Labels, hashed, named
from penstock.progress import counted, silent
from penstock.records import ShardWriter, manifest, open_shard
from penstock.records import index as indexing

_VERSION: Final = "1"
_PIECE: Final = 1 << 18  # bytes of images and labels that a thread makes into records at a time
_AHEAD: Final = 128 << 20  # bytes of records that may wait to be written
_SHARD: Final = re.compile(r".+-\d{5,}-of-\d{5,}\.tfrecord")


@dataclass(frozen=True, slots=True)
class PackOptions:
    """How shards are cut.

    Attributes:
        shard_bytes: what a shard should hold, about.
        threads: that make records; 0 for one per core, at least four.
        seed: of the order of the records; neighbours in a folder are often alike, and should not be in a shard.
    """

    shard_bytes: int = 64 << 20
    threads: int = 0
    seed: int = 0


@dataclass(frozen=True)
class _Job:
    """One shard to write: its name, its items in order, and a key over their content."""

    name: str
    items: tuple[InspectedItem, ...]
    key: str


def pack(
    found: Inspection,
    output: Path,
    options: PackOptions = PackOptions(),
    *,
    progress: Callable[[int, int], None] = silent,
) -> FolderDataset:
    """Write the shards and dataset.json.

    Raises:
        DatasetError: the inspection has fatal problems, or the folder holds another dataset.
    """
    _refuse(found)
    own = _custom_kind(found)  # whose code decides what records hold
    code = files.sha256(Path(own.source)) if own else ""
    jobs = {split: _jobs(split, items, options, code) for split, items in found.splits.items()}
    dataset = FolderDataset(output, _describe(found, jobs))
    if _already(dataset):
        with contextlib.suppress(OSError), files.locked(output):
            shutil.rmtree(output / JOURNAL)  # of a pack that was killed at its very end
        total = sum(split.records for split in dataset.description.splits.values())
        progress(total, total)
        return FolderDataset.open(output)
    refuse_others(output)
    output.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(files.locked(output))
        except BlockingIOError:
            raise DatasetError(
                str(output),
                remedy="Wait for it to end, or choose another folder with -o",
                message=f"{output}: another process is packing into this folder.",
            ) from None
        return _pack_into(output, dataset, [job for split in jobs.values() for job in split], found, options, progress)


def _pack_into(
    output: Path,
    dataset: FolderDataset,
    jobs: list[_Job],
    found: Inspection,
    options: PackOptions,
    progress: Callable[[int, int], None],
) -> FolderDataset:
    _begin_journal(output, {job.name for job in jobs})
    _write_all(jobs, found, output, options, progress)
    described = _digested(dataset)
    splits = {name: dataset.entries(name) for name in dataset.splits}
    manifest.write(output / manifest.NAME, splits)
    if own := _custom_kind(found):
        carried.keep(own, "task", output)
        described = replace(described, code=carried.digests(output))
        carried.check(output, described.code)
    done = FolderDataset(output, replace(described, home=str(output.resolve())))
    done.save()
    shutil.rmtree(output / JOURNAL)
    return done


def _begin_journal(output: Path, names: set[str]) -> None:
    """Remove what a pack that was killed has left: temporary files, and shards that are not among the names."""
    if (output / JOURNAL).is_symlink():
        raise DatasetError(
            str(output / JOURNAL),
            expected="a folder that penstock pack has made",
            found="a link",
            remedy="Remove it, or choose another folder with -o",
        )
    (output / JOURNAL).mkdir(exist_ok=True)
    leftovers = [path for path in files.leftovers(output) if path.is_file()]
    for note in (output / JOURNAL).iterdir():
        if note.name not in names and _SHARD.fullmatch(note.name):
            shard = output / note.name
            leftovers += [each for each in (shard, indexing.path_of(shard), path_of(shard), note) if each.exists()]
    for leftover in leftovers:
        leftover.unlink()


def refuse_others(output: Path, *, begun: bool = True) -> None:
    """Shards go into a folder of their own: a new one, or one that a pack has begun.

    Raises:
        DatasetError: the folder holds something else.
    """
    if not output.is_dir() or (begun and ((output / PACKED).exists() or (output / JOURNAL).exists())):
        return
    if there := sorted(entry.name for entry in output.iterdir() if not entry.name.startswith(".")):
        raise DatasetError(
            str(output),
            expected="an empty folder",
            found=", ".join(there[:5]) + (", ..." if len(there) > 5 else ""),  # noqa: PLR2004 - a line
            remedy="Choose another folder with -o",
        )


def _refuse(found: Inspection) -> None:
    if not found.items:
        raise DatasetError(
            str(found.folder), expected="something to pack", found="no sound image", remedy="Fix the problems first"
        )
    if fatal := found.fatal:
        shown = "\n  ".join(describing.grouped(fatal, 10))
        skip = any(not problem.whole for problem in fatal)
        them, images = ("it", "the image") if len(fatal) == 1 else ("them", "those images")
        raise DatasetError(
            str(found.folder),
            remedy=f"Fix {them}{f', or leave {images} out with --skip-bad' if skip else ''}:\n  {shown}",
            message=f"{found.folder} has {counted(len(fatal), 'problem')}.",
        )


def _jobs(split: str, items: Sequence[InspectedItem], options: PackOptions, code: str) -> list[_Job]:
    """Cut a split's items, in a keyed order, into shards of nearly equal size in bytes."""
    material = seeds.key(options.seed, "pack", split)
    mixed = [items[seeds.permute(i, len(items), material)] for i in range(len(items))]
    total = sum(each.size for each in mixed)
    count = min(len(mixed), max(1, round(total / options.shard_bytes)))
    groups: list[list[InspectedItem]] = [[] for _ in range(count)]
    done = 0
    for each in mixed:
        middle = done + each.size / 2
        groups[min(count - 1, int(middle * count / max(1, total)))].append(each)
        done += each.size
    groups = [group for group in groups if group]
    names = [f"{split}-{number:05d}-of-{len(groups):05d}.tfrecord" for number in range(len(groups))]
    return [_Job(name, tuple(group), _key(group, code)) for name, group in zip(names, groups, strict=True)]


def _key(items: Sequence[InspectedItem], code: str) -> str:
    text = "\n".join((_VERSION, *filter(None, [code]), *(each.key for each in items)))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _describe(found: Inspection, jobs: dict[str, list[_Job]]) -> Description:
    splits = {name: _split(found, items, jobs[name]) for name, items in found.splits.items()}
    own = _custom_kind(found)
    learnt = found.splits.get("train", list(found.items))
    mean, std = ((), ()) if found.layout.modalities else statistics(learnt, found.pixel_format)
    description = Description(
        f"{carried.FOLDER}/{Path(own.source).name}:{own.name}" if own else found.layout.kind.name,
        found.labels.classes,
        found.labels.ignore,
        splits,
        found.layout.name,
        original=_original(found.labels),
        channels=found.pixel_format.channels,
        bits=found.pixel_format.bits,
        mean=mean,
        std=std,
        modalities=found.layout.modalities,
        mapping=tuple(sorted(found.labels.mapping.items())),
        value_range=found.layout.value_range,
        colors=found.labels.class_colors,
    )
    return replace(description, content=description.digest())


def _custom_kind(found: Inspection) -> ImportPath | None:
    """Where a custom kind is: its class may be gone from `sys.modules`, but its code knows its file."""
    kind = found.layout.task
    return None if isinstance(kind, str) else ImportPath(inspect.getfile(type(kind).check_item), type(kind).__name__)


def _original(labels: Labels) -> tuple[int, ...]:
    """The raw ids of the classes, where ids were mapped: the lowest of those that became one."""
    back = {new: old for old, new in sorted(labels.mapping.items(), reverse=True)}
    ids = tuple(back.get(i, i) for i in range(len(labels.classes)))
    return () if ids == tuple(range(len(ids))) else ids


def _split(found: Inspection, items: list[InspectedItem], jobs: list[_Job]) -> SplitInfo:
    classes = len(found.labels.classes)
    return SplitInfo(
        records=len(items),
        shards=tuple(ShardInfo(job.name, len(job.items), job.key) for job in jobs),
        height=max(each.height // max(1, each.item.slices) for each in items),
        width=max(each.width for each in items),
        objects=max(found.layout.kind.objects(each.item) or 0 for each in items),
        slices=max(each.item.slices for each in items),
        per_class=tuple(found.layout.kind.count(items, classes)),
        image_pixels=tuple(found.layout.kind.image_pixels(items, classes)),
    )


def _digested(dataset: FolderDataset) -> Description:
    splits = {}
    for name, split in dataset.description.splits.items():
        paths = [dataset.folder / shard.name for shard in split.shards]
        found = [(indexing.of(path).digest, digest_of(path)) for path in paths]
        shards = (
            replace(shard, digest=digest, occurrences=occurrences)
            for shard, (digest, occurrences) in zip(split.shards, found, strict=True)
        )
        splits[name] = replace(split, shards=tuple(shards))
    return replace(dataset.description, splits=splits)


def _already(dataset: FolderDataset) -> bool:
    if not (dataset.folder / PACKED).exists():
        return False
    there = FolderDataset.open(dataset.folder).description
    if there.content != dataset.description.content:
        here, new = there.content[:12], dataset.description.content[:12]
        raise DatasetError(
            str(dataset.folder),
            remedy="Choose another folder with -o, or remove this one first",
            message=f"{dataset.folder} already holds another dataset, or one that was packed with other options (its "
            f"fingerprint is {here}, and that of the data to be packed is {new}).",
        )
    return all(_is_there(dataset.folder, shard) for split in there.splits.values() for shard in split.shards)


def _is_there(folder: Path, shard: ShardInfo) -> bool:
    """Whether a shard holds the records that were written, by their checksums."""
    try:
        opened = open_shard(folder / shard.name)
        sound = sum(1 for _ in opened.read(0, len(opened)))
    except (SourceError, CorruptRecord):
        return False
    return (sound, opened.index.digest) == (shard.records, shard.digest)


def _write_all(
    jobs: list[_Job], found: Inspection, output: Path, options: PackOptions, progress: Callable[[int, int], None]
) -> None:
    """Write the shards that the journal does not have, one after another, while threads make the records to come."""
    left = [job for job in jobs if not _is_written(job, output)]
    total, stop = sum(len(job.items) for job in jobs), threading.Event()
    done = total - sum(len(job.items) for job in left)

    def advance(records: int) -> None:
        nonlocal done
        done += records
        progress(done, total)

    advance(0)
    with single_threaded(), ThreadPoolExecutor(cores.readers(options.threads)) as pool:
        try:
            made = _made(pool, [piece for job in left for piece in _pieces(job.items)], found, stop)
            for job in left:
                _write(job, made, found, output, advance)
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _is_written(job: _Job, output: Path) -> bool:
    note = output / JOURNAL / job.name
    return (output / job.name).is_file() and note.is_file() and note.read_bytes() == job.key.encode()


def _write(
    job: _Job, made: Iterator[list[bytes]], found: Inspection, output: Path, advance: Callable[[int], None]
) -> None:
    """Write one shard from the next records, and note it in the journal."""
    shard = output / job.name
    with ShardWriter(shard) as writer:
        while len(writer.index) < len(job.items):
            payloads = next(made)
            for payload in payloads:
                writer.write(payload)
            advance(len(payloads))
    write_occurrences(shard, job.items, found.layout.kind, len(found.labels.classes))
    files.write_atomically(output / JOURNAL / job.name, job.key.encode())


def _pieces(items: Sequence[InspectedItem]) -> Iterator[Sequence[InspectedItem]]:
    """A shard's items in pieces for threads. Slices stay together: a volume would be read again for each piece."""
    if all(each.item.is_slice for each in items):
        yield items
        return
    start, size = 0, 0
    for number, each in enumerate(items, 1):
        size += each.size
        if size >= _PIECE or number == len(items):
            yield items[start:number]
            start, size = number, 0


def _made(
    pool: ThreadPoolExecutor, pieces: Sequence[Sequence[InspectedItem]], found: Inspection, stop: threading.Event
) -> Iterator[list[bytes]]:
    """The records of each piece, in order; the threads are a certain number of bytes ahead."""
    waiting: deque[tuple[Future[list[bytes]], int]] = deque()
    ahead = 0
    for piece in pieces:
        size = sum(each.size for each in piece)
        waiting.append((pool.submit(_payloads, piece, found, stop), size))
        ahead += size
        while ahead > _AHEAD:
            future, size = waiting.popleft()
            yield future.result()
            ahead -= size
    while waiting:
        yield waiting.popleft()[0].result()


def _payloads(items: Sequence[InspectedItem], found: Inspection, stop: threading.Event) -> list[bytes]:
    """The records of some items, which are made volume by volume."""
    made = {}
    for number in sorted(range(len(items)), key=lambda n: items[n].item.group if items[n].item.is_slice else ""):
        if stop.is_set():
            raise InterruptedError
        made[number] = _payload(items[number], found)
    return [made[number] for number in range(len(items))]


def _payload(inspected: InspectedItem, found: Inspection) -> bytes:
    item = inspected.item
    name = named(item.image, found.folder)
    image = stored(item.image.read_bytes(), name)
    if hashed(image) != inspected.content:
        raise DatasetError(
            name, expected="the bytes that were inspected", found="others", remedy="Pack when nobody changes the files"
        )
    info = probe(image, name)
    return found.layout.kind.encode(inspected, image, info, found.labels, found.folder)
