"""Where a batch begins and ends, against a real node and without a JVM."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratamq.client import TopicPartition
from stratamq.spark.failures import DataLoss
from stratamq.spark.lookups import SeenTopics, cut, within
from stratamq.spark.options import read_options
from tests.spark.conftest import Talk

PLACE = TopicPartition("orders", 0)


def test_an_offset_outside_the_log() -> None:
    assert within(5, PLACE, 3, 9, strict=True) == 5
    assert within(9, PLACE, 3, 9, strict=True) == 9
    assert [within(offset, PLACE, 3, 9, strict=False) for offset in (0, 12)] == [3, 9]
    for offset in (2, 10):
        with pytest.raises(DataLoss, match=f"orders-0: offset {offset} was to be read"):
            within(offset, PLACE, 3, 9, strict=True)


def test_cuts(new_topic: Callable[..., str], talk: Talk) -> None:
    topic = new_topic(partitions=1)
    place = TopicPartition(topic, 0)
    talk.send_values(topic, 0, [str(i) for i in range(10)])
    talk.run(lambda client: client.delete_records(place, 2))

    def found(**options: str) -> tuple[int, int]:
        said = {"servers": talk.address, "topic": topic, **options}
        asked = read_options(said, streaming=False)
        cuts: dict[TopicPartition, tuple[int, int]] = talk.run(
            lambda client: cut(client, asked, SeenTopics((place,), {}))
        )
        return cuts[place]

    def at(offset: int) -> str:
        return f'{{"{topic}": {{"0": {offset}}}}}'

    assert found() == (2, 10)
    assert found(startingoffsets=at(4), endingoffsets=at(7)) == (4, 7)
    assert found(startingoffsets="latest") == (10, 10)
    assert found(startingoffsets=at(7), endingoffsets=at(4)) == (7, 7)
    for bad in ({"startingoffsets": at(1)}, {"endingoffsets": at(11)}):
        with pytest.raises(DataLoss):
            found(**bad)
        lax = found(**bad, failondataloss="false")
        assert lax == (2, 10)
