"""A corpus of wrong labels and wrong layouts: each is refused by inspect and by pack, with the file named."""

from __future__ import annotations

import io
import os

import cv2
import numpy as np
import pytest
from PIL import Image

from penstock.datasets import inspect, pack
from penstock.datasets.describing import grouped
from penstock.errors import DatasetError
from penstock.kinds import Labels

rng = np.random.default_rng(5)


def image(size=(20, 30), quality=95, **options):
    buffer = io.BytesIO()
    Image.fromarray(rng.integers(0, 255, (*size, 3), dtype=np.uint8)).save(buffer, "JPEG", quality=quality, **options)
    return buffer.getvalue()


def mask(ids=None, mode="L", size=(20, 30), kind="PNG"):
    if ids is None:
        ids = np.arange(size[0] * size[1]).reshape(size) % 3
    image = Image.fromarray(np.asarray(ids, np.uint8), "L")
    if mode == "P":
        image = image.convert("P")
    elif mode != "L":
        image = image.convert(mode)
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def colored(mode):
    """A mask of which every class has a colour that is no gray."""
    ids = np.arange(600).reshape(20, 30) % 3
    colors = np.array([(0, 0, 0), (200, 30, 0), (0, 60, 220)], np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(colors[ids]).convert(mode).save(buffer, "PNG")
    return buffer.getvalue()


class Folder:
    """A sound folder of three classes, to make mistakes in."""

    def __init__(self, root):
        self.root = root
        for split in ("train", "val"):
            for name in ("a", "b", "c"):
                self.put(f"images/{split}/{name}.jpg", image())
                self.put(f"masks/{split}/{name}.png", mask())
        self.put("classes.txt", b"sky\nroad\ncar\n")

    def put(self, name, data):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def remove(self, name):
        (self.root / name).unlink()


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "raw")


def refused(folder, message, labels=None, among=1):
    """Both inspect and pack name the mistake, in exactly these words, and nothing is written."""
    found = inspect(folder.root, labels)
    output = folder.root.parent / "packed"
    assert message in [problem.message for problem in found.fatal]
    assert len(found.fatal) == among
    with pytest.raises(DatasetError) as caught:
        pack(found, output)
    lines = "\n  ".join(grouped(found.fatal, 10))
    them, images = ("it", "the image") if among == 1 else ("them", "those images")
    skip = "" if all(problem.whole for problem in found.fatal) else f", or leave {images} out with --skip-bad"
    assert str(caught.value) == (
        f"{folder.root} has {among} problem{'' if among == 1 else 's'}. Fix {them}{skip}:\n  {lines}"
    )
    assert not output.exists()


def test_the_folder_is_sound_before_the_mistakes(folder, tmp_path):
    found = inspect(folder.root)

    assert found.problems == ()
    assert pack(found, tmp_path / "packed").description.classes == ("sky", "road", "car")


def test_1_a_mask_is_missing(folder):
    folder.remove("masks/train/b.png")
    refused(
        folder,
        "images/train/b.jpg: expected a mask masks/train/b.png, found none. Add the mask, or leave the image out "
        "with --skip-bad.",
    )


def test_2_a_image_is_missing(folder):
    folder.remove("images/val/c.jpg")
    refused(
        folder,
        "masks/val/c.png: expected an image of the same name, found none. Add the image, or remove the mask.",
    )


def test_3_sizes_differ(folder):
    folder.put("masks/train/a.png", mask(size=(10, 15)))
    refused(
        folder,
        "masks/train/a.png: expected a mask of 20 x 30 (height x width), like its image, found 10 x 15. Save both "
        "at the same size.",
    )


def test_4_a_image_was_turned_by_its_camera_and_the_mask_was_not(folder):
    tags = Image.Exif()
    tags[0x0112] = 6
    folder.put("images/train/a.jpg", image(exif=tags))
    refused(
        folder,
        "masks/train/a.png: expected a mask of 30 x 20 (height x width), like its image after its EXIF orientation "
        "6, found 20 x 30. Save both at the same size.",
    )


def test_5_an_id_lies_outside_the_classes(folder):
    ids = np.zeros((20, 30))
    ids[3, 4], ids[5, 5] = 7, 1
    folder.put("masks/train/a.png", mask(ids))
    refused(
        folder,
        "masks/train/a.png: expected class ids from 0 to 2, or the ignore label 255, found 7. Name all classes with "
        "--classes, change ids with --map OLD=NEW, or set the ignore label with --ignore.",
    )


