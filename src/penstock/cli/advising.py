"""doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.options import Crop, ModelName, TaskName, crop_setting
from penstock.config import parsed
from penstock.progress import Progress, counted, duration

if TYPE_CHECKING:
    from penstock.assembly import Advice
    from penstock.settings import Recipe


def doctor(
    dataset: Annotated[str, Parameter(help="A packed dataset, or a topic: kafka://HOST:PORT/TOPIC.")], /, *,
    model: ModelName = "", crop: Crop = None, task: TaskName = "",
    settings: Annotated[
        tuple[str, ...], Parameter(name="--set", help="Setting of the training: KEY=VALUE. May be repeated.")
    ] = (),
    find_lr: Annotated[
        bool, Parameter(negative="", help="Train for up to 100 steps with a rising learning rate, and suggest one.")
    ] = False,
    find_time: Annotated[
        bool, Parameter(negative="", help="Train for four steps, and say how long the whole training would take.")
    ] = False,
    find_batch: Annotated[
        bool, Parameter(negative="", help="Find the largest batch that fits into the memory of the GPU.")
    ] = False,
) -> None:  # fmt: skip
    """Print what `penstock train` would choose for a dataset, and why.

    A reason is the task, the model, the size of the images, or a general default. Any of them can be changed with an
    option of `penstock train`, or with --set.
    """
    given = parsed([*crop_setting(crop), *settings])
    from penstock.assembly import advise, resolve_settings

    named = {"data.path": dataset, **({"model.name": model} if model else {}), **({"task": task} if task else {})}
    resolved = resolve_settings({**named, **given})
    choices = list(advise(resolved))
    if find_batch:
        choices.append(_batch_advice(resolved.recipe))
    if find_time:
        choices.append(_time_advice(resolved.recipe))
    if find_lr:
        choices.append(_lr_advice(resolved.recipe))
    about, value = (max(len(getattr(each, name)) for each in choices) for name in ("about", "value"))
    for each in choices:
        print(f"{each.about:<{about}}  {each.value:<{value}}  {each.reason}")


def _batch_advice(recipe: Recipe) -> Advice:
    from penstock.assembly import Advice
    from penstock.training import finders

    found = finders.find_batch(recipe)
    fails = f"{found.fails:,} images do not" if found.fails else "more were not tried"
    return Advice("batch found", counted(found.fits, "image"), f"fit into the memory of {found.device}; {fails}")


def _time_advice(recipe: Recipe) -> Advice:
    from penstock.assembly import Advice
    from penstock.training import finders

    found = finders.find_time(recipe)
    reason = f"{counted(found.steps, 'step')} of {found.seconds:,.3g} s on {found.device}; evaluations come on top"
    return Advice("time found", duration(found.seconds * found.steps), reason)


def _lr_advice(recipe: Recipe) -> Advice:
    from penstock.assembly import Advice
    from penstock.training import finders

    with Progress("find lr", "steps") as progress:
        found = finders.find_lr(recipe, progress=progress)
    fell = f"the loss falls fastest there, from {found.losses[0]:.3g} to {min(found.losses):.3g} in all"
    tried = f"{counted(len(found.rates), 'step')} from {found.rates[0]:g} to {found.rates[-1]:.2g}"
    return Advice("lr found", f"{found.suggested:g}", f"{fell}; {tried}")
