"""A batch's records without making values of them: what the indexes need, and whether a producer's
batch is well-formed."""

from __future__ import annotations

from typing import NamedTuple

from stratamq.model.types import TimestampMs
from stratamq.wire.kafka.records import _kernel
from stratamq.wire.kafka.records.batch import BatchHeader, BatchScan, check_batch
from stratamq.wire.kafka.records.compression import Scratch, codec_of, decompress
from stratamq.wire.kafka.records.decode import record_bytes
from stratamq.wire.kafka.records.layout import HEADER_BYTES, Buffer

INT64_MAX = (1 << 63) - 1
INT64_MIN = -(1 << 63)

accept_plain = _kernel.accept_plain
"""Header and scan of an uncompressed batch in which everything adds up, in one call; None where it
is compressed, or wrong: `accept_batch` then says what is wrong, or unpacks it."""

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
    """The positions of the first hundred records that have no key, if that is a fault, or whose own
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


class Accepted(NamedTuple):
    """A batch in which everything adds up. `unpacked_bytes` is 0 where it is not compressed."""

    header: BatchHeader
    scan: BatchScan
    unpacked_bytes: int = 0


def accept_batch(
    data: Buffer,
    max_bytes: int,
    *,
    keys: bool,
    tags: bool,
    decompressed_max: int,
    scratch: Scratch | None = None,
) -> Accepted:
    """What `check_batch` and `scan_batch` say of exactly one batch, every record walked.

    An ordinary batch goes through one call of the kernel, or two where it is compressed; one that
    is wrong takes the careful path, which names the error. Marks that end a transaction are no
    records of a user: they have no keys to find.
    """
    accepted = accept_plain(data, max_bytes, keys, tags)
    if accepted is not None:
        return Accepted(*accepted)
    packed = _kernel.accept_packed(data, max_bytes)
    if packed is not None:
        body = memoryview(data)[HEADER_BYTES:]
        records = decompress(codec_of(packed.attributes), body, decompressed_max, scratch)
        scan = _kernel.scan_unpacked(data, records, keys, tags)
        return Accepted(packed, scan, len(records))
    header = check_batch(data, max_bytes)
    indexed = not header.is_control
    scan = scan_batch(
        header,
        data,
        keys=indexed and keys,
        tags=indexed and tags,
        decompressed_max=decompressed_max,
        consecutive=True,
        scratch=scratch,
    )
    return Accepted(header, scan)