def test_6_a_mask_has_a_palette(folder):
    folder.put("masks/val/a.png", mask(mode="P"))
    refused(
        folder,
        "masks/val/a.png: expected a mask with one channel of class ids, as PNG, found a palette PNG. If the palette's "
        "indices are the class ids, as in Pascal VOC, say so with --palette.",
    )


@pytest.mark.parametrize(("mode", "name"), [("RGB", "an RGB PNG"), ("RGBA", "an RGBA PNG")])
def test_7_a_mask_is_in_colour(folder, mode, name):
    folder.put("masks/train/c.png", colored(mode))
    refused(
        folder,
        f"masks/train/c.png: expected a mask with one channel of class ids, as PNG, found {name}. List the colours "
        "of the classes in class_dict.csv beside images/, or in another file with --colors FILE.",
    )


def test_7b_three_equal_channels_are_one(folder):
    """Many programs save a gray mask so; its values are the ids."""
    plain = inspect(folder.root)
    for mode in ("RGB", "RGBA", "LA"):
        folder.put("masks/train/c.png", mask(mode=mode))
        found = inspect(folder.root)

        assert found.problems == ()
        assert [each.pixels for each in found.items] == [each.pixels for each in plain.items]


def test_8_a_mask_was_saved_as_jpeg(folder):
    folder.remove("masks/train/c.png")
    folder.put("masks/train/c.jpg", mask(kind="JPEG"))
    refused(
        folder,
        "masks/train/c.jpg: expected a mask with one channel of class ids, as PNG, found a JPEG. JPEG changes the ids "
        "of pixels; save masks as PNG, or give --mask-threshold 128 for black and white masks.",
    )


@pytest.mark.parametrize(("form", "found"), [("webp", "a lossy WebP image"), ("avif", "an AVIF or HEIC image")])
def test_8b_a_mask_was_saved_in_another_lossy_format(folder, form, found):
    folder.remove("masks/train/c.png")
    folder.put(f"masks/train/c.{form}", mask(kind=form.upper()))
    refused(
        folder,
        f"masks/train/c.{form}: expected a mask in a format that keeps class ids, found {found}. Save masks as PNG, or give "
        "--mask-threshold 128 for black and white masks.",
    )


@pytest.mark.parametrize("named", [True, False])
def test_8c_masks_are_grays_with_soft_edges(folder, named):
    if not named:
        folder.remove("classes.txt")
    square = np.zeros((20, 30), np.uint8)
    square[4:16, 6:22] = 255
    soft = cv2.GaussianBlur(square, (0, 0), 1.5)
    for split in ("train", "val"):
        for name in ("a", "b", "c"):
            folder.put(f"masks/{split}/{name}.png", mask(soft))
    refused(
        folder,
        f"masks/train/a.png: expected class ids, found {len(np.unique(soft))} values from 0 to 255, as of an image of grays. "
        "If it is black and white with soft edges, divide it with --mask-threshold 128. If its values are opacities, call "
        "the folder alphas/. If they are ids, name all classes with --classes.",
    )
    assert inspect(folder.root, Labels(threshold=128)).fatal == []


def test_8d_many_ids_without_black_and_white_are_classes(folder):
    folder.remove("classes.txt")
    for split in ("train", "val"):
        for name in ("a", "b", "c"):
            folder.put(f"masks/{split}/{name}.png", mask(np.arange(600).reshape(20, 30) % 60))
    assert inspect(folder.root).fatal == []


def test_8e_more_grays_than_an_image_has_classes_are_a_note(folder):
    folder.remove("classes.txt")
    for split in ("train", "val"):
        for name in ("a", "b", "c"):
            folder.put(f"masks/{split}/{name}.png", mask(np.arange(600).reshape(20, 30) % 100))
    found = inspect(folder.root)

    assert found.fatal == []
    assert [problem.message for problem in found.problems] == [
        "masks/train/a.png: expected class ids, found 100 values from 0 to 99, as of an image of grays. If it is black and "
        "white with soft edges, divide it with --mask-threshold 128. If its values are opacities, call the folder alphas/. "
        "If they are ids, name all classes with --classes."
    ]


def test_9_all_masks_of_a_split_are_background(folder):
    for name in "abc":
        folder.put(f"masks/train/{name}.png", mask(np.zeros((20, 30))))
    refused(
        folder,
        "train: expected more than one class in its 3 masks, found only the id 0. Check how the masks were exported.",
    )


