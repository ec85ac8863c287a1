"""Each shard's history, kept what the Meta Service says it is."""

from __future__ import annotations

import contextlib

from stratamq.model.errors import NotFound
from stratamq.model.types import ShardName
from stratamq.tiering.cold.history import ShardHistory
from stratamq.tiering.cold.reads import ColdReads
from stratamq.tiering.context import TierContext


class Histories:
    """Keeps each shard's history what the Meta Service says it is."""

    def __init__(self, context: TierContext, cold: ColdReads) -> None:
        self._context, self._cold = context, cold
        self._histories: dict[ShardName, ShardHistory] = {}

    def attach_all(self) -> None:
        for shard in self._context.cache.shards():
            self.attach(shard)

    def attach(self, shard: ShardName) -> None:
        """Also when the last file goes: what was offloaded then lies below the start."""
        engine = self._context.engine_of(shard)
        files = self._context.cache.files(shard)
        if engine is None:
            self._histories.pop(shard, None)
            return
        history = self._histories.setdefault(shard, self._cold.history(shard))
        history.replace(files)
        with contextlib.suppress(NotFound):  # the shard is being made, or has just gone
            engine.attach_history(shard, history)

    def detach_all(self) -> None:
        for shard in self._histories:
            engine = self._context.engine_of(shard)
            if engine is not None:
                with contextlib.suppress(NotFound):
                    engine.attach_history(shard, None)
        self._histories.clear()
