from __future__ import annotations

import pytest
from support import miniatures
from support.datasets import records
from support.layouts import names_of, pack_miniature, pack_skipping

from penstock.datasets import LayoutOptions, inspect, pack
from penstock.images import decode_image
from penstock.kinds.fields import decode_classification


def test_cifar_pixels_are_those_of_the_file(tmp_path):
    dataset = pack_miniature("cifar10", tmp_path)
    found = {decode_classification(record).name: decode_classification(record) for record in records(dataset, "train")}

    assert len(found) == 30
    for number in range(1, 6):
        for i in range(6):
            record = found[f"data_batch_{number}-{i:05d}"]
            pixels = decode_image(record.image, "x")
            assert pixels.tobytes() == miniatures.cifar_pixels(100 * (number - 1) + i).transpose(1, 2, 0).tobytes()
            assert (record.label, record.text) == (i, dataset.description.classes[i])


@pytest.mark.parametrize(("layout", "label", "name"), [("", 97, "fine97"), ("cifar100-coarse", 2, "coarse2")])
def test_cifar_100_has_two_labels(tmp_path, layout, label, name):
    dataset = pack_miniature("cifar100", tmp_path, LayoutOptions(layout))
    found = {decode_classification(record).name: decode_classification(record) for record in records(dataset, "train")}

    assert (found["train-00002"].label, found["train-00002"].text) == (label, name)


def test_a_cifar_file_that_is_cut_short_is_named(tmp_path):
    miniatures.cifar10(tmp_path)
    file = tmp_path / "data_batch_2.bin"
    file.write_bytes(file.read_bytes()[:-100])

    assert [problem.message for problem in inspect(tmp_path).fatal] == [
        "data_batch_2.bin: expected whole records of 3,073 bytes, found 18,338 bytes, which is 5 and 2,973 bytes more. "
        "The file was cut short, or is of another format: download it again."
    ]


def test_a_cifar_label_above_nine_is_named_and_may_be_left_out(tmp_path):
    miniatures.cifar10(tmp_path)
    file = tmp_path / "data_batch_3.bin"
    data = bytearray(file.read_bytes())
    data[2 * 3073] = 17
    file.write_bytes(data)
    found = inspect(tmp_path)

    assert [problem.message for problem in found.fatal] == [
        "data_batch_3.bin#2: expected a label from 0 to 9, found 17. The file is damaged, or of another data set: "
        "download it again."
    ]
    assert len(found.sound().items) == 35


def test_a_cifar_batch_that_is_missing_is_a_note(tmp_path):
    miniatures.cifar10(tmp_path)
    (tmp_path / "data_batch_4.bin").unlink()

    assert [(problem.fatal, problem.message) for problem in inspect(tmp_path).problems] == [
        (
            False,
            "data_batch_4.bin: expected it beside data_batch_1.bin, found nothing. Without it some images are missing.",
        )
    ]


def test_the_head_of_the_original_cifar_file_is_read(real_data, tmp_path):
    source = real_data("cifar10")
    (tmp_path / "data_batch_1.bin").symlink_to(source / "data_batch_1_first4000.bin")
    (tmp_path / "batches.meta.txt").symlink_to(source / "batches.meta.txt")
    found = inspect(tmp_path)

    assert not found.fatal
    assert len(found.items) == 4000
    assert [found.labels.classes[each.item.label] for each in found.items[:5]] == [
        "frog",
        "truck",
        "truck",
        "deer",
        "automobile",
    ]


def test_labels_of_cifar(tmp_path, capsys):
    miniatures.cifar10(tmp_path / "raw")
    path = next((tmp_path / "raw").rglob("data_batch_1.bin"))
    data = bytearray(path.read_bytes())
    data[0] = 77
    path.write_bytes(data)
    out = pack_skipping(tmp_path, capsys)

    assert "skipped: data_batch_1.bin#0 (label outside the classes)\n" in out
    assert "data_batch_1-00000" not in (there := names_of(tmp_path, decode_classification))
    assert "data_batch_1-00001" in there


def test_cifar_100_pixels_are_those_of_the_file(tmp_path):
    miniatures.cifar100(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    found = {each.name: each for each in map(decode_classification, records(dataset, "train"))}

    for i in range(6):
        pixels = decode_image(found[f"train-{i:05d}"].image, "x")
        assert pixels.tobytes() == miniatures.cifar_pixels(i).transpose(1, 2, 0).tobytes()
