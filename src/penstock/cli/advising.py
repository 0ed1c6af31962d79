"""doctor."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from penstock.assembly import advise


def doctor(
    dataset: Annotated[str, Parameter(help="A packed dataset, or a topic: kafka://HOST:PORT/TOPIC.")], /
) -> None:
    """Print what `penstock train` would choose for a dataset, and why.

    A reason is the task, the model, the size of the images, or a general default. Any of them can be changed with an
    option of `penstock train`, or with --set.
    """
    choices = advise(dataset)
    about, value = (max(len(getattr(each, name)) for each in choices) for name in ("about", "value"))
    for each in choices:
        print(f"{each.about:<{about}}  {each.value:<{value}}  {each.reason}")
