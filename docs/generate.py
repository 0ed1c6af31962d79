"""Pages that follow from the code: the settings of a recipe, the commands, the public names."""

import contextlib
import dataclasses
import importlib
import io
import os
from unittest import mock

import penstock as ps
from penstock.cli.app import main
from penstock.cli.overview import COMMANDS
from penstock.cli import overview
from penstock.config.members import choices, default_of, fields_of, kind_of, members, is_section, name_of
from penstock.config.options import SETTINGS, Options
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
    for section, kind in sections("", Recipe):
        lines += ["", f"## `{section or 'top level'}`", *table(section, kind, defaults_of(kind))]
        for member in members(kind_of(section)):
            differing = {key: each for key, each in defaults_of(member).items() if each != defaults_of(kind).get(key)}
            differing.pop("name", None)  # the heading says it
            if member is not kind and differing:
                chosen = name_of(member) or "FILE.py:NAME"
                lines += ["", f"### `{section} = {chosen}`", *table(section, member, differing)]
    return "\n".join(lines) + "\n"


def table(section, kind, defaults):
    """Some settings of a section, with their defaults."""
    lines = ["", "| setting | general default | meaning |", "|---|---|---|"]
    for names, text in attributes(kind).items():
        known = [name for name in names if name in defaults and not is_section(type(defaults[name]))]
        known += [name for name in names if name in defaults and hasattr(defaults[name], "name")]  # of a union
        if known:
            shown = ", ".join(f"`{name}`" for name in known)
            values = ", ".join(f"`{plain(defaults[name])}`" for name in known)
            lines.append(f"| {shown} | {values} | {text.replace('|', '/')}{words(section, known[0], text)} |")
    return lines


def defaults_of(kind):
    """The defaults of a section's settings."""
    return {name: default_of(kind, name) for name in fields_of(kind)}


def sections(name, kind):
    """A section and those inside it, each as it is by default."""
    yield name, kind
    for each, default in defaults_of(kind).items():
        if dataclasses.is_dataclass(default):
            yield from sections(f"{name}.{each}".strip("."), type(default))


def plain(value):
    """A default as TOML has it."""
    if value is None:
        return "not set"
    if value is dataclasses.MISSING:
        return "none, it must be given"
    if hasattr(value, "name"):
        return value.name
    if isinstance(value, bool):
        return str(value).lower()
    return list(value) if isinstance(value, tuple) else repr(value) if isinstance(value, str) else value


def words(section, name, text):
    """What a text can be, where it does not say so itself."""
    found = choices(f"{section}.{name}".strip("."))
    text = " ".join(text.split())
    return f" One of {', '.join(found)}." if found and not all(word in text for word in found) else ""


def commands():
    """The help of every command."""
    lines = ["# Commands", ""]
    for place in COMMANDS:
        name = overview.name_of(place)
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
    for title, names in (("Functions", functions), ("Classes", [name for name in ps.__all__ if name not in functions])):
        lines += ["", f"## {title}"]
        for name in names:
            lines += documented(getattr(ps, name), f"penstock.{name}")
        lines += keywords() if title == "Functions" else []
    return "\n".join(lines) + "\n"


def keywords():
    """The options of `train` and `resume`, with the settings that they set."""
    lines = ["", "### Options of `train` and `resume`", "", "| keyword | setting | meaning |", "|---|---|---|"]
    for name in Options.__annotations__:
        key = SETTINGS.get(name, "")
        section, _, setting = f"{key}.name".rpartition(".") if members(kind_of(key)) else key.rpartition(".")
        known = attributes(members(kind_of(section))[0] if members(kind_of(section)) else kind_of(section))
        texts = {each: text for names, text in (known if key else attributes(Options)).items() for each in names}
        lines.append(f"| `{name}` | {key and f'`{key}`'} | {texts[setting or name].replace('|', '/')} |")
    return lines


EXTENSIONS = {
    "penstock.tasks": (
        "Drawing",
        "Predictor",
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
