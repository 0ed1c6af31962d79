"""What is learnt: how a record becomes a sample, the model, the loss, the scores, a picture of the answer.

base.py       Task, the contract
augment.py    the random view and colours of a training sample
objective.py  what training makes small
segment.py    semantic segmentation
classify.py   classification
detect.py     detection
matte.py      matting, from soft labels
volume.py     segmentation of whole volumes
regularize.py mixed, erased and toned pictures
"""

from penstock.tasks.augment import Augment
from penstock.tasks.base import Task
from penstock.tasks.classify import Classification, PrepareClassification
from penstock.tasks.detect import Detection, PrepareDetection
from penstock.tasks.matte import Matting, PrepareMatte
from penstock.tasks.objective import Objective, weights_of
from penstock.tasks.regularize import Regularize
from penstock.tasks.segment import PrepareSegmentation, Segmentation
from penstock.tasks.volume import PrepareVolume, Volumes

__all__ = [
    "Augment",
    "Classification",
    "Detection",
    "Matting",
    "Objective",
    "PrepareClassification",
    "PrepareDetection",
    "PrepareMatte",
    "PrepareSegmentation",
    "PrepareVolume",
    "Regularize",
    "Segmentation",
    "Task",
    "Volumes",
    "weights_of",
]
