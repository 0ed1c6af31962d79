"""Whether what a run or a recipe file names may be imported: asked before anything of it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penstock.config import toml
from penstock.config.places import places, places_in
from penstock.custom import ImportPath, carried
from penstock.custom import trust as trusted
from penstock.errors import RunError
from penstock.runs import RunFolder

_RECIPE = "recipe.toml"
_SETTINGS = "settings.json"


def trust(path: Path) -> None:
    """Let what a run, a dataset or a recipe file names be executed, now and later.

    Raises:
        RecipeError: the recipe is damaged.
    """
    if path.suffix == ".toml" and path.is_file():
        if not _is_run(path.parent):
            trusted.remember(trusted.folder(path.parent))
            return
        path = path.parent
    carried.trust_folder(path)
    if (path / _RECIPE).is_file():
        named = [place for _, place in places(toml.load(path / _RECIPE)) if not place.is_file]
        trusted.remember(*map(trusted.module, named))


def check_run(path: Path, named: Iterable[tuple[str, ImportPath]], recipe: Path) -> None:
    """Whether the custom parts that a run names may be imported: files of its code/, and installed objects.

    Raises:
        RunError: code was changed, lies elsewhere, or nobody trusts it.
    """
    folder = RunFolder(path)
    stated = folder.read_json(_SETTINGS).get("code", {}) if (path / _SETTINGS).exists() else {}
    if not isinstance(stated, dict):
        raise folder.damaged(_SETTINGS, "hashes of code", "something else")
    carried.check(path, stated)
    for setting, place in named:
        if place.is_file and place.source not in stated:
            raise RunError(
                f"{recipe}: {setting}",
                expected=f"a file in {carried.FOLDER}/",
                found=place.source,
                remedy="Restore the file from a copy of the run",
            )
        if not place.is_file and not trusted.holds(trusted.module(place)):
            raise carried.untrusted(f"{recipe}: {setting}", path, f"{place}, which you have not used before")


def settings_in(file: Path) -> dict[str, Any]:
    """The settings that a recipe file states, if the custom parts that it names may be imported.

    Raises:
        RecipeError: it is no recipe.
        RunError: it names custom parts, and nobody trusts its folder or the run that it lies in.
    """
    stated = toml.settings_in(file)
    named = list(places_in(stated))
    if named and _is_run(file.parent):
        check_run(file.parent, named, file)
    elif named and not trusted.holds(trusted.folder(file.parent)):
        setting, place = named[0]
        raise RunError(
            f"{file}: {setting}",
            remedy="Read both, then add --trust, in Python trust=True; Penstock will not ask again for this folder",
            message=f"{file}: {setting} = {place} would be executed, and recipes of this folder are not trusted yet.",
        )
    return stated


def _is_run(folder: Path) -> bool:
    return (folder / _SETTINGS).exists() or RunFolder.is_run(folder)
