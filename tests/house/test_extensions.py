"""Any extension can be removed: everything else imports, packs, trains and predicts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from support.paths import ROOT

from penstock.extending import brought

SOURCE = ROOT / "src" / "penstock"
NAMES = sorted(init.parent.name for init in SOURCE.glob("extensions/*/__init__.py"))
WITHOUT = """
import importlib, pkgutil, sys
import penstock as ps

assert ps.__file__.startswith(sys.argv[1]), ps.__file__
for module in pkgutil.walk_packages(ps.__path__, "penstock."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
ps.scenes("raw", train=4, val=2, test=0, size=(48, 64))
data = ps.pack("raw", "data")
run = ps.train(data, model="unet:resnet18", weights="none", steps=2, batch=2, crop=(32, 32))
print(len(ps.load(run).predict("raw/images/val/scene-00000.jpg").mask), data["val"][0].image.shape)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "every one of them"])
def test_everything_works_without(name, tmp_path):
    copy = tmp_path / "src" / "penstock"
    shutil.copytree(SOURCE, copy)
    for each in NAMES if name not in NAMES else [name]:
        shutil.rmtree(copy / "extensions" / each)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src"), "XDG_STATE_HOME": str(tmp_path / "state")},
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "48 (48, 64, 3)\n"


@pytest.mark.parametrize("table", ["LAYOUTS"])
def test_no_two_bring_the_same_name(table):
    modules = [sys.modules[f"penstock.extensions.{name}"] for name in NAMES if brought(table)]

    assert len(brought(table)) == sum(len(getattr(module, table, ())) for module in modules)
