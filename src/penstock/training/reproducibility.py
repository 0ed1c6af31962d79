"""What weights depend on beside the recipe, and whether they come out the same again."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch import nn

from penstock import devices
from penstock.events import Events
from penstock.ranks import Ranks
from penstock.runs import RunFolder
from penstock.settings import Recipe

_WORKSPACE: Final = "CUBLAS_WORKSPACE_CONFIG"
_VERSIONS: Final = ("python", "platform", "cores", "revision", "uncommitted")
_WORDS: Final = {"uncommitted": "the hash of uncommitted code"}
WHOLE: Final = "weights, byte for byte"
ROUNDED: Final = "records, order and pixels; weights up to rounding"


def has_norms(model: nn.Module) -> bool:
    """Whether a model normalises over its batch."""
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())  # noqa: SLF001 - the common base


def promise(recipe: Recipe, device: torch.device, ranks: Ranks) -> dict[str, Any]:
    """Device, threads and ranks, and what they promise of a training that is done again."""
    exact = device.type == "cpu" or recipe.train.deterministic
    return {
        "device": devices.describe(device),
        "threads": torch.get_num_threads(),
        "ranks": ranks.world_size,
        "exact": WHOLE if exact else ROUNDED,
    }


def note_changes(folder: RunFolder, now: dict[str, Any], events: Events, *, apart: bool) -> None:
    """Say what is not as it was, where weights may come out otherwise for it, and keep it in environment.json.

    Args:
        folder: the run's.
        now: of `promise`.
        events: where changes are reported.
        apart: whether each rank's batch norms learn from its own samples alone.
    """
    environment = folder.read_json("environment.json")
    before = {**environment, **(environment.get("then") or [{}])[-1]}
    changed = [
        f"{what} was {before.get(key)}, is {now[key]}"
        for key, what in (("device", "device"), ("threads", "threads"), ("ranks", "ranks"), ("exact", "what is exact"))
        if before.get(key) != now[key]
    ]
    if not changed:
        return
    folder.write_json("environment.json", {**environment, "then": [*environment.get("then", []), now]})
    differ = "weights may differ in rounding"
    if apart and before.get("ranks") != now["ranks"]:
        differ = (
            "losses and weights will differ, as batch normalisation takes each rank's samples by themselves "
            "(train.sync_bn takes all ranks' together)"
        )
    events.note(f"note: {'; '.join(changed)}: same records, same order; {differ}")


def note_session(folder: RunFolder, now: dict[str, Any], step: int, events: Events) -> None:
    """Keep command, versions and machine of a resumed session, and note versions and code that changed."""
    kept = folder.read_json("environment.json")
    with folder.reading("environment.json"):
        sessions = list(kept.get("sessions", []))
        changed = differences(sessions[-1] if sessions else kept, now)
    when = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    folder.write_json("environment.json", {**kept, "sessions": [*sessions, {"time": when, "step": step, **now}]})
    if changed:
        said = "; ".join(
            f"{_WORDS.get(what, what)} was {was or 'none'}, is {is_now or 'none'}"
            for what, (was, is_now) in changed.items()
        )
        events.note(f"note: {said}: weights may differ from those of an undisturbed run")


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What of versions, system and code is not as it was, by its name."""
    old, new = ({**each["packages"], **{name: each.get(name) for name in _VERSIONS}} for each in (before, now))
    return {name: (old[name], new.get(name)) for name in old if old[name] != new.get(name)}


@contextlib.contextmanager
def isolated(device: torch.device, *, deterministic: bool) -> Iterator[None]:
    """Train without leaving a trace in the process: its random generators, PyTorch's deterministic mode and the
    environment variable that cuBLAS asks for are afterwards what they were.

    Args:
        device: where training runs.
        deterministic: whether PyTorch must use deterministic kernels meanwhile.
    """
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    workspace = os.environ.get(_WORKSPACE)
    if deterministic:
        os.environ.setdefault(_WORKSPACE, ":4096:8")
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.use_deterministic_algorithms(deterministic)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])
            if workspace is None:
                os.environ.pop(_WORKSPACE, None)
