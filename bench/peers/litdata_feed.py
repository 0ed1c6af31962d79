"""LitData: the same images in its own chunks, read by a StreamingDataLoader with two worker processes, with OpenCV."""

import glob
import random
from pathlib import Path

import litdata
import opencv
import timing

data, task, count = timing.arguments()  # in its worker processes too


def pair(path):
    return {"image": Path(path).read_bytes(), "mask": Path(path).with_suffix(".png").read_bytes()}


class Prepared(litdata.StreamingDataset):
    def __getitem__(self, index):
        item = super().__getitem__(index)
        return opencv.TASKS[task]((item["image"], item["mask"]), random.random)


if __name__ == "__main__":
    chunks = Path(data) / "litdata"
    if not (chunks / "index.json").exists():
        images = sorted(glob.glob(f"{data}/files/*.jpg"))
        litdata.optimize(fn=pair, inputs=images, output_dir=str(chunks), chunk_bytes="16MB", num_workers=1)
    loader = litdata.StreamingDataLoader(
        Prepared(str(chunks), shuffle=True), batch_size=timing.BATCH, num_workers=2, persistent_workers=True
    )
    timing.measure(lambda: map(opencv.images_of, loader), count)
