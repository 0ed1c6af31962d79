"""What weights depend on beside the recipe, and whether they come out the same again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from penstock import devices

if TYPE_CHECKING:
    from penstock.ranks import Ranks
    from penstock.recipe.values import Recipe
    from penstock.runs import RunFolder

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
        "ranks": ranks.of,
        "exact": WHOLE if exact else ROUNDED,
    }


def note_changes(folder: RunFolder, now: dict[str, Any], *, apart: bool) -> None:
    """Say what is not as it was, where weights may come out otherwise for it, and keep it in environment.json.

    Args:
        folder: the run's.
        now: of `promise`.
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
            "(train.sync_norms takes all ranks' together)"
        )
    print(f"note: {'; '.join(changed)}: same records, same order; {differ}", flush=True)  # noqa: T201 - people must know
