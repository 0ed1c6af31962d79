from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from support.run_folders import write_run

from penstock.runs import RunFolder, notes


def test_tags_that_are_added_at_once_are_all_kept(tmp_path, monkeypatch):
    """Each is read by the slowest way there is, so that all would read nothing at first."""
    folder, read = RunFolder(write_run(tmp_path / "0001-a")), notes.read_tags

    def slowly(folder):
        found = read(folder)
        time.sleep(0.05)
        return found

    monkeypatch.setattr(notes, "read_tags", slowly)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: notes.change_tags(folder, [f"tag{number}"]), range(8)))
    assert read(folder) == tuple(f"tag{number}" for number in range(8))
