"""Scores that are exact: integers are counted, added over ranks, and divided once.

boxes.py      mean average precision of boxes and of masks, as COCO counts it, by faster-coco-eval
classes.py    top-1, top-5, accuracy of every class, and how far confidence can be trusted
confusion.py  the confusion matrix and the segmentation scores that follow from it
instances.py  scores of instances
mattes.py     how far predicted alpha values are from true ones
means.py      means over classes of which some do not occur
tables.py     scores as text
segments.py   scores that look at the segments of an image and not at single pixels
"""

from penstock.metrics.boxes import Boxes, ScoredBox, check_extra, run_lengths
from penstock.metrics.classes import ClassificationScores, PredictionCounts
from penstock.metrics.confusion import Confusion, SegmentationScores
from penstock.metrics.instances import InstanceScores
from penstock.metrics.mattes import Mattes, MatteScores
from penstock.metrics.segments import Segments
from penstock.metrics.tables import number_table

__all__ = [
    "Boxes",
    "ClassificationScores",
    "Confusion",
    "InstanceScores",
    "MatteScores",
    "Mattes",
    "PredictionCounts",
    "ScoredBox",
    "SegmentationScores",
    "Segments",
    "check_extra",
    "number_table",
    "run_lengths",
]
