"""How images are normalised: as a backbone was trained, or by the data's own mean and deviation."""

from __future__ import annotations

from penstock.datasets.description import Description
from penstock.errors import RecipeError
from penstock.images import PixelFormat
from penstock.models import Normalization
from penstock.settings import TaskSettings


def usual_values(statistics: Normalization | None, pixel_format: PixelFormat) -> tuple[int, int] | None:
    """The lowest and the highest value of most pixels; None where images are not normalised by the data's own."""
    return statistics.usual_values(pixel_format.highest) if statistics else None


def of_data(settings: TaskSettings, described: Description) -> Normalization | None:
    """The normalisation of a dataset, where `model.normalization` asks for it; else None.

    Raises:
        RecipeError: the dataset does not state its mean.
    """
    if settings.model.normalization != "data":
        return None
    if not described.mean:
        raise RecipeError(
            "model.normalization",
            expected="a dataset that states the mean of its pixels",
            found="one that does not",
            remedy="Pack the dataset again, or leave this setting out",
        )
    return Normalization(described.mean, described.std)
