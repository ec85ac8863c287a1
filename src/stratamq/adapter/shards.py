"""Creating and deleting a topic's shards, in the Meta Service and in the storage.

The Meta Service knows of a shard before the storage does, and until the storage has forgotten it.
So whatever a crash leaves in the storage can be found and finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from stratamq.adapter.contract import StorageAdapter
from stratamq.adapter.drivers import StorageDriverManager
from stratamq.adapter.offsets import OffsetManager
from stratamq.engine.contract import ShardSpec
from stratamq.meta.apply import Command
from stratamq.meta.client import MetaClient
from stratamq.meta.nodes import place_partitions
from stratamq.meta.segments import CreateSegment
from stratamq.meta.shards import CreateShard, StorageCacheManager
from stratamq.meta.state import MetaState
from stratamq.meta.topics import TopicPhase
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import StrataError, TimedOut
from stratamq.model.shard import shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import NodeId, ShardName

log = logging.getLogger(__name__)

T = TypeVar("T")

Placement = Sequence[tuple[NodeId, ...]]
"""The nodes of each partition; the first of them leads."""

SHARDS_AT_ONCE = 256
"""Shards created or deleted at the same time: each may cost threads, files and syncs. No more of
them occupy the event loop at a time either: a topic may have very many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTimeouts:
    """The seeds' time-outs. When one has passed: TimedOut, and what was created is removed."""

    topic_s: float = 30.0
    shard_s: float = 3.0


class ShardManager:
    """Steps 4 to 6 of creating a topic, and their reverse. Everything is idempotent."""

    def __init__(
        self,
        meta: MetaClient,
        cache: StorageCacheManager,
        drivers: StorageDriverManager,
        groups: OffsetManager,
        timeouts: TopicTimeouts,
    ) -> None:
        self._meta = meta
        self._cache = cache
        self._drivers = drivers
        self._groups = groups
        self._timeouts = timeouts
        self._under_way: dict[ShardName, asyncio.Task[None]] = {}

    async def create(
        self, topic: Topic, partitions: range, placement: Placement | None = None
    ) -> None:
        """Registered some at a time: what a failure leaves registered, the caller takes back."""
        driver = await self._drivers.driver(topic.config.storage_name)
        for start in range(0, len(partitions), SHARDS_AT_ONCE):
            some = slice(start, start + SHARDS_AT_ONCE)
            shard_s = self._timeouts.shard_s
            async with in_time(shard_s, f"registering the shards of topic {topic.name!r}"):
                state = await self._meta.snapshot()
                placed = placement and placement[some]
                commands = _registrations(state, topic, partitions[some], placed)
                await self._cache.wait_for_revision(await self._meta.submit(*commands), shard_s)
        await self._create_each(driver, topic, partitions)

    async def configure(self, topic: Topic) -> None:
        """Hand the topic's configs to shards the storage has already."""
        driver = await self._drivers.driver(topic.config.storage_name)
        await self._create_each(driver, topic, range(topic.partitions))

    async def delete(self, topic: Topic, shards: Iterable[ShardName]) -> None:
        """Delete shards from the storage and the groups. The Meta Service must not offer them any
        more."""
        gone = list(shards)
        driver = await self._drivers.driver(topic.config.storage_name)
        late = [task for shard in gone if (task := self._under_way.get(shard)) is not None]
        if late:
            await asyncio.wait(late)
        await _each(gone, driver.delete_shard)
        await self._groups.forget(frozenset(gone))

    async def restore(self, topic: Topic) -> None:
        """After a start: what the Meta Service knows is what the storage has.

        EngineMemory comes back empty; a change of configs may have been cut short by a crash.
        """
        driver = await self._drivers.driver(topic.config.storage_name)
        await driver.restore_shards(specs_of(topic, range(topic.partitions)))

    async def retry(self, topic: Topic, partition: int, *, repair: bool = False) -> None:
        """Open an unavailable shard again. The log says whether it helped."""
        driver = await self._drivers.driver(topic.config.storage_name)
        (spec,) = specs_of(topic, range(partition, partition + 1))
        try:
            if await driver.retry_shard(spec, repair=repair):
                log.warning("topic %s: shard %s is back", topic.name, spec.name)
        except StrataError as error:
            level = logging.ERROR if repair else logging.DEBUG
            log.log(level, "topic %s: shard %s: %s", topic.name, spec.name, error)

    async def _create_each(self, driver: StorageAdapter, topic: Topic, partitions: range) -> None:
        """A creation whose caller has gone still happens, perhaps later. `delete` must know of it,
        or the shard would come into being after it was deleted."""
        specs, ended = specs_of(topic, partitions), self._ended
        failures: list[BaseException] = []
        for start in range(0, len(specs), SHARDS_AT_ONCE):
            tasks: list[asyncio.Task[None]] = []
            for spec in specs[start : start + SHARDS_AT_ONCE]:
                task = asyncio.create_task(driver.create_shard(spec), name=spec.name)
                task.add_done_callback(ended)
                self._under_way[spec.name] = task
                tasks.append(task)
            await asyncio.wait(tasks)  # which does not cancel them with its caller
            outcomes = [asyncio.CancelledError() if t.cancelled() else t.exception() for t in tasks]
            failures += [error for error in outcomes if error is not None]
        if failures:
            raise failures[0]

    def _ended(self, task: asyncio.Task[None]) -> None:
        shard = ShardName(task.get_name())
        self._under_way.pop(shard, None)
        if not task.cancelled() and task.exception() is not None:
            log.debug("creating shard %s: %s", shard, task.exception())  # its caller gets it too


