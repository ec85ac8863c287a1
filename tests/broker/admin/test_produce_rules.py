"""What topic configs do to the batches of producers, on a real node."""

from __future__ import annotations

from typing import Any

import pytest

from stratamq.model.record import Record
from stratamq.model.types import NO_TIMESTAMP, Offset, TimestampMs
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from stratamq.wire.kafka.records import Compression, encode_batch, read_header
from tests.broker.admin.conftest import Rig
from tests.engine.lying import lying_batch
from tests.waiting import every

HOUR_MS = 3_600_000
CODECS = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]


async def produce(rig: Rig, batch: bytes, acks: int = -1) -> Any:
    part = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(name="t", partition_data=[part])
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])
    return (await rig.ask(request, 12)).responses[0].partition_responses[0]


def batch(rig: Rig, *late_ms: int, **options: Any) -> bytes:
    """Records that are so much younger than the node's time."""
    now_ms = rig.clock.now_ms()
    records = [
        Record(key=b"k", value=b"v" * 50, timestamp=TimestampMs(now_ms + late)) for late in late_ms
    ]
    return encode_batch(records, now_ms=now_ms, **options)


async def stored(rig: Rig) -> bytes:
    return (await rig.services.drivers.fetch_batches("t", 0, Offset(0))).data


# -- replicas --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "acks", "code"),
    [
        ("all", -1, ErrorCode.NOT_ENOUGH_REPLICAS),
        ("all", 1, ErrorCode.NONE),
        ("quorum", -1, ErrorCode.NONE),
    ],
)
async def test_replicas_in_sync(rig: Rig, policy: str, acks: int, code: ErrorCode) -> None:
    await rig.core.topics.create("t", config={"min.insync.replicas": 2, "commit.policy": policy})
    answer = await produce(rig, batch(rig, 0), acks)
    assert ErrorCode(answer.error_code) is code
    assert (await rig.services.drivers.offsets("t", 0)).end == (0 if code else 1)


# -- timestamps ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "late_ms", "at_fault"),
    [
        ({}, [0, HOUR_MS], []),
        ({}, [0, HOUR_MS + 1, -1, HOUR_MS * 9], [1, 3]),
        ({}, [-HOUR_MS * 10_000], []),
        ({"message.timestamp.after.max.ms": 5}, [5], []),
        ({"message.timestamp.after.max.ms": 5}, [6], [0]),
        ({"message.timestamp.before.max.ms": 5}, [-5, 3, -6], [2]),
        ({"message.timestamp.before.max.ms": 5}, [-5, 3], []),
        ({"message.timestamp.type": "LogAppendTime"}, [HOUR_MS * 9], []),
    ],
)
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
async def test_times_too_far_from_ours(
    rig: Rig, config: dict[str, object], late_ms: list[int], at_fault: list[int], codec: Compression
) -> None:
    await rig.core.topics.create("t", config=config)
    answer = await produce(rig, batch(rig, *late_ms, compression=codec))
    expected = ErrorCode.INVALID_TIMESTAMP if at_fault else ErrorCode.NONE
    assert ErrorCode(answer.error_code) is expected
    assert [one.batch_index for one in answer.record_errors] == at_fault
    assert (await rig.services.drivers.offsets("t", 0)).end == (0 if at_fault else len(late_ms))


@pytest.mark.parametrize("lie_ms", [-HOUR_MS, 0, HOUR_MS * 9])
@pytest.mark.parametrize("by_node", [False, True])
async def test_times_are_those_of_records_and_not_of_the_header(
    rig: Rig, lie_ms: int, by_node: bool
) -> None:
    await rig.core.topics.create("t")
    now_ms = rig.clock.now_ms()

    def lying(*late_ms: int) -> bytes:
        records = [Record(value=b"v", timestamp=TimestampMs(now_ms + late)) for late in late_ms]
        return lying_batch(records, max_timestamp=now_ms + lie_ms, log_append_time=by_node)

    answer = await produce(rig, lying(0, HOUR_MS + 1))
    assert ErrorCode(answer.error_code) is ErrorCode.INVALID_TIMESTAMP
    assert [one.batch_index for one in answer.record_errors] == [1]
    assert ErrorCode((await produce(rig, lying(-5, HOUR_MS, -9))).error_code) is ErrorCode.NONE
    header = read_header(await stored(rig))
    assert (header.max_timestamp, header.uses_log_append_time) == (now_ms + HOUR_MS, False)


