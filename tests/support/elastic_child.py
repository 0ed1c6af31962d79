"""One rank under torchrun's agent, of which one is killed at a random moment of each of the first starts.

elastic_child.py DATA RUNS KILLS SEED    a file of kills beside RUNS has a line for each
"""

from __future__ import annotations

import os
import random
import sys
import threading
from pathlib import Path

from penstock.training import train
from support.kill_child import die
from support.training import recipe


def die_in(seconds, kills, done):
    """Not after the end: torch's agent would wait for ever for who dies while it waits for the others' end."""
    if not done.wait(seconds):
        with kills.open("a") as handle:
            handle.write("killed\n")
        die()


if __name__ == "__main__":
    done = threading.Event()
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    draw = random.Random(f"{sys.argv[4]} {attempt}")
    victim, seconds = draw.choice(["0", "1"]), draw.uniform(0, 4)
    if attempt < int(sys.argv[3]) and os.environ["RANK"] == victim:
        kills = Path(sys.argv[2]).with_suffix(".kills")
        threading.Thread(target=die_in, args=(seconds, kills, done), daemon=True).start()
    train(recipe(sys.argv[1]), Path(sys.argv[2]), "r")
    done.set()
