"""What a user of OpenCV writes for each task, given the bytes of an image and a mask."""

import cv2
import numpy as np
import windows

cv2.setNumThreads(0)


def resized_crop(item, draw):
    image = cv2.imdecode(np.frombuffer(item[0], np.uint8), cv2.IMREAD_COLOR_RGB)
    y, x, h, w = windows.resized_crop(draw, *image.shape[:2])
    image = cv2.resize(image[y : y + h, x : x + w], (224, 224))
    return cv2.flip(image, 1) if draw() < 0.5 else image


def deeplab(item, draw):
    image = cv2.imdecode(np.frombuffer(item[0], np.uint8), cv2.IMREAD_COLOR_RGB)
    label = cv2.imdecode(np.frombuffer(item[1], np.uint8), cv2.IMREAD_UNCHANGED)
    y, x, h, w, to = windows.scaled_crop(draw, *image.shape[:2])
    image = cv2.resize(image[y : y + h, x : x + w], to[::-1])
    label = cv2.resize(label[y : y + h, x : x + w], to[::-1], interpolation=cv2.INTER_NEAREST)
    down, right = 513 - to[0], 513 - to[1]
    image = cv2.copyMakeBorder(image, 0, down, 0, right, cv2.BORDER_CONSTANT, value=(124, 116, 104))
    label = cv2.copyMakeBorder(label, 0, down, 0, right, cv2.BORDER_CONSTANT, value=255)
    if draw() < 0.5:
        image, label = cv2.flip(image, 1), cv2.flip(label, 1)
    return {"image": image, "mask": label}


TASKS = {"a": resized_crop, "b": deeplab}


def images_of(batch):
    """The images of a batch, for counting."""
    return batch["image"] if isinstance(batch, dict) else batch
