from __future__ import annotations

import io

import numpy as np
from PIL import Image
from support import miniatures, raw_folders

import penstock as ps


def test_inspect_takes_what_the_command_takes(tmp_path):
    raw_folders.own_fields(tmp_path / "records")
    found = ps.inspect(tmp_path / "records", fields={"image": "pic", "label": "kind"}, limit=2, max_side=16)
    assert [(each.height, each.width) for each in found.items] == [(12, 16)] * 2
    for number in range(3):
        miniatures.write(tmp_path / f"names/cat_{number}.jpg", miniatures.make_image(seed=number))
    assert ps.inspect(tmp_path / "names", pattern="(?P<label>[a-z]+)_").labels.classes == ("cat",)
    miniatures.csv_boxes(tmp_path / "boxes", "bbox", "2,3,10,12")
    (box,) = ps.inspect(tmp_path / "boxes", boxes="xyxy").items[0].item.label
    assert (box.right, box.bottom) == (10, 12)


class TestSample:
    """What a record holds, compared with the raw files of every kind of record."""

    def sample(self, root, make, **options):
        make(root / "raw")
        return ps.pack(root / "raw", root / "data", **options)

    def test_a_mask(self, tmp_path):
        data = self.sample(tmp_path, raw_folders._masks("images/{}.png", "masks/{}.png", form="PNG"))
        found = {each.name: each for each in data["train"]}
        for name, each in found.items():
            pixels = np.asarray(Image.open(tmp_path / f"raw/images/{name}.png"))
            assert np.array_equal(each.image, pixels)
            assert np.array_equal(each.label, np.asarray(Image.open(tmp_path / f"raw/masks/{name}.png")))
            assert each.drawn.shape[2] == 3
            assert repr(each) == f"<Sample {name} ({each.origin}), image uint8 (24, 32, 3), label uint8 (24, 32)>"

    def test_a_turned_photograph_is_upright_as_its_mask_is(self, tmp_path):
        pixels = np.random.default_rng(0).integers(0, 255, (24, 32, 3), dtype=np.uint8)
        ids = np.arange(24 * 32, dtype=np.uint8).reshape(24, 32) % 2
        exif = Image.Exif()
        exif[0x0112] = 6  # shown a quarter clockwise
        for number in range(2):
            done = io.BytesIO()
            Image.fromarray(pixels).save(done, "JPEG", exif=exif)
            miniatures.write(tmp_path / f"raw/images/{number}.jpg", done.getvalue())
            miniatures.write(tmp_path / f"raw/masks/{number}.png", miniatures.gray(np.rot90(ids, -1)))
        sample = ps.pack(tmp_path / "raw", tmp_path / "data")["train"][0]
        assert sample.image.shape == (32, 24, 3)
        assert np.array_equal(sample.label, np.rot90(ids, -1))

    def test_a_class(self, tmp_path):
        data = self.sample(tmp_path, miniatures.folders)
        assert {each.name: each.label for each in data["train"]} == {
            each.name: each.name.partition("/")[0] for each in data["train"]
        }
        each = data["train"][0]
        assert repr(each).endswith(f"label {each.label}>")

    def test_boxes(self, tmp_path):
        data = self.sample(tmp_path, lambda root: miniatures.csv_boxes(root, "bbox_xyxy", "2,3,10,12"))
        (each,) = (each for each in data["train"] if len(each.label["boxes"]))
        assert each.label["boxes"].tolist() == [[2, 3, 10, 12]]
        assert each.label["classes"] == list(data.classes)
        assert repr(each).endswith("label 1 object>")

    def test_objects(self, tmp_path):
        data = self.sample(tmp_path, raw_folders.numbered())
        for name, each in {each.name: each for each in data["train"]}.items():
            numbers = np.asarray(Image.open(tmp_path / f"raw/masks/{name}.tif"))
            assert np.array_equal(each.label["masks"], [numbers == n for n in range(1, numbers.max() + 1)])
            assert each.label["classes"] == ["object"] * numbers.max()

    def test_voxels(self, tmp_path):
        import nibabel
        from support.volumes import brats

        brats(tmp_path / "raw", 2)
        data = ps.pack(tmp_path / "raw", tmp_path / "data", task="volumes")
        each = data["train"][0]
        (place,) = (tmp_path / "raw").rglob(f"{each.name}*_seg.nii.gz")
        own = np.asanyarray(nibabel.load(place).dataobj)
        assert each.image.shape[:3] == each.label.shape
        assert np.array_equal(np.unique(each.label), np.unique(own))
        assert (each.label > 0).sum() == (own > 0).sum()


def test_each_process_of_a_loop_is_fed_its_part_of_a_batch(tmp_path):
    raw_folders._masks("images/{}.png", "masks/{}.png", form="PNG")(tmp_path / "raw")
    data = ps.pack(tmp_path / "raw", tmp_path / "data")
    whole, first, second = (
        next(data["train"].feed(batch=2, crop=(16, 16), rank=rank, world_size=size).batches())
        for rank, size in ((0, 1), (0, 2), (1, 2))
    )

    assert [*first.origins, *second.origins] == list(whole.origins)
    assert len({*whole.origins}) == 2


def test_augmented_samples_are_of_the_split_that_is_named(tmp_path):
    ps.scenes(tmp_path / "raw", train=3, val=2, test=0, size=(48, 64))
    data = ps.pack(tmp_path / "raw", tmp_path / "data")
    sheet = data.show("val", augmented=True, count=2, settings={"augment.crop": (32, 32), "model.weights": "none"})

    assert [" (val-" in record for record in sheet.records] == [True, True]
