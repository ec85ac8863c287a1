"""What Produce takes, what it refuses, and with which code."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stratamq.broker.kafka.cluster import uuid_of
from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.produce.answers import Unanswered
from stratamq.model.record import Record
from stratamq.wire.kafka.protocol import Buffer, ErrorCode
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from stratamq.wire.kafka.records import (
    Compression,
    ControlType,
    encode_batch,
    encode_control,
)
from tests.broker.data.conftest import Rig

NOW = 1_700_000_000_000


def batch(*values: bytes, key: bytes | None = None, **options: Any) -> bytes:
    return encode_batch([Record(value=one, key=key) for one in values], now_ms=NOW, **options)


def request(
    records: Buffer | None, *, topic: str = "t", partition: int = 0, acks: int = -1
) -> ProduceRequest:
    part = PartitionProduceData(index=partition, records=records)
    data = TopicProduceData(name=topic, partition_data=[part])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data])


async def outcome(rig: Rig, asked: ProduceRequest, version: int = 12) -> Any:
    """The one partition's answer."""
    response: Any = await rig.ask(asked, version)
    return response.responses[0].partition_responses[0]


@pytest.fixture(autouse=True, params=["a task", "at once"])
def way(request: pytest.FixtureRequest, rig: Rig) -> None:
    """Both ways of a request come to the same."""
    rig.begins = request.param == "at once"


CONTROL = encode_control(
    ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, now_ms=NOW
)
GOOD = batch(b"a", b"b")
OLD_FORMAT = bytes(16) + b"\1" + bytes(60)

REFUSED = {
    "null": (None, 12, ErrorCode.INVALID_RECORD),
    "empty": (b"", 12, ErrorCode.INVALID_RECORD),
    "two batches": (GOOD + GOOD, 12, ErrorCode.INVALID_RECORD),
    "old format": (OLD_FORMAT, 12, ErrorCode.INVALID_RECORD),
    "control batch": (CONTROL, 12, ErrorCode.INVALID_RECORD),
    "flipped bit": (GOOD[:-1] + b"\xff", 12, ErrorCode.CORRUPT_MESSAGE),
    "cut off": (GOOD[:-1], 12, ErrorCode.CORRUPT_MESSAGE),
    "too large": (batch(bytes(2_000_000)), 12, ErrorCode.MESSAGE_TOO_LARGE),
    "zstd too early": (
        batch(b"a" * 100, compression=Compression.ZSTD),
        6,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused_with_its_code_and_nothing_stored(rig: Rig, name: str) -> None:
    await rig.core.topics.create("t")
    records, version, code = REFUSED[name]
    answer = await outcome(rig, request(records), version)
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert (await rig.services.drivers.offsets("t", 0)).end == 0


async def test_each_partition_has_its_own_answer(rig: Rig) -> None:
    await rig.core.topics.create("t", partitions=2)
    parts = [(0, GOOD), (1, batch(b"c")), (0, batch(b"d")), (7, GOOD), (1, b"")]
    data = [PartitionProduceData(index=index, records=records) for index, records in parts]
    other = TopicProduceData(
        name="none", partition_data=[PartitionProduceData(index=0, records=GOOD)]
    )
    topics = [TopicProduceData(name="t", partition_data=data), other]
    response: Any = await rig.ask(
        ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), version=12
    )
    assert [(one.index, one.error_code, one.base_offset) for one in _parts(response)] == [
        (0, 0, 0),
        (1, 0, 0),
        (0, 0, 2),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (1, ErrorCode.INVALID_RECORD, -1),
        (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]


def _parts(response: Any) -> list[Any]:
    return [part for topic in response.responses for part in topic.partition_responses]


async def test_requests_are_stored_in_the_order_in_which_they_were_taken(rig: Rig) -> None:
    """Single and many partitions mixed: the handler is called in order, the answers come later."""
    await rig.core.topics.create("t", partitions=2)
    handler = rig.broker.handler(ProduceRequest)
    assert handler is not None
    answers = []
    for number in range(20):
        asked = request(batch(b"%d" % number))
        if number % 3 == 0:
            more = PartitionProduceData(index=1, records=batch(b"other"))
            asked.topic_data[0].partition_data.insert(0, more)  # type: ignore[attr-defined]
        answers.append(asyncio.ensure_future(handler(asked, Caller(version=12))))
    for answer in answers:
        await answer
    records = await rig.services.drivers.read_by_offset("t", 0, 0)  # type: ignore[arg-type]
    assert [one.value for one in records] == [b"%d" % number for number in range(20)]


async def test_a_compacted_topic_says_which_records_lack_a_key(rig: Rig) -> None:
    await rig.core.topics.create("t", config={"cleanup.policy": "compact"})
    records = [Record(value=b"a", key=b"k"), Record(value=b"b"), Record(value=b"c")]
    answer = await outcome(rig, request(encode_batch(records, now_ms=NOW)))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in answer.record_errors] == [1, 2]
    assert (await outcome(rig, request(batch(b"v", key=b"k")))).error_code == 0


async def test_topics_by_id(rig: Rig) -> None:
    topic = await rig.core.topics.create("t")
    asked = request(GOOD, topic="")
    asked.topic_data[0].topic_id = uuid_of(topic)
    response: Any = await rig.ask(asked, 13)
    assert response.responses[0].topic_id == uuid_of(topic)
    assert response.responses[0].partition_responses[0].error_code == 0
    asked.topic_data[0].topic_id = bytes(15) + b"\1"
    assert (await outcome(rig, asked, 13)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_acks(rig: Rig) -> None:
    await rig.core.topics.create("t")
    assert (await outcome(rig, request(GOOD, acks=7))).error_code == (
        ErrorCode.INVALID_REQUIRED_ACKS
    )
    assert await rig.ask(request(GOOD, acks=0), 12) is None
    with pytest.raises(Unanswered):
        await rig.ask(request(GOOD, acks=0, topic="none"), 12)
    assert (await outcome(rig, request(GOOD, acks=1))).base_offset == 2


async def test_log_append_time_is_told(rig: Rig) -> None:
    await rig.core.topics.create("t", config={"message.timestamp.type": "LogAppendTime"})
    rig.clock.advance(5000)
    answer = await outcome(rig, request(GOOD))
    assert answer.log_append_time_ms == rig.clock.now_ms()
    assert answer.log_start_offset == 0


async def test_what_is_taken_at_once(rig: Rig) -> None:
    """The ordinary request is. One without an answer, or with a transaction, takes a task."""
    await rig.core.topics.create("t")
    await rig.core.topics.create("m", config={"storage.type": "EngineMemory"})
    in_transaction = request(GOOD)
    in_transaction.transactional_id = "tx"
    marked = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    for asked in (
        request(GOOD, acks=0),
        in_transaction,
        request(marked),
    ):
        await rig.ask(asked, 12)
        assert rig.begun == 0
    assert (await outcome(rig, request(GOOD))).base_offset == 5
    assert (await outcome(rig, request(GOOD, topic="m"))).base_offset == 0
    assert rig.begun == 2 * rig.begins
