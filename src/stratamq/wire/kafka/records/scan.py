"""What the indexes need of a batch's records, without making them."""

from __future__ import annotations

from stratamq.model.types import TimestampMs
from stratamq.wire.kafka.records import _kernel
from stratamq.wire.kafka.records.body import record_bytes
from stratamq.wire.kafka.records.compression import Scratch
from stratamq.wire.kafka.records.entries import BatchScan
from stratamq.wire.kafka.records.header import BatchHeader
from stratamq.wire.kafka.records.layout import Buffer

INT64_MAX = (1 << 63) - 1
INT64_MIN = -(1 << 63)

key_hash = _kernel.key_hash
"""FNV-1a 64 of a key or tag: what its entries are found by."""


def scan_batch(
    header: BatchHeader,
    data: Buffer,
    *,
    keys: bool,
    tags: bool,
    decompressed_max: int,
    consecutive: bool = False,
    scratch: Scratch | None = None,
) -> BatchScan:
    """Walk every record. Anything that does not add up raises CorruptBatch.

    With `consecutive` (a batch from a producer) offset deltas must be 0, 1, 2, ...; without it they
    may have holes, as compaction leaves them.
    """
    body = record_bytes(header, data, decompressed_max, scratch)
    packed_keys, packed_tags, max_timestamp, null_keys = _kernel.scan_records(
        body.data,
        body.start,
        body.stop,
        header.record_count,
        header.last_offset_delta,
        header.base_timestamp,
        consecutive,
        keys,
        tags,
    )
    if header.uses_log_append_time or not header.record_count:
        max_timestamp = header.max_timestamp
    return BatchScan(packed_keys, packed_tags, TimestampMs(max_timestamp), null_keys)


def find_faults(
    header: BatchHeader,
    data: Buffer,
    decompressed_max: int,
    *,
    keyless: bool = False,
    earliest: int = INT64_MIN,
    latest: int = INT64_MAX,
) -> list[int]:
    """The places of the first hundred records that have no key, if that is a fault, or whose own
    timestamp is out of range; -1 stands for none and is none."""
    body = record_bytes(header, data, decompressed_max)
    return _kernel.find_faults(
        body.data,
        body.start,
        body.stop,
        header.record_count,
        header.last_offset_delta,
        header.base_timestamp,
        keyless,
        earliest,
        latest,
    )
