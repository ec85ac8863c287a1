"""A batch as a producer sent it: held to its format before anyone relies on it."""

from __future__ import annotations

from typing import NamedTuple

from stratamq.wire.kafka.records import _kernel
from stratamq.wire.kafka.records.compression import Scratch, codec_of, decompress
from stratamq.wire.kafka.records.entries import BatchScan
from stratamq.wire.kafka.records.header import BatchHeader, check_batch
from stratamq.wire.kafka.records.layout import HEADER_BYTES, Buffer
from stratamq.wire.kafka.records.scan import scan_batch


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
    is wrong takes the careful path, which names the error. Marks that end a transaction are
    nobody's records: they have no keys to find.
    """
    accepted = _kernel.accept_plain(data, max_bytes, keys, tags)
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
