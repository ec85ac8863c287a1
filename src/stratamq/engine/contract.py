"""What an engine promises: a small contract for each use, and the values in them.

`stratamq.engine.engine.StorageEngine` fulfils all of them, over three kinds of storage; each user
names the one it needs. One behaviour suite (`tests/engine/behaviour`) holds every engine to them.

Async methods may be called from many tasks of one event loop. Records are seen by consumers in
`start..high_watermark - 1`, without those deleted or expired, and without control batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stratamq.engine.tiered import History
from stratamq.log.contract import EpochStart, SegmentInfo
from stratamq.model.dataclass import dataclass
from stratamq.model.record import Record
from stratamq.model.shard import ShardOffsets
from stratamq.model.topic import TopicConfig
from stratamq.model.transaction import AbortedTxn, ProducerStateEntry, TransactionMarker
from stratamq.model.types import EARLIEST, LeaderEpoch, Offset, ShardName, TimestampMs
from stratamq.wire.kafka.records import BatchHeader, BatchScan, Buffer

if TYPE_CHECKING:
    from stratamq.engine.handle import Local, Remote, ShardHandle

Unsubscribe = Callable[[], None]


class Acks(StrEnum):
    """Who must have a record before its producer hears of it.

    Kafka's numbers are mapped at its edge: 0 and 1 to the first two, -1 by the topic's
    `commit.policy` to one of the others.
    """

    NONE = "0"
    LEADER = "1"
    QUORUM = "quorum"
    ALL = "all"


class ReadLimit(NamedTuple):
    """A read stops at whichever comes first; the first record is returned however large it is."""

    records_max: int = 1000
    bytes_max: int = 1 << 20


class OffsetStrategy(StrEnum):
    """What `offset_by_timestamp` gives when no record is that young."""

    EARLIEST = "earliest"
    LATEST = "latest"


class AppendResult(NamedTuple):
    """Where a batch landed. `append_time` is -1 unless the topic stamps records (LogAppendTime);
    `log_start` is the first offset there was when it landed."""

    base_offset: Offset
    last_offset: Offset
    append_time: TimestampMs
    log_start: Offset


Done = Callable[[AppendResult | BaseException], None]
"""Called on the event loop with where a batch landed, or why it did not."""


class AcceptedBatch(NamedTuple):
    """A batch that `accept` has looked at, as it is to be stored."""

    data: Buffer
    header: BatchHeader
    scan: BatchScan
    unpacked_bytes: int
    """What its records take unpacked; 0 where they are not compressed."""


class FetchResult(NamedTuple):
    """Whole batches, ready for a consumer; `next_offset` is where the last of them ends.

    With `skips` the last one is a mark that covers offsets without a record
    (`stratamq.wire.kafka.records.encode_skip`).
    """

    data: bytes
    next_offset: Offset
    skips: bool
    offsets: ShardOffsets


@dataclass(frozen=True, slots=True)
class ExportedSegment:
    """A copy of a sealed segment that nobody else changes or removes.

    `log` holds its batches one after the other, deleted records too; the sidecars are there where
    the engine has them.
    """

    log: Path
    index: Path | None
    timeindex: Path | None
    segment: SegmentInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSpec:
    """What a shard is created with.

    With `replicated`, only `advance_high_watermark` moves the high watermark; without it, whatever
    is acknowledged is committed.
    """

    name: ShardName
    config: TopicConfig = field(default_factory=TopicConfig.of)
    replicated: bool = False


class ShardManagement(Protocol):
    """Which shards an engine has. Used by the adapter, on behalf of the node."""

    async def open(self) -> None:
        """Open, recover what an unclean stop left, finish deletions that were under way."""

    async def close(self) -> None:
        """Answer what is queued, sync, release. Afterwards every call raises Closed."""

    async def create_shard(self, spec: ShardSpec) -> None:
        """Idempotent by name; on an existing shard the changeable configs are replaced."""

    async def delete_shard(self, name: ShardName) -> None:
        """Idempotent. Two-phase: gone for all at once, its bytes soon after, crash or not."""

    def list_shards(self) -> Mapping[ShardName, ShardSpec]:
        """Those that are open."""

    async def restore_shards(self, specs: Sequence[ShardSpec]) -> None:
        """Make the shards agree with what the Meta Service knows, after a start. A durable shard
        that is not on disk becomes unavailable; it is never created empty in the place of one."""

    def is_unopened(self, name: ShardName) -> bool:
        """Whether a start has left the shard closed, since it has very many. Every call opens it,
        and holds up the event loop meanwhile; `open_shard` does not."""

    async def open_shard(self, name: ShardName) -> None:
        """Open a shard that is not open yet. Whether that went well, the next call will say."""

    def unavailable_shards(self) -> Mapping[ShardName, str]:
        """Shards that cannot be opened or take no writes, each with the reason. Reading and writing
        one that cannot be opened raises ShardUnavailable; its files are left as they are."""

    async def check_files(self) -> None:
        """Look for open shards whose files were removed from outside; they take no writes then."""

    async def retry_shard(self, spec: ShardSpec, *, repair: bool = False) -> bool:
        """Open an unavailable shard again from what its disk holds now; False when the shard was
        fine. With `repair`, a lost `shard.json` is written again from `spec`. StorageError when the
        shard stays unavailable."""

    async def recover_shard(self, shard: ShardName) -> None:
        """Open a poisoned shard again from what its disk really holds."""


class ShardWriting(Protocol):
    """What only a shard's leader does for its clients. Used by the handler."""

    def handle(self, name: ShardName, leader: Local | Remote) -> ShardHandle:
        """A shard for many calls; `leader` is who leads it from now on."""

    async def write(self, shard: ShardName, record: Record) -> Offset: ...

    async def batch_write(
        self, shard: ShardName, records: Sequence[Record], acks: Acks | None = Acks.LEADER
    ) -> range:
        """The offsets of the records, in order. All are stored, or none. `acks` None: what the
        topic's `commit.policy` says."""

    async def append_batch(
        self,
        shard: ShardName,
        data: Buffer | AcceptedBatch,
        leader_epoch: LeaderEpoch | None = None,
    ) -> AppendResult:
        """Validate one batch, give it its offsets, store it, make it as durable as `flush` says.

        Batches of one shard are stored in the order of the calls. `data` may be a view into a
        larger buffer, which must not change until the answer is there.

        InvalidTimestamp when a record is further in the future than the topic allows
        (`message.timestamp.after.max.ms`). Records written one by one are not held to that.

        A batch with a producer id that was stored before is answered with its old offsets; one that
        does not follow the producer's last is ProducerRefused: see `engine.producers.rules`.
        """

    async def write_marker(
        self,
        shard: ShardName,
        marker: TransactionMarker,
        leader_epoch: LeaderEpoch | None = None,
    ) -> Offset:
        """End a producer's transaction; the offset of the mark. Repeating it does no harm.

        InvalidProducerEpoch or CoordinatorFenced when either has been replaced by a newer one.
        """

    async def delete_by_key(self, shard: ShardName, key: bytes) -> int:
        """Delete every record of the key there is now. The number deleted."""

    async def delete_by_offset(self, shard: ShardName, offset: Offset) -> bool:
        """Delete one record. False when there was none to delete."""


