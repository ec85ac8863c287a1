"""EngineMemory: microseconds, and gone with the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from stratamq.engine.capacity import Capacity
from stratamq.engine.contract import ShardSpec
from stratamq.engine.engine import BatchEngine
from stratamq.engine.executor import Inline
from stratamq.engine.group import Group
from stratamq.engine.keeper import Kept
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory_store import MemoryShardStore
from stratamq.log.contract import ShardStore
from stratamq.model.clock import Clock, SystemClock
from stratamq.model.errors import StrataError
from stratamq.model.types import Offset, ShardName


class MemoryKeeper:
    """Keeps shards in memory, within a capacity that all of them share."""

    def __init__(self, limits: EngineLimits) -> None:
        self._capacity = Capacity(limits)

    def open(self) -> Sequence[Kept]:
        return []

    def create(self, spec: ShardSpec) -> ShardStore:
        return self._capacity.adopt(MemoryShardStore(spec.config, weigh=self._capacity.weigh))

    def configure(self, spec: ShardSpec, store: ShardStore) -> None:
        assert isinstance(store, MemoryShardStore), "every store here was created here"
        store.config = spec.config

    def reopen(self, spec: ShardSpec, store: ShardStore) -> ShardStore:
        return store

    def destroy(self, spec: ShardSpec, store: ShardStore) -> None:
        store.destroy()
        self._capacity.release(store)

    def commit(self, groups: Sequence[Group]) -> None:
        for group in groups:
            try:
                self._capacity.make_room(group.batches, group.now_ms)
                group.store.append(group.batches, group.now_ms)
            except StrataError as error:
                group.error = error

    def save_high_watermarks(self, marks: Mapping[ShardName, Offset]) -> None:
        pass

    def close(self) -> None:
        pass


class EngineMemory(BatchEngine):
    """All in memory, all on the event loop. `data_dir` is where persisted segments go."""

    def __init__(
        self,
        data_dir: Path,
        *,
        clock: Clock | None = None,
        limits: EngineLimits | None = None,
    ) -> None:
        clock, limits = clock or SystemClock(), limits or EngineLimits()
        keeper = MemoryKeeper(limits)
        super().__init__(keeper, Inline(keeper.commit, clock), clock, limits)
