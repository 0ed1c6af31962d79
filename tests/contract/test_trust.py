"""Nothing that a run, a dataset or a recipe from elsewhere names is executed before it is trusted, by any way into any door.

Each attack makes what would write a canary file when it is imported or called. The settings that may name a custom part
come from `penstock.config.places`, and the commands from the command line itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import py_compile
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest
import tomli_w
from support import processes
from support.commands import call
from support.training import recipe

import penstock
import penstock as ps
from penstock import config, custom, files
from penstock.cli.overview import COMMANDS, name_of
from penstock.config.places import LISTS, SINGLE
from penstock.custom import carried, trust
from penstock.custom.loading import digest
from penstock.datasets import FolderDataset
from penstock.datasets.description import Description
from penstock.errors import PenstockError
from penstock.kinds import find_kind
from penstock.training import train

CANARY = "import pathlib\npathlib.Path({path!r}).write_text('executed')\n"
NET = "import helper, wave\nfrom torch import nn\n\n\ndef build(classes):\n    return nn.Conv2d(3, classes, helper.SIDE)\n"


@pytest.fixture
def canary(tmp_path):
    """A file that must not be made."""
    return tmp_path / "canary"


@pytest.fixture(scope="module")
def trained(packed, tmp_path_factory):
    """A run of this user's, with a network that imports a file from beside it."""
    root = tmp_path_factory.mktemp("trained")
    (root / "helper.py").write_text("SIDE = 1\n")
    (root / "net.py").write_text(NET)
    return train(recipe(packed.folder, f"{root}/net.py:build", steps=1), root / "runs")[0].path


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the run, as it comes from somebody else; its code is trusted, as this user made it."""
    return shutil.copytree(trained, tmp_path / "run", symlinks=True)


def name_in_recipe(folder, setting, place):
    """Have the recipe of a run name a place."""
    path = folder / "recipe.toml"
    found = tomllib.loads(path.read_text())
    *sections, last = setting.split(".")
    table = found
    for section in sections:
        table = table.setdefault(section, {})
    table[last] = [place] if setting in LISTS else place
    path.write_text(tomli_w.dumps(found))


def list_code(folder):
    """Have a run state the hashes of what lies below code/, as its maker can."""
    path = folder / "settings.json"
    code = {
        f"code/{each.relative_to(folder / 'code').as_posix()}": digest(each.read_bytes())
        for each in sorted((folder / "code").rglob("*"))
        if each.is_file()
    }
    path.write_text(json.dumps({**json.loads(path.read_text()), "code": code}))


def plant(path, canary):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(CANARY.format(path=str(canary)) + "SIDE = 1\nPart = 3\n")


def a_file(folder, canary, setting):
    plant(folder / "code/evil.py", canary)
    name_in_recipe(folder, setting, "code/evil.py:Part")


def a_listed_file(folder, canary, setting):
    a_file(folder, canary, setting)
    list_code(folder)


def a_file_below(folder, canary, setting):
    plant(folder / "code/sub/evil.py", canary)
    list_code(folder)
    name_in_recipe(folder, setting, "code/sub/evil.py:Part")


def a_file_above(folder, canary, setting):
    plant(folder / "evil.py", canary)
    name_in_recipe(folder, setting, "code/../evil.py:Part")


def a_file_elsewhere(folder, canary, setting):
    plant(folder.parent / "evil.py", canary)
    name_in_recipe(folder, setting, f"{folder.parent}/evil.py:Part")


def a_link(folder, canary, setting):
    plant(folder / "evil.py", canary)
    (folder / "code/evil.py").symlink_to("../evil.py")
    list_code(folder)
    name_in_recipe(folder, setting, "code/evil.py:Part")


def a_linked_folder(folder, canary, setting):
    (folder / "code").rename(folder / "other")
    (folder / "code").symlink_to("other")
    a_listed_file(folder, canary, setting)


def an_installed_object(folder, canary, setting):
    name_in_recipe(folder, setting, "canary_package.mod:Part")


OF_SETTINGS = (
    a_file, a_listed_file, a_file_below, a_file_above, a_file_elsewhere, a_link, a_linked_folder, an_installed_object,
)  # fmt: skip
"""Ways of naming what nobody trusts."""


def bytecode(folder, canary):
    plant(folder / "evil.py", canary)
    compiled = folder / "code/__pycache__/net.cpython-311.pyc"
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(folder / "evil.py"), cfile=str(compiled), invalidation_mode=unchecked, doraise=True)


def a_package_over_a_file(folder, canary):
    plant(folder / "code/helper/__init__.py", canary)


def an_extension_over_a_file(folder, canary):
    (folder / "code/helper.so").write_bytes(b"\x7fELF")


def a_package_over_the_standard_library(folder, canary):
    plant(folder / "code/wave/__init__.py", canary)


BESIDE_TRUSTED_CODE = (
    bytecode, a_package_over_a_file, an_extension_over_a_file, a_package_over_the_standard_library,
)  # fmt: skip
"""Ways of changing what trusted code is, or what it imports."""


DOORS = {
    "evaluate": lambda run, data, more: ["evaluate", run, "--images", 0, *more],
    "predict": lambda run, data, more: ["predict", run, data.parent / "raw/images/val", "-o", run.parent / "out", *more],
    "replay": lambda run, data, more: ["replay", run, "--step", 1, *more],
    "export": lambda run, data, more: ["export", run, "-o", run.parent / "m.pt2", *more],
    "resume": lambda run, data, more: ["train", "--resume", run, *more],
    "init": lambda run, data, more: ["train", data, "--init", run, "--steps", 1, "--runs", run.parent / "b", *more],
    "train": lambda run, data, more: ["train", run / "recipe.toml", "--runs", run.parent / "c", *more],
    "recipe": lambda run, data, _: ["recipe", run / "recipe.toml"],
    "show": lambda run, data, _: ["show", data, "--augmented", "--recipe", run / "recipe.toml", "-o", run.parent / "s.png"],
    "report": lambda run, data, _: ["report", run],
    "runs": lambda run, data, _: ["runs", run.parent],
    "compare": lambda run, data, _: ["compare", run, run],
    "note": lambda run, data, _: ["note", run, "mine"],
    "prune": lambda run, data, _: ["prune", run],
}  # fmt: skip
"""Commands that open a run or its recipe: each with its words."""

TRUSTING = ("evaluate", "predict", "replay", "export", "resume", "train")

FROM_PYTHON = {
    "load": ps.load,
    "resume": ps.resume,
    "evaluate": lambda run: ps.Run(run).evaluate(),
    "export": lambda run: ps.export(run, run.parent / "m.pt2"),
    "train": lambda run: ps.train(run / "recipe.toml", runs=run.parent / "c"),
    "Run.load": lambda run: ps.Run(run).load(),
}


def refused(canary, command, *words, capsys):
    """The command ends without having executed anything of the attacker's; the error, if there is one."""
    code, _, err = call(*words, capsys=capsys)
    assert not canary.exists(), command
    assert code in (0, 2), err
    return err


