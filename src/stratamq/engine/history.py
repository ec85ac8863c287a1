"""The cold part of a shard's log, as the engine sees it. `stratamq.tiering` provides it.

A shard with history has three parts, and offsets run through them without a break:

    start .. local start - 1     on object storage only
    local start .. end - 1       in the engine's own store
    (some of the second part may be on object storage as well, until it is dropped locally)

What is deleted, which transactions were aborted, which leaders wrote: the shard's own store goes on
knowing it for all parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from stratamq.log.contract import SegmentInfo
from stratamq.model.types import Offset, TimestampMs


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
