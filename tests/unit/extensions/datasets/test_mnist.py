from __future__ import annotations

import gzip
import tracemalloc
import zlib

import numpy as np
import pytest
from support import miniatures
from support.datasets import records
from support.errors import refused
from support.layouts import pack_miniature, words

from penstock.datasets import inspect, pack
from penstock.errors import DatasetError
from penstock.images import decode_image
from penstock.kinds.fields import decode_classification


@pytest.mark.parametrize("zipped", [True, False])
def test_mnist_pixels_are_those_of_the_file(tmp_path, zipped):
    dataset = pack_miniature("mnist", tmp_path, zipped=zipped)
    pixels = np.random.default_rng(1).integers(0, 256, (5, 28, 28), np.uint8)
    for record in map(decode_classification, records(dataset, "train")):
        image = decode_image(record.image, "x")
        assert (image == pixels[record.label][..., np.newaxis]).all()


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda data: data[:-10], "fewer bytes than that"),
        (lambda data: data + b"x", "more bytes than that"),
        (lambda data: b"\1\2\3\4" + data[4:], "another header"),
        (lambda data: data[:14], "another header"),
        (lambda data: data[:4] + b"\xff" * 12, "fewer bytes than that"),
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_a_damaged_idx_file_is_named(tmp_path, damage, found, zipped):
    miniatures.mnist(tmp_path, zipped=False)
    path = tmp_path / "train-images-idx3-ubyte"
    data = damage(path.read_bytes())
    path.write_bytes(gzip.compress(data) if zipped else data)
    sides = "5, 28, 28" if data[4:5] == b"\0" else "4294967295, 4294967295, 4294967295"
    shape = f" of shape ({sides})" if "than" in found else ""
    refused(
        inspect, tmp_path, message=f"{path}: expected an IDX file of bytes{shape}, found {found}. Download it again."
    )


def test_no_more_is_unpacked_than_the_header_announces(tmp_path):
    miniatures.mnist(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + bytes(32 << 20)))
    tracemalloc.start()
    with pytest.raises(DatasetError, match=r"found more bytes than that\. Download it again\.$"):
        inspect(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


def test_emnist_is_turned_and_has_letters(tmp_path):
    miniatures.mnist(tmp_path / "plain", zipped=False)
    for path in (tmp_path / "plain").iterdir():
        split = "train" if path.name.startswith("train") else "test"
        kind = path.name.split("-", 1)[1]
        miniatures.write(tmp_path / f"raw/emnist-letters-{split}-{kind}", path.read_bytes())
    miniatures.write(
        tmp_path / "raw/emnist-letters-mapping.txt", "".join(f"{i} {64 + i} {96 + i}\n" for i in range(1, 5))
    )
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    plain = pack(inspect(tmp_path / "plain"), tmp_path / "other")
    turned, stored = (
        {r.label: decode_image(r.image, "x") for r in map(decode_classification, records(d, "train"))}
        for d in (dataset, plain)
    )

    assert dataset.description.classes == ("0", "A", "B", "C", "D")
    assert all((turned[label] == stored[label].transpose(1, 0, 2)).all() for label in range(5))


def test_a_damaged_gzip_of_mnist_is_named(tmp_path):
    miniatures.mnist(tmp_path, zipped=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    data = bytearray(path.read_bytes())
    data[12:16] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    with pytest.raises(DatasetError, match=rf"^{path}: expected a whole gzip file, found .* Download it again\.$"):
        inspect(tmp_path)
    with pytest.raises(zlib.error):  # the damage that is meant here
        zlib.decompress(path.read_bytes(), 31)


def test_emnists_sets_are_not_guessed_among(tmp_path):
    miniatures.mnist(tmp_path / "plain", zipped=False)
    for chosen in ("balanced", "letters"):
        for path in (tmp_path / "plain").iterdir():
            split = "train" if path.name.startswith("train") else "test"
            kind = path.name.split("-", 1)[1]
            miniatures.write(tmp_path / f"raw/gzip/emnist-{chosen}-{split}-{kind}", path.read_bytes())

    assert words(tmp_path / "raw") == [
        "gzip/emnist-letters-train-images-idx3-ubyte: expected one of EMNIST's sets, found balanced too. Move the one you want "
        "into a folder of its own."
    ]


def test_images_of_mnist_without_labels_are_named(tmp_path):
    miniatures.mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()

    assert words(tmp_path) == [
        "t10k-images-idx3-ubyte.gz: expected its labels beside it, found none: all of that split is left out. Add them."
    ]
