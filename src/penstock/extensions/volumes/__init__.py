"""Medical volumes in NIfTI, or as series of DICOM files: as slices for networks of two dimensions, or whole.

volume.py      a volume: its orientation, its slices, and the way back
layouts.py     folders of volumes
kind.py        a record of a whole volume and its labels
task.py        segmentation of whole volumes
predictors.py  the two ways to predict a volume
network.py     networks of three dimensions
scores.py      Dice, case by case
predicting.py  predictions as files in a volume's own geometry
drawing.py     slices with the labels that a model gives them, as one image
"""

from typing import Final

from penstock.datasets.layouts.catalogue import KnownLayout

LAYOUTS: Final = {
    "nifti": KnownLayout(
        f"{__name__}.layouts:recognise",
        "images/a_0000.nii.gz  labels/a.nii.gz, or CASE/CASE_t1.nii.gz  CASE/CASE_seg.nii.gz",
    ),
    "nifti-volumes": KnownLayout(
        f"{__name__}.layouts:recognise_volumes", "images/a_0000.nii.gz  labels/a.nii.gz, or imagesTr/  labelsTr/"
    ),
}
"""The layouts that it brings, by name."""
KINDS: Final = {"volumes": f"{__name__}.kind:VOLUMES"}
"""The kinds of record that it brings, by name."""
TASKS: Final = {"volumes": f"{__name__}.task:Volumes"}
"""The tasks that it brings, by the name of their kind."""
NETWORKS: Final = {"volumes": ("unet3d",)}
"""The names of networks that it brings, by task."""
PREDICTIONS: Final = {"volumes": f"{__name__}.predicting:VOLUME_INPUTS"}
"""What it predicts beside images, by name."""
