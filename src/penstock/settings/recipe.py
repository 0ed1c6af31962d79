"""`Recipe`: all that decides a training, as one frozen value. TOML files and the command line only fill it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from penstock.bounds import Count, Fraction, Seconds, Switch
from penstock.settings.augment import Augment
from penstock.settings.model import Model
from penstock.settings.objective import Objective
from penstock.settings.optimizer import SGD, AnyOptimizer
from penstock.settings.regularize import Regularize
from penstock.settings.task import TaskSettings


@dataclass(frozen=True)
class DataSettings:
    """What is learnt from.

    Attributes:
        path: Packed dataset, or a topic: kafka://HOST:PORT/TOPIC.
        train, validation: Training split and validation split. Several are joined with "+": "train+extra". An empty
            `validation` disables evaluation.
        block, shuffle_window: Shuffle: blocks of `block` consecutive records are shuffled globally, and records are
            then shuffled within windows of `shuffle_window` blocks. If both are 1, single records are shuffled
            globally. 0 is the default of topics: Penstock chooses the size when a run begins, so that reading is fast.
        repeat_threshold: Class-balanced sampling, by repeat factors (Gupta et al. 2019): images of a class that fewer
            than this fraction of the training images have come sqrt(threshold / fraction) times in an epoch. 1 balances
            most, 0 not at all.
        limit: Largest number of records of each split that training and its evaluations use, to try something on a
            part; 0 uses all. `penstock evaluate` always uses all.
        start, until: Part of a topic: "earliest" (or ""), a time (ISO 8601, in UTC unless it has a zone), or offsets
            such as "0:100,1:250".
    """

    path: str = ""
    train: str = "train"
    validation: str = "val"
    block: Annotated[int, Meta(ge=0, le=1 << 30)] = 1
    shuffle_window: Count = 1
    repeat_threshold: Fraction = 0.0
    limit: Switch = 0
    start: str = ""
    until: str = ""


@dataclass(frozen=True)
class Train:
    """How long, how fast, and what is kept.

    Attributes:
        steps: Optimizer steps. By default 100 epochs, but at least 1,000 and at most 20,000 steps.
        epochs: Passes over the training split, from which `steps` is computed; 0 trains for `steps`.
        batch: Images in a global batch, over all ranks.
        accumulate: Gradient accumulation: micro-batches of a rank in each step, to save memory.
        halve_on_oom: Compute batches in micro-batches half as large each time that memory runs out, instead of ending.
            The average over the batch stays the same, but batch normalisation sees fewer images at a time.
        evaluate_every, save_every: Steps between evaluations and between checkpoints.
        patience: Early stopping: evaluations in a row without a better score after which training stops; 0 never stops
            early.
        save_minutes: Longest time between checkpoints in minutes; 0 saves by steps only.
        async_save: Write checkpoints in a thread while training goes on; takes memory for a copy of what is saved.
        keep: Checkpoints to keep, besides the best one.
        nonfinite: What becomes of a step whose loss or gradients are not finite: "stop" ends training, "skip" leaves
            the step out, "rewind" goes back to the last checkpoint and then leaves it out.
        nonfinite_limit: Steps of a run that may be left out because of `nonfinite`.
        grad_clip: Gradient clipping: largest norm of the gradient of all weights; 0 does not clip.
        precision: Precision: "bfloat16" computes with torch.autocast, and needs less memory.
        ema_decay: Decay of the exponential moving average (EMA) of the weights, which is then evaluated; 0 keeps none.
        sliding_window: Side in pixels of the sliding window for images that are too large to be evaluated whole; 0
            evaluates whole images.
        compile: Compile the model with torch.compile.
        activation_checkpointing: Activation checkpointing: compute the activations of each block again in the backward
            pass instead of keeping them. Saves memory, and takes about a third more time.
        fsdp: Fully sharded data parallel (FSDP2): each rank of torchrun holds a part of the weights, gradients and
            optimizer states, to save memory.
        freeze_bn: Freeze the running statistics of batch normalisation: for small batches and pretrained weights.
        freeze_backbone: Freeze the backbone, with the running statistics of its batch normalisation.
        sync_bn: Compute the statistics of batch normalisation over all ranks, where there are several.
        deterministic: Use deterministic CUDA kernels.
        device: Device: "auto", "cpu", "cuda", "cuda:1", "mps".
        num_threads: Threads that decode images; 0 takes one per core.
        stall_timeout: Seconds to wait for a batch before training fails, with the records that do not come and the
            stacks of the threads that read them; 0 waits without end.
        retries: Retries in a row, without a new step between them, after failures that may pass, such as a broker or a
            network disk that does not answer. For several ranks, torchrun --max-restarts does that.
        log_every: Steps between log lines. A line is also printed every 30 seconds.
        metrics: Custom metrics beside the metric of the task: FILE.py:NAME or package.module:NAME.
        best_metric: Score that decides which checkpoint is best; "" for that of the task.
        log_origins: Write origins.jsonl: for every step the identifiers of its records, FILE#INDEX or
            TOPIC/PARTITION#OFFSET.
    """

    steps: Count = 20_000
    epochs: Annotated[float, Meta(ge=0, le=1_000_000)] = 0.0
    batch: Count = 16
    accumulate: Count = 1
    halve_on_oom: bool = False
    evaluate_every: Count = 1000
    save_every: Count = 1000
    patience: Switch = 0
    save_minutes: Seconds = 5.0
    async_save: bool = True
    keep: Count = 2
    nonfinite: Literal["stop", "skip", "rewind"] = "stop"
    nonfinite_limit: Count = 10
    grad_clip: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    precision: Literal["float32", "bfloat16"] = "float32"
    ema_decay: Annotated[float, Meta(ge=0, le=0.999999)] = 0.0
    sliding_window: Annotated[int, Meta(ge=0, le=1 << 20)] = 0
    compile: bool = False
    activation_checkpointing: bool = False
    fsdp: bool = False
    freeze_bn: bool = False
    freeze_backbone: bool = False
    sync_bn: bool = True
    deterministic: bool = False
    device: str = "auto"
    num_threads: Annotated[int, Meta(ge=0, le=1024)] = 0
    stall_timeout: Seconds = 1800.0
    retries: Switch = 0
    log_every: Count = 50
    metrics: tuple[str, ...] = ()
    best_metric: str = ""
    log_origins: bool = False


@dataclass(frozen=True)
class Follow:
    """Training on a topic as it grows, snapshot after snapshot, each passed over once and then evaluated.

    Attributes:
        on: Follow the topic.
        records: Number of new records after which the next snapshot is taken.
        seconds: Longest wait in seconds. After it the next snapshot is taken with fewer new records, if they fill a
            batch.
        replay_ratio: Fraction of every batch, from 0 to 0.75, that is drawn from records of earlier snapshots.
        idle_timeout: Seconds without a new snapshot after which training ends; 0 waits without end.
        group: Consumer group to commit the trained offsets to, for dashboards that show its lag. Penstock
            never reads offsets from it.
    """

    on: bool = False
    records: Count = 1000
    seconds: Seconds = 60.0
    replay_ratio: Annotated[float, Meta(ge=0, le=0.75)] = 0.0
    idle_timeout: Seconds = 0.0
    group: str = ""

    def mixed(self, batch: int) -> int:
        """How many samples of a batch are older records."""
        return min(batch - 1, max(1, round(self.replay_ratio * batch))) if self.replay_ratio else 0


@dataclass(frozen=True)
class Recipe:
    """A training. Two runs of equal recipes on equal data, machines and ranks are equal.

    Attributes:
        seed: Random seed of order, augmentation, initial weights and dropout.
        init: Run or safetensors file whose weights training starts from. Its classes may differ from the dataset's.
        strict: Refuse `init` if weights other than those of the last layer are missing or unexpected.
        task: Task: segmentation, matting, classification, detection, instances, volumes, FILE.py:NAME or
            package.module:NAME; "" is the task of the dataset.
        task_options: Settings of a custom task.
        hooks: Hooks of training, on every rank: names, or tables with a `name` and settings (profiler,
            keep_best, FILE.py:NAME or package.module:NAME).
    """

    seed: int = 0
    init: str = ""
    strict: bool = True
    task: str = ""
    task_options: dict[str, Any] = field(default_factory=dict)
    hooks: tuple[str | dict[str, Any], ...] = ()
    data: DataSettings = field(default_factory=DataSettings)
    follow: Follow = field(default_factory=Follow)
    model: Model = field(default_factory=Model)
    augment: Augment = field(default_factory=Augment)
    regularize: Regularize = field(default_factory=Regularize)
    loss: Objective = field(default_factory=Objective)
    optimizer: AnyOptimizer = field(default_factory=SGD)
    train: Train = field(default_factory=Train)

    @property
    def task_settings(self) -> TaskSettings:
        """The sections that a task is made from."""
        return TaskSettings(self.model, self.augment, self.regularize, self.loss, self.task_options)
