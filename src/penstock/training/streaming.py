"""Training on a topic as it grows: when the next snapshot is taken, and that all ranks take the same one."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.assembly.experiment import AWAY, Experiment, open_dataset
from penstock.assembly.run_data import RunData, plain_stages, stages_of
from penstock.errors import AwayError, EmptySourceError, RunError, SourceError
from penstock.events import Events
from penstock.feed import Feed
from penstock.order import Chain, Stage, seen, trimmed
from penstock.progress import counted
from penstock.ranks import Ranks
from penstock.runs import RunFolder
from penstock.settings import DataSettings
from penstock.values import Partition, Snapshot

_AGAIN: Final = 0.5  # seconds between two looks at the topic
_NOTE_EVERY: Final = 60.0  # seconds between two lines about waiting
_SOON: Final = 2.0  # seconds before the first one


class Follower:
    """Gives a session snapshot after snapshot.

    Every snapshot is in data.json, on disk, before the first record of it is trained on; so a training that is killed
    takes the same ones again, and ends as if it had not been killed.

    Attributes:
        parts: of the run, with the stages that were begun.
        reason: why there is no next one.
    """

    def __init__(
        self,
        parts: Experiment,
        run_data: RunData,
        folder: RunFolder,
        ranks: Ranks,
        note: Callable[[str], None],
        *,
        pin_memory: bool,
    ) -> None:
        self.parts, self.reason = parts, ""
        self._run_data, self._folder, self._ranks = run_data, folder, ranks
        self._note, self._pin_memory = note, pin_memory
        self._source: Any = parts.dataset.source(parts.recipe.data.train)
        self._seen: tuple[Partition, ...] = ()
        self._began = self._answered = self._noted = time.monotonic()

    def state_dict(self) -> dict[str, Any]:
        """The snapshots that were begun, for a checkpoint."""
        return {"stages": plain_stages(self.parts.stages)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to where a checkpoint was made.

        Raises:
            RunError: its snapshots are not those of the run.
        """
        stages = stages_of(state["stages"])
        if stages != self._run_data.stages[: len(stages)]:
            raise RunError(
                str(self._folder.path / "data.json"),
                expected=f"the {counted(len(stages), 'snapshot')} that the checkpoint names, in that order",
                found=f"{len(self._run_data.stages):,} others",
                remedy="Restore the file from a copy of the run",
            )
        self.parts = replace(self.parts, stages=stages)
        self._seen = seen(stages)

    def feed(self, position: int) -> Feed:
        """The feed of all that was begun, once it is known that what is left from a position on can be read.

        Raises:
            SourceError: it cannot.
        """
        if position < len(self.parts.plan):
            self.parts.hold(position)
        return self.parts.training_feed(self._ranks.batch_slice, pin_memory=self._pin_memory)

    def next(self, stop: Callable[[], bool]) -> Feed | None:
        """The feed with the next snapshot added, as soon as there is enough for one; None to end the training.

        Args:
            stop: whether to give up waiting; asked on all ranks at once.

        Raises:
            SourceError: records were lost before they were read, or the broker was away for too long.
        """
        position, number = len(self.parts.plan), len(self.parts.stages)
        self._commit_offsets()
        if number < len(self._run_data.stages):
            stage = self._run_data.stages[number]
        else:
            self._began = self._answered = time.monotonic()
            self._noted = self._began - _NOTE_EVERY + _SOON
            text = _agreed(self._ranks, self._look, stop)
            if text in ("", "end"):
                self.reason = "nothing new came for too long (follow.idle_timeout)" if text else ""
                return None
            (stage,) = stages_of(json.loads(text))
        self._begin(stage)
        return self.feed(position)

    def _commit_offsets(self) -> None:
        """Have dashboards show how far the training is; never an error, as nothing rests on it."""
        group = self.parts.recipe.follow.group
        if group and self._seen and self._ranks.is_main:
            trained = {int(part.name.rpartition("/")[2]): part.stop for part in self._seen}
            try:
                self._source.log.commit_offsets(group, trained)
            except SourceError as error:
                self._note(f"the offsets of the group {group} were not committed: {error.found}")

    def _begin(self, stage: Stage) -> None:
        self.parts = replace(self.parts, stages=(*self.parts.stages, stage))
        self._seen = seen([stage], self._seen)
        known = len(self._run_data.stages) >= len(self.parts.stages)
        if not known:
            self._run_data = replace(self._run_data, stages=self.parts.stages)
        if self._ranks.is_main and not known:
            self._run_data.write(self._folder, self.parts.plan.digest)
            self._folder.event("snapshot", number=len(self.parts.stages), records=len(stage.new))
        if self._ranks.is_main:
            mixed = f", {len(stage.older):,} older ones to draw from" if stage.older else ""
            self._note(f"snapshot {len(self.parts.stages):,}: {counted(len(stage.new), 'new record')}{mixed}")

    def _look(self) -> str:
        """The next stage as JSON, "end", or "" to look again."""
        follow, now = self.parts.recipe.follow, time.monotonic()
        waited = now - self._began
        try:
            found = self._grown(min(follow.seconds, follow.idle_timeout or math.inf) <= waited)
        except AwayError as error:
            if now - self._answered > AWAY:
                raise
            self._tell(f"waiting for the broker: {error.found}")
            self._began = now  # nothing can come while it is away
            return ""
        self._answered = time.monotonic()
        if found:
            return json.dumps(plain_stages([found]))
        return "end" if 0 < follow.idle_timeout <= waited else ""

    def _grown(self, late: bool) -> Stage | None:  # noqa: FBT001 - private
        """The next stage, if enough has come: a snapshot's records, or a batch of them when it is late or the first."""
        plan, follow = self.parts.plan, self.parts.recipe.follow
        assert isinstance(plan, Chain)  # noqa: S101 - of a recipe that follows
        new, held = self._source.growth(self._seen)
        older = _without_empty(held) if plan.mixed and len(held) else None
        size = plan.fresh(Stage(new, older))
        wanted = size if late or not plan.stages else max(size, follow.records)
        if len(new) < wanted:
            self._tell(f"waiting for {counted(wanted, 'new record')}: {len(new):,} so far")
            return None
        known = {partition.name for partition in self._seen}
        return Stage(_without_empty(trimmed(new, size), known), older)

    def _tell(self, line: str) -> None:
        if time.monotonic() - self._noted > _NOTE_EVERY:
            self._noted = time.monotonic()
            self._note(line)


def await_first(data: DataSettings, ranks: Ranks, events: Events) -> None:
    """Wait for the first record of a topic: it says what is to be learnt."""
    noted = False

    def look() -> str:
        nonlocal noted
        try:
            open_dataset(data).description  # noqa: B018 - whether there is one
        except EmptySourceError:
            pass
        else:
            return "there"
        if not noted:
            events.note(f"waiting for the first record of {data.path}")
        noted = True
        return ""

    _agreed(ranks, look, lambda: False)


def _agreed(ranks: Ranks, look: Callable[[], str], stop: Callable[[], bool]) -> str:
    """What the writer finds, on every rank, once it finds something; "" if all are to stop."""
    while not stop():
        if text := ranks.broadcast(look() if ranks.is_main else ""):
            return text
        time.sleep(_AGAIN)
    return ""


def _without_empty(snapshot: Snapshot, known: Container[str] | None = None) -> Snapshot:
    """A snapshot without partitions that hold nothing; of those only the `known` ones are left out, if it is given."""
    kept = (part for part in snapshot.partitions if len(part) or (known is not None and part.name not in known))
    return Snapshot(snapshot.source, tuple(kept))
