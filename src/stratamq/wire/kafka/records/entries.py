"""What a batch brings to the indexes."""

from __future__ import annotations

from typing import NamedTuple

from stratamq.model.types import NO_TIMESTAMP, TimestampMs

ENTRY_BYTES = 12
"""A packed entry: FNV-1a 64 of the key or tag, then the offset delta (u32), both big-endian."""


class BatchScan(NamedTuple):
    """`keys` and `tags` are packed entries in record order; `max_timestamp` is the true one."""

    keys: bytes
    tags: bytes
    max_timestamp: TimestampMs
    null_keys: bool


EMPTY_SCAN = BatchScan(b"", b"", NO_TIMESTAMP, False)
