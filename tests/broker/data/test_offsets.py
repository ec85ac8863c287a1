"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import Any

import pytest

from stratamq.adapter.partitions import shard_of
from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.log_offsets import LogOffsets
from stratamq.model.record import Record
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.data.conftest import Rig
from tests.broker.data.test_fetch import undecided
from tests.engine.support import write_mark

STAMPS = (1000, 3000, 2000)


async def filled(rig: Rig) -> None:
    await rig.core.topics.create("t")
    for stamp in STAMPS:
        record = Record(value=b"v", timestamp=TimestampMs(stamp))
        await rig.services.drivers.write("t", record, partition=0)


def asked(timestamp: int, topic: str = "t", partition: int = 0, **more: Any) -> ListOffsetsRequest:
    part = ListOffsetsPartition(
        partition_index=partition,
        timestamp=timestamp,
        current_leader_epoch=more.pop("epoch", -1),
    )
    topics = [ListOffsetsTopic(name=topic, partitions=[part])]
    return ListOffsetsRequest(replica_id=-1, topics=topics, **more)


async def found(rig: Rig, request: ListOffsetsRequest, version: int = 11) -> Any:
    response: Any = await rig.ask(request, version)
    return response.topics[0].partitions[0]


@pytest.mark.parametrize(
    ("timestamp", "offset", "stamp"),
    [
        (-1, 3, -1),
        (-2, 1, -1),
        (-3, 1, 3000),
        (-4, 1, -1),
        (-5, -1, -1),
        (0, 1, 3000),
        (2500, 1, 3000),
        (3001, -1, -1),
    ],
)
async def test_every_kind_of_time(rig: Rig, timestamp: int, offset: int, stamp: int) -> None:
    await filled(rig)
    await rig.services.drivers.trim("t", 0, Offset(1))
    answer = await found(rig, asked(timestamp))
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, stamp)


async def test_the_largest_time_is_that_of_a_record_that_can_be_read(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of a deleted one, nor of a mark that ends a transaction, nor of what is undecided."""
    await rig.core.topics.create("t")
    drivers = rig.services.drivers
    for stamp in (1000, 5000, 3000, 5000, -7):
        record = Record(value=b"v", timestamp=TimestampMs(stamp))
        await drivers.write("t", record, partition=0)
    engine = next(iter(rig.core.engines.values()))
    shard = shard_of(rig.services.broker_cache.topic("t"), 0)
    await write_mark(engine, shard=shard)
    assert engine.segments(shard)[-1].max_timestamp > 5000
    largest = await found(rig, asked(-3))
    assert (largest.offset, largest.timestamp) == (1, 5000)
    assert await drivers.delete_by_offset("t", 0, Offset(1))
    assert (await found(rig, asked(-3))).offset == 3
    undecided(monkeypatch, 3)
    family = LogOffsets(rig.services)
    response = await family.list_offsets(asked(-3, isolation_level=1), Caller(version=11))
    assert response.topics[0].partitions[0].offset == 2
    for offset in (0, 2, 3):
        assert await drivers.delete_by_offset("t", 0, Offset(offset))
    assert (await found(rig, asked(-3))).offset == -1


async def test_an_empty_log(rig: Rig) -> None:
    await rig.core.topics.create("t")
    for timestamp, offset in {-1: 0, -2: 0, -3: -1, 5: -1}.items():
        assert (await found(rig, asked(timestamp))).offset == offset, timestamp


async def test_errors(rig: Rig) -> None:
    await filled(rig)
    wrong = [
        (asked(-1, "none"), 11, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (asked(-1, partition=4), 11, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (asked(-1, epoch=9), 11, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (asked(-3), 6, ErrorCode.UNSUPPORTED_VERSION),
        (asked(-77), 11, ErrorCode.UNSUPPORTED_VERSION),
    ]
    for request, version, code in wrong:
        answer = await found(rig, request, version)
        assert (answer.error_code, answer.offset) == (code, -1)


async def test_read_committed_ends_where_it_is_decided(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(rig)
    undecided(monkeypatch, 2)
    family = LogOffsets(rig.services)
    for isolation, latest, by_time in ((0, 3, 1), (1, 2, 1)):
        response = await family.list_offsets(
            asked(-1, isolation_level=isolation), Caller(version=11)
        )
        assert response.topics[0].partitions[0].offset == latest
        response = await family.list_offsets(
            asked(3000, isolation_level=isolation), Caller(version=11)
        )
        assert response.topics[0].partitions[0].offset == by_time
    undecided(monkeypatch, 1)
    response = await family.list_offsets(asked(3000, isolation_level=1), Caller(version=11))
    assert response.topics[0].partitions[0].offset == -1


async def test_where_an_epoch_ends(rig: Rig) -> None:
    await filled(rig)

    async def end(epoch: int, current: int = -1, topic: str = "t") -> tuple[int, int, int]:
        part = OffsetForLeaderPartition(
            partition=0, current_leader_epoch=current, leader_epoch=epoch
        )
        topics = [OffsetForLeaderTopic(topic=topic, partitions=[part])]
        response: Any = await rig.ask(OffsetForLeaderEpochRequest(topics=topics))
        answer = response.topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    assert await end(0) == (0, 0, 3)
    assert await end(5) == (0, -1, -1)
    assert await end(0, current=3) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert await end(0, topic="none") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
