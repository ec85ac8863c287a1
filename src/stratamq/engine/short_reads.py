"""Reading on the event loop, as long as it is short.

A look-up in memory takes less than handing it to a thread, as a rule. Whether it does is not known
before: it depends on how many batches it has to look into. So it begins on the event loop with a
budget, and begins again on a thread when that is used up.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from stratamq.log.contract import Reads, SegmentInfo
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records import walk
from stratamq.wire.kafka.records.layout import ATTRIBUTES_LOW_AT, CODEC_MASK

BUDGET_BYTES = 256 << 10
"""Batches that are looked into on the event loop: about a millisecond of decoding."""

CANDIDATE_BYTES = 64
"""What an offset that an index gives weighs against that."""

COMPRESSED_FACTOR = 16
"""What compressed bytes weigh: they may become many more."""


class TooLong(Exception):
    """The read is not for the event loop."""


class ShortReads:
    """See Reads. Raises TooLong once more was read than the event loop has time for."""

    __slots__ = ("_left", "_store")

    def __init__(self, store: Reads) -> None:
        self._store, self._left = store, BUDGET_BYTES

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLong

    @property
    def start_offset(self) -> Offset:
        return self._store.start_offset

    @property
    def end_offset(self) -> Offset:
        return self._store.end_offset

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        size = min(max_bytes, self._left + 1)
        data = self._store.read(offset, size, end)
        self._spend(len(data))
        spans = walk(data)
        if size < max_bytes and spans and spans[-1].last_offset + 1 < end:
            raise TooLong  # an answer is not cut off to make it short
        for span in spans:
            if data[span.position + ATTRIBUTES_LOW_AT] & CODEC_MASK:
                self._spend(span.size * COMPRESSED_FACTOR)
        return data

    def read_at_once(
        self, offset: Offset, max_bytes: int, end: Offset
    ) -> tuple[bytes, Offset] | None:
        return self._store.read_at_once(offset, max_bytes, end)

    def offsets_by_key(self, key: bytes, end: Offset) -> Iterator[Offset] | None:
        return self._counted(self._store.offsets_by_key(key, end))

    def offsets_by_tag(self, tag: bytes, start: Offset, end: Offset) -> Iterator[Offset] | None:
        return self._counted(self._store.offsets_by_tag(tag, start, end))

    def _counted(self, offsets: Iterator[Offset] | None) -> Iterator[Offset] | None:
        return None if offsets is None else map(self._count, offsets)

    def _count(self, offset: Offset) -> Offset:
        self._spend(CANDIDATE_BYTES)
        return offset

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        return self._store.floor_by_timestamp(timestamp)

    def deleted(self) -> Set[Offset]:
        return self._store.deleted()

    def segments(self) -> tuple[SegmentInfo, ...]:
        return self._store.segments()
