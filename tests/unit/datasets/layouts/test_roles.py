"""Folders of images and masks by what lies in them, whatever they are called."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image
from support import miniatures
from support.datasets import records
from support.layouts import words
from support.miniatures import gray, make_image, write

from penstock.datasets import LayoutOptions, inspect, pack
from penstock.datasets.listing import role_of
from penstock.images import decode_mask
from penstock.kinds import Labels
from penstock.kinds.fields import decode_segmentation

COUNT = 5


def ids_of(number):
    ids = np.zeros((24, 32), np.uint8)
    ids[3 : 9 + number, 4:20] = 1
    return ids


def fill(root, images, masks, count=COUNT):
    """Images, and masks that differ from one another."""
    for number in range(count):
        miniatures.write(root / images.format(number), miniatures.make_image(seed=number))
        miniatures.write(root / masks.format(number), miniatures.gray(ids_of(number)))


def packed(found, folder):
    """The masks of a packed training split by the name of their images."""
    every = (decode_segmentation(record) for record in records(pack(found, folder), "train"))
    return {each.name: decode_mask(each.mask, "m") for each in every}


@pytest.mark.parametrize(
    ("images", "masks"),
    [
        ("RGB/{}.jpg", "GT/{}.png"),
        ("x_train/{}.jpg", "y_train/{}.png"),
        ("input/{}.jpg", "target/{}.png"),
        ("train_images/{}.jpg", "train_labels/{}.png"),
        ("Original/{}.jpg", "Ground Truth/{}.png"),
        ("imagesTr/c_00{}_0000.jpg", "labelsTr/c_00{}.png"),
        ("train/rgb/{}.jpg", "train/sem/{}.png"),
        ("a/img_{}.jpg", "b/lab_0{}.png"),
        ("data/photos/{}.jpg", "data/truth/{}_seg.bmp"),
        ("trainA/{}.jpg", "trainB/{}.png"),
        ("Bilder/{}.jpg", "Masken/{}.tif"),
        ("images/{}.jpg", "ground_truth/{}.png"),
    ],
)
def test_names_decide_nothing(tmp_path, images, masks):
    fill(tmp_path / "raw", images, masks.replace(".tif", ".png").replace(".bmp", ".png"))
    for path in [*(tmp_path / "raw").rglob("*.png")] if not masks.endswith(".png") else []:
        Image.open(path).save(path.with_suffix(f".{masks[-3:]}"))
        path.unlink()
    found = inspect(tmp_path / "raw")

    assert (found.layout.task, found.fatal) == ("segmentation", [])
    by_number = {
        name.strip("/")[-1] if "_0000" not in name else name[-6]: mask
        for name, mask in packed(found, tmp_path / "d").items()
    }
    assert sorted(by_number) == [str(number) for number in range(COUNT)]
    for number in range(COUNT):
        assert np.array_equal(by_number[str(number)], ids_of(number))


def test_a_patient_is_a_group(tmp_path):
    for patient in "abcd":
        fill(tmp_path, f"p{patient}/images/{{}}.jpg", f"p{patient}/masks/{{}}.png")
        for path in (tmp_path / f"p{patient}/images").iterdir():
            miniatures.write(path, miniatures.make_image(seed=ord(patient) * 10 + int(path.stem)))
    found = inspect(tmp_path)

    assert found.fatal == []
    assert len(found.items) == 4 * COUNT
    divided = found.divided(0.25).splits
    patients = {split: {each.item.name.split("/")[0] for each in items} for split, items in divided.items()}
    assert (len(patients["val"]), patients["train"] & patients["val"]) == (1, set())


def test_two_classes_of_photographs_with_equal_names_are_classes(tmp_path):
    for number in range(COUNT):
        for seed, name in enumerate(("cat", "dog", "emu")):
            miniatures.write(tmp_path / f"{name}/{number}.jpg", miniatures.make_image(seed=10 * number + seed))
    assert inspect(tmp_path).layout.task == "classification"


def test_several_folders_of_masks_are_a_problem_and_both_options_choose(tmp_path):
    fill(tmp_path, "rgb/{}.jpg", "fine/{}.png")
    for number in range(COUNT):
        miniatures.write(tmp_path / f"coarse/{number}.png", miniatures.gray(ids_of(number) * 0))
    assert words(tmp_path, LayoutOptions())[0] == (
        "rgb/: expected one folder of images and one of their masks, found that coarse/, fine/ fit. Choose both, for "
        "example with --images rgb --masks coarse."
    )
    found = inspect(tmp_path, how=LayoutOptions(images="rgb", masks="fine"))
    assert (found.fatal, {each.item.label.parent.name for each in found.items}) == ([], {"fine"})
    assert words(tmp_path, LayoutOptions(images="rgb")) == ["--images and --masks need each other. Give both folders."]
    assert words(tmp_path, LayoutOptions(images="rgb", masks="no")) == [
        f"--masks no: expected a folder in {tmp_path}, found none. There are coarse/, fine/, rgb/."
    ]


def test_folders_given_are_divided_by_the_splits_in_them(tmp_path):
    for split in ("train", "val"):
        fill(tmp_path, f"x/{split}/{split}{{}}.jpg", f"y/{split}/{split}{{}}.png", count=2)
    found = inspect(tmp_path, how=LayoutOptions(images="x", masks="y"))
    assert {split: len(items) for split, items in found.splits.items()} == {"train": 2, "val": 2}


def test_classes_of_nnunet(tmp_path):
    fill(tmp_path, "imagesTr/c{}_0000.png", "labelsTr/c{}.png")
    for labels in ({"background": 0, "lesion": 1}, {"0": "background", "1": "lesion"}):
        miniatures.write(tmp_path / "dataset.json", json.dumps({"labels": labels}))
        assert inspect(tmp_path).labels.classes == ("background", "lesion")


def test_a_mask_may_be_an_array_in_an_archive(tmp_path):
    fill(tmp_path / "raw", "images/{}.jpg", "masks/{}.png")
    for number in range(COUNT):
        (tmp_path / f"raw/masks/{number}.png").unlink()
        done = io.BytesIO()
        np.savez_compressed(done, mask=ids_of(number))
        miniatures.write(tmp_path / f"raw/masks/{number}.npz", done.getvalue())
    masks = packed(inspect(tmp_path / "raw"), tmp_path / "data")
    assert all(np.array_equal(masks[str(number)], ids_of(number)) for number in range(COUNT))
    done = io.BytesIO()
    np.savez(done, a=ids_of(0), b=ids_of(1))
    miniatures.write(tmp_path / "raw/masks/0.npz", done.getvalue())
    assert words(tmp_path / "raw") == [
        "masks/0.npz: expected one array of the pixels of a mask, of at most 268,435,456, found an archive of a, b. Save "
        "the mask alone, with numpy.savez(FILE, mask=IDS)."
    ]


def test_a_file_in_the_place_of_a_mask_is_named(tmp_path):
    fill(tmp_path, "images/{}.jpg", "masks/{}.png")
    (tmp_path / "masks/0.png").rename(tmp_path / "masks/0.mat")
    assert words(tmp_path) == [
        "images/0.jpg: expected a mask masks/0.png, found 0.mat. Add the mask, or leave the image out with --skip-bad."
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("train", ("", "train")), ("x_train", ("x", "train")), ("imagesTs", ("images", "test")), ("Val Labels", ("labels", "val")),
     ("ISIC2018_Task1_Training_GroundTruth", ("isic_2018_task_1_ground_truth", "train")), ("train2014", ("2014", "train")),
     ("images", ("images", "")), ("training-set", ("set", "train")), ("Trees", ("trees", ""))],
)  # fmt: skip
def test_a_role_is_a_name_without_its_split(name, expected):
    assert role_of(name) == expected


def test_masks_in_jpeg_of_black_and_white(tmp_path):
    for number in range(COUNT):
        done = io.BytesIO()
        Image.fromarray(ids_of(number) * 255).save(done, "JPEG")
        miniatures.write(tmp_path / f"photo/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"truth/{number}.jpg", done.getvalue())
    found = inspect(tmp_path, Labels(threshold=128))
    assert (found.layout.task, found.fatal, len(found.items)) == ("segmentation", [], COUNT)


def test_semantic_masks_go_before_those_of_instances_beside_them(tmp_path):
    """KITTI's."""
    fill(tmp_path, "train/image_2/{}.jpg", "train/semantic/{}.png")
    fill(tmp_path, "train/image_2/{}.jpg", "train/instance/{}.png")
    miniatures.write(tmp_path / "label_colors.txt", " sky\n road\n")
    found = inspect(tmp_path)
    assert (found.fatal, found.labels.classes) == ([], ("sky", "road"))
    assert {each.item.label.parent.name for each in found.items} == {"semantic"}