@pytest.fixture(autouse=True)
def forgotten(trained, tmp_path, monkeypatch):
    """What a test comes to trust holds for that test alone."""
    shutil.copytree(files.state_folder(), tmp_path / "state_home/penstock")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state_home"))
    monkeypatch.setattr(trust, "_NOW", set(trust._NOW))


@pytest.fixture(autouse=True)
def others_package(tmp_path, canary, monkeypatch):
    """An installed package that this user never named."""
    plant(tmp_path / "site/canary_package/mod.py", canary)
    (tmp_path / "site/canary_package/__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for name in [each for each in sys.modules if each.startswith("canary_package")]:
        monkeypatch.delitem(sys.modules, name)


OPEN_NO_RUN = {
    "demo", "scenes", "new", "download", "inspect", "pack", "verify", "unpack", "publish", "pull", "doctor",
    "models",
}  # fmt: skip


def test_every_command_is_a_door_or_opens_no_run():
    doors = {make(Path("run"), Path("data"), [])[0] for make in DOORS.values()}

    assert {name_of(place) for place in COMMANDS} == doors | OPEN_NO_RUN


@pytest.mark.parametrize("attack", OF_SETTINGS)
@pytest.mark.parametrize("setting", [*SINGLE, *LISTS])
def test_no_setting_executes_what_nobody_trusts(run, packed, canary, capsys, setting, attack):
    attack(run, canary, setting)
    for door in ("evaluate", "resume", "train"):
        err = refused(canary, door, *DOORS[door](run, packed.folder, []), capsys=capsys)
        assert err.startswith("error: "), door
    for door in ("recipe", "show"):
        refused(canary, door, *DOORS[door](run, packed.folder, []), capsys=capsys)


@pytest.mark.parametrize("attack", OF_SETTINGS)
def test_no_door_executes_what_nobody_trusts(run, packed, canary, capsys, attack):
    attack(run, canary, "hooks")
    for door, make in DOORS.items():
        refused(canary, door, *make(run, packed.folder, []), capsys=capsys)
    for door, do in FROM_PYTHON.items():
        with contextlib.suppress(PenstockError):
            do(run)
        assert not canary.exists(), door


@pytest.mark.parametrize("attack", BESIDE_TRUSTED_CODE)
@pytest.mark.parametrize("more", [[], ["--trust"]])
def test_trusted_code_is_what_was_hashed(run, packed, canary, capsys, attack, more):
    """Also where somebody has read code/*.py, and trusts it."""
    attack(run, canary)
    (planted,) = (
        path for path in (run / "code").rglob("*") if path.is_file() and path.name not in ("net.py", "helper.py")
    )
    for door in TRUSTING:
        err = refused(canary, door, *DOORS[door](run, packed.folder, more), capsys=capsys)
        assert err == f"error: {planted} was not copied when {run} was made. Remove it.\n", door


@pytest.mark.parametrize("attack", [a_package_over_a_file, a_package_over_the_standard_library])
def test_of_what_is_listed_only_what_is_trusted_is_executed(run, packed, canary, capsys, attack):
    attack(run, canary)
    list_code(run)
    for door in TRUSTING:
        err = refused(canary, door, *DOORS[door](run, packed.folder, []), capsys=capsys)
        assert "would execute this code, which does not come from you" in err, door


@pytest.mark.parametrize("attack", [a_listed_file, an_installed_object])
def test_what_is_trusted_is_executed_and_asked_for_no_more(run, packed, canary, capsys, monkeypatch, tmp_path, attack):
    """The error names what would be executed; with --trust it is."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    attack(run, canary, "loss.custom")
    err = refused(canary, "evaluate", *DOORS["evaluate"](run, packed.folder, []), capsys=capsys)
    what = {
        a_listed_file: f"{run}/code/evil.py: loading {run} would execute this code, which does not come from you. Read it, "
        "then add --trust, in Python trust=True.",
        an_installed_object: f"{run}/recipe.toml: loss.custom: loading {run} would execute canary_package.mod:Part, which you "
        "have not used before. Read it, then add --trust, in Python trust=True.",
    }[attack]
    assert err == f"error: {what}\n"

    call(*DOORS["resume"](run, packed.folder, ["--trust", "--set", "train.steps=2"]), capsys=capsys)
    assert canary.read_text() == "executed"


def test_a_recipe_is_trusted_with_its_folder(packed, tmp_path, canary, capsys):
    """A file of settings may be a stranger's too: asked once, then no more, also when the file has changed."""
    home = tmp_path / "home"
    plant(home / "own.py", canary)
    (home / "recipe.toml").write_text(
        config.dump(config.apply(recipe(packed.folder, steps=1), ['hooks=["own.py:Part"]']))
    )
    words = ["train", home / "recipe.toml", "--runs", tmp_path / "runs"]
    assert refused(canary, "train", *words, capsys=capsys) == (
        f"error: {home}/recipe.toml: hooks = own.py:Part would be executed, and recipes of this folder are not trusted yet. Read "
        "both, then add --trust, in Python trust=True; Penstock will not ask again for this folder.\n"
    )
    (home / "own.py").write_text("from penstock import Hook\n\n\nclass Part(Hook):\n    pass\n")
    assert call(*words, "--trust", capsys=capsys)[0] == 0
    (home / "own.py").write_text((home / "own.py").read_text() + "\n")
    assert call(*words, capsys=capsys)[0] == 0
    assert call("recipe", home / "recipe.toml", capsys=capsys)[0] == 0


@pytest.mark.parametrize(
    "task",
    ["code/evil.py:K", "code/sub/evil.py:K", "code/../evil.py:K", "/ABSOLUTE/evil.py:K", "canary_package.mod:Part"],
)
@pytest.mark.parametrize("listed", [False, True])
def test_no_dataset_executes_what_nobody_trusts(packed, tmp_path, canary, capsys, task, listed):
    data = shutil.copytree(packed.folder, tmp_path / "data")
    task = task.replace("/ABSOLUTE", str(tmp_path))
    for path in (data / "code/evil.py", data / "code/sub/evil.py", data / "evil.py", tmp_path / "evil.py"):
        plant(path, canary)
    stated = json.loads((data / "dataset.json").read_text())
    code = carried.digests(data) if listed else {}
    edited = {**stated, "task": task, "code": code}
    content = msgspec.convert(edited, Description).digest()
    (data / "dataset.json").write_text(json.dumps({**edited, "content": content}))
    doors = (
        ["verify", data], ["show", data, "-o", tmp_path / "s.png"], ["doctor", data], ["inspect", data],
        ["train", data, "--runs", tmp_path / "r"], ["publish", data, "kafka://127.0.0.1:1/t"],
        ["unpack", data, "-o", tmp_path / "u"],
    )  # fmt: skip
    for words in doors:
        err = refused(canary, words[0], *words, capsys=capsys)
        assert err.startswith("error: "), words
    with pytest.raises(PenstockError):
        ps.open(data)["train"][0]
    assert not canary.exists()


def test_a_topic_carries_no_code(packed):
    described = FolderDataset.open(packed.folder).description
    with pytest.raises(PenstockError) as caught:
        _ = dataclasses.replace(described, task="code/evil.py:K", home="").kind
    assert str(caught.value).endswith("found code/evil.py:K. Train on the dataset that was published.")


def test_the_current_folder_is_no_place_of_modules(run, packed, canary):
    """`python -m` puts it there."""
    plant(run / "evil/mod.py", canary)
    (run / "evil/__init__.py").write_text("")
    name_in_recipe(run, "train.metrics", "evil.mod:Part")
    trust.remember(trust.module("evil.mod:Part"))  # another one, of this user's
    words = [sys.executable, "-m", "penstock", "evaluate", ".", "--images", "0"]
    done = subprocess.run(words, cwd=run, env=processes.quiet(), capture_output=True, text=True, check=False)

    assert not canary.exists()
    assert "expected a module evil.mod that can be imported" in done.stderr


@pytest.mark.parametrize("begin", [["-m", "penstock"], ["-c", "from penstock.cli import command; command()"]])
def test_no_library_comes_from_the_current_folder(run, canary, begin):
    """Also where an empty part of PYTHONPATH, as in `PYTHONPATH=:/x`, means that folder."""
    for name in ("pathlib", "cyclopts", "msgspec", "yaml"):
        plant(run / f"{name}.py", canary)
    place = f"{Path(penstock.__file__).parents[1]}:" if begin[0] == "-m" else ""
    words = [sys.executable, *(["-P"] if begin[0] == "-c" else []), *begin, "runs", "."]
    environment = {**processes.quiet(), "PYTHONPATH": place or ":"}
    done = subprocess.run(words, cwd=run, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert not canary.exists()


@pytest.mark.parametrize(
    "name", ["report.html", "metrics.jsonl", "events.jsonl", "log.txt", "notes.json", "figures", "checkpoints/last"]
)
def test_nothing_is_written_through_a_link_that_leaves_the_run(run, packed, tmp_path, capsys, name):
    dear = tmp_path / "dear"
    path = run / name
    if path.is_dir() and not path.is_symlink():
        shutil.move(path, dear)
    else:
        dear.write_bytes(path.read_bytes() if path.is_file() else b"dear\n")
        path.unlink(missing_ok=True)
    path.symlink_to(dear)
    before = dear.read_bytes() if dear.is_file() else sorted(dear.iterdir())
    for door in ("report", "resume", "evaluate", "replay", "note", "train"):
        call(*DOORS[door](run, packed.folder, []), capsys=capsys)
        assert (dear.read_bytes() if dear.is_file() else sorted(dear.iterdir())) == before, door
    assert call("report", run, capsys=capsys)[2] == (
        f"error: {path}: expected files within the run alone, as they are written to, found a link to {dear}. Put the file "
        "itself in its place.\n"
    )


def test_names_beside_a_file_are_its_own_but_for_the_standard_library(tmp_path, monkeypatch):
    """Packages, folders of files, and files of the same names in other folders."""
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    for number in (1, 2):
        home = tmp_path / str(number)
        (home / "parts/deep").mkdir(parents=True)
        (home / "parts/deep/values.py").write_text(f"A = {number}\n")
        (home / "kit").mkdir()
        (home / "kit/__init__.py").write_text("from kit.inner import B\n")
        (home / "kit/inner.py").write_text(f"from . import other\nB = {number} + other.C\n")
        (home / "kit/other.py").write_text("C = 10\n")
        (home / "wave.py").write_text("raise SystemExit('the standard library comes first')\n")
        (home / "own.py").write_text(
            "import wave\nfrom kit import B\nfrom parts.deep.values import A\nvalue = A, B, wave.__name__\n"
        )
    found = [custom.load(custom.ImportPath(f"{tmp_path}/{number}/own.py", "value"), "x") for number in (1, 2)]

    assert found == [(1, 11, "wave"), (2, 12, "wave")]
    kept = carried.keep(custom.ImportPath(f"{tmp_path}/1/own.py", "value"), "x", tmp_path / "run")
    assert str(kept) == "code/own.py:value"
    assert sorted(carried.digests(tmp_path / "run")) == [
        f"code/{name}" for name in ("kit/__init__.py", "kit/inner.py", "kit/other.py", "own.py", "parts/deep/values.py")
    ]
    shutil.rmtree(tmp_path / "1")
    carried.check(tmp_path / "run", carried.digests(tmp_path / "run"))
    (tmp_path / "run/code/own.py").write_text("value = 'exchanged'\n")
    assert custom.load(kept.beside(tmp_path / "run"), "x") == (1, 11, "wave")


def test_of_a_package_that_a_run_carries_only_what_was_hashed_is_imported(tmp_path):
    """Though more lies there by then."""
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit/__init__.py").write_text("")
    (tmp_path / "own.py").write_text(
        "import kit\ntry:\n    import kit.late\n    value = 'executed'\nexcept ModuleNotFoundError as error:\n    value = error.name\n"
    )
    kept = carried.keep(custom.ImportPath(f"{tmp_path}/own.py", "value"), "x", tmp_path / "run")
    carried.check(tmp_path / "run", carried.digests(tmp_path / "run"))
    (tmp_path / "run/code/kit/late.py").write_text("")

    assert custom.load(kept.beside(tmp_path / "run"), "x") == "kit.late"


def test_a_kind_is_not_loaded_from_a_folder_that_nobody_checked(tmp_path, canary):
    plant(tmp_path / "data/code/evil.py", canary)
    with pytest.raises(PenstockError) as caught:
        find_kind("code/evil.py:Part", tmp_path / "data")

    assert str(caught.value) == (
        f"task = code/evil.py:Part: expected a file that was copied with the data, and checked, found {tmp_path}/data/code/evil.py. "
        "Open the run or the dataset first."
    )
    assert not canary.exists()


def test_an_installed_part_of_this_users_run_needs_no_trust(packed, tmp_path, capsys):
    (tmp_path / "site/canary_package/hooks.py").write_text(
        "from penstock import Hook\n\n\nclass Part(Hook):\n    pass\n"
    )
    importlib.invalidate_caches()
    chosen = config.apply(recipe(packed.folder, steps=1), ['hooks=["canary_package.hooks:Part"]'])
    folder, _ = train(chosen, tmp_path / "runs")

    assert call("evaluate", folder.path, "--images", 0, capsys=capsys)[0] == 0
