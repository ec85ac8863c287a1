"""Options: what is wrong is said in one sentence, before any node is asked."""

from __future__ import annotations

import pytest

from stratamq.client import EARLIEST, LATEST, TopicPartition
from stratamq.model.errors import InvalidConfig
from stratamq.spark.columns import SCHEMA, schema_of
from stratamq.spark.options import read_options, trigger_limits
from stratamq.spark.positions import Position, positions_of

GOOD = {"servers": "h:1", "topic": "orders"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": "t"}, "'servers' is missing"),
        ({"servers": "h"}, "exactly one of the options"),
        ({**GOOD, "subscribe": "x"}, "not topic and subscribe"),
        ({"servers": "h", "topic": " , "}, "topic names no topic"),
        ({"servers": "h", "subscribepattern": "("}, "is no pattern"),
        ({**GOOD, "startingofsets": "x"}, "did you mean 'startingOffsets'"),
        ({**GOOD, "maxoffsetspertrigger": "5"}, "a read has no option 'maxoffsetspertrigger'"),
        ({**GOOD, "startingoffsets": "soon"}, "startingOffsets must be earliest, latest, or JSON"),
        ({**GOOD, "startingoffsets": '{"t": {"0": -3}}'}, "startingOffsets must be"),
        ({**GOOD, "startingoffsets": '{"t": {"0": true}}'}, "startingOffsets must be"),
        ({**GOOD, "endingoffsets": '["t"]'}, "endingOffsets must be"),
        ({**GOOD, "startingtimestamp": "noon"}, "startingTimestamp must be a time"),
        ({**GOOD, "minpartitions": "0"}, "minPartitions must be a whole number"),
        ({**GOOD, "isolation": "dirty"}, "isolation must be one of read_committed"),
        ({**GOOD, "failondataloss": "maybe"}, "failOnDataLoss must be true or false"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        read_options(options, streaming=False)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(InvalidConfig, match="endingOffsets is for batches"):
        read_options({**GOOD, "endingoffsets": "latest"}, streaming=True)


def test_defaults_of_batches_and_streams() -> None:
    batch, stream = (read_options(GOOD, streaming=streaming) for streaming in (False, True))
    assert batch.starting.other == Position(EARLIEST, False)
    assert stream.starting.other == Position(LATEST, False)
    assert batch.committed
    assert batch.losses.fatal


def test_positions_by_partition_and_by_time() -> None:
    place = TopicPartition("t", 0)
    said = positions_of({"startingoffsets": '{"t": {"0": 7, "1": -1}}'}, "starting", "earliest")
    assert said.of(place) == Position(7, True)
    assert said.of(TopicPartition("t", 1)) == Position(LATEST, False)
    assert said.of(TopicPartition("t", 2)) == Position(EARLIEST, False)
    said = positions_of({"endingoffsetsbytimestamp": '{"t": {"0": 9}}'}, "ending", "latest")
    assert said.of(place) == Position(9, False)
    assert said.of(TopicPartition("t", 1)) == Position(LATEST, False)
    said = positions_of({"startingtimestamp": "5", "startingoffsets": "latest"}, "starting", "")
    assert said.of(place) == Position(5, False)


def test_columns_by_name() -> None:
    assert schema_of(None) is SCHEMA
    assert schema_of("value, offset,value").simpleString() == "struct<value:binary,offset:bigint>"
    for bad, said in (
        ("", "columns names no column"),
        ("value,size", "no column 'size', only key"),
    ):
        with pytest.raises(InvalidConfig, match=said):
            schema_of(bad)


def test_trigger_limits() -> None:
    limits = trigger_limits({"maxtriggerdelay": "30s", "minoffsetspertrigger": "10"})
    assert (limits.offsets_min, limits.offsets_max, limits.delay_ms_max) == (10, None, 30_000)
    with pytest.raises(InvalidConfig, match="maxTriggerDelay must be like"):
        trigger_limits({"maxtriggerdelay": "soon"})
    with pytest.raises(InvalidConfig, match="must not be over"):
        trigger_limits({"minoffsetspertrigger": "10", "maxoffsetspertrigger": "9"})
