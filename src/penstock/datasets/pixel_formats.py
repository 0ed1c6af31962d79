"""The format of the pixels of a dataset, which follows from its images, and what their values are like."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.datasets.layout import Layout
from penstock.images import PixelFormat
from penstock.kinds.items import InspectedItem, Problem, named
from penstock.progress import counted

_DIGITS = 6


def common_format(layout: Layout, items: Sequence[InspectedItem]) -> PixelFormat:
    """The channels of most images; 16 bits where at least half of the images have them."""
    if layout.modalities:
        return PixelFormat(layout.channels)
    formats = [each.pixel_format for each in items if each.height]
    if not formats:
        return PixelFormat()
    ((channels, _),) = Counter(found.channels for found in formats).most_common(1)
    deep = sum(found.bits > PixelFormat().bits for found in formats)
    return PixelFormat(channels, 16 if 2 * deep >= len(formats) else 8)


def check_formats(
    layout: Layout, items: Sequence[InspectedItem], common: PixelFormat, folder: Path
) -> Iterator[Problem]:
    """What images of another format, or a format that cannot be learnt, are."""
    if layout.modalities:
        return
    shown = [each for each in items if each.height]
    for each in shown:
        if each.pixel_format.channels != common.channels:
            name = named(each.item.image, folder)
            found = counted(each.pixel_format.channels, "channel")
            message = f"{name}: expected {counted(common.channels, 'channel')}, as most images have, found {found}."
            yield Problem("other channels", name, f"{message} Save it with the same channels, or leave it out.")
    deeper = [each for each in shown if each.pixel_format.bits > common.bits]
    if deeper:
        name = named(deeper[0].item.image, folder)
        some = f"{counted(len(deeper), 'image')} of {len(shown):,}"
        message = f"{name}: 16 bits per channel in {some}, 8 in the others: only the upper 8 bits are used."
        yield Problem("16 bits among 8", name, message, fatal=False, whole=True)
    if shown and not common.is_rgb and not layout.kind.any_channels:
        name = named(shown[0].item.image, folder)
        message = (
            f"{name}: expected gray or RGB images for {layout.kind.name}, found {counted(common.channels, 'channel')}. "
            "Save three of them as RGB."
        )
        yield Problem("channels that cannot be learnt", name, message, whole=True)


def statistics(items: Sequence[InspectedItem], common: PixelFormat) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, as fractions of the highest value; none if not measured."""
    measured = [each for each in items if len(each.moments) == common.channels]
    total = sum(each.height * each.width for each in measured)
    if not total:
        return (), ()
    means, deviations = [], []
    for channel in range(common.channels):
        first = sum(each.moments[channel][0] * each.height * each.width for each in measured) / total
        second = sum(each.moments[channel][1] * each.height * each.width for each in measured) / total
        deviation = max(math.sqrt(max(0.0, second - first * first)), 1 / common.highest)
        means.append(_rounded(first))
        deviations.append(_rounded(deviation))
    return tuple(means), tuple(deviations)


def _rounded(number: float) -> float:
    """A number that is the same on every machine, whatever the order of a sum was."""
    return float(f"{number:.{_DIGITS}g}")
