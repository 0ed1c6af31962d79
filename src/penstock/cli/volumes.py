"""predict, for NIfTI volumes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self

import numpy as np

from penstock.cli.answers import own_folder, write_table, written_ids
from penstock.datasets.layouts.nifti import Case, cases
from penstock.datasets.listing import files as list_files
from penstock.datasets.listing import is_picture
from penstock.errors import DatasetError, ImageError, RecipeError
from penstock.images import volumes
from penstock.metrics import dice
from penstock.predict import predict_volume
from penstock.progress import Progress, counted
from penstock.tasks import Segmentation, Volumes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from penstock.datasets.description import Description
    from penstock.models import Window
    from penstock.recipe import Trained


def predict_volumes(
    trained: Trained,
    paths: list[Path],
    output: Path,
    labels: Path | None,
    *,
    window: Window | None = None,
    original: bool = False,
) -> int:
    """Write CASE.nii.gz for every volume, and dice.csv where there are true labels; name what cannot be read.

    Returns:
        The exit code: 1 where a volume was skipped, or its labels do not fit it.

    Raises:
        RecipeError: the run learnt something else.
        DatasetError: a path is no volume and holds none, or an answer would take the place of a volume.
    """
    task = _maker(trained, window)
    if labels and not labels.is_dir():
        raise DatasetError(str(labels), expected="a folder of labels", found="none", remedy="Check --labels")
    found = _cases(paths, labels)
    _refuse_overwriting(found, output)
    table = [output / "dice.csv"] if labels else []
    own_folder(output, [*table, *(output / f"{case.name}.nii.gz" for case in found)])
    scorer = _Scorer(trained.parts.dataset.description, output)
    skipped: list[str] = []
    wrong: list[str] = []
    with Progress("predict", "volumes") as progress, scorer:
        for done, case in enumerate(found, 1):
            try:
                volume, answer = _predict(trained, task, case, output, window, original=original)
            except ImageError as error:
                skipped.append(str(error))
            else:
                with _collected(wrong):
                    scorer.add(case, volume, answer)
            progress(done, len(found))
    print(*skipped, *wrong, sep="\n", end="\n" * bool(skipped or wrong))
    several = f"{len(found) - len(skipped)} of {counted(len(found), 'volume')}"
    print(f"predicted {several} into {output}, each in its own geometry")
    pictures = [file for path in paths if path.is_dir() for file in list_files(path) if is_picture(file)]
    if pictures:
        print(f"left out, as they are no volumes: {counted(len(pictures), 'picture')}")
    if unlabelled := sum(case.labels is None for case in found) * bool(labels):
        print(f"no labels in {labels} for {unlabelled} of them")
    print(*scorer.lines(), sep="\n", end="\n" * bool(scorer.rows))
    return 1 if skipped or wrong else 0


def _maker(trained: Trained, window: Window | None) -> Segmentation | Volumes:
    """What the run learnt, where that is to make masks."""
    task = trained.parts.task
    if window and isinstance(task, Volumes):
        raise RecipeError(
            "--window",
            expected="none, as networks for whole volumes have a window of their own",
            found=str(window.side),
            remedy="Leave it out",
        )
    if not isinstance(task, Segmentation | Volumes):
        raise RecipeError(
            "penstock predict",
            expected="pictures, as the run did not learn to make masks",
            found="NIfTI volumes",
            remedy="Name pictures",
        )
    return task


@contextlib.contextmanager
def _collected(sentences: list[str]) -> Iterator[None]:
    """Labels that do not fit keep nobody from an answer."""
    try:
        yield
    except ImageError as error:
        sentences.append(str(error))


def _predict(
    trained: Trained, task: Segmentation | Volumes, case: Case, output: Path, window: Window | None, *, original: bool
) -> tuple[volumes.Volume, NDArray[np.uint8]]:
    """Write the answer for one case, and give both."""
    volume = volumes.read_volume(case.images)
    learnt, many = trained.parts.dataset.description.modalities, len(volume.voxels)
    if many != (learnt or many):
        raise ImageError(
            volume.name,
            expected=f"{counted(learnt, 'modality')} a case, as the run learnt",
            found=str(many),
            remedy="Give the case the files that the training cases had",
        )
    answer = predict_volume(
        task,
        trained.model,
        volume,
        device=trained.device,
        precision=trained.parts.recipe.train.precision,
        window=window,
    )
    (output / case.name).parent.mkdir(parents=True, exist_ok=True)
    ids = written_ids(trained.parts.dataset.description, original=original)
    volumes.write_labels(output / f"{case.name}.nii.gz", ids[answer], case.images[0])
    return volume, answer


def _cases(paths: list[Path], labels: Path | None) -> list[Case]:
    """The volumes of folders and of single files, with their labels."""
    found: list[Case] = []
    for path in paths:
        if path.is_dir():
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
                expected="volumes whose answers go to files of their own",
                found=f"that {case.name}.nii.gz is wanted twice, or is a volume itself",
                remedy="Choose another folder with -o, or predict the volumes into two",
            )


class _Scorer:
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

    def add(self, case: Case, volume: volumes.Volume, answer: NDArray[np.uint8]) -> None:
        """Compare an answer with the labels of its case, if it has some; what is ignored counts for neither.

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
        self.rows.append((case.name, dice(answer[counts], true[counts], len(self.described.classes))))

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
