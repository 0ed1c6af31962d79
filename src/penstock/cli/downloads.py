"""download, new."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

import penstock as ps
from penstock.progress import Progress


def download(
    name: Annotated[Literal["cifar10", "cifar100"], Parameter(help="Dataset to download.")], /, *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder to fill.")],
    url: Annotated[str, Parameter(help="URL of the archive, in place of the one of its authors.")] = "",
) -> None:  # fmt: skip
    """Download and unpack a published archive, once it is known to be what its authors published.

    A download that broke off goes on where it was.
    """
    with Progress("download", "MiB") as progress:
        folder = ps.download(name, output, url=url, progress=progress)
    print(f"unpacked {folder}; next: penstock pack {folder} -o {output / name}")


def new(
    folder: Annotated[Path, Parameter(help="Folder to make. Its last part is the name of the project.")], /,
) -> None:  # fmt: skip
    """Make a project: a recipe, a layout, a task, a hook, a test, a README, a changelog and a .gitignore.

    It trains as it is made, on images that penstock scenes makes.
    """
    for path in ps.new(folder):
        print(f"made {path}")
    print(f"next: cd {shlex.quote(str(folder))} and follow README.md")
