"""Predictions as files: never over what something else has written."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from penstock import files, outputs
from penstock.datasets.listing import PREDICTIONS, is_image
from penstock.errors import DatasetError, OutputError
from penstock.images import codecs, drawing
from penstock.inference.inputs import InputImage
from penstock.inference.model import image_predictor
from penstock.tasks import Prediction, Style, Task
from penstock.unpacked import CocoDocument

_KIND: Final = "/kind "  # no name in a folder begins so
_HASH: Final = "/hash "  # as above; the SHA-256 of a file, and its name
_HASHED: Final = re.compile(rf"{_HASH}\S+ .+")
_TABLE: Final = "predictions.csv"
_OBJECTS: Final = "predictions.json"
_IDS: Final = "classes.csv"
_LEGEND: Final = "legend.png"
_LEGEND_WIDTH: Final = 640  # pixels


def prediction_folder(output: Path, predictions: Iterable[Path], kind: str) -> None:
    """Make a folder for predictions, and note the names of those, so that later ones may take their place.

    Raises:
        OutputError: the folder holds files, and none of predictions; or a prediction was changed since.
        DatasetError: a prediction would take the place of a file that is not noted, or the folder holds predictions of
            another kind.
    """
    noted = output / PREDICTIONS
    outputs.check_folder(output, "penstock predict", own=noted.exists())
    names, digests, kinds = _noted(noted)
    if others := kinds - {kind}:
        raise DatasetError(
            str(output),
            expected=f"predictions of {kind}, or none",
            found=f"predictions of {min(others)}",
            remedy="Choose another folder with -o",
        )
    wanted = {path.relative_to(output).as_posix() for path in predictions}
    if there := next((name for name in sorted(wanted - names) if (output / name).exists()), None):
        raise DatasetError(
            str(output / there),
            remedy="Choose another folder with -o",
            message=f"{output / there} exists, and no earlier penstock predict has written it.",
        )
    links = (outputs.link_below(output, output / name) for name in sorted(wanted))
    if link := next(filter(None, links), None):
        raise OutputError(
            f"-o {output}",
            expected="predictions as they were written",
            found=f"{link.relative_to(output)}, which is a link",
            remedy="Choose another folder, or move the link away",
        )
    for name in sorted(wanted & digests.keys()):
        if (output / name).is_file() and files.sha256(output / name) != digests[name]:
            raise OutputError(
                f"-o {output}",
                expected="predictions as they were written",
                found=f"{name}, which was changed since",
                remedy="Choose another folder, or move the file away",
            )
    kept = {name: digest for name, digest in digests.items() if name not in wanted}
    _note(noted, names | wanted, kept, kind)


def finish_folder(output: Path) -> None:
    """Note the hashes of all predictions: what differs from now on was changed by somebody else."""
    names, digests, kinds = _noted(output / PREDICTIONS)
    missing = (name for name in names - digests.keys() if (output / name).is_file())
    _note(output / PREDICTIONS, names, digests | {name: files.sha256(output / name) for name in missing}, *kinds)


def _noted(path: Path) -> tuple[set[str], dict[str, str], set[str]]:
    """The names that a note lists, the hashes of those that were written whole, and the kind of record."""
    lines = path.read_text(errors="surrogateescape").splitlines() if path.exists() else []
    hashed = [line.removeprefix(_HASH).split(" ", 1) for line in lines if _HASHED.fullmatch(line)]
    kinds = {line.removeprefix(_KIND) for line in lines if line.startswith(_KIND)}
    return {line for line in lines if not line.startswith("/")}, {name: digest for digest, name in hashed}, kinds


def _note(path: Path, names: set[str], digests: Mapping[str, str], kind: str) -> None:
    hashed = (f"{_HASH}{digest} {name}" for name, digest in sorted(digests.items()))
    text = "\n".join([_KIND + kind, *sorted(names), *hashed]) + "\n"
    files.replace_whole(path, text.encode(errors="surrogateescape"))


def write_table(path: Path, rows: Iterable[Iterable[str]]) -> None:
    """Write CSV; names that are no UTF-8 keep their bytes."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    files.replace_whole(path, text.getvalue().encode("utf-8", "surrogateescape"))


def _read_table(path: Path) -> list[list[str]]:
    """The rows of a table of ours; none where there is no file."""
    text = path.read_bytes().decode("utf-8", "surrogateescape") if path.is_file() else ""
    return list(csv.reader(io.StringIO(text, newline="")))


def _images_of(path: Path) -> set[str]:
    """The names of the images of COCO's JSON of ours."""
    try:
        return (
            {str(image["file_name"]) for image in json.loads(path.read_bytes())["images"]} if path.is_file() else set()
        )
    except (ValueError, KeyError, TypeError):
        return set()