def test_10_foreground_is_255(folder):
    folder.remove("classes.txt")
    for split in ("train", "val"):
        for name in "abc":
            folder.put(f"masks/{split}/{name}.png", mask(np.arange(600).reshape(20, 30) % 2 * 255))
    message = (
        "masks/train/a.png: expected class ids, found only 0 and 255, where 255 is the ignore label. If 255 is the "
        "foreground, make it class 1 with --map 255=1; if not, check how the masks were exported."
    )
    refused(folder, message)
    assert inspect(folder.root, Labels(mapping={255: 1})).problems == ()


def test_11_ids_are_grey_values(folder):
    folder.remove("classes.txt")
    for split in ("train", "val"):
        for name in "abc":
            folder.put(f"masks/{split}/{name}.png", mask(np.arange(600).reshape(20, 30) % 3 * 100))
    refused(
        folder,
        "masks/train/a.png: expected class ids without gaps, found 0, 100, 200 in all masks. If they are grey values, "
        "change them with --map 100=1 --map 200=2; if some classes are rare, name all with --classes.",
    )


def test_12_a_image_is_in_two_splits(folder):
    same = image()
    folder.put("images/train/a.jpg", same)
    folder.put("images/val/b.jpg", same)
    refused(
        folder,
        "images/val/b.jpg: expected an image that is in one split only, found the same bytes as images/train/a.jpg. "
        "Remove one of them, because scores on training images mean nothing.",
    )


def test_13_a_image_is_cut_short(folder):
    folder.put("images/train/a.jpg", image()[:-400])
    refused(
        folder,
        "images/train/a.jpg: expected a complete image, found a damaged JPEG (Premature end of JPEG file). Restore the "
        "file from a copy, or leave it out.",
    )


def test_14_a_mask_is_cut_short(folder):
    whole = mask()
    folder.put("masks/train/a.png", whole[:-20])
    refused(
        folder,
        f"masks/train/a.png: expected a complete image, found a PNG that ends early, after {len(whole) - 20} bytes. "
        "Restore the file from a copy, or leave it out.",
    )


def test_15_a_image_is_another_file(folder):
    folder.put("images/train/a.jpg", b"%PDF-1.7 and so on")
    refused(
        folder,
        "images/train/a.jpg: expected an image, found 18 bytes that start with 25 50 44 46 2d 31 2e 37. Convert the file, "
        "or leave it out.",
    )


def test_16_a_mask_has_ids_above_a_byte(folder):
    ids = np.zeros((20, 30), np.uint16)
    ids[0, 0] = 4000
    folder.put("masks/train/a.png", cv2.imencode(".png", ids)[1].tobytes())
    refused(
        folder,
        "masks/train/a.png: expected class ids of at most 255, found a 16-bit mask with id 4000. Renumber the "
        "classes in the masks to ids from 0 to 255.",
    )


def test_17_two_images_have_one_name(folder):
    folder.put("images/train/a.png", image())
    refused(
        folder,
        "images/train/a.png: expected one image of this name, found images/train/a.jpg too. Rename or remove one of "
        "them.",
        among=2,
    )


def test_17b_two_masks_have_one_name(folder):
    folder.put("masks/train/a.jpeg", mask(kind="JPEG"))
    found = inspect(folder.root)

    assert "two masks of one name" in [problem.kind for problem in found.fatal]


def test_17c_images_lie_outside_the_splits(folder):
    folder.put("images/loose.jpg", image())
    folder.put("images/holdout/x.jpg", image())

    assert [problem.message for problem in inspect(folder.root).problems] == [
        f"images/{name}: expected an image in train, val or test, found it outside. Move it there, or leave it out."
        for name in ("holdout/x.jpg", "loose.jpg")
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"sky\n\nroad\ncar\n", "no name for id 1"),
        (b"sky\nroad\nsky\n", "'sky' for the ids 0 and 2"),
    ],
)
def test_17d_class_names_shift_or_repeat(folder, text, found):
    folder.put("classes.txt", text)
    with pytest.raises(DatasetError) as caught:
        inspect(folder.root)
    assert str(caught.value) == (
        f"{folder.root}/classes.txt: expected a class name for every id, each of them once, found "
        f"{found}. Give every class a name of its own."
    )


def test_17e_class_names_are_no_text(folder):
    folder.put("classes.txt", b"sky\n\xff\xfe\n")
    with pytest.raises(DatasetError, match=r"classes\.txt: expected class names in UTF-8, found 'utf-8' codec"):
        inspect(folder.root)
    folder.put("classes.txt", "\ufeffsky\nroad\ncar\n".encode())
    assert inspect(folder.root).labels.classes == ("sky", "road", "car")


