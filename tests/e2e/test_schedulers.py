"""The script of the guide for SLURM, with programs in the place of SLURM's that do what it relies on."""

from __future__ import annotations

import subprocess

import pytest
from support import processes
from support.paths import ROOT
from support.training import recipe

from penstock.config import apply, dump
from penstock.session import CheckpointStore

pytestmark = pytest.mark.slow


def script():
    text = (ROOT / "docs" / "faults.md").read_text()
    return text.partition("```bash\n")[2].partition("```")[0]


def test_slurm_is_asked_for_the_job_again_until_it_is_done(packed, tmp_path):
    """A start has a second, and a step takes more than half of it: the first starts stop in time and ask for another one, the
    last one does not.
    """
    (tmp_path / "slow.py").write_text(
        "import time\nimport penstock as ps\n\n\nclass Slow(ps.Hook):\n    def after_step(self, session):\n"
        "        time.sleep(0.6)\n"
    )
    made = apply(recipe(packed.folder, steps=3), ["train.evaluate_every=3", 'hooks=["slow.py:Slow"]'])
    (tmp_path / "recipe.toml").write_text(dump(made))
    (tmp_path / "bin").mkdir()
    for name, line in {"srun": 'exec "$@"', "scontrol": 'echo "$@" >> requeued'}.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{line}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    text = script()
    assert "penstock train data --name big --continue --max-time 3h50m" in text
    (tmp_path / "job.sh").write_text(text.replace("3h50m", "1s").replace("train data", "train recipe.toml --trust"))
    steps = []
    with processes.executable(tmp_path / "bin", "penstock") as path:
        environment = {**processes.quiet(), "PATH": path, "SLURM_JOB_ID": "17"}
        for _ in range(7):
            before = (tmp_path / "requeued").read_text() if (tmp_path / "requeued").exists() else ""
            done = subprocess.run(
                ["bash", "job.sh"],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            (run,) = (tmp_path / "runs").iterdir()
            steps.append(CheckpointStore(run / "checkpoints").newest)
            after = (tmp_path / "requeued").read_text() if (tmp_path / "requeued").exists() else ""
            if after == before:
                break
            assert after == f"{before}requeue 17\n"
    assert steps == sorted(steps)
    assert 2 <= len(steps) <= 4  # where the last step takes the time, its evaluation needs another start
    assert steps[-1] == 3
    assert "finished at step 3" in done.stdout
