"""Image-per-class folders: `train/cat/a.jpg`, or `cat/a.jpg` without splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.datasets import listing
from penstock.datasets.items import Item, Labels, Layout, Problem

if TYPE_CHECKING:
    from pathlib import Path


def recognise(folder: Path) -> Layout | None:
    """The layout, or None where no subfolder holds pictures."""
    splits = listing.splits(folder) or {"train": folder}
    classes = sorted({name for path in splits.values() for name in _classes(path)})
    if not any(listing.is_picture(path) for root in splits.values() for path in listing.files(root)) or not classes:
        return None
    items: list[Item] = []
    problems: list[Problem] = []
    ignored: list[str] = []
    for split, root in splits.items():
        for path in listing.files(root):
            inside = path.relative_to(root)
            if not listing.is_picture(path) or len(inside.parts) == 1:
                ignored.append(str(path.relative_to(folder)))
                continue
            label = classes.index(inside.parts[0])
            items.append(Item(split, inside.with_suffix("").as_posix(), path, label=label))
        problems += _empty_classes(folder, split, root, classes, items)
    divided = (
        f"divided into {', '.join(splits)}" if splits != {"train": folder} else "without splits: all training data"
    )
    reason = f"{len(classes)} folders of pictures, one per class, {divided}"
    return Layout(
        "classification",
        "one folder per class",
        (reason,),
        tuple(items),
        Labels(tuple(classes)),
        tuple(problems),
        tuple(ignored),
    )


def _classes(root: Path) -> list[str]:
    return [
        entry.name
        for entry in root.iterdir()
        if entry.is_dir() and not entry.name.startswith(".") and not listing.is_packed(entry)
    ]


def _empty_classes(folder: Path, split: str, root: Path, classes: list[str], items: list[Item]) -> list[Problem]:
    """Classes without a picture: fatal in training, where the class could never be learnt."""
    present = {item.label for item in items if item.split == split}
    missing = [name for label, name in enumerate(classes) if label not in present]
    return [
        Problem(
            "class without pictures",
            (root / name).relative_to(folder).as_posix(),
            f"{(root / name).relative_to(folder).as_posix()}: expected pictures of class {name} in split {split}, "
            "found none. Add some, or remove the class from all splits.",
            fatal=split == "train",
            whole=True,
        )
        for name in missing
    ]