def test_17f_a_file_name_is_no_text(folder):
    name = os.fsdecode(b"\xff\xfe")
    folder.put(f"images/train/{name}.jpg", image())
    folder.put(f"masks/train/{name}.png", mask())
    refused(
        folder,
        "images/train/\\udcff\\udcfe.jpg: expected a file name in UTF-8, found other bytes. Rename the file.",
    )


def test_18_there_are_no_masks_at_all(folder):
    import shutil

    shutil.rmtree(folder.root / "masks")
    refused(
        folder,
        "images/train/a.jpg: expected a mask in masks/, found none. Add the mask, or leave the image out with "
        "--skip-bad.",
        among=6,
    )


def test_19_a_class_has_no_images(tmp_path):
    folder = Folder.__new__(Folder)
    folder.root = tmp_path / "raw"
    for name in ("train/cat/1.jpg", "train/dog/1.jpg", "val/cat/2.jpg", "val/fox/1.jpg"):
        folder.put(name, image())
    refused(
        folder,
        "train/fox: expected images of class fox in split train, found none. Add some, or remove the class from all "
        "splits.",
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda root: (root / "stuff").mkdir(parents=True),
            "{root}: expected a known layout, found stuff/. Do one of these: arrange the images in images/ and masks/ "
            "(with or without train/, val/ and test/ in them), or in one folder per class; pass the folder that "
            "holds all of the data, if this is a part of it or more than it; describe the layout in a file of your own with --layout FILE.py:NAME. The page "
            "docs/folders.md lists the folders that are recognised, each with the command that packs it.",
        ),
        (lambda root: None, "{root}: expected a folder of images, found no such folder. Check the path."),
        (lambda root: root.write_text("x"), "{root}: expected a folder of images, found a file. Check the path."),
        (
            lambda root: (root / "images" / "train").mkdir(parents=True),
            "{root}: the layout is image and mask folders, but no usable image was found. Check "
            "that the files are there, and that they are images.",
        ),
    ],
)
def test_20_there_is_no_layout(tmp_path, make, message):
    root = tmp_path / "raw"
    make(root)
    with pytest.raises(DatasetError) as caught:
        inspect(root)
    assert str(caught.value) == message.format(root=root)


def test_one_background_mask_is_a_note_only(folder, tmp_path):
    folder.put("masks/train/b.png", mask(np.zeros((20, 30))))
    found = inspect(folder.root)

    assert [(p.kind, p.fatal, p.message) for p in found.problems] == [
        (
            "only background",
            False,
            "masks/train/b.png: expected more than one class, found only the id 0. This is right if the image shows nothing else.",
        )
    ]
    pack(found, tmp_path / "packed")


def test_a_mask_that_ignores_all_of_one_class_is_a_note(folder):
    folder.put("masks/train/b.png", mask(np.where(np.arange(20)[:, None] < np.full((20, 30), 9), 255, 0)))

    assert [(p.fatal, p.message) for p in inspect(folder.root).problems] == [
        (
            False,
            "masks/train/b.png: expected more than one class, found only the ids 0, 255. If 255 marks a class in this mask, "
            "replace it by the id of the class.",
        )
    ]


def test_skipping_leaves_out_what_is_wrong_and_nothing_else(folder, tmp_path):
    folder.remove("masks/train/b.png")
    folder.put("masks/val/a.png", colored("RGB"))
    folder.remove("images/val/c.jpg")
    sound = inspect(folder.root).sound()

    assert sound.fatal == []
    assert [(f.item.split, f.item.name) for f in sound.items] == [("train", "a"), ("train", "c"), ("val", "b")]
    assert pack(sound, tmp_path / "packed").description.splits["train"].records == 2


def test_skipping_mends_nothing_that_is_about_all_masks(folder):
    """Leaving out the one file that was named as an example must not let the others pass."""
    folder.remove("classes.txt")
    for split in ("train", "val"):
        for name in "abc":
            folder.put(f"masks/{split}/{name}.png", mask(np.arange(600).reshape(20, 30) % 2 * 255))
    sound = inspect(folder.root).sound()

    assert next(p.kind for p in sound.fatal) == "0 and 255 masks"
    assert len(sound.items) == 6


def test_what_is_no_image_takes_no_masks_place(folder):
    folder.put("masks/train/a.txt", b"notes")
    folder.put("images/train/.cache/x.jpg", b"hidden")

    assert inspect(folder.root).problems == ()


def test_ids_that_are_no_bytes_are_refused():
    with pytest.raises(ValueError, match=r"ids of masks are bytes, 0 to 255: \[-1\]"):
        Labels(ignore=-1)
