"""Pages that follow from the code: the settings of a recipe, the commands, the public names."""

import contextlib
import dataclasses
import importlib
import io
import os
from unittest import mock

import penstock as ps
from penstock.cli.app import main
from penstock.cli.overview import COMMANDS, name_of
from penstock.config import toml
from penstock.config.options import Options
from penstock.assembly.effects import ABILITIES
from penstock.assembly.reference import attributes
from penstock.settings import Recipe
from penstock.tasks import Ability


def write(folder):
    """Write all of them into a folder."""
    folder.mkdir(exist_ok=True)
    for name, text in (("settings", settings()), ("commands", commands()), ("api", api()), ("extending", extending())):
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def settings():
    """A table for every section of the recipe."""
    lines = [
        "# Settings",
        "",
        "A recipe in TOML has these settings; `--set section.key=value` gives one on the command line, and `settings={...}` from",
        "Python. `penstock recipe` prints them with the defaults of a task or a model.",
    ]
    for section, values in sections("", Recipe()):
        lines += ["", f"## `{section or 'top level'}`", "", "| setting | general default | meaning |", "|---|---|---|"]
        for names, text in attributes(type(values)).items():
            known = [name for name in names if not dataclasses.is_dataclass(getattr(values, name))]
            if known:
                shown = ", ".join(f"`{name}`" for name in known)
                defaults = ", ".join(f"`{plain(getattr(values, name))}`" for name in known)
                lines.append(f"| {shown} | {defaults} | {text.replace('|', '/')}{words(section, known[0], text)} |")
    return "\n".join(lines) + "\n"


def sections(name, values):
    """A section and those inside it."""
    yield name, values
    for each in dataclasses.fields(values):
        inner = getattr(values, each.name)
        if dataclasses.is_dataclass(inner):
            yield from sections(f"{name}.{each.name}".strip("."), inner)


def plain(value):
    """A default as TOML has it."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    return list(value) if isinstance(value, tuple) else repr(value) if isinstance(value, str) else value


def words(section, name, text):
    """What a text can be, where it does not say so itself."""
    found = toml.choices(f"{section}.{name}".strip("."))
    text = " ".join(text.split())
    return f" One of {', '.join(found)}." if found and not all(word in text for word in found) else ""


def commands():
    """The help of every command."""
    lines = ["# Commands", ""]
    for place in COMMANDS:
        name = name_of(place)
        lines += [f"## `penstock {name}`", "", "```text", shown(name), "```", ""]
    return "\n".join(lines)


def shown(command):
    """What `penstock COMMAND --help` prints."""
    said = io.StringIO()
    with (
        mock.patch.dict(os.environ, COLUMNS="100", NO_COLOR="1"),
        contextlib.redirect_stdout(said),
        contextlib.suppress(SystemExit),
    ):
        main([command, "--help"])
    return "\n".join(line.rstrip() for line in said.getvalue().strip().splitlines())


def api():
    """The public names, from their docstrings."""
    lines = [
        "# Public names",
        "",
        "`import penstock as ps` gives these names, each loaded when it is first used. Beside them only "
        "[the names for extensions](extending.md) are public. Everything else may change without notice.",
    ]
    functions = [name for name in ps.__all__ if name[0].islower()]
    keywords = documented(Options, f"{Options.__module__}.{Options.__qualname__}")
    for title, names in (("Functions", functions), ("Classes", [name for name in ps.__all__ if name not in functions])):
        lines += ["", f"## {title}"]
        for name in names:
            lines += documented(getattr(ps, name), f"penstock.{name}")
        lines += keywords if title == "Functions" else []
    return "\n".join(lines) + "\n"


EXTENSIONS = {
    "penstock.tasks": (
        "Drawing",
        "Predictor",
        "VolumePredictor",
        "Exporter",
        "ReadyModel",
        "Graph",
        "Ability",
        "refusal",
    ),
    "penstock.settings": ("Augment", "TaskSettings"),
    "penstock.tasks.scoring": ("Metric", "Scores", "Collective"),
    "penstock.feed": ("Field", "Prepare"),
    "penstock.kinds": ("Counts", "InspectedItem", "hashed", "named", "sentence"),
    "penstock.records": ("Fields", "encode"),
    "penstock.images": (
        "ImageInfo",
        "probe",
        "fetch_image",
        "read_upright",
        "decode_image",
        "decode_mask",
        "Affine",
        "View",
    ),
    "penstock.images.geometry": ("whole", "resize"),
    "penstock.images.codecs": ("encode_png", "encode_mask"),
    "penstock.images.drawing": ("caption", "fit", "palette", "overlay", "boxes"),
    "penstock.seeds": ("Generator",),
    "penstock.losses": ("Term",),
    "penstock.errors": ("LabelError", "ImageError", "RecipeError", "DatasetError"),
    "penstock.session": ("Session",),
}
"""What parts and tasks of one's own may import, beside the public names."""


def extending():
    """The names for extensions, from their docstrings, and the abilities of a task."""
    lines = ["# Names for extensions", "", "What files of your own may import beside [the public names](api.md).", ""]
    lines += [
        "## Abilities",
        "",
        "| ability | what is refused without it | what a task that has it must do |",
        "|---|---|---|",
    ]
    settings = {ability: names for ability, names in ABILITIES}
    for ability in Ability:
        names = ", ".join(f"`{name}`" for name in settings.get(ability, ()))
        lines.append(f"| `{ability.name}` | {ability.title}{f': {names}' if names else ''} | {ability.promise} |")
    for module, names in EXTENSIONS.items():
        lines += ["", f"## {module}"]
        for name in names:
            lines += documented(getattr(importlib.import_module(module), name))
    return "\n".join(lines) + "\n"


def documented(found, name=""):
    """A function or a class, from its docstring, by its public name or that of its module."""
    kind = "autoclass" if isinstance(found, type) else "autofunction"
    if isinstance(found, type) and issubclass(found, BaseException):
        kind = "autoexception"
    members = [] if kind == "autofunction" else [":members:", ":exclude-members: __init__, __new__"]
    place = f".. {kind}:: {name or f'{found.__module__}.{found.__qualname__}'}"
    return ["", "```{eval-rst}", place, *(f"   {each}" for each in members), "```"]
