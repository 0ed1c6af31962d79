"""Commands, called in this process."""

from __future__ import annotations

import pytest

from penstock.cli import main


def call(*arguments, capsys=None):
    """One command in this process: exit code, stdout, stderr."""
    with pytest.raises(SystemExit) as caught:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr() if capsys else ("", "")
    return caught.value.code or 0, out, err
