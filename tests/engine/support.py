"""Small makers for engine tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stratamq.engine.contract import ReadLimit, ShardSpec
from stratamq.engine.engine import StorageEngine
from stratamq.model.record import Record
from stratamq.model.topic import TopicConfig
from stratamq.model.transaction import TransactionMarker
from stratamq.model.types import Offset, ShardName, TimestampMs
from stratamq.wire.kafka.records import (
    BatchHeader,
    Compression,
    ControlType,
    decode_batch,
    encode_batch,
    encode_control,
    is_skip,
    iter_batches,
)

S = ShardName("0123456789abcdef0123456789abcdef_0")
T = ShardName("0123456789abcdef0123456789abcdef_1")
NOW = 1_700_000_000_000
"""Where the manual clock of the fixtures starts."""

EVERYTHING = ReadLimit(records_max=1 << 30, bytes_max=1 << 30)


def spec(name: ShardName = S, *, replicated: bool = False, **config: object) -> ShardSpec:
    """`segment_bytes=1024` stands for the config `segment.bytes`. Without a word about it nothing
    is fsynced, for speed."""
    given = {"flush": "os"} | {key.replace("_", "."): value for key, value in config.items()}
    return ShardSpec(name=name, config=TopicConfig.of(given), replicated=replicated)


def record(value: bytes | None, key: bytes | None = None, *tags: bytes, at: int = -1) -> Record:
    return Record(value=value, key=key, tags=tags, timestamp=TimestampMs(at))


def batch(
    *records: Record | bytes,
    base: int = 0,
    epoch: int = -1,
    compression: Compression = Compression.NONE,
    now: int = NOW,
) -> bytes:
    """A batch as a producer would send it, or with `base` and `epoch` as a leader would."""
    made = [Record(value=item) if isinstance(item, bytes) else item for item in records]
    return encode_batch(
        made, now_ms=now, base_offset=base, leader_epoch=epoch, compression=compression
    )


def commit_mark(now: int = NOW) -> bytes:
    return encode_control(
        ControlType.COMMIT, producer_id=7, producer_epoch=0, coordinator_epoch=0, now_ms=now
    )


async def write_mark(
    engine: StorageEngine,
    producer_id: int = 7,
    *,
    epoch: int = 0,
    commit: bool = True,
    coordinator: int = 0,
    shard: ShardName = S,
) -> Offset:
    marker = TransactionMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        commit=commit,
        coordinator_epoch=coordinator,
    )
    return await engine.write_marker(shard, marker)


def produced(
    *records: Record | bytes,
    pid: int = 7,
    epoch: int = 0,
    sequence: int = 0,
    transactional: bool = False,
    now: int = NOW,
) -> bytes:
    """A batch of a producer that counts."""
    made = [Record(value=item) if isinstance(item, bytes) else item for item in records]
    return encode_batch(
        made,
        now_ms=now,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def values(records: Iterable[Record]) -> list[bytes | None]:
    return [found.value for found in records]


def offsets(records: Iterable[Record]) -> list[int]:
    return [found.offset for found in records]


def headers(data: bytes) -> list[BatchHeader]:
    return [header for header, _ in iter_batches(data)]


def decoded(data: bytes) -> list[Record]:
    """The records, without the marks that only lead over a gap."""
    return [
        found
        for header, part in iter_batches(data)
        if not is_skip(header)
        for found in decode_batch(header, part)
    ]


async def write_all(
    engine: StorageEngine, records: Sequence[Record], shard: ShardName = S
) -> list[Offset]:
    """One by one, so that each is a batch of its own."""
    return [await engine.write(shard, item) for item in records]


async def read_all(engine: StorageEngine, shard: ShardName = S) -> list[Record]:
    return await engine.read_by_offset(shard, engine.offsets(shard).start, EVERYTHING)


async def fetch_all(engine: StorageEngine, shard: ShardName = S) -> bytes:
    """Everything a consumer gets, in as many steps as it takes."""
    data, offset = b"", engine.offsets(shard).start
    while offset < engine.offsets(shard).high_watermark:
        fetched = await engine.fetch_batches(shard, offset)
        assert fetched.next_offset > offset, "a consumer must get on"
        data, offset = data + fetched.data, fetched.next_offset
    return data


async def stored(engine: StorageEngine) -> list[int]:
    """Offsets of the records that take up space."""
    found: list[int] = []
    offset = engine.offsets(S).start
    while data := await engine.read_raw(S, Offset(offset)):
        found += offsets(decoded(data))
        offset = headers(data)[-1].next_offset
    return found


async def fill_segments(engine: StorageEngine, *groups: Sequence[Record]) -> None:
    """One segment per group; the last one stays active."""
    for number, group in enumerate(groups):
        if number:
            await engine.roll(S)
        if group:
            await write_all(engine, group)
