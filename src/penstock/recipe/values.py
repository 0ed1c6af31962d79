"""`Recipe`: all that decides a training, as one frozen value. TOML files and the command line only fill it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from penstock.models import DeepLab
from penstock.session import OptimizerSpec
from penstock.tasks import Augment, Objective, Regularize


@dataclass(frozen=True)
class Data:
    """What is learnt from.

    Attributes:
        path: a folder that penstock pack made, or a topic, kafka://HOST:PORT/TOPIC.
        train, validation: names of its splits; an empty validation evaluates nothing.
        block, window: the shuffle; 1 and 1 is a true global one. A block of 0 is chosen when a run begins: 1 for
            shards, and for a topic as many records as are read well at once.
        start, until: of a topic: "earliest" (or ""), a time, or offsets such as "0:100,1:250".
    """

    path: str = ""
    train: str = "train"
    validation: str = "val"
    block: int = 1
    window: int = 1
    start: str = ""
    until: str = ""


@dataclass(frozen=True)
class Model:
    """What learns.

    Attributes:
        name: of segmentation, ARCHITECTURE:BACKBONE; of classification, a backbone alone.
        weights: of the backbone: "pretrained", "none" or a file.
        deeplab: the parts of `deeplab:BACKBONE`.
    """

    name: str = "deeplabv3plus:resnet50"
    weights: str = "pretrained"
    deeplab: DeepLab = field(default_factory=DeepLab)


@dataclass(frozen=True)
class Train:
    """How long, how fast, and what is kept.

    Attributes:
        steps: optimizer steps.
        batch: pictures in a global batch, over all ranks.
        accumulate: micro-batches that a rank's share is cut into, to save memory.
        evaluate_every, save_every: steps between evaluations and between checkpoints.
        save_minutes: a checkpoint is also saved when this long has passed; 0 counts steps alone.
        keep: checkpoints to keep, besides the best.
        precision: "bfloat16" computes in half the memory, by autocast.
        average: decay of the moving average of the weights; 0 keeps none. Where there is one, it is evaluated.
        window: side of a window that slides over the pictures that are evaluated, for those too large to be seen whole;
            0 shows them whole.
        compile: whether the model goes through torch.compile.
        frozen_norms: whether batch normalisation keeps the statistics it has: for small batches, on weights that were
            trained before.
        frozen_backbone: whether only what lies behind the backbone learns; its norms keep their statistics too.
        sync_norms: whether batch normalisation takes its statistics from all ranks' pictures together.
        deterministic: whether CUDA must use deterministic kernels.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        feed_threads: threads that decode; 0 takes one for every core.
        log_every: steps between printed lines; half a minute has a line too.
        profile_every: steps between traces of one, in the run's folder `profiles`; 0 records none.
        log_origins: whether the origin of every record of every step is written to the run folder.
    """

    steps: int = 20_000
    batch: int = 16
    accumulate: int = 1
    evaluate_every: int = 1000
    save_every: int = 1000
    save_minutes: float = 5.0
    keep: int = 2
    precision: Literal["float32", "bfloat16"] = "float32"
    average: float = 0.0
    window: int = 0
    compile: bool = False
    frozen_norms: bool = False
    frozen_backbone: bool = False
    sync_norms: bool = False
    deterministic: bool = False
    device: str = "auto"
    feed_threads: int = 0
    log_every: int = 50
    profile_every: int = 0
    log_origins: bool = False


@dataclass(frozen=True)
class Follow:
    """Training on a topic as it grows, snapshot after snapshot, each passed over once and then evaluated.

    Attributes:
        on: whether to follow.
        records: how many new records make a snapshot.
        seconds: after this long fewer make one too, if they fill a batch.
        older: share of every batch, from 0 to 0.75, that is drawn again from records of earlier snapshots.
        patience: seconds without a new snapshot after which training ends; 0 waits for ever.
        group: a consumer group that is told what was trained on, for dashboards that show its lag; nothing reads it.
    """

    on: bool = False
    records: int = 1000
    seconds: float = 60.0
    older: float = 0.0
    patience: float = 0.0
    group: str = ""

    def mixed(self, batch: int) -> int:
        """How many samples of a batch are older records."""
        return min(batch - 1, max(1, round(self.older * batch))) if self.older else 0


@dataclass(frozen=True)
class Recipe:
    """A training. Two runs of equal recipes on equal data, machines and ranks are equal.

    Attributes:
        seed: of order, augmentation, initial weights and randomness inside the model.
        init: a run to take weights from, perhaps with other classes; "" for none.
        init_partial: whether the run may lack weights of the model, or have others, beside those of the last layer.
    """

    seed: int = 0
    init: str = ""
    init_partial: bool = False
    data: Data = field(default_factory=Data)
    follow: Follow = field(default_factory=Follow)
    model: Model = field(default_factory=Model)
    augment: Augment = field(default_factory=Augment)
    regularize: Regularize = field(default_factory=Regularize)
    loss: Objective = field(default_factory=Objective)
    optimizer: OptimizerSpec = field(default_factory=OptimizerSpec)
    train: Train = field(default_factory=Train)
