"""TFRecords that TensorFlow's programs wrote.

tfrecords.py       TensorFlow Datasets', the Object Detection API's, DeepLab's and slim's
tfrecord_files.py  their records one by one
"""

from typing import Final

from penstock.datasets.layouts.catalogue import KnownLayout

LAYOUTS: Final = {
    "tfrecords": KnownLayout(
        f"{__name__}.tfrecords:recognise",
        "train-00000-of-00010.tfrecord  labels.txt",
        rank="arranged",
        with_fields=f"{__name__}.tfrecords:recognise_fields",
        unread=f"{__name__}.tfrecords:unknown_fields",
    )
}
"""The layouts that it brings, by name."""
