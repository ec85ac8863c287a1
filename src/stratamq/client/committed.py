"""What of fetched batches a reader of committed records may see. Pure.

A node says with its batches which transactions in them were aborted: from `first_offset` on,
everything transactional of that producer is void, up to the mark that ends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stratamq.wire.kafka.records import BatchHeader, Buffer, ControlType, iter_batches
from stratamq.wire.kafka.records.control import read_mark


class Aborted(NamedTuple):
    first_offset: int
    producer_id: int


def visible_batches(
    data: Buffer, aborted: Sequence[Aborted] = ()
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Batches with records for readers: no marks, nothing that was aborted."""
    waiting = sorted(aborted, reverse=True)
    void: set[int] = set()
    for header, batch in iter_batches(data):
        while waiting and waiting[-1].first_offset <= header.last_offset:
            void.add(waiting.pop().producer_id)
        if header.is_control:
            if header.producer_id in void and _aborts(header, batch):
                void.discard(header.producer_id)
        elif header.record_count and not (header.is_transactional and header.producer_id in void):
            yield header, batch


def _aborts(header: BatchHeader, batch: memoryview) -> bool:
    return read_mark(header, batch).kind is ControlType.ABORT
