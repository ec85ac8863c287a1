"""What comes in is checked here, in the caller, before it is queued: bad input never gets
further."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.engine.contract import AcceptedBatch
from stratamq.engine.group import Append, AppendReplica
from stratamq.engine.shard import Shard
from stratamq.log.contract import PlacedBatch
from stratamq.model.errors import CorruptBatch, InvalidRecord, InvalidTimestamp
from stratamq.model.record import Record
from stratamq.model.types import LeaderEpoch, TimestampMs
from stratamq.wire.kafka.records import (
    EMPTY_SCAN,
    BatchHeader,
    Buffer,
    Scratch,
    accept_batch,
    check_crc,
    encode_batch,
    iter_batches,
    read_header,
    scan_batch,
)
from stratamq.wire.kafka.records.layout import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
)
from stratamq.wire.kafka.records.rewrite import as_create_time


def accept(
    shard: Shard,
    data: Buffer,
    decompressed_max: int,
    scratch: Scratch | None = None,
    now_ms: TimestampMs | None = None,
) -> AcceptedBatch:
    """A batch as a producer made it. Every record is walked: what does not add up must not be
    stored, since every later reader would fall over it.

    What the header says about timestamps is not believed: the largest is that of the records, and
    only the node says that they are the node's own. With `now_ms`, records must not be further in
    the future than the topic allows.
    """
    header, scan, unpacked_bytes = accept_batch(
        data,
        shard.bytes_max,
        keys=shard.index_keys,
        tags=shard.index_tags,
        decompressed_max=decompressed_max,
        scratch=scratch,
    )
    if header.attributes & LOG_APPEND_TIME_BIT and not shard.stamps:
        return accept(shard, as_create_time(header, data), decompressed_max, scratch, now_ms)
    if header.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT):
        _check_transactional(header)
    if now_ms is not None and scan.max_timestamp - now_ms > shard.after_ms_max:
        raise InvalidTimestamp(now_ms + shard.after_ms_max, scan.max_timestamp)
    if scan.null_keys and shard.compacts:
        raise InvalidRecord(f"{shard.name}: a compacted topic takes no record without a key")
    return AcceptedBatch(data, header, scan, unpacked_bytes)


def from_batch(
    shard: Shard,
    data: Buffer | AcceptedBatch,
    epoch: LeaderEpoch | None,
    decompressed_max: int,
    scratch: Scratch | None = None,
    now_ms: TimestampMs | None = None,
) -> Append:
    """A batch as a producer made it, looked at now unless it was before."""
    if not isinstance(data, AcceptedBatch):
        data = accept(shard, data, decompressed_max, scratch, now_ms)
    return Append(shard, data.header, data.data, data.scan, epoch)


def from_records(
    shard: Shard, records: Sequence[Record], now_ms: TimestampMs, decompressed_max: int
) -> Append:
    """A batch made here. All records go into one, so that they are stored together or not at
    all."""
    data = encode_batch(records, now_ms=now_ms, compression=shard.compression)
    return from_batch(shard, data, None, decompressed_max)


def from_marker(shard: Shard, data: bytes, epoch: LeaderEpoch | None) -> Append:
    """A mark made here, on behalf of a coordinator."""
    header = read_header(data)
    scan = EMPTY_SCAN._replace(max_timestamp=header.max_timestamp)
    return Append(shard, header, data, scan, epoch)


def _check_transactional(header: BatchHeader) -> None:
    if header.is_control:
        raise InvalidRecord("producers do not write the marks that end their transactions")
    if header.producer_id < 0:
        raise InvalidRecord("a transaction needs a producer id")


def from_leader(shard: Shard, data: bytes, decompressed_max: int) -> AppendReplica:
    """A leader's batches, as `read_raw` gave them. They were accepted once: their size and the
    holes that compaction left in them are not ours to judge, damage on the way is."""
    batches = []
    for header, batch in iter_batches(data):
        if not check_crc(batch, header):
            raise CorruptBatch(f"the batch at offset {header.base_offset} does not match its CRC")
        indexed = not header.is_control
        scan = scan_batch(
            header,
            batch,
            keys=indexed and shard.index_keys,
            tags=indexed and shard.index_tags,
            decompressed_max=decompressed_max,
            consecutive=False,
        )
        batches.append(PlacedBatch(header, (bytes(batch),), scan))
    return AppendReplica(shard, batches)