def test_folders_further_below_are_chosen_by_their_names(tmp_path):
    for split in ("train", "val"):
        for name in ("left view", "right"):
            fill(tmp_path, f"{split}/{name}/{split}{{}}.jpg", f"{split}/truth/{split}{{}}.png", count=2)
    (message,) = (each for each in words(tmp_path) if each.startswith("left view/"))
    assert message.endswith("Choose both, for example with --images 'left view' --masks truth.")
    found = inspect(tmp_path, how=LayoutOptions(images="left view", masks="truth"))
    assert {split: len(items) for split, items in found.splits.items()} == {"train": 2, "val": 2}
    assert {each.item.image.parent.name for each in found.items} == {"left view"}


@pytest.mark.parametrize("inside", ["", "training/"])
def test_a_mask_may_be_that_of_a_field_of_view(tmp_path, inside):
    """DRIVE: training/images, training/1st_manual, training/mask; HRF: images, manual1, mask."""
    fill(tmp_path, inside + "images/{}_training.jpg", inside + "1st_manual/{}_manual1.png")
    fill(tmp_path, inside + "images/{}_training.jpg", inside + "mask/{}_training_mask.png")
    assert words(tmp_path)[0] == (
        "images/: expected one folder of images and one of their masks, found that 1st_manual/, mask/ fit. Choose both, for "
        "example with --images images --masks 1st_manual."
    )


