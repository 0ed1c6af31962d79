"""predict."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter, validators

from penstock import files
from penstock.cli.answers import own_folder, write_table, written_ids
from penstock.cli.pictures import find
from penstock.cli.runs import Checkpoint, Device, Flip, Overlap, Run, Scales, Shift, Side, chosen_window
from penstock.cli.volumes import predict_volumes
from penstock.datasets.listing import files as list_files
from penstock.errors import DatasetError, ImageError, RecipeError
from penstock.images import codecs, drawing
from penstock.images.volumes import is_volume
from penstock.models import Views, Window
from penstock.models.windows import OVERLAP
from penstock.predict import classify, find_boxes, predict_mask, predict_matte
from penstock.progress import Progress, counted
from penstock.recipe import load_model
from penstock.report.sheets import encode
from penstock.tasks import Classification, Detection, Matting, Segmentation
from penstock.tasks.detect import SHOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from penstock.cli.pictures import Picture
    from penstock.recipe import Trained

Paths = Annotated[
    list[Path],
    Parameter(
        help="Pictures, folders and lists (.txt) of them, films, - for one from standard input; folders of masks "
        "beside folders of images are left out.",
    ),
]
Score = Annotated[
    float,
    Parameter(validator=validators.Number(gte=0, lt=1), help="Of detectors: draw boxes that score above this."),
]
_TABLE: Final = "predictions.csv"
_COLORS: Final = 3
_LEGIBLE: Final = 480  # pixels of a side that words have room on; smaller pictures are drawn enlarged
_NO_MASKS: Final = "the run did not learn to make masks"
_NAMED: Final = 5  # classes of each picture in it


def predict(
    run: Run, paths: Paths, /, *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])], checkpoint: Checkpoint = "", device: Device = "auto",
    window: Side = None, overlap: Overlap = OVERLAP, scales: Scales = (1.0,), flip: Flip = False, shift: Shift = 0,
    labels: Annotated[Path | None, Parameter(help="Of NIfTI volumes: where true labels are, to score against.")] = None,
    ids: Annotated[Literal["classes", "original"], Parameter(help="original: those of the raw masks.")] = "classes",
    palette: Annotated[Literal["distinct", "voc", "cityscapes", "ade20k"], Parameter(help="Of colours.")] = "distinct",
    color: Annotated[bool, Parameter(negative=(), help="Write NAME-color.png too: ids in colour.")] = False,
    score: Score = SHOWN,
) -> int:  # fmt: skip
    """Predict masks, classes or boxes for pictures of any size, or labels for NIfTI volumes.

    Masks: NAME.png (class ids) and NAME-overlay.png for each picture; classes: predictions.csv; boxes: predictions.csv
    and NAME-boxes.png; volumes: CASE.nii.gz in their own geometry. Names pictures that cannot be read, and exits with
    1 then.
    """
    trained = load_model(run, checkpoint, device).looking(Views(scales, flip, shift))
    look = _Look(chosen_window(trained, window, overlap), ids == "original", palette, color, score)
    if any(is_volume(path) for path in _files(paths)):
        _refuse_looks(replace(look, original=False, window=None), "NIfTI volumes are segmented slice by slice")
        return predict_volumes(trained, paths, output, labels, window=look.window, original=look.original)
    if labels:
        raise RecipeError(
            "--labels", expected="NIfTI volumes to score", found="pictures", remedy="Use penstock evaluate for a split"
        )
    pictures = find(paths)
    answers = _answers(trained, pictures, output, look)
    skipped = []
    with Progress("predict", "pictures") as progress, contextlib.closing(answers):
        for done, picture in enumerate(pictures, 1):
            try:
                pixels = picture.read()
            except (ImageError, OSError) as error:
                skipped.append(str(error))
            else:
                answers.add(picture, pixels)
            progress(done, len(pictures))
    print(*skipped, sep="\n", end="\n" * bool(skipped))
    print(f"predicted {len(pictures) - len(skipped)} of {counted(len(pictures), 'picture')} into {output}")
    print(answers.said())
    return 1 if skipped else 0


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        yield from list_files(path) if path.is_dir() else [path]


@dataclass(frozen=True)
class _Look:
    """How masks are made and written, and which boxes are drawn."""

    window: Window | None = None
    original: bool = False
    palette: str = "distinct"
    color: bool = False
    score: float = SHOWN


def _refuse_looks(look: _Look, reason: str) -> None:
    options = {
        "window": "--window",
        "original": "--ids",
        "palette": "--palette",
        "color": "--color",
        "score": "--score",
    }
    plain = _Look()
    if given := [option for name, option in options.items() if getattr(look, name) != getattr(plain, name)]:
        found = "them" if len(given) > 1 else "it"
        raise RecipeError(
            ", ".join(given), expected=f"no such option, as {reason}", found=found, remedy=f"Leave {found} out"
        )


class _Masks:
    """Writes NAME.png and NAME-overlay.png."""

    def __init__(self, trained: Trained, task: Segmentation, output: Path, look: _Look) -> None:
        self.trained, self.task, self.output, self.look = trained, task, output, look
        self.colors = drawing.palette_of(look.palette, task.ignore)
        self.ids = written_ids(trained.parts.dataset.description, original=look.original)

    def add(self, picture: Picture, pixels: NDArray[np.uint8]) -> None:
        ids = predict_mask(
            self.task, self.trained.model, pixels, device=self.trained.device,
            precision=self.trained.parts.recipe.train.precision, window=self.look.window,
        )  # fmt: skip
        mask, overlay, color = _outputs(self.output, picture.name)
        mask.parent.mkdir(parents=True, exist_ok=True)
        files.replace_whole(mask, codecs.encode_mask(self.ids[ids]))
        if self.look.color:
            files.replace_whole(color, encode(drawing.colorize(ids, self.colors)))
        files.replace_whole(overlay, encode(drawing.overlay(pixels, ids, self.colors)))

    def close(self) -> None:
        """Every picture is written when it is answered."""

    def said(self) -> str:
        return "NAME.png holds class ids, which look nearly black; NAME-overlay.png shows them"


class _Mattes:
    """Writes NAME.png and NAME-overlay.png."""

    def __init__(self, trained: Trained, task: Matting, output: Path, look: _Look) -> None:
        self.trained, self.task, self.output, self.look = trained, task, output, look

    def add(self, picture: Picture, pixels: NDArray[np.uint8]) -> None:
        shares = predict_matte(
            self.task, self.trained.model, pixels, device=self.trained.device,
            precision=self.trained.parts.recipe.train.precision, window=self.look.window,
        )  # fmt: skip
        matte, overlay, _ = _outputs(self.output, picture.name)
        matte.parent.mkdir(parents=True, exist_ok=True)
        files.replace_whole(matte, codecs.encode_mask(shares))
        files.replace_whole(overlay, encode(drawing.composed(pixels, shares)))

    def close(self) -> None:
        """Every picture is written when it is answered."""

    def said(self) -> str:
        return "NAME.png holds the foreground's share, white for all of it; NAME-overlay.png lays it over green"


class _Classes:
    """Writes a table."""

    def __init__(self, trained: Trained, task: Classification, output: Path) -> None:
        self.trained, self.task, self.output = trained, task, output
        self.rows: list[list[str]] = []

    def add(self, picture: Picture, pixels: NDArray[np.uint8]) -> None:
        trained = self.trained
        precision = trained.parts.recipe.train.precision
        found = classify(self.task, trained.model, pixels, device=trained.device, precision=precision)
        best = found.argsort()[::-1][:_NAMED]
        self.rows.append([picture.where, *(cell for i in best for cell in (self.task.classes[i], f"{found[i]:.6f}"))])

    def close(self) -> None:
        ranks = range(1, min(_NAMED, len(self.task.classes)) + 1)
        header = ["file", *(cell for rank in ranks for cell in (f"class{rank}", f"probability{rank}"))]
        write_table(self.output / _TABLE, [header, *self.rows])

    def said(self) -> str:
        return f"{self.output / _TABLE} holds the most likely classes of every picture, the likeliest first"


class _Boxes:
    """Writes a table of boxes, and NAME-boxes.png."""

    def __init__(self, trained: Trained, task: Detection, output: Path, score: float) -> None:
        self.trained, self.task, self.output, self.score = trained, task, output, score
        self.rows: list[list[str]] = []
        self.drawn = 0

    def add(self, picture: Picture, pixels: NDArray[np.uint8]) -> None:
        trained = self.trained
        precision = trained.parts.recipe.train.precision
        found = find_boxes(self.task, trained.model, pixels, device=trained.device, precision=precision)
        sure = found["scores"] > self.score
        self.drawn += int(sure.sum())
        names = [self.task.classes[label] for label in found["labels"].tolist()]
        self.rows += [
            [picture.where, label, f"{score:.6f}", *(f"{edge:.2f}" for edge in box)]
            for label, score, box in zip(names, found["scores"].tolist(), found["boxes"].tolist(), strict=True)
        ]
        words = [f"{label} {score:.0%}" for label, score, on in zip(names, found["scores"], sure, strict=True) if on]
        scale = max(1, round(_LEGIBLE / max(pixels.shape[:2])))
        image = drawing.enlarge(pixels, scale)
        drawn = drawing.boxes(image, scale * found["boxes"][sure], found["labels"][sure], words)
        path = self.output / f"{picture.name}-boxes.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace_whole(path, encode(drawn))

    def close(self) -> None:
        write_table(self.output / _TABLE, [["file", "class", "score", "xmin", "ymin", "xmax", "ymax"], *self.rows])

    def said(self) -> str:
        return (
            f"{self.output / _TABLE} holds all {counted(len(self.rows), 'box')}, in pixels; NAME-boxes.png shows the "
            f"{self.drawn:,} that score above {self.score:g}"
        )


def _answers(
    trained: Trained, pictures: list[Picture], output: Path, look: _Look
) -> _Masks | _Mattes | _Classes | _Boxes:
    task, many = trained.parts.task, trained.parts.dataset.description.modalities
    if isinstance(task, Segmentation) and (many > 1 or task.channels != _COLORS):
        raise RecipeError(
            "penstock predict",
            expected=f"NIfTI volumes, as the run learnt slices of {counted(many or task.channels, 'modality')}",
            found="pictures",
            remedy="Name volumes",
        )
    if isinstance(task, Detection):
        _refuse_looks(replace(look, score=SHOWN), _NO_MASKS)
        _claim(pictures, output, ("-boxes",), table=True)
        return _Boxes(trained, task, output, look.score)
    if look.score != SHOWN:
        raise RecipeError("--score", expected="a run that finds boxes", found="another", remedy="Leave it out")
    if isinstance(task, Matting):
        _refuse_looks(replace(look, window=None), "the run learnt shares, which have no ids or colours")
        _claim(pictures, output, ("", "-overlay"))
        return _Mattes(trained, task, output, look)
    if isinstance(task, Segmentation):
        _claim(pictures, output, ("", "-overlay", "-color")[: 3 if look.color else 2])
        return _Masks(trained, task, output, look)
    _refuse_looks(look, _NO_MASKS)
    if isinstance(task, Classification):
        _claim(pictures, output, (), table=True)
        return _Classes(trained, task, output)
    raise RecipeError(
        "penstock predict", expected="NIfTI volumes, as the run learnt them", found="pictures", remedy="Name volumes"
    )


def _outputs(output: Path, name: str) -> tuple[Path, Path, Path]:
    return output / f"{name}.png", output / f"{name}-overlay.png", output / f"{name}-color.png"


def _claim(pictures: list[Picture], output: Path, ends: tuple[str, ...], *, table: bool = False) -> None:
    """No answer may take the place of another one, of a picture, or of anything else."""
    taken = {picture.place.resolve(): picture for picture in pictures}
    for picture in pictures:
        for answer in (output / f"{picture.name}{end}.png" for end in ends):
            other = taken.setdefault(answer.resolve(), picture)
            if other is not picture or answer.resolve() == picture.place.resolve():
                raise DatasetError(
                    picture.where,
                    expected="pictures whose answers go to files of their own",
                    found=f"that {answer} is wanted for {other.where} too",
                    remedy="Choose another folder with -o, or predict the pictures into two",
                )
    answers = (output / f"{picture.name}{end}.png" for picture in pictures for end in ends)
    own_folder(output, itertools.chain([output / _TABLE] * table, answers))