async def test_our_own_time_on_every_record(rig: Rig) -> None:
    await rig.core.topics.create("t", config={"message.timestamp.type": "LogAppendTime"})
    sent = batch(rig, -HOUR_MS, -5)
    rig.clock.advance(1000)
    answer = await produce(rig, sent)
    assert answer.log_append_time_ms == rig.clock.now_ms()
    found = await rig.services.drivers.read_by_offset("t", 0, Offset(0))
    assert {one.timestamp for one in found} == {rig.clock.now_ms()}


async def test_without_it_no_append_time_is_told(rig: Rig) -> None:
    await rig.core.topics.create("t")
    assert (await produce(rig, batch(rig, 0))).log_append_time_ms == NO_TIMESTAMP


# -- compression -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("wanted", CODECS)
async def test_batches_take_the_topics_codec(rig: Rig, wanted: str, codec: Compression) -> None:
    await rig.core.topics.create("t", config={"compression.type": wanted})
    identity = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    sent = batch(rig, 0, 5, 3, compression=codec, **identity)
    assert (await produce(rig, sent)).error_code == 0
    header, before = read_header(await stored(rig)), read_header(sent)
    assert header.compression.name.lower() == wanted.replace("uncompressed", "none")
    assert (header.producer_id, header.base_sequence) == (7, 0)
    assert (header.record_count, header.max_timestamp) == (3, before.max_timestamp)
    found = await rig.services.drivers.read_by_offset("t", 0, Offset(0))
    assert [one.value for one in found] == [b"v" * 50] * 3


@pytest.mark.parametrize("codec", Compression)
async def test_producer_means_as_it_came(rig: Rig, codec: Compression) -> None:
    await rig.core.topics.create("t")
    sent = batch(rig, 0, compression=codec)
    await produce(rig, sent)
    assert (await stored(rig))[21:] == sent[21:]


async def test_a_damaged_batch_is_not_made_good_by_packing_it_anew(rig: Rig) -> None:
    await rig.core.topics.create("t", config={"compression.type": "gzip"})
    sent = batch(rig, 0)
    answer = await produce(rig, sent[:-3] + b"\0" + sent[-2:])
    assert ErrorCode(answer.error_code) is ErrorCode.CORRUPT_MESSAGE


async def test_size_is_what_arrives_and_what_is_stored(rig: Rig) -> None:
    config = {"compression.type": "uncompressed", "max.message.bytes": 500}
    await rig.core.topics.create("t", config=config)
    small = batch(rig, *range(20), compression=Compression.GZIP)
    assert len(small) < 500
    answer = await produce(rig, small)
    assert ErrorCode(answer.error_code) is ErrorCode.MESSAGE_TOO_LARGE
    await rig.core.topics.alter_config("t", {"compression.type": "gzip"})
    large = batch(rig, *range(20))
    assert len(large) > 500
    answer = await produce(rig, large)
    assert ErrorCode(answer.error_code) is ErrorCode.MESSAGE_TOO_LARGE
    assert (await produce(rig, small)).error_code == 0


# -- changes ---------------------------------------------------------------------------------------


async def test_a_topic_that_changes_holds_producers_to_it_at_once(rig: Rig) -> None:
    await rig.core.topics.create("t")
    sent = batch(rig, 0)
    assert (await produce(rig, sent)).log_append_time_ms == NO_TIMESTAMP
    changes: list[tuple[str, object, ErrorCode]] = [
        ("message.timestamp.type", "LogAppendTime", ErrorCode.NONE),
        ("max.message.bytes", len(sent) - 1, ErrorCode.MESSAGE_TOO_LARGE),
        ("max.message.bytes", len(sent), ErrorCode.NONE),
        ("min.insync.replicas", 2, ErrorCode.NOT_ENOUGH_REPLICAS),
        ("min.insync.replicas", 1, ErrorCode.NONE),
    ]
    for name, value, code in every(changes):
        await rig.core.topics.alter_config("t", {name: value})
        answer = await produce(rig, sent)
        assert ErrorCode(answer.error_code) is code, name
        assert (answer.log_append_time_ms == rig.clock.now_ms()) == (not code)


async def test_a_topic_that_begins_to_compact_takes_no_more_records_without_a_key(rig: Rig) -> None:
    await rig.core.topics.create("t")
    records = [Record(value=b"v"), Record(key=b"k", value=b"v"), Record(value=b"w")]
    sent = encode_batch(records, now_ms=rig.clock.now_ms())
    assert (await produce(rig, sent)).error_code == 0
    await rig.core.topics.alter_config("t", {"cleanup.policy": "delete,compact"})
    answer = await produce(rig, sent)
    assert ErrorCode(answer.error_code) is ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in answer.record_errors] == [0, 2]
