"""Grain over the same images as files (its TFRecord reader has no random access), with OpenCV."""

import glob

import cv2
import grain
import numpy as np
import timing
import windows

cv2.setNumThreads(0)
data, scenario, count = timing.arguments()
images = sorted(glob.glob(f"{data}/files/*.jpg"))


class Source:
    def __len__(self):
        return len(images)

    def __getitem__(self, i):
        with open(images[i], "rb") as image, open(images[i][:-3] + "png", "rb") as mask:
            return image.read(), mask.read()


def resized_crop(item, rng):
    image = cv2.imdecode(np.frombuffer(item[0], np.uint8), cv2.IMREAD_COLOR_RGB)
    y, x, h, w = windows.resized_crop(rng.random, *image.shape[:2])
    image = cv2.resize(image[y : y + h, x : x + w], (224, 224))
    return cv2.flip(image, 1) if rng.random() < 0.5 else image


def deeplab(item, rng):
    image = cv2.imdecode(np.frombuffer(item[0], np.uint8), cv2.IMREAD_COLOR_RGB)
    label = cv2.imdecode(np.frombuffer(item[1], np.uint8), cv2.IMREAD_UNCHANGED)
    y, x, h, w, to = windows.scaled_crop(rng.random, *image.shape[:2])
    image = cv2.resize(image[y : y + h, x : x + w], to[::-1])
    label = cv2.resize(label[y : y + h, x : x + w], to[::-1], interpolation=cv2.INTER_NEAREST)
    down, right = 513 - to[0], 513 - to[1]
    image = cv2.copyMakeBorder(image, 0, down, 0, right, cv2.BORDER_CONSTANT, value=(124, 116, 104))
    label = cv2.copyMakeBorder(label, 0, down, 0, right, cv2.BORDER_CONSTANT, value=255)
    if rng.random() < 0.5:
        image, label = cv2.flip(image, 1), cv2.flip(label, 1)
    return {"image": image, "mask": label}


prepared = grain.MapDataset.source(Source()).seed(1).shuffle().random_map(resized_crop if scenario == "a" else deeplab)
options = grain.ReadOptions(num_threads=4, prefetch_buffer_size=128)
dataset = prepared.to_iter_dataset(options).batch(timing.BATCH)
timing.measure(lambda: (b["image"] if scenario == "b" else b for b in dataset), count)
