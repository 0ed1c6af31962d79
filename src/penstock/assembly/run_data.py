"""data.json: what a run's data was, exactly; what a resume, a replay and other ranks hold on to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import msgspec

from penstock.datasets.description import Description, check_task
from penstock.datasets.listing import is_plain
from penstock.errors import RunError
from penstock.order import Stage
from penstock.runs import RunFolder
from penstock.values import Partition, Snapshot

_FILE = "data.json"


@dataclass(frozen=True)
class RunData:
    """What a run's data was.

    Attributes:
        content: fingerprint of the dataset: of its classes and, for shards, of its records.
        snapshots: by split.
        known: the `first_record` of a stream.
        stages: of a training that follows a topic: its snapshots, one after the other.
        described: the dataset without its shards: all that predictions need of it.
    """

    content: str
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    known: Mapping[str, Any] | None = None
    stages: tuple[Stage, ...] = ()
    described: Description | None = None

    def as_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        named = {split: _plain(snapshot) for split, snapshot in self.snapshots.items()}
        known = {"known": dict(self.known)} if self.known else {}
        stages = {"stages": plain_stages(self.stages)} if self.stages else {}
        described = {"described": self.described.as_json()} if self.described else {}
        return {"content": self.content, "snapshots": named, **known, **stages, **described}

    def write(self, folder: RunFolder, plan: str) -> None:
        """Keep them in a run, beside the digest of its plan."""
        content = {"plan": plan, **self.as_json()}
        folder.write_json(_FILE, {**content, "seal": _seal(content)})


def _seal(content: Mapping[str, Any]) -> str:
    """The SHA-256 of all but the seal: what a run was trained on is not changed by hand."""
    rest = {key: value for key, value in content.items() if key != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode(errors="surrogatepass")).hexdigest()


def read_run_data(folder: RunFolder) -> RunData:
    """What a run keeps.

    Raises:
        RunError: it is missing or damaged.
    """
    kept = folder.read_json(_FILE, "content", "snapshots")
    run_data = run_data_of(kept, str(folder.path / _FILE))
    seal = _seal(kept)
    if kept.get("seal", seal) != seal:  # older runs have none
        raise folder.damaged(_FILE, "what Penstock wrote", "an edited file")
    if run_data.described is None:
        return run_data
    check_task(run_data.described.task, str(folder.path / _FILE), run_data.described.code)
    return replace(run_data, described=replace(run_data.described, home=str(folder.path.resolve())))


def run_data_of(stored: Mapping[str, Any], where: str) -> RunData:
    """RunData from JSON.

    Raises:
        RunError: it holds something else.
    """
    try:
        snapshots = {split: _snapshot(plain) for split, plain in stored["snapshots"].items()}
        if not all(is_plain(part) for split in snapshots for part in split.split("+")):
            raise ValueError(min(snapshots))  # noqa: TRY301 - named below
        stages = stages_of(stored["stages"]) if "stages" in stored else ()
        known = dict(stored["known"]) if "known" in stored else None
        described = msgspec.convert(stored["described"], Description) if "described" in stored else None
        return RunData(str(stored["content"]), snapshots, known, stages, described)
    except (TypeError, KeyError, AttributeError, IndexError, ValueError) as error:
        raise RunError(
            where,
            expected="snapshots by split, with their partitions",
            found="something else",
            remedy="Restore the file from a copy of the run",
        ) from error


def shared(text: str) -> RunData:
    """RunData that another rank gathered."""
    return run_data_of(json.loads(text), "another rank")


def plain_stages(stages: Sequence[Stage]) -> dict[str, Any]:
    """Stages as JSON can hold them: thousands of them name the same few partitions."""
    names: dict[tuple[str, str], int] = {}

    def rows(snapshot: Snapshot) -> list[list[int]]:
        return [
            [names.setdefault((part.name, part.fingerprint), len(names)), part.start, part.stop]
            for part in snapshot.partitions
        ]

    listed = [{"new": rows(stage.new), **({"older": rows(stage.older)} if stage.older else {})} for stage in stages]
    return {
        "source": stages[0].new.source if stages else "",
        "partitions": [list(key) for key in names],
        "list": listed,
    }


def stages_of(plain: Mapping[str, Any]) -> tuple[Stage, ...]:
    """Stages from JSON."""

    def snapshot(rows: Sequence[Sequence[int]]) -> Snapshot:
        parts = [(*plain["partitions"][number], start, stop) for number, start, stop in rows]
        return Snapshot(plain["source"], tuple(Partition(name, start, stop, mark) for name, mark, start, stop in parts))

    return tuple(
        Stage(snapshot(stage["new"]), snapshot(stage["older"]) if "older" in stage else None) for stage in plain["list"]
    )


def _plain(snapshot: Snapshot) -> dict[str, Any]:
    return {"source": snapshot.source, "partitions": [list(astuple(part)) for part in snapshot.partitions]}


def _snapshot(plain: Mapping[str, Any]) -> Snapshot:
    return Snapshot(plain["source"], tuple(Partition(*part) for part in plain["partitions"]))
