"""Sections of docs/results.md: topics of Kafka."""

from __future__ import annotations

from results_text import about, span, table


def kafka(found: dict) -> list[str]:
    parts = [
        "## Kafka: throughput and time to the first batch",
        f"Records per second from {found['broker']}, on the loopback interface. The broker runs on the same cores as the "
        f"reader. {found['method']} A block is a number of consecutive records. Blocks are "
        "shuffled, then the records within a shuffle window of several blocks. Every pass of Penstock begins with an empty "
        "cache of blocks. The bare loop is one thread with the default "
        'settings of librdkafka. Penstock reads with several threads, and with the settings of docs/kafka.md, "Secrets and settings". The ratio '
        f"is a contender's rate divided by the rate of the bare loop, taken in each repeat; the table gives the median. {about(found)}",
    ]
    for size, contenders in found["rates"].items():
        rows = [
            [name, f"{v['records_per_second']['median']:,.0f}", span(v["of_the_bare_loop"])]
            for name, v in contenders.items()
        ]
        parts += [f"### Records of {size}", table(["reader", "records/s", "ratio to the bare loop (min to max)"], rows)]
    rows = [
        [place, f"{v['median']:.2f}", f"{min(v['repeats']):.2f} to {max(v['repeats']):.2f}"]
        for place, v in found["first"].items()
    ]
    parts += [
        "Seconds from opening a topic to the first batch of 16 records, for feeds that begin at the position in the first column. The topic holds "
        "100,000 records of 1 KB. Positions beyond that lie in later epochs.",
        table(["position", "median", "min to max"], rows),
    ]
    return parts


def kafka_settings(found: dict) -> list[str]:
    parts = [
        "## Kafka: the effect of each setting",
        "Each row changes one of Penstock's settings of librdkafka to the value shown. Most "
        f"of these values are the defaults of librdkafka. Where the range contains 1, the measurement shows no difference. {found['method']} The ratio to Penstock's settings is taken in "
        f"each repeat. The table gives the median of these ratios, which is not the ratio of the two medians. {about(found)}",
    ]
    for what, cases in {**found["reading"], **found["writing"]}.items():
        rows = [
            [
                f"{case} = {found['values'][case]}" if case in found["values"] else case,
                f"{v['value']['median']:,.0f}",
                span(v["ratio"]),
            ]
            for case, v in cases.items()
        ]
        unit = "peak memory, MiB" if "memory" in what else "records/s"
        parts.append(table([what, unit, "ratio (min to max)"], rows))
    return parts


def kafka_follow(found: dict) -> list[str]:
    kills = ", ".join(f"the {what} {count} times" for what, count in found["kills"].items())
    memory = found["memory"]
    return [
        "## Kafka: a topic that grows for ever",
        f"`{found['command']}`: a simulated camera sends 2 to 28 records a second to {found['nodes']} brokers for "
        f"{found['minutes']:g} minutes, while a training follows the topic with `--follow --replay-ratio 0.25`. Processes are "
        f"killed with SIGKILL: {kills}. Each of the {found['records']:,} frames is in the topic exactly once. {left(found)} "
        f"The training made {found['snapshots']:,} snapshots and {found['steps']:,} steps, and evaluated after every snapshot. "
        "A second training on the same snapshots without kills has the same weights, optimizer, EMA, metrics and origins, "
        "byte for byte.",
        f"The training process that lived longest ({memory['seconds']} s) used {memory['peak']:,} MiB at most. "
        f"The first quarter of that time is left out as warm-up. Of the rest, the mean memory was {memory['early']:,} MiB in the first half and {memory['late']:,} MiB "
        "in the second half.",
    ]


def left(found: dict) -> str:
    if not found["left"]:
        return "Each of them was trained on exactly once, apart from replayed records."
    return f"All but the last {found['left']}, which do not fill a batch, were trained on exactly once, apart from replayed records."


def kafka_memory(found: dict) -> list[str]:
    first, second, third = found["thirds_mib"]
    return [
        "## Kafka: memory while a topic is followed",
        f"`{found['command']}`: a training follows a topic of images of 480 x 640 pixels for {found['minutes']:g} minutes with "
        f"`--follow --replay-ratio 0.25`, without kills. It reads {found['received_mib']:,} MiB in {found['snapshots']} "
        "snapshots, several times the 256 MiB of blocks that it keeps. Its resident memory is sampled every 5 seconds. The "
        f"90th percentile is {first:,} MiB in the first third of the time, {second:,} MiB in the second and {third:,} MiB in the "
        f"last. All samples lie between {min(found['samples_mib']):,} and {max(found['samples_mib']):,} MiB. The highest are from "
        "evaluations on whole images.",
    ]


def kafka_camvid(found: dict) -> list[str]:
    return [
        f"## Kafka: CamVid from {found['nodes']} brokers",
        f"CamVid is published to {found['nodes']} brokers, in {found['partitions']} partitions with three replicas. One "
        f"training reads the topic, another one reads the shards, both with `{found['train']}`. {about(found)}",
        f"These files of the two runs are identical, byte for byte: {', '.join(found['identical'])}.",
    ]


def kafka_soak(found: dict) -> list[str]:
    kills = " and ".join(f"a {kind} {count} times" for kind, count in sorted(found["kills"].items()))
    return [
        "## Kafka: brokers and trainings killed",
        f"`{found['command']}`: a training from {found['nodes']} brokers makes {found['steps']:,} steps over "
        f"{found['epochs']:,} epochs in {found['seconds'] / 60:.0f} minutes. SIGKILL ends {kills}, at random moments. The run is "
        f"identical, byte for byte, to a run without kills: {found['identical']}. Every offset is read once in every epoch.",
    ]
