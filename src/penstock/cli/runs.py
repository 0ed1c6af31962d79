"""evaluate, predict, replay, report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from penstock import files
from penstock.datasets.listing import files as list_files
from penstock.datasets.listing import is_picture
from penstock.datasets.segmentation import is_masks_folder
from penstock.errors import DatasetError, ImageError, RunError
from penstock.images import codecs, drawing
from penstock.models import Views
from penstock.predict import Window, read_upright
from penstock.predict import predict as predict_mask
from penstock.progress import Progress, counted
from penstock.recipe import answers_name, evaluate_run, load_model, open_run
from penstock.report import answers_sheet, class_table, samples_sheet, write_report
from penstock.report.sheets import encode, telling_positions
from penstock.runs import RunFolder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from penstock.recipe import Trained

Paths = Annotated[
    list[Path], Parameter(help="Pictures, and folders of them; folders of masks beside folders of images are left out.")
]
Run = Annotated[Path, Parameter(help="A run folder.")]
Checkpoint = Annotated[str, Parameter(help="best, last, or step-NNNNNNNN; by default the best.")]
Overlap = Annotated[
    float,
    Parameter(validator=validators.Number(gte=0, lt=1), help="Share of a window that overlaps the next."),
]
_Count = validators.Number(gte=0)
Scales = Annotated[
    tuple[float, ...],
    Parameter(
        consume_multiple=True,
        negative=(),
        validator=lambda _, scales: validators.Number(gt=0, lte=8)(float, min(scales, default=1)),
        help="Look at each picture at these sizes too, and average the probabilities.",
    ),
]
Flip = Annotated[bool, Parameter(negative=(), help="Look at each picture in the mirror too.")]
Device = Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")]


def evaluate(
    run: Run, /, *, split: Annotated[str, Parameter(help="By default the one used in training.")] = "",
    checkpoint: Checkpoint = "", device: Device = "auto",
    pictures: Annotated[int, Parameter(validator=_Count, help="Answers to draw into the run's figures.")] = 6,
    scales: Scales = (1.0,), flip: Flip = False,
) -> None:  # fmt: skip
    """Score a run's model on a split, class by class."""
    trained = load_model(run, checkpoint, device).looking(Views(scales, flip))
    with Progress("evaluate", "pictures") as progress:
        found = evaluate_run(run, trained, split, progress)
    print(f"{found.split}, with the weights of step {found.step:,}: loss {found.loss:.4f}")
    print(class_table(found.scores.as_json()))
    if pictures:
        print(f"drawn {_draw_answers(run, trained, found.split, pictures)}")
    print(f"report {write_report(RunFolder(run))}")


def _draw_answers(run: Path, trained: Trained, split: str, count: int) -> Path:
    task, feed = trained.parts.evaluation(split)
    positions = telling_positions(task, feed, count)
    sheet = answers_sheet(task, trained.model, feed, positions, trained.device, trained.parts.recipe.train.precision)
    path = run / "figures" / f"answers-{answers_name(trained, split)}.png"
    files.replace_whole(path, encode(sheet))
    return path


def predict(
    run: Run, paths: Paths, /, *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])], checkpoint: Checkpoint = "", device: Device = "auto",
    window: Annotated[int, Parameter(validator=_Count, help="Slide a window of this side; 0: whole pictures.")] = 0,
    overlap: Overlap = 0.25, scales: Scales = (1.0,), flip: Flip = False,
) -> int:  # fmt: skip
    """Predict masks for pictures of any size.

    Writes NAME.png (class ids) and NAME-overlay.png for each; names those that cannot be read, and exits with 1 then.
    """
    trained = load_model(run, checkpoint, device).looking(Views(scales, flip))
    task, recipe = trained.parts.task, trained.parts.recipe
    pictures = _pictures(paths)
    _refuse_collisions(pictures, output)
    output.mkdir(parents=True, exist_ok=True)
    colors, skipped = drawing.palette(task.ignore), []
    with Progress("predict", "pictures") as progress:
        for done, (name, path) in enumerate(pictures, 1):
            try:
                pixels = read_upright(path.read_bytes(), str(path))
            except (ImageError, OSError) as error:
                skipped.append(str(error))
                continue
            ids = predict_mask(
                task, trained.model, pixels, device=trained.device, precision=recipe.train.precision,
                window=Window(window, overlap) if window else None,
            )  # fmt: skip
            _write(output, name, pixels, ids, colors)
            progress(done, len(pictures))
    print(*skipped, sep="\n", end="\n" * bool(skipped))
    print(f"predicted {len(pictures) - len(skipped)} of {counted(len(pictures), 'picture')} into {output}")
    print("NAME.png holds class ids, which look nearly black; NAME-overlay.png shows them")
    return 1 if skipped else 0


