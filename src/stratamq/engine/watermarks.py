"""When the high watermarks of replicas are saved.

After a crash a replica may know of less that is committed than before, never of more. So a
watermark that rises is saved some time later, together with others; one that goes down is saved
before anything is cut or written, because what is written next at those offsets is not committed.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import TimerHandle
from collections.abc import Sequence

from stratamq.engine.executor import Executor
from stratamq.engine.shard import Shard
from stratamq.engine.storage import ShardStorage
from stratamq.model.errors import StrataError
from stratamq.model.types import Offset

logger = logging.getLogger(__name__)


class WatermarkSaver:
    """Used from one event loop. Shards without replicas need no saving: all they have is
    committed."""

    def __init__(self, storage: ShardStorage, executor: Executor, checkpoint_ms: int) -> None:
        self._storage, self._executor = storage, executor
        self._checkpoint_ms = checkpoint_ms
        self._unsaved: dict[Shard, None] = {}
        self._checkpoint: TimerHandle | None = None
        self._saving: asyncio.Task[None] | None = None
        self._turns = asyncio.Lock()

    def moved(self, shard: Shard) -> None:
        """It has risen, and is to be saved some time soon."""
        self._unsaved[shard] = None
        if self._checkpoint is None:
            loop = asyncio.get_running_loop()
            self._checkpoint = loop.call_later(self._checkpoint_ms / 1000, self._start_saving)

    def forget(self, shard: Shard) -> None:
        """The shard is deleted."""
        self._unsaved.pop(shard, None)

    async def lower(self, shard: Shard, end: Offset) -> None:
        """Down to `end` if it is above, and saved on return."""
        if end < shard.commits.high_watermark:
            shard.commits.hide(end)
            await self.save(shard)

    async def save(self, shard: Shard) -> None:
        if shard.replicated:
            await self._save([shard])

    async def save_lowered(self, shards: Sequence[Shard]) -> None:
        """Their logs are shorter than when their watermarks were saved: until this is saved they
        take no writes, and `Registry.recover` tries again where it fails."""
        for shard in shards:
            shard.poison = "its high watermark is being saved"
        try:
            await self._save(shards)
            reason = None
        except StrataError as error:
            reason = f"its high watermark could not be saved: {error}"
        for shard in shards:
            shard.poison = reason

    def stop(self) -> None:
        """No more checkpoints; `save_last` saves what is left."""
        if self._checkpoint is not None:
            self._checkpoint.cancel()

    async def save_last(self) -> None:
        if self._saving is not None:
            await self._saving
        await self.save_unsaved()

    def _start_saving(self) -> None:
        self._checkpoint = None
        self._saving = asyncio.create_task(self.save_unsaved())

    async def save_unsaved(self) -> None:
        unsaved, self._unsaved = self._unsaved, {}
        try:
            await self._save(list(unsaved))
        except StrataError as error:
            logger.warning("high watermarks were not saved: %s", error)

    async def _save(self, shards: Sequence[Shard]) -> None:
        """One at a time, each with the watermarks of its moment: an older one never comes last."""
        async with self._turns:
            marks = {shard.name: shard.committed() for shard in shards if not shard.gone}
            if marks:
                await self._executor.call(lambda: self._storage.save_high_watermarks(marks))
