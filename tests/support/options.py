"""What each option of each command does: what is typed, and what is then there that else is not."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from pathlib import Path
from typing import NamedTuple, get_type_hints

from penstock.assembly import resolve_settings
from penstock.assembly.presets import Resolved
from penstock.assembly.reference import explained
from penstock.cli import exporting, training
from penstock.cli.overview import COMMANDS, name_of
from penstock.inference.export import Exported
from penstock.runs import RunFolder
from support.effects import Elsewhere


class Effect(NamedTuple):
    """An option, as it is typed, with what is typed beside it in both calls.

    `seen` is printed only with the option, or a file (FILE:) of another content; "" where what is printed differs.
    """

    words: str
    seen: str = ""
    base: str = ""


FILE = "file "
TRUST = Effect("--trust", "trusted ")
_SCENES = "--train 1 --val 1 --test 1 --size 16 16"
_ONNX = "$run -o model.onnx"
_LISTED = Elsewhere("cli/test_experiments.py")
_FOUND = Elsewhere("unit/training/test_finders.py")
_AUGMENTED = "--augmented --count 2"
_MASK = FILE + "out/scene-00000.png"

_BOTH = {
    "classes": Effect("--classes a,b,c", "classes (3): a, b, c", "$masks"),
    "ignore": Effect("--ignore 2", "", "$masks"),
    "mapping": Effect("--map 2=1", "", "$masks"),
    "images": Effect("--images shots", "", "$odd --masks truth"),
    "masks": Effect("--masks truth", "", "$odd --images shots"),
    "palette": Effect("--palette", "", "$palettes"),
    "rater": Effect("--rater rater2", "", "$raters --map 255=1"),
    "group": Effect("--group (p[0-9])_", "", "$clips --validation 0.3"),
    "mask_threshold": Effect("--mask-threshold 128", "", "$drawn"),
    "colors": Effect("--colors $root/legend.csv", "classes (2): ground, top", "$colored"),
    "layout": Effect("--layout folders", "classes (2): images, masks", "$views"),
    "task": Effect("--task segmentation", "", "$objects"),
    "pattern": Effect("--pattern (?P<label>[a-z]+)_", "classes (2): cat, dog", "$named"),
    "boxes": Effect("--boxes xywh", "--boxes says so", "$boxes"),
    "clip_boxes": Effect("--clip-boxes", "cut at", "$outside"),
    "trust_image_size": Effect("--trust-image-size", "", "$resized"),
    "evaluate_only": Effect("--evaluate-only", "", "$evaluated"),
    "limit": Effect("--limit 2", "", "$clips"),
    "max_side": Effect("--max-side 16", "at most 16 pixels", "$masks"),
    "value_range": Effect("--value-range 0 4", "because values from 0 to 4", "$floats"),
    "quality": Effect("--quality 50", "JPEG with quality 50", "$masks"),
    "seekable": Effect("--seekable", "with restart markers", "$masks"),
    "field": Effect("--field image=pic --field label=kind", "", "$fields --classes cat,dog"),
    "validation": Effect("--validation 0.5", "val: ", "$clips"),
    "skip_bad": Effect("--skip-bad", "skipped: ", "$cut"),
    "threads": Effect("--threads 3", "3 threads", "$masks"),
}  # fmt: skip

OPTIONS: dict[str, dict[str, Effect | Elsewhere]] = {
    "demo": {"output": Elsewhere("cli/test_demo.py")},
    "scenes": {
        "output": Effect("-o out", FILE + "out/classes.txt", _SCENES),
        "train": Effect("--train 2", "made 2 scenes", "-o out --val 0 --test 0 --size 16 16"),
        "val": Effect("--val 2", "made 3 scenes", "-o out --train 1 --test 0 --size 16 16"),
        "test": Effect("--test 2", "made 4 scenes", "-o out --train 1 --val 1 --size 16 16"),
        "size": Effect("--size 16 32", "of 16 x 32", "-o out --train 1 --val 0 --test 0"),
        "seed": Effect("--seed 5", FILE + "out/images/train/scene-00000.jpg", f"-o out {_SCENES}"),
    },
    "new": {},
    "download": {"output": Elsewhere("cli/test_download.py"), "url": Elsewhere("cli/test_download.py")},
    "inspect": {
        **_BOTH,
        "draw_duplicates": Elsewhere("cli/test_inspect.py"),
        "json": Effect("--json", '"layout": "image and mask folders"', "$masks"),
    },
    "pack": {
        "output": Effect("-o out", FILE + "out/dataset.json", "$masks"),
        **{name: Effect(each.words, "", each.base + " -o out") for name, each in _BOTH.items()},
        "shard_size": Elsewhere("unit/datasets/test_packing.py"),
    },
    "show": {
        "split": Effect("--split val", FILE + "sheet.png", "$data"),
        "count": Effect("--count 2", FILE + "sheet.png", "$data"),
        "augmented": Effect("--augmented", FILE + "sheet.png", "$data"),
        "recipe": Effect("--recipe $root/small.toml", FILE + "sheet.png", f"$data {_AUGMENTED}"),
        "crop": Effect("--crop 16 16", FILE + "sheet.png", f"$data {_AUGMENTED}"),
        "settings": Effect("--set augment.crop=[16,16]", FILE + "sheet.png", f"$data {_AUGMENTED}"),
        "task": Effect("--task $root/none.py:T", "none.py", f"$data {_AUGMENTED}"),
        "seed": Effect("--seed 5", FILE + "sheet.png", "$data"),
        "output": Effect("-o other.png", FILE + "other.png", "$data"),
        "trust": TRUST._replace(base="$data"),
    },
    "verify": {
        "split": Effect("--split val", "7 records are sound", "$data"),
        "threads": Effect("--threads 3", "3 threads", "$data"),
        "json": Effect("--json", '"faults": []', "$data"),
        "trust": TRUST._replace(base="$data"),
    },
    "unpack": {
        "output": Effect("-o out", FILE + "out/classes.txt", "$data"),
        "layout": Effect("--layout voc", FILE + "out/labelmap.txt", "$data -o out"),
        "trust": TRUST._replace(base="$data -o out"),
    },
    "publish": {
        "split": Effect("--split val", "", "$data $topic"),
        "create": Effect("--create", "Creation(partitions=", "$data $topic"),
        "partitions": Effect("--partitions 9", "partitions=9", "$data $topic --create"),
        "replicas": Effect("--replicas 2", "replicas=2", "$data $topic --create"),
        "retention": Effect("--retention 1.5", "1.5", "$data $topic --create"),
        "max_size": Effect("--max-size 2", str(2 << 20), "$data $topic --create"),
        "trust": TRUST._replace(base="$data $topic"),
    },
    "pull": {
        "output": Effect("-o out", "dataset out", "$topic"),
        "split": Effect("--split val", "['val']", "$topic -o out"),
        "start": Effect("--from 0:3", "'0:3', ''", "$topic -o out"),
        "until": Effect("--until 0:3", "'', '0:3'", "$topic -o out"),
        "shard_size": Effect("--shard-size 2", str(2 << 20), "$topic -o out"),
    },
    "train": {
        "model": Effect("--model unet:test_resnet", 'name = "unet:test_resnet"', "$data"),
        "weights": Effect("--weights $root/mine.safetensors", "mine.safetensors", "$data"),
        "init": Effect("--init $run", 'init = "/', "$data"),
        "strict": Effect("--no-strict", "strict = false", "$data --init $run"),
        "steps": Effect("--steps 7", "\nsteps = 7", "$data"),
        "epochs": Effect("--epochs 2", "\nepochs = 2.0", "$data"),
        "patience": Effect("--patience 4", "\npatience = 4", "$data"),
        "limit": Effect("--limit 5", "\nlimit = 5", "$data"),
        "overfit": Effect("--overfit 5", "\nlimit = 5", "$data"),
        "fast_dev_run": Effect("--fast-dev-run", "\nsteps = 2", "$data"),
        "max_time": Effect("--max-time 3h55m", "MaxTime", "$data"),
        "stall_timeout": Effect("--stall-timeout 77", "\nstall_timeout = 77.0", "$data"),
        "retries": Effect("--retries 5", "\nretries = 5", "$data"),
        "batch": Effect("--batch 3", "\nbatch = 3", "$data"),
        "crop": Effect("--crop 32 64", "crop = [  # given", "$data"),
        "rate": Effect("--lr 0.5", "\nlr = 0.5", "$data"),
        "optimizer": Effect("--optimizer muon", '\nname = "muon"', "$data"),
        "device": Effect("--device cpu", '\ndevice = "cpu"', "$data"),
        "seed": Effect("--seed 5", "\nseed = 5", "$data"),
        "start": Effect("--from 0:3", "'data.start': '0:3'", "$topic"),
        "until": Effect("--until 0:3", "'data.until': '0:3'", "$topic"),
        "follow": Effect("--follow", "'follow.on': True", "$topic"),
        "replay_ratio": Effect("--replay-ratio 0.25", "'follow.replay_ratio': 0.25", "$topic --follow"),
        "settings": Effect("--set train.batch=3", "\nbatch = 3", "$data"),
        "runs": Effect("--runs elsewhere", "elsewhere", "$data"),
        "name": Effect("--name mine", "'mine'", "$data"),
        "go_on": Effect("--continue", "'go_on': True", "$data --name mine"),
        "checkpoint": Effect("--checkpoint best", "'best'", "--resume $run"),
        "resume": Effect("--resume $run", "resumed "),
        "accept_changes": Effect("--accept-changes", "'accept_changes': True", "--resume $run"),
        "task": Effect("--task $root/none.py:T", "none.py", "$data"),
        "loss": Effect("--loss $root/losses.py:mine", "\ncross_entropy = 0.0", "$data"),
        "hook": Effect("--hook tensorboard", '"tensorboard"', "$data"),
        "trust": TRUST._replace(base="--resume $run"),
    },
    "doctor": {
        "model": Effect("--model unet:test_resnet", "unet:test_resnet", "$data"),
        "crop": Effect("--crop 32 64", "32 x 64", "$data"),
        "task": Effect("--task $root/none.py:T", "none.py", "$data"),
        "settings": Effect("--set train.batch=3", "", "$data"),
        "find_lr": _FOUND,
        "find_time": _FOUND,
        "find_batch": _FOUND,
        "json": Effect("--json", '"reason": "', "$data"),
    },
    "recipe": {
        "task": Effect("--task detection"),
        "model": Effect("--model cifar10-fast", 'name = "cifar10-fast"'),
        "settings": Effect("--set seed=77", "\nseed = 77"),
    },
    "replay": {
        "step": Effect("--step 2", FILE + "run/figures/step-00000002.png", "run"),
        "output": Effect("-o step.png", FILE + "step.png", "run --step 1"),
        "data": Effect("--data $root/none", "none", "run --step 1"),
        "trust": TRUST._replace(base="run --step 1"),
    },
    "report": {"output": Effect("-o page.html", FILE + "page.html", "run $run")},
    "runs": {"where": _LISTED, "sort": _LISTED, "json": _LISTED},
    "compare": {"json": _LISTED},
    "note": {"tag": _LISTED, "untag": _LISTED},
    "prune": {"where": _LISTED, "yes": _LISTED},
    "models": {
        "count": Effect("--count 3", "add --count", "resnet18"),
        "json": Effect("--json", '"parameters": ', "resnet18 -n 1"),
    },
    "evaluate": {
        "split": Effect("--split train", "train, with", "run --images 0"),
        "checkpoint": Effect("--checkpoint step-00000002", "weights of step 2", "run --images 0"),
        "device": Effect("--device cuda:77", "cuda:77", "run --images 0"),
        "data": Effect("--data $root/none", "none", "run --images 0"),
        "on": Effect("--on $root/none", "none", "run --images 0"),
        "images": Effect("--images 1", FILE + "run/figures/predictions-val-00000001.png", "run"),
        "sliding_window": Effect("--sliding-window 64", "", "run --images 0"),
        "overlap": Effect("--overlap 0.75", "", "run --images 0 --sliding-window 64"),
        "scales": Effect("--scales 0.5 1.0", "", "run --images 0"),
        "flip": Effect("--flip", "", "run --images 0"),
        "shift": Elsewhere("cli/test_evaluate.py"),
        "segments": Effect("--segments", "", "run --images 0"),
        "json": Effect("--json", '"mean_iou": ', "run --images 0"),
        "trust": TRUST._replace(base="run --images 0"),
    },
    "predict": {
        "output": Effect("-o out", _MASK, "run $image"),
        "checkpoint": Effect("--checkpoint step-00000002", _MASK, "run $image -o out"),
        "device": Effect("--device cuda:77", "cuda:77", "run $image -o out"),
        "sliding_window": Effect("--sliding-window 32", _MASK, "run $image -o out"),
        "overlap": Effect("--overlap 0.75", _MASK, "run $image -o out --sliding-window 32"),
        "scales": Effect("--scales 0.5 1.0", _MASK, "run $image -o out"),
        "flip": Effect("--flip", _MASK, "run $image -o out"),
        "shift": Elsewhere("e2e/test_classification.py"),
        "labels": Elsewhere("e2e/test_volumes.py"),
        "ids": Elsewhere("cli/test_predict.py"),
        "palette": Effect("--palette voc", FILE + "out/scene-00000-overlay.png", "run $image -o out"),
        "color": Effect("--color", FILE + "out/scene-00000-color.png", "run $image -o out"),
        "score": Elsewhere("e2e/test_detection.py"),
        "trust": TRUST._replace(base="run $image -o out"),
    },
    "export": {
        "output": Effect("-o model.onnx", "model.onnx", "$run"),
        "size": Effect("--size 64 96", "size (64, 96)", _ONNX),
        "dynamic": Effect("--dynamic", "'dynamic': True", _ONNX),
        "any_size": Effect("--any-size", "'any_size': True", _ONNX),
        "checkpoint": Effect("--checkpoint step-00000002", "exported step 2", _ONNX),
        "scales": Effect("--scales 0.5 1.0", "scales=(0.5, 1.0)", _ONNX),
        "flip": Effect("--flip", "flip=True", _ONNX),
        "shift": Effect("--shift 2", "Remove --shift", _ONNX),
        "trust": TRUST._replace(base=_ONNX),
    },
}


def options():
    """Names of the options of each command, as they are typed and as the functions call them."""
    found = {}
    for place in COMMANDS:
        module, _, function = place.partition(":")
        given = inspect.signature(getattr(importlib.import_module(f"penstock.cli.{module}"), function), eval_str=True)
        typed = {name: each.annotation for name, each in given.parameters.items() if each.kind is each.KEYWORD_ONLY}
        found[name_of(place)] = {
            name: _typed(name, kind) for each, annotation in typed.items() for name, kind in _single(each, annotation)
        }
    return found


def _single(name, kind):
    """An option, or those that several commands share."""
    return get_type_hints(kind, include_extras=True).items() if dataclasses.is_dataclass(kind) else [(name, kind)]


def _typed(name, kind):
    """An option's names on the command line."""
    names = [name for each in getattr(kind, "__metadata__", ()) for name in each.name or ()]
    return names or ["--" + name.replace("_", "-")]


