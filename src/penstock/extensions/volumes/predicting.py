"""Predictions for NIfTI volumes, as files in their own geometry."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from penstock.datasets.description import Description
from penstock.datasets.listing import files as list_files
from penstock.datasets.listing import is_image
from penstock.errors import DatasetError, ImageError
from penstock.extensions.volumes import volume as volumes
from penstock.extensions.volumes.drawing import draw_slices
from penstock.extensions.volumes.layouts import Case, cases
from penstock.extensions.volumes.predictors import VolumePredictor, predictor_of
from penstock.extensions.volumes.scores import dice
from penstock.files import write_atomically
from penstock.images import codecs, dicom
from penstock.inference.model import TrainedModel
from penstock.inference.other_inputs import OtherInputs, Written
from penstock.inference.writing import finish_folder, prediction_folder, write_table
from penstock.progress import counted, silent
from penstock.tasks import Style, Task
from penstock.tasks.abilities import required


class VolumeInputs(OtherInputs):
    """NIfTI volumes and folders of DICOM slices."""

    unit = "volume"
    inputs = "NIfTI volumes"

    def are_among(self, paths: Sequence[Path], *, learnt: bool) -> bool:
        """Whether there is a volume; DICOM files are slices of one where the model learnt from volumes."""
        found = [file for path in paths for file in (list_files(path) if path.is_dir() else [path])]
        is_slice = learnt and any(file.suffix.lower() == dicom.SUFFIX for file in found)
        return is_slice or any(volumes.is_volume(file) for file in found)

    def can_predict(self, task: Task) -> bool:
        """Whole volumes, or the slices that masks are made of."""
        return predictor_of(task) is not None

    def write(
        self,
        trained: TrainedModel,
        paths: Sequence[Path],
        output: Path,
        labels: Path | None = None,
        style: Style = Style(),  # noqa: B008 - frozen
        progress: Callable[[int, int], None] = silent,
    ) -> Written:
        """Write CASE.nii.gz and CASE-slices.png for every volume, and dice.csv where there are true labels.

        Raises:
            RecipeError: the run learnt something else.
            DatasetError: a path is no volume and holds none, or a prediction would take the place of a volume.
        """
        found = _claimed(trained.parts.task, paths, output, labels)
        scores = _CaseScores(trained.parts.dataset.description, output)
        skipped: list[str] = []
        wrong: list[str] = []
        with scores:
            for done, case in enumerate(found, 1):
                try:
                    volume, predicted = _predict(trained, case, output, style)
                except ImageError as error:
                    skipped.append(str(error))
                else:
                    with _collected(wrong):
                        scores.add(case, volume, predicted)
                progress(done, len(found))
        finish_folder(output)
        return Written(
            len(found) - len(skipped),
            len(found),
            self.unit,
            ", each in its own geometry",
            (*skipped, *wrong),
            tuple(_notes(found, paths, labels)),
            tuple(scores.lines()),
        )


VOLUME_INPUTS: Final = VolumeInputs()


def _required(task: Task) -> VolumePredictor:
    """What predicts volumes, or a RecipeError."""
    return required(predictor_of(task), task, "Prediction of NIfTI volumes", "penstock predict", "Name images")


def _claimed(task: Task, paths: Sequence[Path], output: Path, labels: Path | None) -> list[Case]:
    """The volumes to predict, whose files in the folder are noted as ours."""
    _required(task)
    if labels and not labels.is_dir():
        raise DatasetError(str(labels), expected="a folder of labels", found="none", remedy="Check --labels")
    found = _cases(paths, labels)
    _refuse_overwriting(found, output)
    table = [output / "dice.csv"] if labels else []
    files = (output / name for case in found for name in (f"{case.name}.nii.gz", _drawing(case)))
    prediction_folder(output, [*table, *files], task.kind.name)
    return found


def _notes(found: Sequence[Case], paths: Sequence[Path], labels: Path | None) -> Iterator[str]:
    if images := [file for path in paths if path.is_dir() for file in list_files(path) if _is_beside(file)]:
        yield f"left out, as they are no volumes: {counted(len(images), 'image')}"
    if labels and (unlabelled := sum(case.labels is None for case in found)):
        yield f"no labels in {labels} for {unlabelled} of them"


def _drawing(case: Case) -> str:
    """The name of the image of some slices."""
    return f"{case.name}-slices.png"


def _is_beside(file: Path) -> bool:
    """Whether a file is an image that is no slice of a volume."""
    return is_image(file) and file.suffix.lower() != dicom.SUFFIX


@contextlib.contextmanager
def _collected(sentences: list[str]) -> Iterator[None]:
    """Collect errors of labels as sentences, so that a volume is predicted even if its labels do not fit."""
    try:
        yield
    except ImageError as error:
        sentences.append(str(error))


def _predict(trained: TrainedModel, case: Case, output: Path, style: Style) -> tuple[volumes.Volume, NDArray[np.uint8]]:
    """Write the prediction for one case, and give both."""
    volume = volumes.read_volume(case.images)
    learnt, many = trained.parts.dataset.description.modalities, len(volume.voxels)
    if many != (learnt or many):
        raise ImageError(
            volume.name,
            expected=f"{counted(learnt, 'modality')} a case, as the run learnt",
            found=str(many),
            remedy="Give the case the files that the training cases had",
        )
    predicted = _required(trained.parts.task).predict(trained.ready, volume)
    (output / case.name).parent.mkdir(parents=True, exist_ok=True)
    volumes.write_labels(output / f"{case.name}.nii.gz", style.written(predicted), case.images[0])
    drawn = draw_slices(volume, predicted, trained.parts.dataset.description.ignore_label)
    write_atomically(output / _drawing(case), codecs.encode_png(drawn))
    return volume, predicted


def _cases(paths: Sequence[Path], labels: Path | None) -> list[Case]:
    """The volumes of folders and of single files, with their labels."""
    found: list[Case] = []
    for path in paths:
        if dicom.is_series(path):
            beside = labels / f"{path.name}.nii.gz" if labels else None
            found.append(Case(path.name, (path,), beside if beside and beside.is_file() else None))
        elif path.is_dir():
            found += cases(path, labels)
        elif volumes.is_volume(path) and path.is_file():
            beside = next((p for p in (labels / path.name,) if p.is_file()), None) if labels else None
            found.append(Case(volumes.stem(path), (path,), beside))
        else:
            raise DatasetError(
                str(path), expected="a NIfTI volume or a folder of them", found="none", remedy="Check the path"
            )
    return found


def _refuse_overwriting(found: list[Case], output: Path) -> None:
    inputs = {path.resolve() for case in found for path in (*case.images, case.labels) if path}
    names = [case.name for case in found]
    for case in found:
        if (output / f"{case.name}.nii.gz").resolve() in inputs or names.count(case.name) > 1:
            raise DatasetError(
                str(case.images[0]),
                expected="volumes whose predictions go to files of their own",
                found=f"that {case.name}.nii.gz is wanted twice, or is a volume itself",
                remedy="Choose another folder with -o, or predict the volumes into two",
            )


class _CaseScores:
    """Scores volumes; dice.csv is written however it ends."""

    def __init__(self, described: Description, output: Path) -> None:
        self.described, self.path = described, output / "dice.csv"
        self.rows: list[tuple[str, list[float | None]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.rows:
            cells = [["" if value is None else f"{value:.6f}" for value in values] for _, values in self.rows]
            named = [[name, *each] for (name, _), each in zip(self.rows, cells, strict=True)]
            write_table(self.path, [["case", *self.described.classes[1:]], *named])

    def add(self, case: Case, volume: volumes.Volume, predicted: NDArray[np.uint8]) -> None:
        """Compare a prediction with the labels of its case, if it has some; what is ignored counts for neither.

        Raises:
            ImageError: the labels do not lie on the volume, or are none.
        """
        if not case.labels:
            return
        table = np.arange(256, dtype=np.uint8)
        for raw, label in self.described.of_raw.items():
            table[raw] = label
        true = table[volumes.read_labels(case.labels, volume)]
        counts = true != self.described.ignore_label
        self.rows.append((case.name, dice(predicted[counts], true[counts], len(self.described.classes))))

    def lines(self) -> list[str]:
        """A table of the means."""
        if not self.rows:
            return []
        names = self.described.classes[1:]
        width = max(12, *map(len, names))
        lines = [f"{'class':<{width}}  {'Dice':>7}  {'lowest':>7}  {'cases':>5}"]
        for number, name in enumerate(names):
            values = [each for _, scores in self.rows if (each := scores[number]) is not None]
            shown = f"{sum(values) / len(values):>7.4f}  {min(values):>7.4f}" if values else f"{'-':>7}  {'-':>7}"
            lines.append(f"{name:<{width}}  {shown}  {len(values):>5}")
        return [*lines, f"{self.path} holds every class of every case"]
