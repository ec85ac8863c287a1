"""Shards in the Meta Service: what is stored of one, the commands that change it and their rules,
its rows, and the cache of a node, which holds their segments too."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace

from stratamq.meta.client import WatchedCache
from stratamq.meta.rows import RowFormat
from stratamq.meta.segments import SegmentMeta
from stratamq.meta.state import Event, MetaState, Put, Removed
from stratamq.meta.tier.rules import drop_all
from stratamq.meta.topics import TopicPhase
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import AlreadyExists, InvalidInput, TopicNotFound
from stratamq.model.shard import SegmentState, shard_name
from stratamq.model.types import NO_OFFSET, ShardName, TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardMeta:
    """A shard. One that is `deleting` never comes into use again."""

    name: ShardName
    topic_id: TopicId
    partition: int
    deleting: bool = False

    @property
    def key(self) -> ShardName:
        return self.name


SHARD_ROWS = (
    RowFormat(ShardMeta, b"s", lambda shard: shard.name.encode(), lambda row: ShardMeta(**row)),
)


# -- commands -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateShard:
    """Register the next partition's shard of a topic. Idempotent."""

    topic_id: TopicId
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShard:
    """First phase, for a shard of an unfinished growth: from now on the topic cannot get it, and
    its data may be deleted. Idempotent."""

    shard: ShardName


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveShard:
    """Second phase, when the data is gone: forget the topic's last shard. Idempotent."""

    shard: ShardName


# -- rules ----------------------------------------------------------------------------------------


def create_shard(state: MetaState, command: CreateShard) -> list[Event]:
    meta = state.topic(command.topic_id)
    if meta.phase is TopicPhase.DELETING:
        raise TopicNotFound(f"topic {meta.topic.name!r} is being deleted")
    name = shard_name(command.topic_id, command.partition)
    if name in state.shards:
        if state.shards[name].deleting:
            raise AlreadyExists(f"{name} is still being deleted")
        return []
    before = shard_name(command.topic_id, command.partition - 1)
    if command.partition and before not in state.shards:
        raise InvalidInput(f"{name} would leave a hole: {before} does not exist")
    return [Put(ShardMeta(name=name, topic_id=command.topic_id, partition=command.partition))]


def delete_shard(state: MetaState, command: DeleteShard) -> list[Event]:
    shard = state.shards.get(command.shard)
    if shard is None or shard.deleting:
        return []
    meta = state.topic(shard.topic_id)
    if shard.partition < meta.topic.partitions:
        raise AlreadyExists(f"{shard.name} is in use by topic {meta.topic.name!r}")
    return [Put(replace(shard, deleting=True))]


def remove_shard(state: MetaState, command: RemoveShard) -> list[Event]:
    shard = state.shards.get(command.shard)
    if shard is None:
        return []
    if not shard.deleting:
        raise AlreadyExists(f"{shard.name} is in use: delete it first")
    if shard_name(shard.topic_id, shard.partition + 1) in state.shards:
        raise AlreadyExists(f"{shard.name} is not the last shard of its topic")
    segments: list[Event] = [Removed(segment) for segment in state.segments_of(shard.name)]
    return [*segments, *drop_all(state, shard.name), Removed(shard)]


# -- the cache of a node --------------------------------------------------------------------------


@dataclass(slots=True)
class ShardEntry:
    """A shard with its segments, oldest first."""

    shard: ShardMeta
    segments: dict[int, SegmentMeta]

    @property
    def active(self) -> SegmentMeta | None:
        """The segment that is written to, if it has begun."""
        for segment in reversed(self.segments.values()):
            if segment.state is SegmentState.ACTIVE and segment.start_offset != NO_OFFSET:
                return segment
        return None


class StorageCacheManager(WatchedCache):
    """Shards and their segments, by shard name."""

    changes = 0
    """Counts the changes of shards and segments."""

    _shards: dict[ShardName, ShardEntry]

    def shard(self, name: ShardName) -> ShardEntry | None:
        return self._shards.get(name)

    def shards(self) -> Mapping[ShardName, ShardEntry]:
        return self._shards

    async def wait_for_shard(self, name: ShardName, timeout_s: float) -> ShardEntry:
        """The shard, once it and a segment it can be written to are known here."""

        def look() -> ShardEntry | None:
            entry = self._shards.get(name)
            return entry if entry is not None and entry.active is not None else None

        return await self._wait(name, look, timeout_s, f"shard {name}")

    def _replace(self, state: MetaState) -> None:
        self._shards = {
            shard.name: ShardEntry(shard, _by_seq(state.segments_of(shard.name)))
            for shard in state.shards.values()
        }
        self.changes += 1

    def _change(self, event: Event) -> Hashable | None:
        present = isinstance(event, Put)
        match event.entity:
            case ShardMeta() as shard:
                self.changes += 1
                entry = self._shards.get(shard.name)
                if not present:
                    self._shards.pop(shard.name, None)
                elif entry is not None:
                    entry.shard = shard
                else:
                    self._shards[shard.name] = ShardEntry(shard, {})
                return shard.name
            case SegmentMeta() as segment:
                self.changes += 1
                entry = self._shards.get(segment.shard)
                if entry is not None:
                    entry.segments.pop(segment.seq, None)
                    if present:
                        entry.segments = _by_seq([*entry.segments.values(), segment])
                return segment.shard
            case _:
                return None


def _by_seq(segments: Iterable[SegmentMeta]) -> dict[int, SegmentMeta]:
    return {one.seq: one for one in sorted(segments, key=lambda segment: segment.seq)}
