from __future__ import annotations

import dataclasses
import tomllib

from penstock.assembly.reference import attributes, explained
from penstock.config.toml import convert
from penstock.images.color import Jitter
from penstock.models.atrous import DPC
from penstock.settings import DeepLabConfig, Recipe


def test_every_setting_is_printed_with_what_it_means():
    """Each below a comment of its own, or with others that it is named together with."""
    text = explained(Recipe())
    sections = {"": Recipe, "model.deeplab": DeepLabConfig, "augment.jitter": Jitter}
    sections |= {
        f.name: type(getattr(Recipe(), f.name))
        for f in dataclasses.fields(Recipe)
        if f.name not in {"seed", "init", "strict", "task", "task_options", "hooks"}
    }
    for section, kind in sections.items():
        told = {name for names in attributes(kind) for name in names}
        plain = {f.name for f in dataclasses.fields(kind) if not dataclasses.is_dataclass(getattr(kind(), f.name))}
        assert plain <= told, section
    assert convert(tomllib.loads(text), "it") == Recipe()
    assert "# Random seed of order, augmentation, initial weights and dropout.\nseed = 0\n" in text
    assert (
        "# block, shuffle_window: Shuffle: blocks of `block` consecutive records are shuffled globally, and records"
        in text
    )
    assert '# How logits of several scales are merged. One of max, average.\nmerge = "max"\n' in text
    assert "of the image.\n# resize_range is not set\n" in text
    assert "# Settings of a custom task.\n[task_options]\n" in text


def test_a_cell_is_printed_too_and_read_again():
    begun = Recipe()
    chosen = dataclasses.replace(begun, model=dataclasses.replace(begun.model, deeplab=DeepLabConfig(cell=DPC)))
    text = explained(chosen)

    assert convert(tomllib.loads(text), "it") == chosen
    assert text.count("# Dense prediction cell (DPC) in place of ASPP: a list of branches. `of` is the index") == 1
