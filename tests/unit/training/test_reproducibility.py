from __future__ import annotations

import pytest
import torch
from support.training import Stop, recipe

from penstock.cli.events import show
from penstock.errors import RunError
from penstock.events import Events
from penstock.ranks import Ranks
from penstock.session import Hook
from penstock.training import resume, train
from penstock.training.reproducibility import note_changes


def test_determinism_is_asked_for_and_only_then_promised_on_a_gpu(packed, tmp_path, monkeypatch):
    from penstock.ranks import Ranks
    from penstock.training.reproducibility import promise

    class Asks(Hook):
        def on_start(self, session):
            found.append(torch.are_deterministic_algorithms_enabled())

    found = []
    for deterministic in (True, False):
        train(recipe(packed.folder, steps=1, deterministic=deterministic), tmp_path, hooks=[Asks()])
    monkeypatch.setattr("penstock.devices.describe", str)
    exact = [
        promise(recipe("x", deterministic=deterministic), torch.device(kind), Ranks())["exact"]
        for kind, deterministic in (("cpu", False), ("cuda", False), ("cuda", True))
    ]

    assert found == [True, False]
    assert [each == "weights, byte for byte" for each in exact] == [True, False, True]


def test_a_resume_says_what_differs(packed, tmp_path, capsys):
    folder, _ = train(recipe(packed.folder, steps=2), tmp_path, hooks=[Stop(1)])
    before = folder.read_json("environment.json")
    folder.write_json("environment.json", {**before, "threads": 77})
    resume(folder.path, on_event=show)

    now = before["threads"]
    assert f"note: threads was 77, is {now}: same records, same order; weights may differ" in capsys.readouterr().out
    assert folder.read_json("environment.json")["then"][0]["threads"] == now


@pytest.mark.parametrize(
    ("apart", "said"),
    [
        (True, "losses and weights will differ, as batch normalisation takes each"),
        (False, "weights may differ in rounding"),
    ],
)
def test_a_resume_on_other_ranks_says_what_is_true(packed, tmp_path, capsys, apart, said):
    """With norms that learn from each rank's samples, losses differ by more than rounding."""
    from penstock.training.reproducibility import note_changes, promise

    folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
    now = promise(recipe(packed.folder), torch.device("cpu"), Ranks())
    note_changes(folder, {**now, "ranks": 2}, Events(show), apart=apart)

    assert f"note: ranks was 1, is 2: same records, same order; {said}" in capsys.readouterr().out


def test_a_resume_elsewhere_says_what_differs_and_keeps_it(packed, tmp_path, capsys):
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path, hooks=[Stop(2)])
    kept = folder.read_json("environment.json")
    folder.write_json("environment.json", {**kept, "threads": 77})
    resume(folder.path, on_event=show)

    assert f"note: threads was 77, is {kept['threads']}: same records, same order; " in capsys.readouterr().out
    assert [then["threads"] for then in folder.read_json("environment.json")["then"]] == [kept["threads"]]


class TestSessions:
    def test_each_resume_is_kept_with_its_command_and_versions(self, packed, tmp_path, monkeypatch):
        folder, _ = train(recipe(packed.folder, steps=4), tmp_path, hooks=[Stop(1)])
        assert "sessions" not in folder.read_json("environment.json")
        for step in (2, 3):
            monkeypatch.setattr("sys.argv", ["resumed", str(step)])
            resume(folder.path, hooks=[Stop(step)])
        kept = folder.read_json("environment.json")
        assert [(each["step"], each["command"]) for each in kept["sessions"]] == [
            (1, ["resumed", "2"]), (2, ["resumed", "3"]),
        ]  # fmt: skip
        assert all(
            each["packages"] == kept["packages"] and each["device"] == kept["device"] for each in kept["sessions"]
        )

    def test_other_versions_and_other_code_are_said_once(self, packed, tmp_path, capsys):
        folder, _ = train(recipe(packed.folder, steps=4), tmp_path, hooks=[Stop(1)])
        kept = folder.read_json("environment.json")
        other = {"torch": "1.0", "left": "3"}
        folder.write_json("environment.json", {**kept, "revision": "abc", "packages": {**kept["packages"], **other}})
        resume(folder.path, hooks=[Stop(2)], on_event=show)
        said = capsys.readouterr().out
        assert (
            f"note: torch was 1.0, is {kept['packages']['torch']}; left was 3, is none; revision was abc, is "
            f"{kept['revision'] or 'none'}: weights may differ from those of an undisturbed run\n"
        ) in said
        resume(folder.path, hooks=[Stop(3)], on_event=show)
        assert "weights may differ" not in capsys.readouterr().out

    def test_a_damaged_record_of_the_environment_is_named(self, packed, tmp_path):
        folder, _ = train(recipe(packed.folder, steps=4), tmp_path, hooks=[Stop(1)])
        kept = folder.read_json("environment.json")
        folder.write_json("environment.json", {**kept, "packages": None})
        with pytest.raises(RunError) as caught:
            resume(folder.path)
        assert str(caught.value) == (
            f"{folder.path}/environment.json: expected what Penstock wrote, found other contents (TypeError: 'NoneType' object "
            "is not a mapping). Restore the file from a copy of the run."
        )


def test_a_second_resume_is_compared_with_the_first_one(packed, tmp_path):
    """The machine of the first resume differs from that of the start, and the second one is as the first."""
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
    start = folder.read_json("environment.json")
    lines = []
    events = Events(lambda event: lines.append(str(event)))
    others = [
        {key: start[key] for key in ("device", "ranks", "exact")} | {"threads": threads} for threads in (77, 78, 78)
    ]
    for now in others:
        note_changes(folder, now, events, apart=False)

    assert [each["threads"] for each in folder.read_json("environment.json")["then"]] == [77, 78]
    assert [line[line.index("threads") :].partition(":")[0] for line in lines] == [
        f"threads was {start['threads']}, is 77", "threads was 77, is 78"
    ]  # fmt: skip
