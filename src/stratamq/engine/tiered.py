"""A shard's two parts read as one log: its history on object storage, and the store's own part.

    start .. local start - 1     on object storage only
    local start .. end - 1       in the engine's own store
    (some of the second part may be on object storage as well, until it is dropped locally)

What is deleted, which transactions were aborted, which leaders wrote: the shard's own store goes on
knowing it for all parts. `stratamq.tiering` provides the history.

Where they meet is the store's `local_start`. It only rises while a reader is at work, and the store
raises it before anything goes, so a reader that finds it where it was has seen everything; one that
does not looks again, and finds in the history what is gone here. Nothing in between is taken for a
gap of compaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Protocol

from stratamq.log.contract import SegmentInfo, ShardStore
from stratamq.model.errors import OffsetOutOfRange, StorageError, StoreUnavailable
from stratamq.model.types import EARLIEST, Offset, ShardName, TimestampMs


class History(Protocol):
    """What object storage has of a shard. Immutable files, so answers never change, but files may
    be added behind the last and taken away before the first while readers read.

    `segments` never waits. Everything else may wait for the store, on a thread that is there for
    such reads, many at once; StoreUnavailable when the store does not answer, CorruptRecord when
    what it holds is damaged.
    """

    def segments(self) -> tuple[SegmentInfo, ...]:
        """Final files only, oldest first, none active. Sizes are those in the log."""

    @property
    def shown_end(self) -> Offset:
        """Up to where files that are not final show what the log has: marks of what is deleted
        below it are needed as long as it is."""

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        """As ShardStore.read. Empty when no batch at or behind `offset` lies below `end`."""

    def offsets_by_key(self, key: bytes, end: Offset) -> Iterator[Offset]:
        """Offsets below `end` that may carry `key`, newest first."""

    def offsets_by_tag(self, tag: bytes, start: Offset, end: Offset) -> Iterator[Offset]:
        """Offsets in start..end-1 that may carry `tag`, oldest first."""

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset | None:
        """An offset where a search begins: every record before it is older than `timestamp`. None
        when everything here is."""


ATTEMPTS_MAX = 100
"""Times that segments may be offloaded during one read; each takes several file operations."""


class NeedsHistory(Exception):
    """What is asked for lies on object storage, and this thread does not wait for that."""


class TieredReads:
    """See Reads. With `waits` it may ask the history; without, it raises NeedsHistory instead."""

    __slots__ = ("_history", "_name", "_store", "_waits")

    def __init__(
        self, name: ShardName, store: ShardStore, history: History | None, *, waits: bool
    ) -> None:
        self._name, self._store, self._history, self._waits = name, store, history, waits

    @property
    def start_offset(self) -> Offset:
        return self._store.start_offset

    @property
    def end_offset(self) -> Offset:
        return self._store.end_offset

    def deleted(self) -> Set[Offset]:
        return self._store.deleted()

    def segments(self) -> tuple[SegmentInfo, ...]:
        return self._store.segments()

    # -- by offset -----------------------------------------------------------------------------

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        """May end where the parts meet: a caller that wants more reads on."""
        store = self._store
        for _ in range(ATTEMPTS_MAX):
            seam = store.local_start
            if offset < min(seam, end):
                self._check(offset)
                if data := self._past(seam).read(offset, max_bytes, min(end, seam)):
                    return data
            begin = max(offset, seam)
            data = store.read(begin, max_bytes, end) if begin < end else b""
            if store.local_start <= begin:
                return data
        raise self._unsteady()

    def read_at_once(
        self, offset: Offset, max_bytes: int, end: Offset
    ) -> tuple[bytes, Offset] | None:
        if offset < self._store.local_start:
            return None
        return self._store.read_at_once(offset, max_bytes, end)

    # -- by key, tag and time ------------------------------------------------------------------

    def offsets_by_key(self, key: bytes, end: Offset) -> Iterator[Offset] | None:
        here = self._store.offsets_by_key(key, end)
        return None if here is None else self._by_key(key, end, here)

    def _by_key(self, key: bytes, end: Offset, here: Iterator[Offset]) -> Iterator[Offset]:
        """What was offloaded while we looked here is found there."""
        oldest = end
        for offset in here:
            oldest = offset
            yield offset
        seam = self._store.local_start
        if self._store.start_offset < seam:
            yield from self._past(seam).offsets_by_key(key, min(oldest, seam))

    def offsets_by_tag(self, tag: bytes, start: Offset, end: Offset) -> Iterator[Offset] | None:
        here = self._store.offsets_by_tag(tag, start, end)
        return None if here is None else self._by_tag(tag, start, end)

    def _by_tag(self, tag: bytes, start: Offset, end: Offset) -> Iterator[Offset]:
        store = self._store
        while start < end:
            seam = store.local_start
            if start < seam:
                yield from self._past(seam).offsets_by_tag(tag, start, min(end, seam))
                start = seam
                continue
            for offset in store.offsets_by_tag(tag, start, end) or ():
                if store.local_start > start:
                    break  # others that lie before it may be gone from here
                yield offset
                start = Offset(offset + 1)
            if store.local_start <= start:
                return

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        store = self._store
        for _ in range(ATTEMPTS_MAX):
            seam = store.local_start
            if store.start_offset < seam:
                floor = self._past(seam).floor_by_timestamp(timestamp)
                if floor is not None and floor < seam:
                    return max(floor, store.start_offset)
            found = store.floor_by_timestamp(timestamp)
            if store.local_start == seam:
                return found
        raise self._unsteady()

    # -- small things --------------------------------------------------------------------------

    def _past(self, seam: Offset) -> History:
        """The history, if it reaches as far as it did when segments were dropped here. One that
        does not must not be mistaken for a log with gaps."""
        if not self._waits:
            raise NeedsHistory
        history = self._history
        if history is None or end_of(history.segments()) < seam:
            raise StoreUnavailable(
                f"{self._name}: what object storage has below {seam} is not known yet"
            )
        return history

    def _check(self, offset: Offset) -> None:
        start = self._store.start_offset
        if offset < start:
            raise OffsetOutOfRange(self._name, offset, start, self._store.end_offset)

    def _unsteady(self) -> StorageError:
        return StorageError(
            f"{self._name}: segments were offloaded {ATTEMPTS_MAX} times during one read"
        )


def end_of(segments: Sequence[SegmentInfo]) -> Offset:
    """Where they end."""
    return segments[-1].end_offset if segments else EARLIEST
