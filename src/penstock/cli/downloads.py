"""download."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from penstock.datasets.download import ARCHIVES
from penstock.datasets.download import download as have
from penstock.progress import Progress


def download(
    name: Annotated[Literal["cifar10", "cifar100"], Parameter(help="Dataset to download.")], /, *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder to fill.")],
    url: Annotated[str, Parameter(help="URL of the archive, in place of the one of its authors.")] = "",
) -> None:  # fmt: skip
    """Download and unpack a published archive, once it is known to be what its authors published.

    A download that broke off goes on where it was.
    """
    archive = ARCHIVES[name]
    with Progress("download", "MiB") as progress:
        folder = have(replace(archive, url=url) if url else archive, output, progress)
    print(f"unpacked {folder}; next: penstock pack {folder} -o {output / name}")
