from __future__ import annotations

import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_python_example_runs(packed, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    code = code.replace("demo/data", str(packed.folder)).replace("(96, 128)", "(32, 64)")
    code = code.replace("    print(", "    if batch.cursor.position > 24: break\n    print(")
    exec(compile(code, "README.md", "exec"), {})

    assert capsys.readouterr().out.splitlines()[2].startswith("torch.Size([8, 32, 64, 3]) train-0000")


def test_every_command_it_names_is_there():
    from penstock.cli.app import _COMMANDS

    known = {place.partition(":")[2].removesuffix("_command") for place in _COMMANDS}
    named = set(re.findall(r"penstock ([a-z]+)(?= [A-Za-z/-]|`)", README)) - {"train"}

    assert named <= known
