"""Which masks belong to which image, by the names of both."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

_TOKENS: Final = re.compile(r"\d+|[^\W\d_]+|[\W_]+")
_ZEROS: Final = re.compile(r"(?<!\d)0+(?=\d)")
_SEVERAL: Final = 2  # names show what they have in common


def match(images: Collection[str], masks: Collection[str]) -> dict[str, list[str]]:
    """The masks of every image that has some, as names without suffix, with slashes.

    A mask has the name of its image, perhaps with more behind it (`a_mask`, or `a/3` for an object of it) or a folder
    before it (`cell/a`); or the image has more behind the name of the mask (`case_0000` and `case`); or both are the
    same but for what all images and all masks have in common (`img_7` and `lab_07`); or numbers have more zeros before
    them (`7` and `0/00007_hair`). Of these ways the one that finds masks for most images is taken. Several masks beside
    a single image, none of which has its name, are all of it.
    """
    best: dict[str, list[str]] = {}
    for way in (_longer, _below_folder, _shorter, _by_core, _by_number):
        found = way(images, masks)
        best = found if len(found) > len(best) else best
        if len(best) == len(images):
            break
    if not best and len(images) == 1 < len(masks):  # a folder for each image, with its objects
        return {image: [*masks] for image in images}
    return best


def are_shifted(images: Collection[str], masks: Collection[str], found: Mapping[str, Sequence[str]]) -> bool:
    """Whether images and masks that are paired by their numbers seem to count from different ones: there are as many,
    and the numbers without a partner are below all images and above all masks, or the reverse.

    Args:
        images: all names, without suffix.
        masks: those of the masks.
        found: the masks of every image that has some.
    """
    used = {mask for names in found.values() for mask in names}
    lonely = (
        [_number(name) for name in images if name not in found],
        [_number(name) for name in masks if name not in used],
    )
    if not found or len(images) != len(masks) or not all(lonely):
        return False
    paired = [_number(name) for name in found]
    return any(max(below) < min(paired) and max(paired) < min(above) for below, above in (lonely, lonely[::-1]))


def _number(name: str) -> int:
    """The last number in a name; -1 for none."""
    return int(["-1", *re.findall(r"\d+", name)][-1])


def ending(image: str, mask: str) -> str:
    """What a mask's name has beyond that of its image, such as `_mask` or the folder `cell`; else all of it."""
    folder, _, name = mask.rpartition("/")
    if folder.isdigit() and (match := re.fullmatch(rf"{re.escape(_unpadded(image))}(\W.*|_.*)", _unpadded(name))):
        return match[1]  # the folder is one of many, as in CelebAMask-HQ
    if mask.startswith(image):
        return mask.removeprefix(image)
    if not folder or not name.startswith(image):
        return mask
    rest = name.removeprefix(image)  # cell/a, cell/a_1, or haemorrhages/a_HE
    return folder + rest if any(map(str.isdigit, rest)) else folder


def prefix_among(name: str, known: Collection[str]) -> str:
    """The longest of some names that a name is or begins with, before a sign that ends a name; "" for none."""
    return name if name in known else shorter_among(name, known)


def shorter_among(name: str, known: Collection[str]) -> str:
    """The longest of some names that a longer name begins with, before a sign that ends a name; "" for none."""
    for length in range(len(name) - 1, 0, -1):
        if name[:length] in known and _ends_at(name, length):
            return name[:length]
    return ""


def _ends_at(name: str, length: int) -> bool:
    """Whether a name may end where a longer one goes on: before a sign, or between a digit and a letter."""
    last, following = name[length - 1], name[length]
    return not following.isalnum() or (last.isdigit() and following.isalpha())


def _longer(images: Collection[str], masks: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for mask in masks:
        if own := prefix_among(mask, images):
            found.setdefault(own, []).append(mask)
    return found


def _below_folder(images: Collection[str], masks: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for mask in masks:
        inside = mask.partition("/")[2]
        if inside and (own := prefix_among(inside, images)):
            found.setdefault(own, []).append(mask)
    return found


def _shorter(images: Iterable[str], masks: Collection[str]) -> dict[str, list[str]]:
    return {image: [own] for image in images if (own := prefix_among(image, masks))}


def _by_core(images: Collection[str], masks: Collection[str]) -> dict[str, list[str]]:
    """Names whose differences are the same: the part that not all images, or not all masks, have in common."""
    if min(len(images), len(masks)) < _SEVERAL:
        return {}
    inner = dict(zip(_cores(masks), masks, strict=True))
    outer = dict(zip(_cores(images), images, strict=True))
    if len(inner) < len(masks) or len(outer) < len(images):
        return {}
    return {image: [inner[core]] for core, image in outer.items() if core in inner}


def _by_number(images: Collection[str], masks: Collection[str]) -> dict[str, list[str]]:
    """As by longer names, whatever zeros numbers have before them."""
    inner = {_unpadded(mask): mask for mask in masks}
    outer = {_unpadded(image): image for image in images}
    if len(inner) < len(masks) or len(outer) < len(images):
        return {}
    found = max(_longer(outer, inner), _below_folder(outer, inner), key=len)
    return {outer[image]: [inner[mask] for mask in names] for image, names in found.items()}


def _unpadded(name: str) -> str:
    return _ZEROS.sub("", name)


def _cores(names: Collection[str]) -> list[tuple[str, ...]]:
    """The tokens of every name without those that all have at its beginning and at its end; numbers without zeros."""
    every = [_TOKENS.findall(name) for name in names]
    first = _common(every)
    last = _common([tokens[: first - 1 if first else None : -1] for tokens in every])
    return [
        tuple(token.lstrip("0") if token.isdigit() else token for token in tokens[first : len(tokens) - last])
        for tokens in every
    ]


def _common(every: Sequence[Sequence[str]]) -> int:
    """How many tokens all have in common from the beginning on."""
    count = 0
    for together in zip(*every, strict=False):
        if len(set(together)) > 1:
            break
        count += 1
    return count
