"""tf.data, with DeepLab's own pipeline in "b"; it decodes only the window that is needed."""

import glob
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
import timing

data, scenario, count = timing.arguments()
SPEC = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/segmentation/class/encoded": tf.io.FixedLenFeature([], tf.string),
}


def resized_crop(record):
    jpeg = tf.io.parse_single_example(record, SPEC)["image/encoded"]
    shape = tf.io.extract_jpeg_shape(jpeg)
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        shape,
        tf.zeros([1, 0, 4]),
        area_range=(0.08, 1.0),
        aspect_ratio_range=(0.75, 1.333),
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.stack([begin[0], begin[1], size[0], size[1]])
    image = tf.image.decode_and_crop_jpeg(jpeg, window, channels=3)
    image = tf.image.random_flip_left_right(tf.image.resize(image, (224, 224)))
    return tf.cast(image, tf.uint8)


def deeplab(record):
    fields = tf.io.parse_single_example(record, SPEC)
    jpeg = fields["image/encoded"]
    label = tf.io.decode_png(fields["image/segmentation/class/encoded"], channels=1)
    shape = tf.io.extract_jpeg_shape(jpeg)
    scale = 0.5 + 0.25 * tf.cast(tf.random.uniform([], 0, 7, tf.int32), tf.float32)
    window = tf.minimum(shape[:2], tf.cast(tf.round(513.0 / scale), tf.int32))
    low = tf.cast(tf.random.uniform([2]) * tf.cast(shape[:2] - window + 1, tf.float32), tf.int32)
    image = tf.image.decode_and_crop_jpeg(jpeg, tf.concat([low, window], 0), channels=3)
    label = tf.slice(label, [low[0], low[1], 0], [window[0], window[1], 1])
    size = tf.minimum(tf.cast(tf.cast(window, tf.float32) * scale, tf.int32), 513)
    image = tf.image.resize(image, size)
    label = tf.image.resize(label, size, method="nearest")
    high = tf.maximum(size, 513)
    image = tf.pad(image - 127.5, [[0, high[0] - size[0]], [0, high[1] - size[1]], [0, 0]]) + 127.5
    label = tf.pad(label, [[0, high[0] - size[0]], [0, high[1] - size[1]], [0, 0]], constant_values=255)
    both = tf.concat([image, tf.cast(label, tf.float32)], 2)
    both = tf.image.random_flip_left_right(tf.image.random_crop(both, [513, 513, 4]))
    return tf.cast(both[..., :3], tf.uint8), tf.cast(both[..., 3], tf.uint8)


files = sorted(glob.glob(f"{data}/*.tfrecord"))
dataset = tf.data.TFRecordDataset(files, num_parallel_reads=2).shuffle(500)
dataset = dataset.map(resized_crop if scenario == "a" else deeplab, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.batch(timing.BATCH).prefetch(tf.data.AUTOTUNE)
timing.measure(lambda: (b[0] if scenario == "b" else b for b in dataset), count)