class ShardReading(Protocol):
    """What any node that stores the shard can answer. Used by the adapter."""

    def offsets(self, shard: ShardName) -> ShardOffsets: ...

    def subscribe(self, shard: ShardName, callback: Callable[[], None]) -> Unsubscribe:
        """Call back on the event loop whenever start or high watermark may have moved, and when the
        shard goes. The callback must be quick: writers wait for it."""

    async def read_by_offset(
        self, shard: ShardName, offset: Offset, limit: ReadLimit = ReadLimit()
    ) -> list[Record]:
        """Records from `offset` on; [] at the high watermark.

        Below the start or past the high watermark: OffsetOutOfRange.
        """

    async def read_by_key(
        self,
        shard: ShardName,
        key: bytes,
        offset: Offset = EARLIEST,
        limit: ReadLimit = ReadLimit(),
        *,
        history: bool = False,
    ) -> list[Record]:
        """The newest record of the key at or after `offset`; with `history` all, newest first."""

    async def read_by_tag(
        self,
        shard: ShardName,
        tag: bytes,
        offset: Offset = EARLIEST,
        limit: ReadLimit = ReadLimit(),
    ) -> list[Record]:
        """Records with exactly this tag at or after `offset`, oldest first."""

    async def offset_by_timestamp(
        self,
        shard: ShardName,
        timestamp: TimestampMs,
        strategy: OffsetStrategy = OffsetStrategy.LATEST,
    ) -> Offset:
        """Offset of the first record at or after `timestamp`; else the start or high watermark."""

    async def youngest_record(self, shard: ShardName, end: Offset | None = None) -> Record | None:
        """The record with the largest timestamp, and the first of those if there are several; of
        those below `end`. None where no timestamp is 0 or more."""

    async def fetch_batches(
        self,
        shard: ShardName,
        offset: Offset,
        bytes_max: int = 1 << 20,
        end: Offset | None = None,
    ) -> FetchResult:
        """Batches for a consumer, never past the high watermark, nor past `end`.

        Stored bytes, untouched, unless records in them were deleted or expired: those batches are
        rewritten without them. Where nothing else is left to read, a mark leads the consumer to the
        end. Empty only where there is nothing below the end, or a batch that reaches past it.
        """

    def last_stable_offset(self, shard: ShardName) -> Offset:
        """The first offset of which it is not decided yet whether it counts; where all is decided,
        the high watermark."""

    def aborted_transactions(
        self, shard: ShardName, start: Offset, end: Offset
    ) -> list[AbortedTxn]:
        """Those that may have records in `start..end - 1`, by the offsets of their marks."""

    def producers(self, shard: ShardName) -> list[ProducerStateEntry]:
        """Those who have written lately, or have a transaction under way."""

    def segments(self, shard: ShardName) -> tuple[SegmentInfo, ...]:
        """Those that are kept here. On the event loop, `load_segments` comes before: sealed
        segments that were not looked into since the engine was opened take a look at the disk."""

    async def load_segments(self, shard: ShardName) -> tuple[SegmentInfo, ...]:
        """As `segments`, without holding up the event loop."""

    def local_start(self, shard: ShardName) -> Offset:
        """First offset that is kept here; the start, where nothing was offloaded."""

    def tiered_end(self, shard: ShardName) -> Offset:
        """Where that which object storage has ends, kept here as well or not; 0 where it has
        nothing."""

    def cold_segments(self, shard: ShardName) -> tuple[SegmentInfo, ...]:
        """What object storage has and this node has not, as far as it is known; `segments` has what
        is stored here."""

    async def deleted(self, shard: ShardName, start: Offset, end: Offset) -> list[Offset]:
        """Offsets in start..end-1 that were deleted one by one and whose records may still lie
        somewhere, ascending."""


