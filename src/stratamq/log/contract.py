"""What the log of one shard can do, in files, in memory or in RocksDB.

`ShardStore` is the primitive below every engine: `FileShardLog` (segment files), `MemoryShardStore`
and `RocksShardStore` fulfil it, and everything a reader or broker sees (high watermark, limits,
expiry, deletion, look-ups) is written once above it, in `stratamq.engine`. So the engines cannot
disagree.

Laws
----
1.  Offsets never go back: `append` takes batches whose base offset is at least `end_offset`. The
    engine makes them strictly consecutive; only a replica of a compacted log may leave gaps.
2.  A batch is stored whole or not at all, and comes back byte for byte.
3.  After `append` readers may see the batch; after `sync` it survives a power cut (stores without a
    disk excepted).
4.  One writer at a time (the caller's lock); readers at any time, from any thread, without a lock.
    A reader that started before a `truncate`, `drop` or `rewrite` sees the old state or the new
    one, or raises OffsetOutOfRange.
5.  Key and tag look-ups may give offsets too many (the caller verifies each record), never too few.
6.  After a failed `sync` every `append` raises ShardPoisoned until the store is opened again.
7.  After OutOfResources (a full disk, no descriptor left) in `append` the store is as it was before
    the call. After one in any other call, the call may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import NamedTuple, Protocol

from stratamq.log.snapshots import Snapshots
from stratamq.model.topic import TopicConfig
from stratamq.model.types import NO_TIMESTAMP, LeaderEpoch, Offset, TimestampMs
from stratamq.wire.kafka.records import BatchHeader, BatchScan, Buffer


class PlacedBatch(NamedTuple):
    """A validated batch with its final base offset and leader epoch, in header and bytes alike.

    `parts` are its bytes, one after the other: they may be views of what a producer sent, and must
    not be kept. `scan` is what the indexes need of its records: hashes of keys and tags by offset
    delta.
    """

    header: BatchHeader
    parts: tuple[Buffer, ...]
    scan: BatchScan

    @property
    def data(self) -> bytes:
        """In one piece, and ours."""
        only = self.parts[0]
        if len(self.parts) == 1 and isinstance(only, bytes):
            return only
        return b"".join(self.parts)


class SegmentInfo(NamedTuple):
    """One segment, as retention, compaction and the console see it. `end_offset` is exclusive.

    `first_timestamp` is the largest of the first batch. `max_timestamp` is -1 where no record has a
    timestamp of 0 or more; only then `written_ms` says when the segment was last written.
    """

    base_offset: Offset
    end_offset: Offset
    size_bytes: int
    first_timestamp: TimestampMs
    max_timestamp: TimestampMs
    active: bool
    written_ms: TimestampMs = NO_TIMESTAMP

    @property
    def largest_timestamp(self) -> TimestampMs:
        """What the segment's age is counted from, as in Kafka: the largest timestamp of its
        records, or the time of the last write where none is 0 or more."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.written_ms


def adjoining(found: Sequence[SegmentInfo]) -> tuple[SegmentInfo, ...]:
    """Report each segment as ending where the next one starts, even if compaction removed whole
    segments between them: after a restart these could not be known."""
    ends = [segment.base_offset for segment in found[1:]]
    adjoined = [one._replace(end_offset=end) for one, end in zip(found, ends, strict=False)]
    return (*adjoined, *found[-1:])


class HasBase(Protocol):
    @property
    def base(self) -> Offset: ...


def below(segments: Sequence[HasBase], end: Offset) -> int:
    """How many of the sealed segments lie wholly below `end`: each is reported as ending
    where the next one starts."""
    return sum(1 for following in segments[1:] if following.base <= end)


def must_roll(
    size_bytes: int,
    first_timestamp: int,
    batch_bytes: int,
    batch_timestamp: int,
    config: TopicConfig,
) -> bool:
    """Whether a segment must be sealed before a batch of `batch_bytes` goes in. Every store asks
    this one function, so they roll at the same batch.

    An empty segment takes any batch: otherwise one that is larger than `segment.bytes` would never
    be stored. Age is what lies between the records' own timestamps, as in Kafka: by the wall
    clock, a backfill of old records would seal a segment with every batch. Timestamps of -1 say
    nothing about age.
    """
    if not size_bytes:
        return False
    if size_bytes + batch_bytes > config.number("segment.bytes"):
        return True
    return first_timestamp >= 0 and batch_timestamp - first_timestamp > config.number("segment.ms")


class EpochStart(NamedTuple):
    """The first offset written under a leader epoch."""

    epoch: LeaderEpoch
    start_offset: Offset


Rewriter = Callable[[BatchHeader, memoryview], bytes | None]
"""Given one stored batch: its replacement, the same bytes to keep it, or None to drop it."""


Step = Callable[[], None]
"""Something for the writer to do."""


