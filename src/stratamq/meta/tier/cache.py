"""A node's copy of what the Meta Service stores about object storage."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from stratamq.meta.client import MetaClient, WatchedCache
from stratamq.meta.state import Event, MetaState, Put
from stratamq.meta.tier.files import RetiredObject, TierFile
from stratamq.model.types import Offset, ShardName

Listener = Callable[[ShardName], None]


class TierCache(WatchedCache):
    """Files by shard, and objects that wait for their deletion. Listeners are called when a shard's
    files may have changed; they must be quick."""

    def __init__(self, client: MetaClient, *, reconcile_s: float = 10.0) -> None:
        super().__init__(client, reconcile_s=reconcile_s)
        self._files: dict[ShardName, dict[Offset, TierFile]] = {}
        self._retired: dict[str, RetiredObject] = {}
        self._listeners: list[Listener] = []

    def files(self, shard: ShardName) -> tuple[TierFile, ...]:
        """In the order of their offsets."""
        found = self._files.get(shard, {})
        return tuple(found[base] for base in sorted(found))

    def shards(self) -> list[ShardName]:
        """Those that have files."""
        return list(self._files)

    def retired(self) -> Mapping[str, RetiredObject]:
        return self._retired

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def unlisten(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    def _replace(self, state: MetaState) -> None:
        before = self._files
        self._files = {
            shard: {file.base_offset: file for file in files}
            for shard, files in state.files.items()
        }
        self._retired = dict(state.retired.items())
        for shard in before.keys() | self._files.keys():
            if before.get(shard) != self._files.get(shard):
                self._notify(shard)

    def _change(self, event: Event) -> Hashable | None:
        match event.entity:
            case TierFile() as file:
                files = self._files.setdefault(file.shard, {})
                files.pop(file.base_offset, None)
                if isinstance(event, Put):
                    files[file.base_offset] = file
                if not files:
                    del self._files[file.shard]
                self._notify(file.shard)
                return file.shard
            case RetiredObject() as retired:
                self._retired.pop(retired.key, None)
                if isinstance(event, Put):
                    self._retired[retired.key] = retired
        return None

    def _notify(self, shard: ShardName) -> None:
        for listener in self._listeners:
            listener(shard)
