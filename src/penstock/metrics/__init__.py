"""Scores that are exact: integers are counted, added over ranks, and divided once."""

from penstock.metrics.boxes import Boxes, DetectionScores, Found, check_extra, run_lengths
from penstock.metrics.cases import Cases, VolumeScores
from penstock.metrics.classes import ClassificationScores, PredictionCounts
from penstock.metrics.confusion import Confusion, SegmentationScores
from penstock.metrics.dice import dice
from penstock.metrics.instances import InstanceScores
from penstock.metrics.mattes import Mattes, MatteScores
from penstock.metrics.segments import Segments, SegmentScores

__all__ = [
    "Boxes",
    "Cases",
    "ClassificationScores",
    "Confusion",
    "DetectionScores",
    "Found",
    "InstanceScores",
    "MatteScores",
    "Mattes",
    "PredictionCounts",
    "SegmentScores",
    "SegmentationScores",
    "Segments",
    "VolumeScores",
    "check_extra",
    "dice",
    "run_lengths",
]
