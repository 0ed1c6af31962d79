"""Sections of docs/results.md: records, their order, and the feed."""

from __future__ import annotations

from results_text import about, span, table


def feed(found: dict) -> list[str]:
    parts = [
        "## The feed beside its peers",
        f"Images per second from the same JPEG bytes on the same cores. Every contender runs in a process of its own. "
        f"{found['method']} The ratio is Penstock's rate divided by the contender's rate, taken in each repeat. The table gives the median of these ratios, which is not the ratio of the two medians. The last row "
        f"are the calls of native libraries that Penstock's feed makes, with the same arguments, and nothing else. {about(found)}",
    ]
    for key, scenario in found["scenarios"].items():
        ratios = scenario["penstock_is_times"]
        rows = [
            [name, f"{values['median']:,.0f}", span(ratios[name]) if name in ratios else ""]
            for name, values in scenario["images_per_second"].items()
        ]
        parts += [f"### ({key}) {scenario['what']}", table(["feed", "images/s", "ratio (min to max)"], rows)]
    return parts


def stages(found: dict) -> list[str]:
    cases = found["scenarios"]
    names = list(max((each["microseconds"] for each in cases.values()), key=len))
    rows = [
        [
            name,
            *(f"{each['microseconds'][name]:,.0f}" if name in each["microseconds"] else "" for each in cases.values()),
        ]
        for name in names
    ]
    rows.append(["all", *(f"{sum(each['microseconds'].values()):,.0f}" for each in cases.values())])
    for name in next(iter(cases.values()))["images_per_second"]:
        medians = (each["images_per_second"][name]["median"] for each in cases.values())
        rows.append([f"images/s, {name}", *(f"{median:,.0f}" for median in medians)])
    rows.append(["two threads are times one", *(span(each["two_are_times_one"]) for each in cases.values())])
    return [
        "## The account of a sample",
        f"Microseconds of each stage of the feed on one thread, medians of {found['samples']} samples, and what one and two "
        f"threads feed. {about(found)}",
        table(["stage", *(f"({key}) {each['what']}" for key, each in cases.items())], rows),
    ]


def small(found: dict) -> list[str]:
    rows = [
        [name, *(f"{each[what]['median']:,.0f}" for what in ("gathered", "one by one")), span(each["ratio"])]
        for name, each in found["rows"].items()
    ]
    return [
        "## Small images",
        f"{found['records']:,} images of 32 x 32 as PNG, padded by 4 pixels, cropped and flipped: images per second from the second "
        f"epoch on, gathered from decoded records, and one by one. The bytes are the same. {about(found)}",
        table(["", "gathered", "one by one", "ratio (min to max)"], rows),
    ]


def threads(found: dict) -> list[str]:
    first, second = (place for place in next(iter(found["rows"].values())) if place != "ratio")
    rows = [
        [name, *(f"{each[place]['median']:,.0f}" for place in (first, second)), span(each["ratio"])]
        for name, each in found["rows"].items()
    ]
    return [
        "## Where the threads of a feed live",
        "Images per second of random resized crops of 224, with two threads, from photographs of 375 x 500. Between two batches of 16 the "
        "training thread waits, or works for 10 ms: computes as a training step does, or holds the interpreter's lock. The second feed "
        f"runs in a fork, and hands batches over in shared memory. {about(found)}",
        table(["the training thread", first, second, "ratio (min to max)"], rows),
    ]


def packing(found: dict) -> list[str]:
    rows = [[name, f"{each['median']:,.0f}"] for name, each in found["rows"].items()]
    return [
        "## Packing",
        f"{found['images']:,} photographs of 1024 x 1024 with eight outlines each in COCO's JSON: images per second, inspected and "
        f"packed for each task, and decoded once without anything else, on all cores. {about(found)}",
        table(["", "images/s"], rows),
    ]


def safety(found: dict) -> list[str]:
    def rows(cases: dict) -> list[list[str]]:
        return [[name, f"{v['rate']['median']:,.0f}", span(v["ratio"])] for name, v in cases.items()]

    parts = [
        "## The cost of two safeguards",
        "The memory of a batch is reused only when nothing refers to the batch. After every read of a block of a Kafka topic, the id "
        "of the topic is compared with the id in the snapshot, because a topic can be deleted and created anew. The variants "
        f"take turns in one process. The ratio to the first variant is taken in each round; the table gives the median. {about(found)}",
        table(
            ["memory of batches of 16 crops of 321 x 321 pixels", "samples/s", "ratio (min to max)"],
            rows(found["memory"]),
        ),
    ]
    for how, cases in found["topics"].items():
        parts.append(table([f"4,000 records of 100 KB, {how}", "records/s", "ratio (min to max)"], rows(cases)))
    return parts


def records(found: dict) -> list[str]:
    same = found["identical"]
    theirs = ", ".join(f"{count} {kind}" for kind, count in same["we_read_tensorflows"].items())
    return [
        "## TFRecord files from and to TensorFlow",
        f"TensorFlow's `TFRecordDataset` and `parse_single_example` read all {same['tensorflow_reads_ours']} records that "
        f"Penstock wrote. Penstock read all records that `TFRecordWriter` wrote ({theirs}). Images and masks are compared by "
        f"SHA-256. {about(found)}",
    ]


def order(found: dict) -> list[str]:
    rows = [[name, f"{values['median']:.1f}"] for name, values in found["microseconds_per_at"].items()]
    starts = [[f"`{name}`", f"{values['median']:.2f}"] for name, values in found["seconds_to_start"].items()]
    return [
        "## Time to compute an order, and to start",
        "The first table gives the time to compute the record at one position. A full shuffle permutes all records. With blocks of 16 "
        "consecutive records, the blocks are shuffled, then the records within windows of 64 blocks. "
        f"{about(found)}",
        table(["`Plan.at(position)` for", "microseconds"], rows),
        table(["command", "seconds"], starts),
    ]