def test_folders_may_end_in_tr_and_te(tmp_path):
    """DUTS: DUTS-TR/DUTS-TR-Image, DUTS-TE/DUTS-TE-Mask."""
    for side in ("TR", "TE"):
        fill(tmp_path, f"DUTS-{side}/DUTS-{side}-Image/{side}{{}}.jpg", f"DUTS-{side}/DUTS-{side}-Mask/{side}{{}}.png")
    assert {split: len(items) for split, items in inspect(tmp_path).splits.items()} == {"train": COUNT, "test": COUNT}


def test_pairs_of_other_names_are_not_left_out_in_silence(tmp_path):
    """PraNet's polyps: TrainDataset/image, TestDataset/Kvasir/images."""
    fill(tmp_path, "TrainDataset/image/{}.jpg", "TrainDataset/mask/{}.png", 2)
    fill(tmp_path, "TestDataset/Kvasir/images/{}.jpg", "TestDataset/Kvasir/masks/{}.png")
    assert words(tmp_path)[0] == (
        "TrainDataset/image/0.jpg: it lies beside images/ and masks/, and in neither of them. Call both kinds of folders "
        "images/ and masks/, or move it away."
    )


def test_classes_may_be_named_beside_the_folders_of_a_folder_inside(tmp_path):
    """CamVid on Kaggle: CamVid/train, CamVid/train_labels, CamVid/class_dict.csv."""
    for split in ("train", "val"):
        fill(tmp_path, f"CamVid/{split}/{split}{{}}.jpg", f"CamVid/{split}_labels/{split}{{}}_L.png")
    miniatures.write(tmp_path / "CamVid/classes.txt", "sky\nroad\n")
    assert inspect(tmp_path).labels.classes == ("sky", "road")


