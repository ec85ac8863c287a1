"""Reading a shard in segment files: by offset, key, tag and time.

No lock is needed: segments are a tuple that is replaced whole, and a reader that finds it replaced
under its hands reads again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from stratamq.log.contract import SegmentInfo, adjoining
from stratamq.log.disk import OUT_OF_DESCRIPTORS, storage_error
from stratamq.log.indexed import IndexedReads, by_base
from stratamq.log.segment import SIDECARS, Segment
from stratamq.model.errors import CorruptRecord, OffsetOutOfRange, StorageError
from stratamq.model.types import Offset, TimestampMs

READ_ATTEMPTS_MAX = 100
"""A reader meets as many changes of the segment list at most; each takes a file operation or
more."""

Answer = TypeVar("Answer")


class ShardReads(IndexedReads[Segment]):
    """The reading half of FileShardLog. It changes nothing; the writing half replaces what it
    reads from."""

    __slots__ = ()

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        return self._steady(lambda segments: self._read(segments, offset, max_bytes, end), offset)

    def read_at_once(self, offset: Offset, max_bytes: int, end: Offset) -> bytes | None:
        """Consumers that keep up read the end of the active segment, which is in memory."""
        active = self._segments[-1]
        return active.read_at_once(offset, max_bytes, end) if offset >= active.base else None

    def _steady(
        self, look: Callable[[tuple[Segment, ...]], Answer], offset: Offset | None = None
    ) -> Answer:
        """What `look` finds in a list of segments that stays the same meanwhile."""
        for attempt in range(READ_ATTEMPTS_MAX):
            segments = self._segments
            try:
                answer = look(segments)
            except CorruptRecord:
                if segments is self._segments:
                    raise
            except FileNotFoundError as error:
                # A rewrite takes hold of the old files just before it removes them: look again.
                if attempt == READ_ATTEMPTS_MAX - 1:
                    raise storage_error(f"{self.name} cannot be read", error) from error
            except OSError as error:
                if segments is self._segments or error.errno in OUT_OF_DESCRIPTORS:
                    raise storage_error(f"{self.name} cannot be read", error) from error
            else:
                if segments is self._segments:
                    return answer
            if offset is not None and offset < self._start:
                raise OffsetOutOfRange(self.name, offset, self._start, self.end_offset)
        raise StorageError(f"{self.name}: the segments changed {READ_ATTEMPTS_MAX} times in a read")

    def _read(
        self, segments: tuple[Segment, ...], offset: Offset, max_bytes: int, end: Offset
    ) -> bytes:
        first = max(bisect_right(segments, offset, key=by_base) - 1, 0)
        for segment in segments[first:]:
            if segment.base >= end:
                break
            if data := segment.read(offset, max_bytes, end):
                return data
        return b""

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        return self._steady(lambda segments: self._floor_by_timestamp(segments, timestamp))

    def _floor_by_timestamp(self, segments: tuple[Segment, ...], timestamp: TimestampMs) -> Offset:
        for segment in segments:
            if segment.info().max_timestamp >= timestamp:
                return max(segment.floor_by_timestamp(timestamp), self._start)
        return max(segments[-1].base, self._start)

    def files_of(self, base_offset: Offset) -> tuple[Path, ...]:
        for segment in self._segments[:-1]:
            if segment.base == base_offset:
                if segment.cut_short:
                    raise segment.refusal(base_offset)
                return (segment.path, *map(segment.sidecar, SIDECARS))
        return ()

    def segments(self) -> tuple[SegmentInfo, ...]:
        return self._steady(lambda segments: adjoining([segment.info() for segment in segments]))
