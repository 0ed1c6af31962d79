from __future__ import annotations

from support.commands import call


def test_replay_names_the_records_of_a_step(trained, capsys):
    code, out, _ = call("replay", trained, "--step", 2, capsys=capsys)
    lines = (trained / "origins.jsonl").read_text().splitlines()

    assert code == 0
    for line in out.splitlines()[:4]:
        name, origin = line.split("  ")[1].removesuffix(")").split(" (")
        assert name.startswith("scene-")
        assert origin in lines[1]
    assert (trained / "figures" / "step-00000002.png").is_file()
    code, _, err = call("replay", trained, "--step", 5, capsys=capsys)
    assert (code, err) == (
        2,
        f"error: {trained}: expected a step from 1 to 4, found 5. Choose a step in this range.\n",
    )
