"""Records of a partition, one after the other, from an offset on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from stratamq.client.cluster import TopicPartition
from stratamq.client.fetching import FetchLimits, fetch, visible_batches
from stratamq.client.router import Router
from stratamq.model.errors import CorruptBatch
from stratamq.model.record import Record
from stratamq.wire.kafka.records import decode_batch, iter_batches


class ReadRecords(NamedTuple):
    """Some records, and the offset at which reading goes on after them."""

    records: list[Record]
    next_offset: int


async def read_records(
    router: Router,
    place: TopicPartition,
    offset: int,
    limits: FetchLimits,
    *,
    end: int | None = None,
    committed: bool = True,
) -> AsyncIterator[ReadRecords]:
    """Up to `end`; without one for ever, waiting for new records, with an empty list now and then.

    OffsetOutOfRange when what comes next was deleted meanwhile.
    """
    while end is None or offset < end:
        fetched = await fetch(router, place, offset, limits, committed=committed)
        records: list[Record] = []
        for header, batch in visible_batches(fetched.data, fetched.aborted):
            records += (
                one
                for one in decode_batch(header, batch)
                if one.offset >= offset and (end is None or one.offset < end)
            )
        last = None
        for header, _ in iter_batches(fetched.data):
            last = header.next_offset
        if last is not None and last <= offset:
            raise CorruptBatch(
                f"{place}: a fetch from offset {offset} came back with older batches"
            )
        if last is None and end is not None and fetched.high_watermark >= end:
            break  # compaction has removed everything up to there
        offset = offset if last is None else last
        yield ReadRecords(records, offset if end is None else min(offset, end))