def specs_of(topic: Topic, partitions: range) -> list[ShardSpec]:
    return [
        ShardSpec(
            name=shard_name(topic.topic_id, partition),
            config=topic.config,
            replicated=topic.replicas > 1,
        )
        for partition in partitions
    ]


def _registrations(
    state: MetaState, topic: Topic, partitions: range, placement: Placement | None
) -> list[Command]:
    """Make the commands for every shard with its first segment, placed over the live nodes."""
    placed = placement or place_partitions(
        state.live_nodes(),
        state.loads,
        first=partitions.start,
        count=len(partitions),
        replicas=topic.replicas,
    )
    commands: list[Command] = []
    for partition, nodes in zip(partitions, placed, strict=True):
        shard = shard_name(topic.topic_id, partition)
        commands.append(CreateShard(topic_id=topic.topic_id, partition=partition))
        commands.append(CreateSegment(shard=shard, seq=0, replicas=nodes, leader=nodes[0]))
    return commands


async def _each(items: Sequence[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Act on all of them, some at a time. The first failure is raised when all have ended."""
    failures: list[BaseException] = []
    for start in range(0, len(items), SHARDS_AT_ONCE):
        some = items[start : start + SHARDS_AT_ONCE]
        outcomes = await asyncio.gather(*map(act, some), return_exceptions=True)
        failures += [one for one in outcomes if isinstance(one, BaseException)]
    if failures:
        raise failures[0]


@contextlib.asynccontextmanager
async def in_time(seconds: float, what: str) -> AsyncIterator[None]:
    """TimedOut when the body takes longer; it is cancelled where it stands."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise TimedOut(f"{what} took longer than {seconds:g} s") from None


# -- what a crash may have left half-done, found in the state --------------------------------------


class HalfGrown(NamedTuple):
    """A topic with shards that never came into use, the last one first."""

    topic: Topic
    shards: tuple[ShardName, ...]


def unfinished_topics(state: MetaState, node: NodeId) -> Iterator[Topic]:
    """Topics to be removed: marked as deleted, or never confirmed by `node`, their creator.

    The caller makes sure that `node` is not at work on them.
    """
    for meta in state.topics.values():
        abandoned = meta.phase is TopicPhase.CREATING and meta.creator == node
        if abandoned or meta.phase is TopicPhase.DELETING:
            yield meta.topic


def half_grown(state: MetaState, topic: Topic) -> HalfGrown | None:
    """Asked for every topic in every round: one look-up unless there is something."""
    if shard_name(topic.topic_id, topic.partitions) not in state.shards:
        return None
    extra = [shard.name for shard in state.shards_of(topic.topic_id)][topic.partitions :]
    return HalfGrown(topic, tuple(reversed(extra)))


def ready_topics(state: MetaState) -> Iterator[Topic]:
    for meta in state.topics.values():
        if meta.phase is TopicPhase.READY:
            yield meta.topic