class Sent(NamedTuple):
    records: int
    topic: str
    sent: int
    about: str


class About(NamedTuple):
    splits: dict


class Pulled(NamedTuple):
    description: About


def replace_doors(monkeypatch, printed):
    """What takes minutes or a broker only writes down what it is given."""

    def trust(folder):
        printed.append(f"trusted {folder}")

    def train(resolved, *given, **named):
        printed.append(f"{explained(resolved) if isinstance(resolved, Resolved) else resolved}\n{given} {named}")
        return RunFolder(Path("run")), None

    def resolve(given, *where):
        return given if given.get("data.path", "").startswith("kafka:") else resolve_settings(given, *where)

    def resume(folder, *given, **named):
        printed.append(f"resumed {folder} {given} {named}")
        return RunFolder(Path("run")), None

    def publish(dataset, address, split, new, progress):
        printed.append(f"publish {split} {new}")
        return Sent(1, split, 1, "")

    def pull(dataset, output, splits, shard_bytes, progress):
        printed.append(f"pull {dataset} {splits} {shard_bytes}")
        return Pulled(About({}))

    def export(trained, output, size, **named):
        printed.append(f"export {output} size {size} {named} {trained.tta}")
        return Exported(output, "uint8", ("n", "64", "96", "3"), (), "", None, trained.step)

    monkeypatch.setattr("penstock.assembly.trust", trust)
    monkeypatch.setattr("penstock.custom.carried.trust_folder", trust)
    monkeypatch.setattr("penstock.assembly.resolve_settings", resolve)
    monkeypatch.setattr("penstock.training.train", train)
    monkeypatch.setattr("penstock.training.resume", resume)
    monkeypatch.setattr(training, "_conclude", lambda *_: 0)
    monkeypatch.setattr("penstock.inference.export_run", export)
    monkeypatch.setattr(exporting, "_size", lambda _: 0)
    monkeypatch.setattr("penstock.extensions.kafka.location.publish", publish)
    monkeypatch.setattr("penstock.extensions.kafka.location.pull", pull)
    monkeypatch.setattr(
        "penstock.extensions.kafka.location.parse_range", lambda log, start, until: repr((start, until))
    )
