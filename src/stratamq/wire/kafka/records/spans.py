"""Batches in a buffer that holds many, one after the other. The fast hops are the kernel's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stratamq.model.errors import CorruptBatch
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records.header import BatchHeader, read_header
from stratamq.wire.kafka.records.layout import Buffer


class BatchSpan(NamedTuple):
    """Where one whole batch lies in a buffer, and which offsets it covers."""

    position: int
    size: int
    base_offset: Offset
    last_offset: Offset
    max_timestamp: TimestampMs


def iter_batches(data: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every batch with its bytes. CorruptBatch when something else lies between or behind them."""
    view = memoryview(data)
    position = 0
    while position < len(view):
        header = read_header(view, position)
        end = position + header.size_bytes
        if end > len(view):
            raise CorruptBatch(f"the batch at byte {position} is cut off")
        yield header, view[position:end]
        position = end
