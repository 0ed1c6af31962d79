"""The figures of the README, from what `penstock demo` left: `python docs/figures.py DEMO`.

`strip.jpg` is what the demo drew, and its report as Chromium shows it. `session.txt` is what the commands of `SESSION`
printed, of which `terminal.svg` shows one line after the other. Without DEMO, `terminal.svg` alone is made from it.
"""

from __future__ import annotations

import html
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

FOLDER = Path(__file__).parent / "figures"
TILE = (400, 300)
CAPTION, GAP = 28, 8
LINE, CHARACTER, COLUMNS, MARGIN = 19, 8.2, 104, 18
"""The terminal: pixels of a line's height, of a character and of the margin, and characters in a line."""

TRAIN = "penstock train data --model unet:resnet18 --weights none --crop 96 128 --steps 60"
SESSION = (
    ("penstock inspect photos", r"train:|PROBLEMS|  \w+/\w+/"),
    (f"{TRAIN} --name whole", r"finished"),
    (f"{TRAIN} --name killed --set train.save_every=10", r"from|step +(12|18) "),
    ("penstock train --resume runs/0002-killed", r"resuming|finished"),
    ("cmp runs/*/checkpoints/last/model.safetensors && echo identical", r"identical"),
    (f"{TRAIN} --name dice --set loss.dice=0.5", r"finished"),
    ("penstock evaluate runs/0001-whole runs/0003-dice --on data:test", r"mean IoU"),
    ("penstock compare runs/0001-whole runs/0003-dice", r"Losses may|  loss\.dice|mean_iou of each"),
)
"""Commands, and the beginnings of the lines that are shown of what each prints. The training named killed is killed."""


def strip(demo):
    """Four tiles in a row, each under what it shows."""
    (run,) = (demo / "runs").glob("0*-demo")
    (predicted,) = (run / "figures").glob("predictions-test-*.png")
    tiles = [
        ("your images and masks", Image.open(demo / "records.png").crop((6, 30, 520, 415))),
        ("what the network is fed", Image.open(demo / "augmented.png").crop((524, 246, 1038, 631))),
        ("image, label, prediction, errors", Image.open(predicted).crop((6, 246, 1030, 1014))),
        ("a report of every run", page(run / "report.html")),
    ]
    width = len(tiles) * (TILE[0] + GAP) - GAP
    sheet = Image.new("RGB", (width, CAPTION + TILE[1]), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(18)
    for place, (caption, tile) in enumerate(tiles):
        left = place * (TILE[0] + GAP)
        draw.text((left, 0), caption, "black", font)
        sheet.paste(tile.convert("RGB").resize(TILE, Image.Resampling.LANCZOS), (left, CAPTION))
    sheet.save(FOLDER / "strip.jpg", quality=88)


def page(report):
    """The first screen of a report."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / "report.png"
        subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-background-networking",
             f"--user-data-dir={folder}/profile", "--window-size=880,660", f"--screenshot={drawn}",
             report.resolve().as_uri()],
            check=True, capture_output=True,
        )  # fmt: skip
        return Image.open(drawn).convert("RGB")


def photos(folder):
    """Nine images with masks, of which one mask is missing, one has a class too many, and one image is in two splits."""
    draws = np.random.default_rng(0)
    for split, count in (("train", 6), ("val", 3)):
        for kind in ("images", "masks"):
            (folder / kind / split).mkdir(parents=True)
        for number in range(count):
            mask = np.zeros((64, 96), np.uint8)
            mask[20:40, 20:60] = 7 if (split, number) == ("train", 2) else 1 + number % 2
            image = draws.integers(0, 255, (64, 96, 3), dtype=np.uint8)
            Image.fromarray(image).save(folder / "images" / split / f"{split}{number}.jpg")
            Image.fromarray(mask).save(folder / "masks" / split / f"{split}{number}.png")
    (folder / "masks/val/val1.png").unlink()
    (folder / "classes.txt").write_text("background\nroad\ncar\n")
    shutil.copy(folder / "images/train/train0.jpg", folder / "images/val/val0.jpg")


def session(data):
    """Run the commands of `SESSION`, on a dataset of the demo, and give what is shown of it."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        photos(Path(folder) / "photos")
        (Path(folder) / "data").symlink_to(data.resolve())
        for command, shown in SESSION:
            printed = killed(command, folder) if "killed --set" in command else ran(command, folder)
            lines += ["", f"$ {command}"] if not command.startswith("cmp") else [f"$ {command}"]
            lines += [line for line in printed.splitlines() if re.match(shown, line)]
            if "killed --set" in command:
                lines += ["Killed"]
    return "\n".join(lines).strip() + "\n"


def ran(command, folder):
    """What a command prints to standard output."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=folder, env=environment, shell=True, text=True, stdout=subprocess.PIPE, check=False
    )
    return done.stdout


def killed(command, folder):
    """What a training printed until it was killed, a second after its checkpoint of step 20."""
    words = [Path(sys.executable).parent / "penstock", *shlex.split(command)[1:]]
    with subprocess.Popen(words, cwd=folder, text=True, stdout=subprocess.PIPE) as training:
        while not (Path(folder) / "runs/0002-killed/checkpoints/step-00000020").exists():
            time.sleep(0.1)
        time.sleep(1)
        training.kill()
        return training.communicate()[0]


def terminal(text):
    """An SVG in which the lines appear one after the other; all of them stand where nothing may move."""
    lines = [(part, kind_of(line)) for line in text.splitlines() for part in textwrap.wrap(line, COLUMNS) or [""]]
    width, height = round(COLUMNS * CHARACTER + 2 * MARGIN), LINE * len(lines) + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        "<style>",
        "text { font: 13.6px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d5dbe1; white-space: pre }",
        ".command { fill: #7fd1e0; font-weight: bold } .problem { fill: #f0a36b }",
        "@media (prefers-reduced-motion: no-preference) {",
        "text { animation: appear 0.01s backwards } @keyframes appear { from { opacity: 0 } } }",
        "</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#1c2329"/>',
    ]
    seconds = 0.0
    for number, (line, kind) in enumerate(lines):
        seconds += 1.0 if line.startswith("$") else 0.2
        place = f'x="{MARGIN}" y="{MARGIN + LINE * (number + 1) - 5}" style="animation-delay: {seconds:.1f}s"'
        parts.append(f'<text {place} class="{kind}">{html.escape(line)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def kind_of(line):
    """What a line is, for its colour."""
    if line.startswith("$"):
        return "command"
    return "problem" if "expected" in line or line.startswith(("PROBLEMS", "Killed", "Losses")) else "text"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        strip(Path(sys.argv[1]))
        (FOLDER / "session.txt").write_text(session(Path(sys.argv[1]) / "data"))
    (FOLDER / "terminal.svg").write_text(terminal((FOLDER / "session.txt").read_text()))
