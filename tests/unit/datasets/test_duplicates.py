from __future__ import annotations

import zlib
from pathlib import Path

import cv2
import numpy as np
import simplejpeg
from support.miniatures import gray, make_image, write

from penstock.datasets import duplicates, inspect
from penstock.kinds.items import InspectedItem, Item


def scene(seed, size=(96, 128)):
    """Blobs as a photograph has them, uint8 RGB."""
    noise = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    return cv2.resize(noise, size[::-1], interpolation=cv2.INTER_CUBIC)


def jpeg(pixels, quality=95):
    return simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality=quality)


def add(root, split, name, data, size=(96, 128)):
    write(root / f"images/{split}/{name}.jpg", data)
    write(
        root / f"masks/{split}/{name}.png",
        gray(np.random.default_rng(zlib.crc32(name.encode())).integers(0, 2, size, np.uint8)),
    )


def test_copies_that_were_resized_compressed_or_toned_are_noted(tmp_path):
    for number in range(6):
        add(tmp_path, "train", f"t{number}", jpeg(scene(number)))
    add(tmp_path, "val", "small", jpeg(cv2.resize(scene(1), (64, 48), interpolation=cv2.INTER_AREA)), (48, 64))
    add(tmp_path, "val", "coarse", jpeg(scene(2), quality=30))
    add(tmp_path, "val", "dark", jpeg((scene(3) * 0.8).astype(np.uint8)))
    add(tmp_path, "val", "other", jpeg(scene(77)))
    add(tmp_path, "test", "bright", jpeg(np.clip(scene(4) * 1.05, 0, 255).astype(np.uint8)))

    found = inspect(tmp_path)
    assert found.fatal == []
    assert [problem.message for problem in found.problems] == [
        "4 images outside train: images/val/coarse.jpg looks nearly like images/train/t2.jpg; images/val/dark.jpg looks "
        "nearly like images/train/t3.jpg; images/val/small.jpg looks nearly like images/train/t1.jpg; and 1 more image. "
        "Scores on such images are too good."
    ]


def test_equal_bytes_are_a_problem_of_their_own_and_plain_images_are_none(tmp_path):
    for split in ("train", "val"):
        add(tmp_path, split, "same", jpeg(scene(1)))
        add(tmp_path, split, f"sky-{split}", jpeg(np.full((96, 128, 3), 200 if split == "val" else 190, np.uint8)))
    assert [problem.kind for problem in inspect(tmp_path).problems] == ["duplicate across splits"]


def test_different_images_differ_in_many_bits():
    hashes = [duplicates.perceptual_hash(scene(seed)) for seed in range(40)]
    distances = [(a ^ b).bit_count() for n, a in enumerate(hashes) for b in hashes[:n]]
    assert min(distances) > 8
    assert 28 < np.mean(distances) < 36


def test_augmented_copies_of_roboflow_say_their_source(tmp_path):
    for split, number in (("train", 1), ("valid", 2)):
        name = f"cat_jpg.rf.{number:032x}"
        write(tmp_path / f"{split}/images/{name}.jpg", make_image(seed=number))
        write(tmp_path / f"{split}/labels/{name}.txt", "0 0.5 0.5 0.4 0.4\n")
    write(tmp_path / "data.yaml", "names: [cat]\n")
    train, val = (f"{split}/images/cat_jpg.rf.{number:032x}.jpg" for split, number in (("train", 1), ("valid", 2)))
    assert [problem.message for problem in inspect(tmp_path).problems] == [
        f"1 image outside train: {val} is made from the same image as {train}. Scores on such images are too good."
    ]


def test_pairs_are_all_there_once_with_their_training_image(tmp_path):
    for number in range(4):
        add(tmp_path, "train", f"t{number}", jpeg(scene(number)))
        add(tmp_path, "val", f"v{number}", jpeg(scene(number), quality=30))
    add(tmp_path, "val", "other", jpeg(scene(77)))
    pairs = duplicates.pairs_of(inspect(tmp_path).items)
    assert [(one.item.name, other.item.name) for one, other in pairs] == [(f"v{n}", f"t{n}") for n in range(4)]


class TestDividing:
    def test_frames_that_look_alike_stay_together(self, tmp_path):
        """Six clips of four frames, in one folder."""
        for clip in range(6):
            for frame in range(4):
                pixels = np.clip(scene(clip).astype(int) + 2 * frame, 0, 255).astype(np.uint8)
                add(tmp_path, "train", f"{clip}-{frame}", jpeg(pixels))
        found = inspect(tmp_path).divided(0.2)
        clips = {split: {each.item.name[0] for each in items} for split, items in found.splits.items()}
        assert not clips["train"] & clips["val"]
        assert found.problems == ()

    def test_what_cannot_be_kept_apart_is_counted(self, tmp_path):
        for frame in range(10):
            pixels = np.clip(scene(1).astype(int) + 2 * frame, 0, 255).astype(np.uint8)
            add(tmp_path, "train", f"{frame}", jpeg(pixels))
        (problem,) = inspect(tmp_path).divided(0.2).problems
        assert problem.kind == "near-duplicates across splits"
        assert problem.message.startswith("2 images outside train: ")


def looked_at(name, split, value):
    """An image as it is found, with a hash."""
    item = Item(split, name, Path(f"/data/{name}.jpg"))
    return InspectedItem(item, 8, 8, content=name, perceptual_hash=value)


def test_up_to_three_bits_may_differ_wherever_they_are():
    """Against the distance of all pairs: differences of one, two, three and four bits, in every quarter and across."""
    rng = np.random.default_rng(0)
    base = int.from_bytes(rng.bytes(8), "big")
    flips = [{bit} for bit in range(64)] + [
        set(rng.choice(64, k, replace=False).tolist()) for k in (2, 3, 3, 4, 4) for _ in range(40)
    ]
    flips += [
        set((quarter * 16 + rng.choice(16, 3, replace=False)).tolist()) for quarter in range(4) for _ in range(10)
    ]
    for bits in flips:
        value = base ^ sum(1 << bit for bit in bits)
        one, other = looked_at("a", "train", base), looked_at("b", "val", value)
        expected = len(bits) <= 3
        assert bool(duplicates.pairs_of([one, other])) == expected, bits
        assert bool(duplicates.within([one, looked_at("b", "train", value)])) == expected, bits


def test_large_images_have_the_hash_of_their_small_copies():
    """Whose sides may leave a rest when they are divided; what is flat has no bits at any size."""
    for seed, size in enumerate([(999, 1333), (130, 1100), (2048, 700), (128, 129)]):
        large = scene(seed, size)
        small = cv2.resize(large, (80, 60), interpolation=cv2.INTER_AREA)
        assert (duplicates.perceptual_hash(large) ^ duplicates.perceptual_hash(small)).bit_count() <= 2
        assert duplicates.perceptual_hash(np.full((*size, 3), 190, np.uint8)) == 0
        assert duplicates.perceptual_hash(np.concatenate([large, large[..., :2]], axis=2)) != 0
