"""A node's copies of what the Meta Service knows. Reads are dict look-ups and never wait.

Pushes keep them current. A push that got lost shows as a gap in the revisions when the next one
comes, or, when none comes, at the periodic reconcile; either way the cache reads a snapshot and is
whole again.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from stratamq.meta.client import MetaClient
from stratamq.meta.entities import SegmentMeta, ShardMeta, TopicMeta, TopicPhase
from stratamq.meta.events import Event, Put, Update
from stratamq.meta.state import MetaState
from stratamq.meta.watch import Watch
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import Closed, StrataError, TimedOut, TopicNotFound
from stratamq.model.shard import SegmentState
from stratamq.model.topic import Topic
from stratamq.model.types import NO_OFFSET, ShardName, TopicId

log = logging.getLogger(__name__)

T = TypeVar("T")

EVENTS_AT_ONCE = 1024
"""Events that a cache takes in before it lets other work on the event loop go on: the end of a
topic of 10,000 partitions has 20,000."""

_REVISION = object()
"""The key of those who wait for any change."""


class WatchedCache(ABC):
    """Follows the Meta Service. Subclasses say what they keep of a snapshot and of an event."""

    def __init__(self, client: MetaClient, *, reconcile_s: float = 10.0) -> None:
        self._client = client
        self._reconcile_s = reconcile_s
        self._revision = -1
        self._waiters: dict[Hashable, dict[asyncio.Event, None]] = {}
        self._follower: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Afterwards the cache holds everything that was there when this was called."""
        watch = self._client.watch()
        self._load(await self._client.snapshot())
        self._follower = asyncio.create_task(self._follow(watch), name=type(self).__name__)

    async def stop(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.cancel()
            await asyncio.wait([follower])

    @property
    def revision(self) -> int:
        return self._revision

    async def wait_for_revision(self, revision: int, timeout_s: float) -> None:
        """Until this node sees what the caller did: pass what `submit` returned."""

        def look() -> bool | None:
            return True if self._revision >= revision else None

        await self._wait(_REVISION, look, timeout_s, f"revision {revision}")

    # -- what subclasses keep ------------------------------------------------------------------

    @abstractmethod
    def _replace(self, state: MetaState) -> None:
        """Keep this state's part and forget all else."""

    @abstractmethod
    def _change(self, event: Event) -> Hashable | None:
        """Take one event in; the key whose waiters should look again."""

    # -- following -----------------------------------------------------------------------------

    async def _follow(self, watch: Watch) -> None:
        try:
            while True:
                try:
                    async with asyncio.timeout(self._reconcile_s):
                        update = await watch.next()
                except TimeoutError:
                    await self._reconcile()
                else:
                    await self._take(update)
        except Closed:
            log.info("%s: the meta service closed", type(self).__name__)
        finally:
            watch.close()

    async def _take(self, update: Update) -> None:
        if update.revision <= self._revision:
            return
        if update.previous > self._revision:
            self._load(await self._client.snapshot())
            return
        for number, event in enumerate(update.events, 1):
            self._wake(self._change(event))
            if number % EVENTS_AT_ONCE == 0:
                await asyncio.sleep(0)
        self._revision = update.revision
        self._wake(_REVISION)

    async def _reconcile(self) -> None:
        try:
            if await self._client.revision() != self._revision:
                log.warning("%s: a push was lost; reading a snapshot", type(self).__name__)
                self._load(await self._client.snapshot())
        except Closed:
            raise
        except StrataError as error:
            log.warning("%s: cannot reconcile: %s", type(self).__name__, error)

    def _load(self, state: MetaState) -> None:
        self._replace(state)
        self._revision = state.revision
        for key in list(self._waiters):
            self._wake(key)

    # -- waiting -------------------------------------------------------------------------------

    def _wake(self, key: Hashable | None) -> None:
        for waiter in self._waiters.get(key, ()):
            waiter.set()

    async def _wait(
        self, key: Hashable, look: Callable[[], T | None], timeout_s: float, what: str
    ) -> T:
        """What `look` gives as soon as it gives something; TimedOut when it does not in time."""
        waiter = asyncio.Event()
        self._waiters.setdefault(key, {})[waiter] = None
        try:
            async with asyncio.timeout(timeout_s):
                while (found := look()) is None:
                    await waiter.wait()
                    waiter.clear()
            return found
        except TimeoutError:
            raise TimedOut(f"{what} did not reach this node within {timeout_s:g} s") from None
        finally:
            del self._waiters[key][waiter]
            if not self._waiters[key]:
                del self._waiters[key]


class BrokerCacheManager(WatchedCache):
    """Topics, by name and by id."""

    changes = 0
    """Counts the changes of topics, for those who keep what they found of them."""

    _topics: dict[str, TopicMeta]
    _names: dict[TopicId, str]
    _by_name: list[Topic] | None = None

    def topic(self, name: str) -> Topic:
        """A topic that users may use; TopicNotFound otherwise."""
        meta = self._topics.get(name)
        if meta is None or meta.phase is not TopicPhase.READY:
            raise TopicNotFound(f"no topic {name!r}")
        return meta.topic

    def topic_by_id(self, topic_id: TopicId) -> Topic:
        name = self._names.get(topic_id)
        if name is None:
            raise TopicNotFound(f"no topic with id {topic_id}")
        return self.topic(name)

    def topics(self) -> list[Topic]:
        """All topics that users may use, by name. They are sorted once per change of any."""
        if self._by_name is None:
            ready = (meta for meta in self._topics.values() if meta.phase is TopicPhase.READY)
            self._by_name = sorted((meta.topic for meta in ready), key=lambda one: one.name)
        return list(self._by_name)

    def known(self) -> list[TopicMeta]:
        """All topics in every phase, half-made and half-deleted ones too."""
        return list(self._topics.values())

    async def wait_for_topic(
        self,
        name: str,
        timeout_s: float,
        *,
        until: Callable[[TopicMeta], bool] = lambda meta: True,
    ) -> TopicMeta:
        """The topic, in any phase, once it is known here and fulfils `until`."""

        def look() -> TopicMeta | None:
            meta = self._topics.get(name)
            return meta if meta is not None and until(meta) else None

        return await self._wait(name, look, timeout_s, f"topic {name!r}")

    async def wait_until_gone(self, name: str, topic_id: TopicId, timeout_s: float) -> None:
        def look() -> bool | None:
            meta = self._topics.get(name)
            return True if meta is None or meta.key != topic_id else None

        await self._wait(name, look, timeout_s, f"the end of topic {name!r}")

    def _replace(self, state: MetaState) -> None:
        self._topics = {meta.topic.name: meta for meta in state.topics.values()}
        self._names = {meta.key: meta.topic.name for meta in state.topics.values()}
        self._by_name = None
        self.changes += 1

    def _change(self, event: Event) -> Hashable | None:
        meta = event.entity
        if not isinstance(meta, TopicMeta):
            return None
        self._by_name = None
        self.changes += 1
        if isinstance(event, Put):
            self._topics[meta.topic.name] = meta
            self._names[meta.key] = meta.topic.name
        else:
            self._topics.pop(meta.topic.name, None)
            self._names.pop(meta.key, None)
        return meta.topic.name


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
        match event.entity:
            case ShardMeta() as shard:
                self.changes += 1
                self._change_shard(shard, present=isinstance(event, Put))
                return shard.name
            case SegmentMeta() as segment:
                self.changes += 1
                self._change_segment(segment, present=isinstance(event, Put))
                return segment.shard
            case _:
                return None

    def _change_shard(self, shard: ShardMeta, *, present: bool) -> None:
        entry = self._shards.get(shard.name)
        if not present:
            self._shards.pop(shard.name, None)
        elif entry is not None:
            entry.shard = shard
        else:
            self._shards[shard.name] = ShardEntry(shard, {})

    def _change_segment(self, segment: SegmentMeta, *, present: bool) -> None:
        entry = self._shards.get(segment.shard)
        if entry is None:
            return
        entry.segments.pop(segment.seq, None)
        if present:
            entry.segments = _by_seq([*entry.segments.values(), segment])


def _by_seq(segments: Iterable[SegmentMeta]) -> dict[int, SegmentMeta]:
    return {one.seq: one for one in sorted(segments, key=lambda segment: segment.seq)}
