"""Training: start a run, go on with one. Mistakes are named before PyTorch is imported, which takes seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from penstock.api import notebook
from penstock.api.arguments import suggested
from penstock.api.data import Data
from penstock.api.runs import Run, folder_of, trusted
from penstock.config import toml
from penstock.config.options import Options, settings_of
from penstock.datasets import locate
from penstock.errors import RecipeError, RunError
from penstock.progress import silent
from penstock.runs import RunFolder
from penstock.settings import Recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.assembly.presets import Resolved
    from penstock.events import OnEvent
    from penstock.session import Hook


_OTHER_RECIPES: Final = (".yaml", ".yml")


@suggested
def train(
    data: Data | Recipe | str | Path,
    *,
    settings: Mapping[str, Any] | Sequence[str] | None = None,
    hooks: Sequence[str | Mapping[str, Any] | Hook] = (),
    runs: str | Path = "runs",
    name: str = "",
    go_on: bool = False,
    max_time: str = "",
    on_event: OnEvent | None = None,
    progress: Callable[[int, int], None] = silent,
    accept_changes: bool = False,
    trust: bool = False,
    **options: Unpack[Options],
) -> Run:
    """Train a model; settings that are not given are filled in as on the command line. Nothing is printed; a notebook
    shows how it goes, unless `on_event` or `progress` is given.

    Args:
        data: a dataset or where it is, a recipe, or the path of one in TOML; "" with `go_on` goes on alone.
        settings: any settings of the recipe, named as `section.key`, or texts "section.key=value".
        hooks: names, FILE.py:NAME, tables with settings, or hooks themselves.
        runs: where run folders are kept.
        name: of the run, behind its number.
        go_on: whether to go on with the newest run of that name, where there is one.
        max_time: after which to save and stop, such as "3h55m"; `resume` goes on.
        on_event: called with every event; `logging` has them too.
        progress: called after each step with the steps that are done, and those in all.
        accept_changes: whether to go on although samples are not what they were.
        trust: whether custom code that a dataset carries or a recipe in TOML names may be executed.
        options: the settings that the command has options for: `model`, `lr`, `steps` and the others of `Options`.

    Raises:
        PenstockError: something cannot be had, or does not fit.
    """
    _check_listed(hooks)
    given = _given(settings, hooks, options)
    if go_on and name and not data:
        newest = RunFolder.newest(Path(runs), name)
        if newest is None:
            fix = "Name the dataset too, to start it, or the folder of the runs with --runs"
            raise RunError(str(runs), expected=f"a run called {name}", found="none", remedy=fix)
        return resume(
            newest, settings=given, hooks=hooks, max_time=max_time, on_event=on_event, progress=progress,
            trust=trust, accept_changes=accept_changes,
        )  # fmt: skip
    check(data, settings=given)

    from penstock import training  # noqa: PLC0415 - with PyTorch

    recipe = _recipe(data, given, trust=trust)
    attached = _attached(hooks, max_time)
    on_event, progress = notebook.shown(on_event, progress)
    folder, outcome = training.train(
        recipe, Path(runs), name, attached, on_event, go_on=go_on, accept_changes=accept_changes, progress=progress
    )
    return Run(folder.path, outcome)


@suggested
def resume(
    run: str | Path | Run,
    *,
    settings: Mapping[str, Any] | Sequence[str] | None = None,
    hooks: Sequence[str | Mapping[str, Any] | Hook] = (),
    max_time: str = "",
    checkpoint: str = "last",
    on_event: OnEvent | None = None,
    progress: Callable[[int, int], None] = silent,
    trust: bool = False,
    accept_changes: bool = False,
    **options: Unpack[Options],
) -> Run:
    """Go on with a run. Nothing is printed; a notebook shows how it goes, as in `train`.

    Args:
        run: the run or its folder.
        settings: changes to its recipe, named as `section.key`.
        hooks: more of them, as those of `train`.
        max_time: after which to save and stop, such as "3h55m".
        checkpoint: "last", "best" or "step-NNNNNNNN".
        on_event: called with every event; `logging` has them too.
        progress: called after each step with the steps that are done, and those in all.
        trust: whether code from elsewhere, which the run carries, may be executed.
        accept_changes: whether to go on although data, code or a decoder gives other samples than before.
        options: changes to its recipe, as those of `train`.

    Raises:
        PenstockError: it cannot go on.
    """
    _check_listed(hooks)
    given = _given(settings, hooks, options)
    check(Run(folder_of(run)), settings=given)

    from penstock import training  # noqa: PLC0415 - with PyTorch

    path = trusted(run, trust=trust)
    attached = _attached(hooks, max_time)
    on_event, progress = notebook.shown(on_event, progress)
    folder, outcome = training.resume(
        path, given, attached, checkpoint, on_event, accept_changes=accept_changes, progress=progress
    )
    return Run(folder.path, outcome)


def _given(
    settings: Mapping[str, Any] | Sequence[str] | None, hooks: Sequence[Any], options: Options
) -> dict[str, Any]:
    """All settings that are given: by options, by hooks that a recipe can name, and by themselves."""
    named = [each for each in hooks if _is_named(each)]
    return toml.joined({"hooks": named} if named else {}, settings_of(settings, **options))


def _check_listed(hooks: object) -> None:
    if isinstance(hooks, str):
        raise RecipeError("hooks", expected="a list", found="a string", remedy=f"Write hooks=[{hooks!r}]")
    if not isinstance(hooks, Iterable):
        name = getattr(hooks, "__name__", type(hooks).__name__)
        raise RecipeError("hooks", expected="a list", found=name, remedy=f"Write hooks=[{name}()]")


def _is_named(hook: object) -> bool:
    """Whether a hook is one that a recipe can name; classes and functions are not hooks themselves, and are refused."""
    return isinstance(hook, (str, Mapping)) or callable(hook)


@suggested
def check(
    data: Data | Run | Recipe | str | Path,
    *,
    settings: Mapping[str, Any] | Sequence[str] | None = None,
    **options: Unpack[Options],
) -> None:
    """Name a mistake in settings, and data that is not there, as `train` and `resume` do before PyTorch is imported.

    Args:
        data: what would be trained on, or the run that would be resumed.
        settings: as for `train`.
        options: as for `train`.

    Raises:
        PenstockError: a setting is not known, its value does not fit it, or there is no such recipe, dataset or run.
    """
    toml.check_given(settings_of(settings, **options))
    if isinstance(data, Run):
        RunFolder.open(data.path)
    if data == "":
        raise RecipeError(
            "penstock train",
            expected="a packed dataset, a topic, a recipe, or --resume RUN",
            found="none of them",
            remedy="Make a dataset with penstock pack FOLDER -o DIR, then penstock train DIR",
        )
    if not isinstance(data, (str, Path)):
        return
    location = locate(str(data))
    if Path(data).suffix in _OTHER_RECIPES and Path(data).is_file():
        raise RecipeError(
            str(data),
            expected="a packed dataset, a topic, or a recipe in TOML",
            found=f"a {Path(data).suffix} file",
            remedy="Write the recipe as FILE.toml: penstock recipe > FILE.toml gives one with every setting",
        )
    if not location.remote and Path(data).suffix == ".toml":
        toml.settings_in(Path(data))
    elif not location.exists:
        location.open()


def _attached(hooks: Sequence[Any], max_time: str) -> list[Hook]:
    """The hooks that are objects, and a `MaxTime` hook if the time is limited."""
    from penstock.hooks import MaxTime  # noqa: PLC0415 - with PyTorch

    return [*(each for each in hooks if not _is_named(each)), *([MaxTime(max_time)] if max_time else [])]


def _recipe(data: Data | Recipe | str | Path, given: Mapping[str, Any], *, trust: bool) -> Recipe | Resolved:
    from penstock import assembly  # noqa: PLC0415 - with PyTorch

    if trust and isinstance(data, (str, Path)):
        assembly.trust(Path(data))
    if isinstance(data, Recipe):
        return toml.filled(data, given, "")
    path = data.path if isinstance(data, Data) else str(data)
    if path.endswith(".toml"):
        settings, notes = assembly.settings_of_file(Path(path), given)
        return assembly.resolve_settings(settings, path, notes)
    return assembly.resolve_settings({"data.path": path, **given})
