"""Creating, growing, changing and deleting topics: work that spans the Meta Service and the
storage.

Creating a topic takes six steps:

    1. check the request and give the topic an id
    2. register the topic with the Meta Service: the name is taken, users do not see it
    3. wait until the topic is in this node's cache
    4. find the storage for it
    5. register shards and first segments with the Meta Service
    6. wait until they are in this node's cache, and create the shards in the storage

and ends with a confirmation, after which users see it. Whatever goes wrong before that is undone.
What cannot be undone now, because the process dies or the Meta Service is away, is undone by the
next `sweep`: a topic that was not confirmed and that no task works on is removed. Deletion is the
same in reverse: mark, delete the data, forget. A sweep finishes what was marked.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from weakref import WeakValueDictionary

from stratamq.adapter.drivers import StorageDriverManager
from stratamq.adapter.shards import (
    HalfGrown,
    Placement,
    ShardManager,
    TopicTimeouts,
    half_grown,
    in_time,
    ready_topics,
    unfinished_topics,
)
from stratamq.adapter.table_config import check_declared, columns_of_files, redeclares
from stratamq.meta.client import MetaClient
from stratamq.meta.shards import DeleteShard, RemoveShard
from stratamq.meta.topics import (
    AddPartitions,
    AlterTopicConfig,
    BrokerCacheManager,
    ConfirmTopic,
    CreateTopic,
    DeleteTopic,
    RemoveTopic,
    check_topic_name,
)
from stratamq.model.entropy import Entropy, random_uuid
from stratamq.model.errors import InvalidConfig, StrataError, TopicNotFound
from stratamq.model.shard import shard_name, split_shard_name
from stratamq.model.topic import Topic, TopicConfig
from stratamq.model.types import NodeId, TopicId

log = logging.getLogger(__name__)

TOPICS_AT_ONCE = 256
"""Topics that a sweep looks at before it lets other work on the event loop go on."""

ConfigPlan = Callable[[TopicConfig], tuple[Mapping[str, object], Collection[str]]]
"""From a topic's config to what is put and what goes back to its default."""


def new_topic_id(entropy: Entropy = os.urandom) -> TopicId:
    return TopicId(random_uuid(entropy).hex)


