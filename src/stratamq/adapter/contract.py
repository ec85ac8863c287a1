"""What a storage of messages must be able to do. The one interface brokers see.

Everything is by shard. To store topics elsewhere, a user writes a StorageAdapter and registers
it with `StorageDriverManager.register`; the rest of the node does not notice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from stratamq.engine.contract import (
    AcceptedBatch,
    Acks,
    AppendResult,
    FetchResult,
    OffsetStrategy,
    ReadLimit,
    ShardSpec,
)
from stratamq.engine.handle import ShardHandle
from stratamq.log.contract import SegmentInfo
from stratamq.model.errors import InvalidTransactionState
from stratamq.model.record import Record
from stratamq.model.shard import ShardOffsets
from stratamq.model.transaction import ProducerStateEntry
from stratamq.model.types import (
    EARLIEST,
    Offset,
    ShardName,
    TimestampMs,
)
from stratamq.wire.kafka.records import Buffer


class StorageAdapter(ABC):
    """Promises hold as in DESIGN section 4: offsets are strictly consecutive, each caller gets its
    own, a batch is stored whole or not at all, no reader gets past the high watermark, and what
    was deleted is never returned again. Errors are `stratamq.model.errors`."""

    # -- life ----------------------------------------------------------------------------------

    @abstractmethod
    async def open(self) -> None:
        """Called once, before anything else."""

    @abstractmethod
    async def close(self) -> None:
        """Called once, when it is not used any more; also after an `open` that failed."""

    # -- shards --------------------------------------------------------------------------------

    @abstractmethod
    async def create_shard(self, spec: ShardSpec) -> None:
        """Idempotent by name; an existing shard takes the new configs."""

    @abstractmethod
    async def delete_shard(self, shard: ShardName) -> None:
        """Idempotent. Two-phase, so that a crash half-way is finished later."""

    @abstractmethod
    async def list_shard(self) -> Mapping[ShardName, ShardSpec]: ...

    async def restore_shards(self, specs: Sequence[ShardSpec]) -> None:
        """Make the storage agree with what the Meta Service knows, after a start. A storage that
        keeps its shards over a restart overrides this: it must not create one that it has lost."""
        there = await self.list_shard()
        for spec in specs:
            if there.get(spec.name) != spec:
                await self.create_shard(spec)

    def is_unopened(self, shard: ShardName) -> bool:
        """Whether the shard has to be opened by `open_shard` before it can be used at once."""
        return False

    async def open_shard(self, shard: ShardName) -> None:
        """Open a shard that a start has left closed."""
        return

    def unavailable_shards(self) -> Mapping[ShardName, str]:
        """Shards that cannot be opened or take no writes, each with the reason."""
        return {}

    async def check_files(self) -> None:
        """Look for shards whose files are gone; they are among the unavailable ones then."""
        return

    async def retry_shard(self, spec: ShardSpec, *, repair: bool = False) -> bool:
        """Open an unavailable shard again; False when the shard was fine."""
        return False

    @abstractmethod
    async def offsets(self, shard: ShardName) -> ShardOffsets: ...

    def handle(self, shard: ShardName) -> ShardHandle:
        """The shard for many calls. What is made here uses the methods of this contract; a storage
        that has logs of its own gives something better."""
        from stratamq.adapter.foreign_shard import ForeignShard

        return ForeignShard(self, shard)

    # -- records -------------------------------------------------------------------------------

    @abstractmethod
    async def write(self, shard: ShardName, record: Record, *, acks: Acks | None = None) -> Offset:
        """`acks` None: what the topic's `commit.policy` says."""

    @abstractmethod
    async def batch_write(
        self, shard: ShardName, records: Sequence[Record], *, acks: Acks | None = None
    ) -> range:
        """The records' offsets, in order. All are stored, or none."""

    @abstractmethod
    async def read_by_offset(
        self, shard: ShardName, offset: Offset, limit: ReadLimit = ReadLimit()
    ) -> list[Record]:
        """From `offset` on. Below the start or past the high watermark: OffsetOutOfRange."""

    @abstractmethod
    async def read_by_tag(
        self,
        shard: ShardName,
        tag: bytes,
        offset: Offset = EARLIEST,
        limit: ReadLimit = ReadLimit(),
    ) -> list[Record]:
        """Records with exactly this tag, oldest first."""

    @abstractmethod
    async def read_by_key(
        self,
        shard: ShardName,
        key: bytes,
        offset: Offset = EARLIEST,
        limit: ReadLimit = ReadLimit(),
        *,
        history: bool = False,
    ) -> list[Record]:
        """The newest record of the key; with `history` all of them, newest first."""

    @abstractmethod
    async def delete_by_key(self, shard: ShardName, key: bytes) -> int:
        """Delete every record of the key there is now. The number deleted."""

    @abstractmethod
    async def delete_by_offset(self, shard: ShardName, offset: Offset) -> bool:
        """Delete one record. False when there was none to delete."""

    @abstractmethod
    async def get_offset_by_timestamp(
        self,
        shard: ShardName,
        timestamp: TimestampMs,
        strategy: OffsetStrategy = OffsetStrategy.LATEST,
    ) -> Offset:
        """The first record at or after `timestamp`; `strategy` says what when there is none."""

    @abstractmethod
    async def youngest_record(self, shard: ShardName, end: Offset | None = None) -> Record | None:
        """The first record with the largest timestamp, of those below `end`; None where no
        timestamp is 0 or more."""

    # -- groups --------------------------------------------------------------------------------

    @abstractmethod
    async def get_offset_by_group(
        self,
        shard: ShardName,
        group: str,
        strategy: OffsetStrategy = OffsetStrategy.EARLIEST,
    ) -> Offset:
        """What the group committed; `strategy` says what when it did not."""

    @abstractmethod
    async def commit_offset(self, group: str, offsets: Mapping[ShardName, Offset]) -> None:
        """All are committed, or none."""

    # -- batches: the same messages without decoding -------------------------------------------

    @abstractmethod
    async def append_batch(
        self,
        shard: ShardName,
        data: Buffer | AcceptedBatch,
        *,
        acks: Acks | None = None,
    ) -> AppendResult: ...

    @abstractmethod
    async def fetch_batches(
        self,
        shard: ShardName,
        offset: Offset,
        bytes_max: int = 1 << 20,
        end: Offset | None = None,
    ) -> FetchResult: ...

    # -- what a storage without logs of its own leaves as it is ---------------------------------

    async def segments(self, shard: ShardName) -> tuple[SegmentInfo, ...]:
        return ()

    # -- history: a storage without tiers has all of it, and nothing is deleted by marks ----------

    def tiered_end(self, shard: ShardName) -> Offset:
        """The end of what is on object storage, whether it is here as well or not; 0 where nothing
        is."""
        return EARLIEST

    def cold_segments(self, shard: ShardName) -> tuple[SegmentInfo, ...]:
        """Those that are on object storage only."""
        return ()

    async def deleted(self, shard: ShardName, start: Offset, end: Offset) -> Sequence[Offset]:
        """Offsets in start..end-1 that were deleted one by one and whose records may still lie
        somewhere, ascending. No reader gets them."""
        return ()

    # -- transactions: a storage without them takes none, and has nothing undecided -------------

    async def write_marker(
        self,
        shard: ShardName,
        *,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
    ) -> Offset:
        """End a producer's transaction; the offset of the mark. Repeating it does no harm.

        InvalidProducerEpoch or CoordinatorFenced when either has been replaced by a newer one.
        """
        raise InvalidTransactionState(f"{shard} is in a storage without transactions")

    async def producers(self, shard: ShardName) -> list[ProducerStateEntry]:
        """The producers that have written lately, or have a transaction under way."""
        return []

    # -- housekeeping --------------------------------------------------------------------------

    @abstractmethod
    async def trim(self, shard: ShardName, start: Offset) -> Offset:
        """Delete everything below `start`; the new start."""

    async def apply_retention(self, shard: ShardName) -> int:
        """Delete what time and size limits say; the number of segments deleted.

        Called at intervals. A storage that expires things by itself leaves it as it is.
        """
        return 0

    async def compact(self, shard: ShardName) -> int:
        """Give back the space of what is not returned any more; the number of bytes. Called
        likewise."""
        return 0