class ShardReplication(Protocol):
    """What a replica does that follows a leader, and what a leader answers it."""

    async def append_replica(self, shard: ShardName, data: bytes) -> Offset:
        """Append a leader's batches at their own offsets and epochs; the new end.

        They must lie behind the log's end (OffsetNotConsecutive): a gap is what compaction left at
        the leader. An empty log may start anywhere.
        """

    async def read_raw(self, shard: ShardName, offset: Offset, bytes_max: int = 1 << 20) -> bytes:
        """Stored batches up to the log end, deleted and expired records too: replicas are equal."""

    async def truncate(self, shard: ShardName, end: Offset) -> None:
        """Forget everything from `end` on, in every index too. The high watermark follows down.

        OffsetOutOfRange below the start, and below what object storage has or was given.
        """

    def epochs(self, shard: ShardName) -> tuple[EpochStart, ...]: ...

    def end_of_epoch(self, shard: ShardName, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """The largest known epoch <= `epoch`, and where it ends; (-1, -1) when there is none."""

    async def advance_high_watermark(self, shard: ShardName, offset: Offset) -> None:
        """Raise a replicated shard's high watermark; never above the log end, never backwards."""


class ShardHousekeeping(Protocol):
    """What gives space back. Used by the adapter, on behalf of the housekeeper."""

    async def trim(self, shard: ShardName, start: Offset) -> Offset:
        """Delete all below `start`; the new start. Past the high watermark: OffsetOutOfRange."""

    async def roll(self, shard: ShardName) -> None:
        """Seal the active segment now."""

    async def apply_retention(self, shard: ShardName) -> int:
        """Delete the segments that time and size limits say; the number deleted."""

    async def compact(self, shard: ShardName) -> int:
        """Give back the space of records nobody can read any more; the number of bytes given back.

        Those are deleted and expired ones and, where the policy says so, superseded keys, all in
        sealed segments that object storage does not have and was not given. 0 while a backup is
        taken: the next call does it.
        """


class ShardTiering(Protocol):
    """What moving a shard's history to object storage takes. Used by `stratamq.tiering`."""

    def attach_history(self, shard: ShardName, history: History | None) -> None:
        """What object storage has of the shard, for readers from now on.

        Without one, what was offloaded cannot be read (StoreUnavailable); everything else can.
        """

    async def export_segment(
        self, shard: ShardName, base_offset: Offset, folder: Path
    ) -> ExportedSegment:
        """A copy in `folder` of the sealed segment that begins there, for the mover.

        NotFound when there is none, or when not all of it is decided (last stable offset). From now
        on compaction leaves the segment alone. May be repeated.
        """

    async def offload(self, shard: ShardName, end: Offset) -> int:
        """Drop the sealed segments wholly below `end` that the attached history has; the bytes
        freed.

        Oldest first and without leaving one out, never past the last stable offset. Readers find
        in the history what is gone here. Durable; may be repeated.
        """

    async def note_shown(self, shard: ShardName, end: Offset) -> None:
        """A table is about to show what is below `end`. From now on a compaction takes deleted
        records from there, but does not forget that they are."""

    # Promised above.

    def offsets(self, shard: ShardName) -> ShardOffsets: ...

    def last_stable_offset(self, shard: ShardName) -> Offset: ...

    def aborted_transactions(
        self, shard: ShardName, start: Offset, end: Offset
    ) -> list[AbortedTxn]: ...

    def segments(self, shard: ShardName) -> tuple[SegmentInfo, ...]: ...

    async def load_segments(self, shard: ShardName) -> tuple[SegmentInfo, ...]: ...

    async def deleted(self, shard: ShardName, start: Offset, end: Offset) -> list[Offset]: ...

    async def read_raw(
        self, shard: ShardName, offset: Offset, bytes_max: int = 1 << 20
    ) -> bytes: ...

    async def compact(self, shard: ShardName) -> int: ...
