"""The handle of a shard in a storage that is not ours, over the methods of its StorageAdapter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from stratamq.engine.contract import AcceptedBatch, Acks, Done, FetchResult, Unsubscribe
from stratamq.engine.handle import ShardHandle, ShardPosition
from stratamq.model.shard import ShardOffsets
from stratamq.model.transaction import AbortedTxn
from stratamq.model.types import EARLIEST, NO_EPOCH, NO_OFFSET, LeaderEpoch, Offset, ShardName
from stratamq.wire.kafka.records import Buffer, Scratch

if TYPE_CHECKING:
    from stratamq.adapter.contract import StorageAdapter


class ForeignShard(ShardHandle):
    """Such a storage is asked for its offsets with each request. It has no transactions, tiers or
    epochs, and does not report writes: a consumer that waits looks again when its time is over."""

    answers_at_once = False

    def __init__(self, adapter: StorageAdapter, name: ShardName) -> None:
        self.name, self._adapter = name, adapter
        self._offsets = ShardOffsets(EARLIEST, EARLIEST, EARLIEST)
        self._appends: set[asyncio.Task[None]] = set()

    async def refresh(self) -> None:
        self._offsets = await self._adapter.offsets(self.name)

    def offsets(self) -> ShardOffsets:
        return self._offsets

    def last_stable(self) -> Offset:
        return self._offsets.high_watermark

    def local_start(self) -> Offset:
        return self._offsets.start

    def position(self) -> ShardPosition:
        return ShardPosition(self._offsets, self._offsets.high_watermark, 0)

    def subscribe(self, callback: Callable[[], None]) -> Unsubscribe:
        return lambda: None

    def accept(self, data: Buffer, decompressed_max: int, scratch: Scratch | None = None) -> Buffer:
        return data

    def append(self, data: Buffer | AcceptedBatch, acks: Acks | None, done: Done) -> None:
        task = asyncio.create_task(self._append(data, acks, done))
        self._appends.add(task)
        task.add_done_callback(self._appends.discard)

    async def _append(self, data: Buffer | AcceptedBatch, acks: Acks | None, done: Done) -> None:
        try:
            done(await self._adapter.append_batch(self.name, data, acks=acks))
        except Exception as error:
            done(error)

    def fetch_at_once(
        self, offset: Offset, bytes_max: int, position: ShardPosition, *, stable: bool
    ) -> FetchResult | None:
        return None

    async def fetch(self, offset: Offset, bytes_max: int, end: Offset | None = None) -> FetchResult:
        return await self._adapter.fetch_batches(self.name, offset, bytes_max, end)

    def aborted(self, start: Offset, end: Offset) -> list[AbortedTxn]:
        return []

    def end_of_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        return NO_EPOCH, NO_OFFSET
