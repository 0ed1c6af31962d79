"""Grain over the same images as files (its TFRecord reader has no random access), with OpenCV."""

import glob

import grain
import opencv
import timing

data, task, count = timing.arguments()
images = sorted(glob.glob(f"{data}/files/*.jpg"))


class Source:
    def __len__(self):
        return len(images)

    def __getitem__(self, i):
        with open(images[i], "rb") as image, open(images[i][:-3] + "png", "rb") as mask:
            return image.read(), mask.read()


def prepare(item, rng):
    return opencv.TASKS[task](item, rng.random)


prepared = grain.MapDataset.source(Source()).seed(1).shuffle().random_map(prepare)
options = grain.ReadOptions(num_threads=4, prefetch_buffer_size=128)
dataset = prepared.to_iter_dataset(options).batch(timing.BATCH)
timing.measure(lambda: map(opencv.images_of, dataset), count)
