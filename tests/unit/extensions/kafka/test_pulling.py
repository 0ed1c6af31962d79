from __future__ import annotations


def test_what_is_pulled_from_a_topic_counts_as_what_was_packed(packed, tmp_path):
    """Pixels of every class, and those of the images that it occurs in, which class weights are made of."""
    from penstock.extensions.kafka import About, FakeLog, TopicAddress, TopicDataset
    from penstock.extensions.kafka.pulling import pull

    log, split = FakeLog("t"), packed.description.splits["train"]
    about = [("penstock-dataset", About.of(packed.description, split).encoded())]
    source = packed.source("train")
    for part in source.snapshot().partitions:
        for record in source.read(part.name, 0, len(part)):
            log.append(record.payload, headers=about)
    pulled = pull(TopicDataset(TopicAddress("h", "t"), open_log=lambda _: log), tmp_path / "pulled")
    found = pulled.description.splits["train"]

    assert found.records == split.records
    assert found.per_class == split.per_class
    assert found.image_pixels == split.image_pixels
    assert sum(found.image_pixels) > sum(found.per_class) > 0
    assert (found.height, found.width) == (split.height, split.width)
