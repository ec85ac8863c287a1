"""Bytes that are not what they say: sizes, counts, checksums, times, offsets."""

from __future__ import annotations

import struct
from dataclasses import replace

from stratamq.model.record import Record
from stratamq.wire.crc import crc32c
from stratamq.wire.kafka.protocol import APIS, ErrorCode, encode_request
from stratamq.wire.kafka.protocol.messages.api_versions import ApiVersionsRequest
from stratamq.wire.kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stratamq.wire.kafka.records import Compression, encode_batch
from stratamq.wire.kafka.records.layout import CHECKED_AT
from tests.attack.bombs import bomb, produce, swarm
from tests.attack.hostile.target import FILLED, MIB, STORED, WIDE, Target, attack, refused
from tests.attack.raw import Closed, frame_of
from tests.attack.repeating import Requests

INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1

NO_REQUESTS = {
    "two gigabytes claimed": struct.pack(">i", INT32_MAX),
    "a negative size": struct.pack(">i", -1),
    "nothing": struct.pack(">i", 0),
    "an unknown API": struct.pack(">ihhih", 10, 9999, 0, 7, -1),
    "a version of the future": struct.pack(">ihhih", 10, 3, 99, 7, -1),
    "a version of the past": struct.pack(">ihhih", 10, 0, 0, 7, -1),
    "two billion topics": struct.pack(">ihhihi", 14, 3, 1, 7, -1, INT32_MAX),
    "a name that is not there": struct.pack(">ihhihih", 16, 3, 1, 7, -1, 1, 32_767),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("1603010200010001fc0303") + bytes(500),
}

CHANGES_TOPICS = ("CreateTopics", "CreatePartitions", "DeleteTopics")
"""What they could be mutated into is an attack of its own."""


@attack
def no_requests(target: Target) -> None:
    for what, data in NO_REQUESTS.items():
        with target.connected() as client:
            client.send(data)
            assert client.is_closed(), what


@attack
def random_bytes(target: Target) -> None:
    for _ in range(20):
        with target.connected() as client:
            client.send(target.chance.randbytes(target.chance.randrange(1, 2000)))
            client.finish()
            assert client.is_closed()


@attack
def mutated_requests(target: Target) -> None:
    """A few bytes of a request are others. Any answer will do, and so does none."""
    apis = [api for api in APIS.values() if api.name not in CHANGES_TOPICS]
    for _ in range(20):
        api = target.chance.choice(apis)
        version = target.chance.randint(*api.versions)
        requests = Requests(api, version, WIDE, target.wide_id)
        if not (paths := requests.lists()):
            continue
        frame = bytearray(frame_of(requests.once(target.chance.choice(paths)), version))
        for _ in range(target.chance.randint(1, 8)):
            at = target.chance.randrange(12, len(frame))
            frame[at] = target.chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        with target.connected() as client:
            client.send(bytes(frame))
            client.finish()


@attack
def long_client_id(target: Target) -> None:
    request = encode_request(ApiVersionsRequest(), 0, 1, "x" * 32_000)
    with target.connected() as client:
        client.send(b"".join(request))
        assert client.answer()


def lie(batch: bytes, at: int, code: str, value: int) -> bytes:
    """With another value in its header and a checksum that fits."""
    data = bytearray(batch)
    struct.pack_into(code, data, at, value)
    struct.pack_into(">I", data, CHECKED_AT - 4, crc32c(bytes(data[CHECKED_AT:])))
    return bytes(data)


