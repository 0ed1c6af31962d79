"""Folders that other tools read, written from records: the way back from a packed dataset. Nothing here knows torch.

base.py           FolderWriter, the contract; the names of files
masks.py          images/, masks/, and classes.txt: class ids or alpha mattes
class_folders.py  a folder for each class
coco.py           COCO JSON: boxes, or objects with their pixels
yolo.py           YOLO text files and data.yaml: boxes
voc.py            Pascal VOC: boxes as XML, or masks in VOC's colours
"""

from penstock.unpacked.base import FolderWriter, LabelledImage
from penstock.unpacked.class_folders import ClassFolders
from penstock.unpacked.coco import CocoDocument, CocoFolder
from penstock.unpacked.masks import MaskFolders, MatteFolders
from penstock.unpacked.voc import VocBoxes, VocMasks
from penstock.unpacked.yolo import YoloFolder

__all__ = [
    "ClassFolders",
    "CocoDocument",
    "CocoFolder",
    "FolderWriter",
    "LabelledImage",
    "MaskFolders",
    "MatteFolders",
    "VocBoxes",
    "VocMasks",
    "YoloFolder",
]