class Writer:
    """Writes the predictions of a task: files beside one another, a table where the task has one, and COCO JSON of
    objects.

    Attributes:
        rows: of the table, so far.
        drawn: how many things were drawn, so far.
    """

    def __init__(self, task: Task, output: Path, style: Style) -> None:
        self.kind, self.predictor = task.kind.name, image_predictor(task)
        self.output, self.style = output, style
        self.rows: list[list[str]] = []
        self.drawn = 0
        self._names: set[Path] = set()
        self._kept: list[list[str]] = []
        self._document = CocoDocument(task.classes)

    @property
    def table(self) -> Path:
        """Where the table is."""
        return self.output / _TABLE

    def claim(self, images: Sequence[InputImage]) -> None:
        """Make the folder. No file may take the place of another one, of an image, or of anything else.

        Raises:
            DatasetError: one would, or the folder holds predictions of other images that the tables could not tell of.
        """
        ends = self.predictor.suffixes(self.style)
        taken = {image.place.resolve(): image for image in images}
        for image in images:
            for file in (self._path(image, end) for end in ends):
                other = taken.setdefault(file.resolve(), image)
                if other is not image or file.resolve() == image.place.resolve():
                    raise _conflict(image, other, file)
        tables = [self.table] if self.predictor.columns else []
        tables += [self.output / _OBJECTS] if self.predictor.writes_objects else []
        tables += [self.output / _IDS, self.output / _LEGEND] if self.predictor.ids(self.style) else []
        self._names = {self._path(image, end) for image in images for end in ends}
        self._check_others({image.where for image in images}, {_file_name(image) for image in images}, tables)
        prediction_folder(self.output, [*tables, *self._names], self.kind)

    def _check_others(self, own: set[str], names: set[str], tables: Sequence[Path]) -> None:
        """Keep the rows of other images that an earlier command wrote, of the same classes."""
        before, _, kinds = _noted(self.output / PREDICTIONS)
        noted = {self.output / name for name in before} if kinds == {self.kind} else set()
        if self.table in noted & {*tables}:
            header, *rows = _read_table(self.table) or [[]]
            self._kept = [row for row in rows if row[:1] and row[0] not in own]
            if self._kept and header != ["file", *self.predictor.columns]:
                raise self._of_others(self.table, "other columns")
        if self.output / _OBJECTS in noted & {*tables} and not _images_of(self.output / _OBJECTS) <= names:
            raise self._of_others(self.output / _OBJECTS, "other images")
        others = any(path.exists() for path in noted - self._names - {*tables})
        if others and _read_table(self.output / _IDS) not in ([], self._ids()):
            raise self._of_others(self.output / _IDS, "other classes")

    def _of_others(self, path: Path, found: str) -> DatasetError:
        return DatasetError(
            str(self.output),
            remedy="Choose another folder with -o",
            message=f"{path} tells of {found}, and predictions that it tells of would stay.",
        )

    def _ids(self) -> list[list[str]]:
        return [["id", "name", "r", "g", "b"], *(list(map(str, row)) for row in self.predictor.ids(self.style) or ())]

    def add(self, image: InputImage, prediction: Prediction) -> None:
        """Write the files of one prediction, and keep its rows for the table."""
        for end, data in prediction.files(self.style).items():
            path = self._path(image, end)
            path.parent.mkdir(parents=True, exist_ok=True)
            files.replace_whole(path, data)
        self.rows += [[image.where, *row] for row in prediction.rows()]
        self.drawn += prediction.drawn(self.style)
        if self.predictor.writes_objects:
            prediction.add_to(self._document, _file_name(image), self.style)

    def close(self) -> None:
        """Write the tables, however it ends."""
        if self.predictor.columns:
            write_table(self.table, [["file", *self.predictor.columns], *self._kept, *self.rows])
        if self.predictor.writes_objects:
            files.replace_whole(self.output / _OBJECTS, self._document.encoded().encode())
        if ids := self.predictor.ids(self.style):
            write_table(self.output / _IDS, self._ids())
            if self.output / _LEGEND not in self._names:  # an image may have that name
                files.replace_whole(self.output / _LEGEND, _legend(ids))
        finish_folder(self.output)

    def explain(self) -> str:
        """What was written, in a sentence."""
        return self.predictor.explain(str(self.table), len(self.rows), self.drawn, self.style)

    def _path(self, image: InputImage, end: str) -> Path:
        return self.output / f"{image.name}{end}.png"


def _file_name(image: InputImage) -> str:
    """The image's path below the folder that was named, as far as it is a file by itself."""
    suffix = image.place.suffix
    return f"{image.name}{suffix}" if is_image(image.place) and not image.name.endswith(suffix) else image.name


def _legend(ids: Sequence[Sequence[str]]) -> bytes:
    """Rows of id, name, red, green and blue as an image."""
    names = [f"{number} {name}" for number, name, *_ in ids]
    colors = np.array([[int(value) for value in row[2:]] for row in ids], np.uint8)
    return codecs.encode_png(drawing.legend(names, colors, _LEGEND_WIDTH))


def _conflict(image: InputImage, other: InputImage, file: Path) -> DatasetError:
    if file.resolve() == other.place.resolve():
        message = f"The prediction of {image.where} would overwrite the image {other.where}."
        remedy = "Choose another folder with -o"
    elif image.where == other.where:
        message, remedy = f"{image.where} is given twice.", "Name it once"
    else:
        message = f"The predictions of {image.where} and {other.where} would both be written to {file}."
        remedy = "Predict the two images into different folders"
    return DatasetError(image.where, remedy=remedy, message=message)