@attack
def lying_batches(target: Target) -> None:
    honest = encode_batch([Record(value=b"x", key=b"k")] * 3, now_ms=1000)
    packed = encode_batch([Record(value=bytes(500))], now_ms=1, compression=Compression.ZSTD)
    lies = [
        lie(honest, 8, ">i", INT32_MAX),  # length
        lie(honest, 8, ">i", 10),
        lie(honest, 16, ">b", 7),  # magic
        lie(honest, 23, ">i", 1000),  # last offset delta
        lie(honest, 57, ">i", INT32_MAX),  # records
        lie(honest, 57, ">i", -1),
        lie(honest, 57, ">i", 2),
        lie(honest, 61, ">B", 0xFF),  # length of the first record
        lie(packed, 21, ">h", Compression.GZIP),
        lie(packed, 21, ">h", Compression.LZ4),
        lie(packed, 21, ">h", Compression.SNAPPY),
        lie(packed, 21, ">h", 7),  # no codec
        honest[:-1],
        honest[:40],
        honest[:30] + b"\xff" + honest[31:],  # its checksum is that of another batch
    ]
    answer = target.ask(produce(*lies, topic=STORED), 9)
    refused([one.error_code for one in answer.responses[0].partition_responses])


@attack
def unpacking_bombs(target: Target) -> None:
    """Few bytes that unpack to much: within the limits they are stored, above them refused."""
    codec = target.chance.choice([one for one in Compression if one])
    sizes = (10 * MIB, 20 * MIB) if codec is Compression.SNAPPY else (10 * MIB, 60 * MIB)
    answer = target.ask(produce(*(bomb(size, codec) for size in sizes), topic=STORED), 9)
    for one in answer.responses[0].partition_responses:
        assert one.error_code in (0, ErrorCode.MESSAGE_TOO_LARGE)


@attack
def very_many_records(target: Target) -> None:
    for records, code in ((40_000, 0), (300_000, ErrorCode.MESSAGE_TOO_LARGE)):
        answer = target.ask(produce(swarm(records), topic=STORED), 9)
        assert answer.responses[0].partition_responses[0].error_code == code


@attack
def times_far_away(target: Target) -> None:
    for time_ms in (-INT64_MAX, -2, 0, 1 << 62):
        try:
            batch = encode_batch([Record(value=b"x", timestamp=time_ms)], now_ms=1)
        except ValueError:
            continue
        target.ask(produce(batch, (1, lie(batch, 35, ">q", INT64_MAX)), topic=STORED), 9)
    asked = [
        ListOffsetsPartition(partition_index=index, timestamp=time_ms)
        for index, time_ms in enumerate((INT64_MAX, -INT64_MAX - 1, -4, -1))
    ]
    topics = [ListOffsetsTopic(name=STORED, partitions=asked)]
    assert target.ask(ListOffsetsRequest(replica_id=-1, topics=topics)).topics


@attack
def fetches_beyond_all_bounds(target: Target) -> None:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=INT32_MAX)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    for changed in (
        {"fetch_offset": INT64_MAX},
        {"fetch_offset": -INT64_MAX - 1},
        {"fetch_offset": -1},
        {"partition_max_bytes": -1},
        {"partition_max_bytes": 0},
        {"partition": -1},
        {"partition": INT32_MAX},
        {"current_leader_epoch": INT32_MAX},
        {"last_fetched_epoch": INT32_MAX},
        {"log_start_offset": -INT64_MAX},
    ):
        topics = [FetchTopic(topic=FILLED, partitions=[replace(part, **changed)])]
        assert target.ask(replace(request, topics=topics), 12).responses
    topics = [FetchTopic(topic=FILLED, partitions=[part])]
    for changed in ({"max_bytes": -1}, {"max_bytes": 0}, {"isolation_level": 100}):
        target.ask(replace(request, topics=topics, **changed), 12)
    greedy = replace(request, topics=topics, max_wait_ms=50, min_bytes=INT32_MAX)
    assert target.ask(greedy, 12).responses


@attack
def half_frames(target: Target) -> None:
    """The rest of the frame never comes."""
    whole = frame_of(ApiVersionsRequest(), 3)
    for end in range(1, len(whole)):
        with target.connected() as client:
            client.send(whole[:end])
            client.finish()
            assert client.is_closed()


@attack
def passwords_where_none_are_asked_for(target: Target) -> None:
    for key, version, body in ((17, 1, b"\0\5PLAIN"), (36, 0, b"\0\0\1\0" + bytes(256))):
        with target.connected() as client:
            client.send(struct.pack(">ihhih", 10 + len(body), key, version, 7, -1) + body)
            try:
                client.answer()
            except Closed:
                continue