class Reads(Protocol):
    """The reading half of a log: all that a consumer's view of a shard asks for."""

    @property
    def start_offset(self) -> Offset:
        """First offset that may be read."""

    @property
    def end_offset(self) -> Offset:
        """LEO: the offset the next record gets."""

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        """Whole batches, contiguous, from the one that holds `offset` (or the next there is).

        Up to `max_bytes`; the first batch comes even if it is larger. Only batches that lie wholly
        below `end`. Empty when there is none. Every returned batch passed its CRC: damage raises
        CorruptRecord when it is the first batch, and ends the answer before it otherwise. Never
        decompresses.
        """

    def read_at_once(
        self, offset: Offset, max_bytes: int, end: Offset
    ) -> tuple[bytes, Offset] | None:
        """As `read`, with the offset after what was read, where there is something and it takes so
        little that an event loop may do it; None in any other case, which is for `read`."""

    def offsets_by_key(self, key: bytes, end: Offset) -> Iterator[Offset] | None:
        """Offsets below `end` that may carry `key`, newest first; None without a key index."""

    def offsets_by_tag(self, tag: bytes, start: Offset, end: Offset) -> Iterator[Offset] | None:
        """Offsets in start..end-1 that may carry `tag`, oldest first; None without a tag index."""

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        """An offset where a search begins: every record before it is older than `timestamp`."""

    def deleted(self) -> Set[Offset]:
        """Offsets deleted one by one that compaction has not removed yet. A live view: ask it
        about offsets, do not iterate over it."""

    def segments(self) -> tuple[SegmentInfo, ...]:
        """All segments that are kept here, oldest first; the last is the active one."""


class ShardStore(Reads, Protocol):
    """The log of one shard. See the laws above."""

    @property
    def local_start(self) -> Offset:
        """First offset that is kept here. What lies between the start and here was offloaded."""

    @property
    def lasting_end(self) -> Offset:
        """What lies from here on is lost with the process. The end, unless snapshots outlive a part
        of the log."""

    def active_bytes(self, offset: Offset) -> int | None:
        """At most so many bytes lie from `offset` to the end; None below the active segment. It
        asks no disk."""

    @property
    def snapshots(self) -> Snapshots:
        """What was noted about the log at some offsets of it. `restart` may forget them."""

    # -- writing -----------------------------------------------------------------------------------

    def append(self, batches: Sequence[PlacedBatch]) -> None:
        """Store batches that continue the log, rolling before any that does not fit its segment."""

    def takes_at_once(
        self, size_bytes: int, max_timestamp: TimestampMs, epoch: LeaderEpoch
    ) -> bool:
        """Whether appending such a batch, unsynced, is so brief that an event loop may do it."""

    def sync(self) -> None:
        """Make everything appended survive a power cut."""

    def roll(self) -> None:
        """Seal the active segment and open a new one at `end_offset`. An empty one stays."""

    # -- history -----------------------------------------------------------------------------------

    def epochs(self) -> tuple[EpochStart, ...]:
        """Leader-epoch history, oldest first, within start_offset..end_offset."""

    def note_epochs(self, history: Sequence[EpochStart]) -> None:
        """Remember epochs that begin at or above `end_offset`: where the first batch of one was
        removed by compaction on the leader, no batch shows where it began."""

    def delete(self, offsets: Iterable[Offset]) -> None:
        """Mark records as deleted. Durable on return."""

    # -- changing the past -------------------------------------------------------------------------

    def truncate(self, end: Offset) -> None:
        """Forget everything from `end` on: batches, index entries, deletion marks, epochs.

        Durable on return. A batch that begins below `end` and reaches past it goes as a whole.
        OffsetOutOfRange below `local_start`: what was offloaded is not here to be cut.
        """

    def trim(self, start: Offset) -> None:
        """Raise `start_offset` (never past `end_offset`), dropping segments wholly below it.

        Durable on return. Trimming to `end_offset` empties the log; offsets go on from there.
        """

    def offload(self, end: Offset) -> None:
        """Drop the sealed segments that lie wholly below `end`, which others have by now.

        The start stays, and all else that is known of their offsets: leader epochs, deletion marks,
        snapshots. Durable on return; may be repeated. Readers see `local_start` rise before
        anything is gone.
        """

    def restart(self, start: Offset) -> None:
        """Forget everything; the log is empty and goes on at `start`. Durable on return."""

    def files_of(self, base_offset: Offset) -> tuple[Path, ...]:
        """Log, offset index and time index of a sealed segment, as files that never change; none
        where it is kept in another way, or is not there."""

    def rewrite(
        self, base_offset: Offset, rewriter: Rewriter, marks: Set[Offset] | None = None
    ) -> None:
        """Replace a sealed segment by what `rewriter` leaves of it. Atomic and durable.

        Replacements keep base offset and last offset. Deletion marks within the segment are
        forgotten, since the caller leaves out what was deleted; or of them only `marks`.
        """

    def prepare_rewrite(
        self, base_offset: Offset, rewriter: Rewriter, marks: Set[Offset]
    ) -> Sequence[Step]:
        """What of a rewrite needs no writer: on any thread, beside everything else.

        The writer does the rest: the steps given back, each of them short where the store can help
        it, and nothing where the segment has changed meanwhile. `marks` are the deletion marks that
        are forgotten with it; others stay.
        """

    # -- end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Sync and release. A closed store opens without a scan."""

    def destroy(self) -> None:
        """Remove every trace: two-phase, so that a crash half-way is finished at the next start."""
