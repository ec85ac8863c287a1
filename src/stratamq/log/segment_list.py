"""The segments of a shard, and reading them: by offset, key, tag and time.

Readers need no lock: the list is a tuple that the writer replaces whole, and a reader that finds it
replaced during a read tries again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Protocol, TypeVar

from stratamq.log.active_segment import ActiveSegment
from stratamq.log.contract import HasBase, SegmentInfo, adjoining
from stratamq.log.disk import OUT_OF_DESCRIPTORS, storage_error
from stratamq.log.index import ShardIndex
from stratamq.log.segment import Segment
from stratamq.log.sidecar import SIDECARS
from stratamq.log.start_offsets import StartOffsets
from stratamq.model.errors import CorruptRecord, OffsetOutOfRange, StorageError
from stratamq.model.types import Offset, ShardName, TimestampMs

READ_ATTEMPTS_MAX = 100
"""How often one read may find the list replaced, each time by a file operation of the writer. Then
it fails with StorageError."""

Answer = TypeVar("Answer")

by_base = attrgetter("base")


class SegmentList:
    """`all` is oldest first, and its last is `active`. Only the shard's writer replaces them."""

    __slots__ = ("_name", "_starts", "active", "all")

    all: tuple[Segment, ...]
    active: ActiveSegment

    def __init__(
        self,
        name: ShardName,
        starts: StartOffsets,
        sealed: Iterable[Segment],
        active: ActiveSegment,
    ) -> None:
        self._name, self._starts = name, starts
        self.replace(sealed, active)

    def replace(self, sealed: Iterable[Segment], active: ActiveSegment) -> None:
        self.all, self.active = (*sealed, active), active

    def position(self, offset: Offset) -> int:
        """Which segment holds the offset, by its number in `all`."""
        return max(bisect_right(self.all, offset, key=by_base) - 1, 0)

    def sealed_at(self, base: Offset) -> Segment | None:
        return next((segment for segment in self.all[:-1] if segment.base == base), None)

    # -- reading -------------------------------------------------------------------------------

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        def look(segments: tuple[Segment, ...]) -> bytes:
            first = max(bisect_right(segments, offset, key=by_base) - 1, 0)
            for segment in segments[first:]:
                if segment.base >= end:
                    break
                if data := segment.read(offset, max_bytes, end):
                    return data
            return b""

        return self._steady(look, offset)

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        def look(segments: tuple[Segment, ...]) -> Offset:
            for segment in segments:
                if segment.info().max_timestamp >= timestamp:
                    return segment.floor_by_timestamp(timestamp)
            return segments[-1].base

        return max(self._steady(look), self._starts.start)

    def infos(self) -> tuple[SegmentInfo, ...]:
        return self._steady(lambda segments: adjoining([segment.info() for segment in segments]))

    def files_of(self, base: Offset) -> tuple[Path, ...]:
        segment = self.sealed_at(base)
        if segment is None:
            return ()
        if segment.cut_short:
            raise segment.refusal(base)
        return (segment.path, *map(segment.sidecar, SIDECARS))

    def _steady(
        self, look: Callable[[tuple[Segment, ...]], Answer], offset: Offset | None = None
    ) -> Answer:
        """What `look` finds in a list of segments that is not replaced meanwhile."""
        for attempt in range(READ_ATTEMPTS_MAX):
            segments = self.all
            try:
                answer = look(segments)
            except CorruptRecord:
                if segments is self.all:
                    raise
            except FileNotFoundError as error:
                # A rewrite pins the old files just before it removes them: look again.
                if attempt == READ_ATTEMPTS_MAX - 1:
                    raise storage_error(f"{self._name} cannot be read", error) from error
            except OSError as error:
                if segments is self.all or error.errno in OUT_OF_DESCRIPTORS:
                    raise storage_error(f"{self._name} cannot be read", error) from error
            else:
                if segments is self.all:
                    return answer
            start = self._starts.start
            if offset is not None and offset < start:
                raise OffsetOutOfRange(self._name, offset, start, self.all[-1].end)
        raise StorageError(
            f"{self._name}: the segments changed {READ_ATTEMPTS_MAX} times in a read"
        )


# -- keys and tags: the rows are the same for segment files and for RocksDB -----------------------


class HasEnds(HasBase, Protocol):
    @property
    def end(self) -> Offset: ...


def offsets_by_key(
    index: ShardIndex, segments: Sequence[HasEnds], key: bytes, start: Offset, end: Offset
) -> Iterator[Offset]:
    """Offsets in start..end-1 that may carry the key, newest first."""
    for segment in reversed(segments):
        if segment.base < end:
            for offset in index.by_key(segment.base, key):
                if start <= offset < end:
                    yield offset


def offsets_by_tag(
    index: ShardIndex, segments: Sequence[HasEnds], tag: bytes, start: Offset, end: Offset
) -> Iterator[Offset]:
    """Offsets in start..end-1 that may carry the tag, oldest first."""
    for segment in segments:
        if segment.end > start:
            for offset in index.by_tag(segment.base, tag, start):
                if offset >= end:
                    return
                yield offset