def test_folders_that_are_named_may_hold_the_splits_by_other_names(tmp_path):
    """LIP: TrainVal_images/train_images, TrainVal_parsing_annotations/train_segmentations."""
    ids = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % 2
    for number, split in enumerate(("train", "train", "val")):
        miniatures.write(tmp_path / f"TrainVal_images/{split}_images/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"TrainVal_annotations/{split}_segmentations/{number}.png", miniatures.gray(ids))
    found = inspect(tmp_path, how=LayoutOptions(images="TrainVal_images", masks="TrainVal_annotations"))

    assert found.problems == ()
    assert {split: [each.item.name for each in items] for split, items in found.splits.items()} == {
        "train": ["0", "1"],
        "val": ["2"],
    }


def test_folders_of_classes_below_the_masks_name_them(tmp_path):
    """IDRiD: a. Training Set/1. Microaneurysms/IDRiD_01_MA.tif."""
    for split, numbers in (("a. Training Set", (1, 2, 3)), ("b. Testing Set", (4, 5))):
        for number in numbers:
            miniatures.write(tmp_path / f"images/{split}/IDRiD_{number:02}.jpg", miniatures.make_image(seed=number))
            for place, (name, end) in enumerate((("1. Microaneurysms", "MA"), ("2. Haemorrhages", "HE"))):
                spots = np.zeros((24, 32), np.uint8)
                spots[4 + 8 * place : 8 + 8 * place, 3:15] = 255
                miniatures.write(
                    tmp_path / f"truths/{split}/{name}/IDRiD_{number:02}_{end}.png", miniatures.gray(spots)
                )
    found = inspect(tmp_path, how=LayoutOptions(images="images", masks="truths"))

    assert found.labels.classes == ("background", "1. Microaneurysms", "2. Haemorrhages")
    assert {split: len(items) for split, items in found.splits.items()} == {"train": 3, "test": 2}
    assert [dict(each.pixels) for each in found.items] == [{0: 672, 1: 48, 2: 48}] * 5


def test_one_folder_whose_name_holds_a_split_is_all_there_is(tmp_path):
    """RailSem19: jpgs/rs19_val, uint8/rs19_val."""
    for number in range(3):
        ids = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % (2 + number)
        miniatures.write(tmp_path / f"jpgs/rs19_val/{number}.jpg", miniatures.make_image(seed=number))
        miniatures.write(tmp_path / f"uint8/rs19_val/{number}.png", miniatures.gray(ids))
    for how in (LayoutOptions(), LayoutOptions(images="jpgs", masks="uint8")):
        found = inspect(tmp_path, how=how)
        assert (found.fatal, list(found.splits)) == ([], ["train"])


def test_folders_that_are_called_as_the_one_above_them_have_the_name_beside_it(tmp_path):
    """PH2: IMD003/IMD003_Dermoscopic_Image/, IMD003/IMD003_lesion/, IMD003/IMD003_roi/."""
    for number in range(4):
        case = f"IMD00{number}"
        write(tmp_path / f"{case}/{case}_Dermoscopic_Image/{case}.png", make_image(seed=number))
        for end in ("lesion", "roi"):
            write(
                tmp_path / f"{case}/{case}_{end}/{case}.png", gray(np.arange(768, dtype=np.uint8).reshape(24, 32) % 2)
            )
    assert words(tmp_path) == [
        "Dermoscopic_Image/: expected one folder of images and one of their masks, found that lesion/, roi/ fit. Choose both, for "
        "example with --images Dermoscopic_Image --masks lesion."
    ]
    found = inspect(tmp_path, how=LayoutOptions(images="Dermoscopic_Image", masks="lesion"))
    assert (found.fatal, len(found.items)) == ([], 4)


def test_folders_that_are_called_as_the_data_set_keep_their_names(tmp_path):
    root = tmp_path / "polyps"
    for number in range(4):
        write(root / f"polyps_photos/{number}.png", make_image(seed=number))
        write(root / f"polyps_masks/{number}.png", gray(np.arange(768, dtype=np.uint8).reshape(24, 32) % 2))
    assert inspect(root).layout.reasons[0].startswith("polyps_photos/ holds images and polyps_masks/ their masks")
