"""Group offsets that wait for the end of a transaction.

The transaction coordinator calls `add` for TxnOffsetCommit, which is durable on return. It calls
`ending` when the transaction is over, and stores that command together with the end of the
transaction. The command may be repeated, so a coordinator that was killed half-way just finishes
again after its restart.
"""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.adapter.offset_cache import OffsetCacheManager
from stratamq.adapter.offsets import OffsetManager, OffsetStorageManager
from stratamq.meta.groups import AddPendingOffsets, CommitOffset, EndPendingOffsets, OffsetKey
from stratamq.meta.service import MetaService
from stratamq.model.clock import Clock
from stratamq.model.types import ShardName


class PendingOffsets:
    """What transactions will commit, by producer id. The Meta Service stores it."""

    def __init__(self, meta: MetaService, offsets: OffsetManager, clock: Clock) -> None:
        self._meta = meta
        self._offsets = offsets
        self._clock = clock

    async def add(self, group: str, producer_id: int, offsets: Sequence[CommitOffset]) -> None:
        """All entries or none; a later one for the same shard replaces the earlier."""
        await self._meta.submit(
            AddPendingOffsets(producer_id=producer_id, group=group, offsets=tuple(offsets))
        )

    async def ending(self, producer_id: int, *, commit: bool) -> EndPendingOffsets:
        """With this command, what the producer added is what its groups have read; or it is gone.

        Offsets that are stored elsewhere are committed there first, and durably: after a crash
        between the two they are committed again.
        """
        in_meta = isinstance(self._offsets, OffsetStorageManager)
        if commit and not in_meta:
            for group, entries in self._by_group(producer_id).items():
                known = [one for one in entries if one.shard in self._meta.state.shards]
                await self._offsets.commit(group, known)
                if isinstance(self._offsets, OffsetCacheManager):
                    await self._offsets.flush()
        return EndPendingOffsets(
            producer_id=producer_id, commit=commit and in_meta, commit_ms=self._clock.now_ms()
        )

    async def commit(self, producer_id: int) -> None:
        """What the producer added is what its groups have read from now on."""
        await self._meta.submit(await self.ending(producer_id, commit=True))

    async def abort(self, producer_id: int) -> None:
        await self._meta.submit(await self.ending(producer_id, commit=False))

    def groups(self, producer_id: int) -> set[str]:
        """The groups for which the producer has something pending."""
        return set(self._by_group(producer_id))

    def producers(self, group: str) -> set[int]:
        return {
            producer_id
            for producer_id, waiting in self._meta.state.pending.items()
            if any(key.group == group for key in waiting)
        }

    def is_pending(self, group: str, shard: ShardName) -> bool:
        key = OffsetKey(group, shard)
        return any(key in waiting for waiting in self._meta.state.pending.values())

    def _by_group(self, producer_id: int) -> dict[str, list[CommitOffset]]:
        groups: dict[str, list[CommitOffset]] = {}
        for pending in self._meta.state.pending.get(producer_id, {}).values():
            entry = CommitOffset(
                shard=pending.shard,
                offset=pending.offset,
                metadata=pending.metadata,
                leader_epoch=pending.leader_epoch,
            )
            groups.setdefault(pending.group, []).append(entry)
        return groups