class TopicManager:
    """One change of a topic at a time; different topics do not wait for each other.

    `defaults` are what the node says about topics. They may be replaced: topics that are created
    and settings that are reset from then on get the new ones.
    """

    def __init__(
        self,
        node: NodeId,
        meta: MetaClient,
        cache: BrokerCacheManager,
        drivers: StorageDriverManager,
        shards: ShardManager,
        *,
        timeouts: TopicTimeouts | None = None,
        defaults: Mapping[str, object] | None = None,
        new_id: Callable[[], TopicId] = new_topic_id,
    ) -> None:
        self._node = node
        self._meta = meta
        self._cache = cache
        self._drivers = drivers
        self._shards = shards
        self._timeouts = timeouts or TopicTimeouts()
        self.defaults: Mapping[str, object] = defaults or {}
        self._new_id = new_id
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._unconfigured: set[str] = set()
        self._undoing: set[asyncio.Task[None]] = set()

    # -- create --------------------------------------------------------------------------------

    async def create(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: int = 1,
        config: Mapping[str, object] | None = None,
        placement: Placement | None = None,
    ) -> Topic:
        """The topic, ready for use on this node. On failure nothing of it is left.

        `placement` names the nodes of each partition; without it they are chosen.
        """
        check_topic_name(name)
        topic = Topic(
            topic_id=self._new_id(),
            name=name,
            partitions=partitions,
            replicas=replicas,
            config=self.config_of(config or {}),
        )
        async with self._lock(name):
            await self._or_undo(
                lambda: self._create(topic, placement),
                lambda: self._remove(topic),
                f"creating topic {name!r}",
            )
        return topic

    def config_of(self, given: Mapping[str, object]) -> TopicConfig:
        """What a topic that is created with this would be configured with; or InvalidConfig."""
        config = TopicConfig.of({**self.defaults, **given}, self._drivers.storage_types)
        check_declared(None, config)
        return config

    async def _create(self, topic: Topic, placement: Placement | None) -> None:
        await self._meta.submit(CreateTopic(topic=topic, creator=self._node))
        await self._cache.wait_for_topic(
            topic.name, self._timeouts.topic_s, until=lambda meta: meta.key == topic.topic_id
        )
        await self._shards.create(topic, range(topic.partitions), placement)
        await self._see(await self._meta.submit(ConfirmTopic(topic_id=topic.topic_id)))

    # -- delete --------------------------------------------------------------------------------

    async def delete(self, name: str, topic_id: TopicId | None = None) -> None:
        """Gone for users at once; on return its data is gone too. A crash between is finished
        later. With `topic_id`, another topic that has taken the name since is left alone."""
        async with self._lock(name):
            topic = self._cache.topic(name)
            if topic_id not in (None, topic.topic_id):
                raise TopicNotFound(f"there is no topic {topic_id} any more")
            await self._remove(topic)

    async def _remove(self, topic: Topic) -> None:
        """Both phases. A topic that is gone already is no failure."""
        try:
            await self._see(await self._meta.submit(DeleteTopic(topic_id=topic.topic_id)))
        except TopicNotFound:
            return
        state = await self._meta.snapshot()
        await self._shards.delete(topic, [one.name for one in state.shards_of(topic.topic_id)])
        await self._see(await self._meta.submit(RemoveTopic(topic_id=topic.topic_id)))

    # -- grow ----------------------------------------------------------------------------------

    async def add_partitions(
        self, name: str, partitions: int, *, placement: Placement | None = None
    ) -> Topic:
        """Make it `partitions` in all. Keys may move to other partitions; records stay."""
        async with self._lock(name):
            topic = self._cache.topic(name)
            if partitions <= topic.partitions:
                raise InvalidConfig(
                    f"topic {name!r} has {topic.partitions} partitions and can only grow"
                )
            added = range(topic.partitions, partitions)
            names = tuple(shard_name(topic.topic_id, number) for number in reversed(added))
            await self._or_undo(
                lambda: self._grow(topic, added, placement),
                lambda: self._shrink(HalfGrown(topic, names)),
                f"growing topic {name!r}",
            )
            return self._cache.topic(name)

    async def _grow(self, topic: Topic, added: range, placement: Placement | None) -> None:
        await self._shards.create(topic, added, placement)
        grown = AddPartitions(topic_id=topic.topic_id, partitions=added.stop)
        await self._see(await self._meta.submit(grown))

    async def _shrink(self, growth: HalfGrown) -> None:
        """Take back shards that never came into use; refused if they did."""
        await self._meta.submit(*(DeleteShard(shard=shard) for shard in growth.shards))
        await self._shards.delete(growth.topic, growth.shards)
        await self._see(
            await self._meta.submit(*(RemoveShard(shard=shard) for shard in growth.shards))
        )

    # -- change --------------------------------------------------------------------------------

    async def alter_config(
        self,
        name: str,
        put: Mapping[str, object] | None = None,
        reset: Collection[str] = (),
    ) -> Topic:
        """Give settings new values, take others back to their defaults: the node's, where it has
        one."""
        return await self.alter_config_by(name, lambda _: (put or {}, reset))

    async def alter_config_by(self, name: str, plan: ConfigPlan) -> Topic:
        """The same, where the change depends on the config, which cannot change in between."""
        async with self._lock(name):
            topic = self._cache.topic(name)
            change, after = self._plan(topic, plan)
            if redeclares(topic.config, after):
                files = columns_of_files(await self._meta.snapshot(), topic.topic_id)
                check_declared(topic.config, after, files)
            await self._see(await self._meta.submit(change))
            self._unconfigured.add(name)  # until the storage has it, a sweep will try again
            await self._configure(name)
            return self._cache.topic(name)

    def check_alteration(self, topic: Topic, plan: ConfigPlan) -> None:
        """InvalidConfig where `alter_config_by` would raise it; nothing is changed."""
        _, after = self._plan(topic, plan)
        check_declared(topic.config, after)

    def _plan(self, topic: Topic, plan: ConfigPlan) -> tuple[AlterTopicConfig, TopicConfig]:
        """The command, and the config it leads to. What is reset gets the node's default."""
        put, reset = plan(topic.config)
        put = {n: v for n, v in self.defaults.items() if n in reset} | dict(put)
        command = AlterTopicConfig(topic_id=topic.topic_id, put=put, reset=frozenset(reset))
        return command, topic.config.altered(put, reset)

    async def _configure(self, name: str) -> None:
        await self._shards.configure(self._cache.topic(name))
        self._unconfigured.discard(name)

    # -- repair --------------------------------------------------------------------------------

    async def restore(self) -> None:
        """After a start: finish what the last run left, and make storage and metadata agree. It
        takes as long as the storage takes to recover."""
        await self.sweep()
        for topic in ready_topics(await self._meta.snapshot()):
            try:
                await self._shards.restore(topic)
            except Exception as error:  # of one topic; the others must not suffer
                log.error("restoring topic %r: %s", topic.name, error)

    async def retry_shards(self, *, repair: bool = False) -> None:
        """Open shards again that are unavailable or take no writes. With `repair`, which an
        operator asks for, a shard's lost `shard.json` is written from the metadata.

        Storages are asked once each: as a rule nothing is to be done, and shards are many."""
        for driver in list(self._drivers.open_drivers.values()):
            await driver.check_files()
            for name in list(driver.unavailable_shards()):
                try:
                    topic_id, partition = split_shard_name(name)
                    topic = self._cache.topic_by_id(topic_id)
                    if partition < topic.partitions:
                        await self._shards.retry(topic, partition, repair=repair)
                except (TopicNotFound, ValueError):
                    continue  # it is being deleted, or no shard of a topic
                except Exception as error:  # of one shard; the others must not suffer
                    log.error("recovering shard %s: %s", name, error)

    async def sweep(self) -> None:
        """Finish whatever was interrupted. Failures are logged; the next sweep tries again."""
        # The state, not the cache: a topic that only seems unconfirmed must not go.
        state = await self._meta.snapshot()
        for topic in unfinished_topics(state, self._node):
            await self._try_alone(topic, "removing", self._finish_removal)
        for number, topic in enumerate(ready_topics(state), 1):
            if half_grown(state, topic) is not None:
                await self._try_alone(topic, "shrinking", self._finish_shrinking)
            if number % TOPICS_AT_ONCE == 0:
                await asyncio.sleep(0)
        for name in list(self._unconfigured):
            await self._try(f"configuring topic {name!r}", self._finish_configuring(name))

    async def _finish_removal(self, topic: Topic) -> None:
        state = await self._meta.snapshot()
        if topic in unfinished_topics(state, self._node):
            await self._remove(topic)

    async def _finish_shrinking(self, topic: Topic) -> None:
        state = await self._meta.snapshot()
        growth = half_grown(state, state.topic(topic.topic_id).topic)
        if growth is not None:
            await self._shrink(growth)

    async def _finish_configuring(self, name: str) -> None:
        async with self._lock(name):
            try:
                await self._configure(name)
            except TopicNotFound:
                self._unconfigured.discard(name)

    async def _try_alone(
        self, topic: Topic, what: str, act: Callable[[Topic], Awaitable[None]]
    ) -> None:
        lock = self._lock(topic.name)
        if lock.locked():
            return  # a task works on it, so it is not abandoned
        async with lock:
            await self._try(f"{what} topic {topic.name!r}", act(topic))

    async def _try(self, what: str, work: Awaitable[object]) -> None:
        try:
            async with in_time(self._timeouts.topic_s, what):
                await work
        except Exception as error:  # of one topic; the others must not suffer
            log.error("%s: %s", what, error)

    # -- doing and undoing ---------------------------------------------------------------------

    async def _or_undo(
        self,
        do: Callable[[], Awaitable[None]],
        undo: Callable[[], Awaitable[None]],
        what: str,
    ) -> None:
        try:
            async with in_time(self._timeouts.topic_s, what):
                await do()
        except BaseException:
            # In a task of its own: a caller that is cancelled twice must not stop the undoing.
            undoing = asyncio.create_task(self._undo(undo, what))
            self._undoing.add(undoing)
            undoing.add_done_callback(self._undoing.discard)
            await asyncio.shield(undoing)
            raise

    async def _undo(self, undo: Callable[[], Awaitable[None]], what: str) -> None:
        try:
            async with in_time(self._timeouts.topic_s, f"undoing: {what}"):
                await undo()
        except StrataError as error:
            log.warning("%s failed and could not be undone yet: %s", what, error)

    async def _see(self, revision: int) -> None:
        """Wait until this node's cache shows what was done."""
        await self._cache.wait_for_revision(revision, self._timeouts.topic_s)

    def _lock(self, name: str) -> asyncio.Lock:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock
