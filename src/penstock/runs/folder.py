"""`RunFolder`: where a run keeps its files, and how they are appended to and cut back.

recipe.toml  environment.json  data.json            what was asked, where it ran, which snapshot
metrics.jsonl  timings.jsonl  events.jsonl  log.txt
checkpoints/  evaluations/  figures/  tensorboard/  report.html
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import msgspec

from penstock import files
from penstock.errors import RunError
from penstock.progress import counted

_NUMBERED = re.compile(r"(\d{4,})-")
_PARTS = ("checkpoints", "evaluations", "figures", "fed", "nonfinite", "tensorboard", "profiles", "code")
_LARGEST = 1 << 28  # bytes of a JSON file
_LONGEST = 1 << 22  # bytes of a line
_JSON = msgspec.json.Decoder()
_YOUNG = 60.0  # seconds after which whoever makes a folder has locked it


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run on disk."""

    path: Path

    @classmethod
    def create(cls, root: Path, name: str, fill: Callable[[Self], None] = lambda _: None) -> Self:
        """A new folder `root/NNNN-name`, numbered one above the highest there. It is there once it is whole: a process
        that is killed before leaves a hidden one, which the next to be created removes.
        """
        root.mkdir(parents=True, exist_ok=True)
        _sweep(root)
        hidden = root / f".{name}.{secrets.token_hex(4)}.partial"
        hidden.mkdir()
        with files.locked(hidden):
            try:
                for part in ("checkpoints", "evaluations", "figures"):
                    (hidden / part).mkdir()
                fill(cls(hidden))
                return cls(cls._numbered(hidden, root, name))
            except BaseException:
                shutil.rmtree(hidden, ignore_errors=True)
                raise

    @classmethod
    def _numbered(cls, hidden: Path, root: Path, name: str) -> Path:
        """The folder under its name, whose number nobody else has taken meanwhile."""
        number = max(map(cls.number_of, root.iterdir()), default=0) + 1
        while True:
            path = root / f"{number:04d}-{name}"
            try:
                if not path.exists():
                    return hidden.rename(path)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
            number += 1

    @staticmethod
    def check_name(name: str) -> None:
        """A run's name is a part of its folder's name.

        Raises:
            RunError: it has a character that a folder's name cannot have.
        """
        if "/" in name or "\\" in name or not name.isprintable():
            raise RunError(
                f"--name {name!r}",
                remedy="Remove slashes and control characters; --runs sets the folder that all runs are in",
                message=f"--name {name!r} cannot be part of a folder's name.",
            )

    @classmethod
    def newest(cls, root: Path, name: str) -> Path | None:
        """The newest run of a name below `root`; None where there is none."""
        entries = list(root.iterdir()) if root.is_dir() else []
        runs = [path for path in entries if cls.name_of(path) == name and cls.is_run(path)]
        return max(runs, key=cls.number_of, default=None)

    @classmethod
    def open(cls, path: Path) -> Self:
        """An existing run.

        Raises:
            RunError: the path is no run folder, a link in it leads out of it, or a pipe or a device is in it.
        """
        if not (path / "recipe.toml").is_file():
            missing = "a file" if path.is_file() else "no such folder"
            found = "a folder without one" if path.is_dir() else missing
            remedy = "Name a folder that penstock train made, for example runs/0001-..."
            if (path / "dataset.json").is_file():
                found, remedy = "a packed dataset", "Name the run first, and the dataset with --on or --data"
            elif run := next((each for each in path.parents if cls.is_run(each)), None):
                found, remedy = f"a part of {run}", "Name that run, and one of its checkpoints with --checkpoint"
            raise RunError(str(path), expected="a run folder, with a recipe.toml", found=found, remedy=remedy)
        for link in _not_files(path):
            if not link.is_symlink():
                raise RunError(
                    str(link),
                    expected="files and folders alone, as they are read",
                    found="a pipe, a socket or a device",
                    remedy="Remove it",
                )
            if not _stays_within(link, path):
                raise RunError(
                    str(link),
                    expected="files within the run alone, as they are written to",
                    found=f"a link to {link.readlink()}",
                    remedy="Put the file itself in its place",
                )
        return cls(path)

    @staticmethod
    def name_of(path: Path) -> str:
        """The name of a run, behind its number; "" for a folder of another name."""
        match = _NUMBERED.match(path.name)
        return path.name[match.end() :] if match else ""

    @staticmethod
    def number_of(path: Path) -> int:
        """The number of a run; 0 for a folder of another name."""
        match = _NUMBERED.match(path.name)
        return int(match[1]) if match else 0

    @staticmethod
    def is_run(path: Path) -> bool:
        """Whether a path is a run folder, and not one that is being made."""
        is_made = not path.name.startswith(".")
        return is_made and (path / "recipe.toml").is_file() and (path / "checkpoints").is_dir()

    def sweep(self) -> None:
        """Remove what killed processes have left half written, but for checkpoints, whose store does so."""
        for folder in (self.path, *(self.path / name for name in ("evaluations", "figures", "code"))):
            files.sweep(folder)

    @property
    def metrics(self) -> Path:
        """What the steps computed; nothing in it depends on a clock."""
        return self.path / "metrics.jsonl"

    @property
    def timings(self) -> Path:
        """What a clock says: step time, data wait, memory."""
        return self.path / "timings.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def initial(self) -> Path | None:
        """The weights that it began with, where they came from another run or a file."""
        return next(iter(sorted(self.path.glob("initial.*"))), None)

    def read_bytes(self, name: str) -> bytes:
        """One of the run's small files.

        Raises:
            RunError: it is larger than what Penstock writes.
            OSError: it is missing, or cannot be read.
        """
        if (self.path / name).stat().st_size > _LARGEST:
            raise self.damaged(name, f"a file of at most {_LARGEST:,} bytes", "a larger one")
        return (self.path / name).read_bytes()

    def read_json(self, name: str, *keys: str) -> dict[str, Any]:
        """One of the run's JSON files, an object with at least some keys.

        Raises:
            RunError: it is missing or damaged.
        """
        try:
            found = json.loads(self.read_bytes(name))
        except (OSError, ValueError, RecursionError) as error:
            raise self.damaged(name, "a JSON file", str(error)) from error
        if not isinstance(found, dict) or not set(keys) <= set(found):
            raise self.damaged(name, f"an object with {', '.join(keys) or 'keys'}", "something else")
        return found

    def damaged(self, name: str, expected: str, found: str) -> RunError:
        """The error for one of the run's files that does not hold what it should."""
        return RunError(
            str(self.path / name), expected=expected, found=found, remedy="Restore the file from a copy of the run"
        )

    @property
    def is_edited(self) -> bool:
        """Whether somebody has edited the recipe since Penstock wrote it."""
        kept = self.read_json("settings.json") if (self.path / "settings.json").is_file() else {}
        now = files.sha256(self.path / "recipe.toml")
        return bool(kept.get("recipe", now) != now)

    def write_json(self, name: str, value: Any) -> None:
        """Write one of the run's JSON files, atomically."""
        files.write_atomically(self.path / name, files.to_json(value))

    def event(self, kind: str, **values: Any) -> None:
        """Append to events.jsonl: what happened to the run, and when."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        path = self.path / "events.jsonl"
        with files.named(path), path.open("a") as handle:
            handle.write(files.to_line({"time": now, "event": kind, **values}))

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The objects of one of the run's .jsonl files; a line that a crash cut short is left out."""
        path = self.path / name
        if not path.is_file():
            return []
        if path.stat().st_size <= _LONGEST:
            with contextlib.suppress(msgspec.DecodeError, RecursionError):
                return [line for line in _JSON.decode_lines(path.read_bytes()) if isinstance(line, dict)]
        found = []
        with path.open("rb") as handle:
            while line := handle.readline(_LONGEST):
                with contextlib.suppress(ValueError, RecursionError):
                    found.append(_decoded(line))
        return [line for line in found if isinstance(line, dict)]

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """For the length of a block in which values of one of the run's files are used: those of other types than were
        written are the file's fault.

        Raises:
            RunError: it holds something else.
        """
        try:
            yield
        except (TypeError, KeyError, IndexError, ValueError, AttributeError, OverflowError) as error:
            found = f"other contents ({type(error).__name__}: {error})"
            raise self.damaged(name, "what Penstock wrote", found) from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training this run for the length of a block.

        Raises:
            RunError: another process is at it.
        """
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(files.locked(self.path))
            except BlockingIOError:
                raise RunError(
                    str(self.path),
                    remedy="Wait for it to end, or end it",
                    message=f"{self.path}: another process is training this run.",
                ) from None
            yield


def _decoded(line: bytes) -> Any:
    """A line of JSON; Python's reader, which takes several times as long, knows NaN and infinity too."""
    try:
        return _JSON.decode(line)
    except msgspec.DecodeError:
        return json.loads(line)


def _stays_within(link: Path, folder: Path) -> bool:
    try:
        return link.resolve().is_relative_to(folder.resolve())
    except RuntimeError:  # it leads back to itself
        return False


def _not_files(folder: Path) -> Iterator[Path]:
    """Links, pipes and devices at the top of a run and where Penstock writes; trackers have folders of their own."""
    parts = [path for name in _PARTS for path in (folder / name).rglob("*")]
    for path in [*folder.iterdir(), *parts]:
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            yield path


def _sweep(root: Path) -> None:
    """Remove the folders of runs that were being made by processes that are gone."""
    for hidden in files.leftovers(root):
        with contextlib.suppress(OSError):  # somebody is making it, or has just removed it
            if time.time() - hidden.stat().st_mtime > _YOUNG:
                with files.locked(hidden):
                    shutil.rmtree(hidden)


def cut_back(path: Path, size: int) -> None:
    """Shorten a file of lines to `size` bytes; one that is missing is created empty.

    Raises:
        RunError: the file is shorter than that, or a line does not end there: lines were lost.
    """
    with path.open("a+b") as handle:
        found = handle.seek(0, os.SEEK_END)
        handle.seek(max(0, min(size, found) - 1))
        if not 0 <= size <= found or (size and handle.read(1) != b"\n"):
            raise RunError(
                str(path),
                expected=f"at least the {counted(size, 'byte')} that the checkpoint counted",
                found=f"{found:,}",
                remedy="The file was edited or lost: restore it, or start a new run with --init RUN",
            )
        handle.truncate(size)