def _pictures(paths: list[Path]) -> list[tuple[str, Path]]:
    """The pictures to predict, with the names of their answers; folders are searched to the bottom."""
    found: list[tuple[str, Path]] = []
    for path in paths:
        if path.is_dir():
            inside = (entry for entry in list_files(path) if is_picture(entry) and not _is_mask(entry, path))
            found += [(entry.relative_to(path).with_suffix("").as_posix(), entry) for entry in inside]
        elif path.is_file():
            found.append((path.stem, path))
        else:
            raise DatasetError(str(path), expected="a picture or a folder", found="nothing", remedy="Check the path")
    if not found:
        raise DatasetError(
            ", ".join(map(str, paths)), expected="JPEG or PNG pictures", found="none", remedy="Check the path"
        )
    return found


def _is_mask(path: Path, folder: Path) -> bool:
    """Whether a file lies below `folder` in a folder of masks that has a folder of pictures beside it."""
    above = [
        folder.joinpath(*path.relative_to(folder).parts[:depth]) for depth in range(len(path.relative_to(folder).parts))
    ]
    return any(is_masks_folder(parent) for parent in above[1:])


def _outputs(output: Path, name: str) -> tuple[Path, Path]:
    return output / f"{name}.png", output / f"{name}-overlay.png"


def _refuse_collisions(pictures: list[tuple[str, Path]], output: Path) -> None:
    """No answer may take the place of another one, or of a picture."""
    taken = {path.resolve(): path for _, path in pictures}
    for name, path in pictures:
        for answer in _outputs(output, name):
            if (other := taken.setdefault(answer.resolve(), path)) is not path or answer.resolve() == path.resolve():
                raise DatasetError(
                    str(path),
                    expected="pictures whose answers go to files of their own",
                    found=f"that {answer} is wanted for {other} too",
                    remedy="Choose another folder with -o, or predict the pictures into two",
                )


def _write(
    output: Path, name: str, pixels: NDArray[np.uint8], ids: NDArray[np.uint8], colors: NDArray[np.uint8]
) -> None:
    mask, overlay = _outputs(output, name)
    mask.parent.mkdir(parents=True, exist_ok=True)
    files.replace_whole(mask, codecs.encode_mask(ids))
    files.replace_whole(overlay, encode(drawing.overlay(pixels, ids, colors)))


def replay(
    run: Run, /, *, step: Annotated[int, Parameter(help="From 1 on.")],
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="By default in the run's figures.")] = None,
) -> None:  # fmt: skip
    """Draw the pictures of any step of a run, exactly as the model saw them, and name their records."""
    parts = open_run(run)
    last, end = parts.recipe.train.steps, parts.plan.end
    if end is not None:
        last = min(last, end // parts.recipe.train.batch)
    if not 1 <= step <= last:
        raise RunError(str(run), expected=f"a step from 1 to {last}", found=str(step), remedy="Choose one of those")
    size = parts.recipe.train.batch
    positions = range((step - 1) * size, step * size)
    parts.hold(positions.start)
    sheet, records = samples_sheet(parts.task, parts.training_feed(), positions)
    path = output or run / "figures" / f"step-{step:08d}.png"
    files.replace_whole(path, encode(sheet))
    for position, record in zip(positions, records, strict=True):
        print(f"{position}  {record}")
    print(f"drawn {path}")


def report(run: Run, /) -> None:
    """Gather a run on one page, report.html."""
    print(f"report {write_report(RunFolder.open(run))}")
