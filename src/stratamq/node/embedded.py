"""A node inside your own process, for asyncio. `stratamq.node.blocking` is the same without await.

async with stratamq.aopen("data") as node:
    orders = await node.create_topic("orders", partitions=3)
    await orders.produce("2 coffees", key="alice", tags=["hot"])
    for message in await orders.read_by_key("alice"):
        print(message.offset, message.text)
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from stratamq.adapter.drivers import DriverFactory
from stratamq.adapter.partitions import PartialWrite, Placed
from stratamq.engine.contract import OffsetStrategy, ReadLimit
from stratamq.model.config import ALL_SETTINGS, NodeConfig, load
from stratamq.model.errors import AlreadyExists, Closed, InvalidConfig, StrataError, TopicNotFound
from stratamq.model.settings.setting import unknown_name
from stratamq.model.settings.topic import StorageType
from stratamq.model.shard import ShardOffsets, shard_name
from stratamq.model.topic import Topic, TopicConfig
from stratamq.model.types import EARLIEST, Offset
from stratamq.node.core import NodeCore
from stratamq.node.follow import Follower
from stratamq.node.messages import (
    Headers,
    Message,
    Tags,
    Text,
    Timestamp,
    any_record,
    in_batches,
    message_of,
    record_of,
    some_bytes,
    timestamp_of,
)

STORAGE_NAMES = {
    "memory": StorageType.MEMORY.value,
    "rocksdb": StorageType.ROCKSDB.value,
    "segment": StorageType.SEGMENT.value,
}
"""The short names; the long ones, and those of registered storages, are taken too."""

READ_BYTES_MAX = 16 << 20
BATCH_RECORDS_MAX = 10_000
BATCH_BYTES_SPARE = 1024
"""Bytes of a batch in addition to its records."""


def embedded_config(path: Path | str, settings: Mapping[str, object]) -> NodeConfig:
    """Settings by keyword: `housekeeping_interval_ms=500` is `housekeeping.interval.ms`."""
    if not isinstance(path, str | Path) or not str(path).strip():
        raise InvalidConfig(f"a node's data needs a path, not {path!r}")
    names = {name.replace(".", "_"): name for name in ALL_SETTINGS}
    for name in settings:
        if name not in names:
            raise unknown_name(name, names)
    given = {names[name]: value for name, value in settings.items()}
    if "data.dir" in given:
        raise InvalidConfig("the path says where the data is; data_dir cannot say it too")
    return load(flags={**given, "data.dir": str(path)})


def check_whole(name: str, number: object) -> None:
    if not isinstance(number, int) or isinstance(number, bool):
        raise InvalidConfig(f"{name}: {number!r} is no whole number")


class AsyncNode:
    """An embedded node. `async with` or `await` starts it; `close` stops it.

    Use it from the event loop it was started on. The folder belongs to it until it is closed.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        storages: Mapping[str, DriverFactory] | None = None,
        **settings: object,
    ) -> None:
        self._core = NodeCore(embedded_config(path, settings), storages=storages)

    async def __aenter__(self) -> AsyncNode:
        await self._core.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __await__(self) -> Generator[Any, None, AsyncNode]:
        return self.__aenter__().__await__()

    async def close(self) -> None:
        """Everything that was acknowledged is stored; the folder is free again."""
        await self._core.stop()

    @property
    def path(self) -> Path:
        return self._core.config.data_dir

    @property
    def core(self) -> NodeCore:
        """The parts, for callers that need more than this class offers."""
        return self._core

    # -- topics --------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        storage: str = "",
        config: Mapping[str, object] | None = None,
        exist_ok: bool = False,
    ) -> AsyncTopic:
        """Make a topic. `storage` is "segment" (files, the default), "rocksdb" or "memory";
        `config` holds topic settings by their names, such as {"retention.ms": 3_600_000}.

        With `exist_ok`, a topic of this name is taken as it is.
        """
        check_whole("partitions", partitions)
        given = dict(config or {})
        if storage:
            given["storage.type"] = STORAGE_NAMES.get(storage, storage)
        try:
            await self._core.topics.create(name, partitions=partitions, config=given)
        except AlreadyExists:
            if not exist_ok:
                raise
        return await self.topic(name)

    async def topics(self) -> list[AsyncTopic]:
        """All topics, by name."""
        return [AsyncTopic(self._core, topic.name) for topic in self._core.broker_cache.topics()]

    async def topic(self, name: str) -> AsyncTopic:
        """One topic; TopicNotFound when there is none."""
        return AsyncTopic(self._core, self._core.broker_cache.topic(name).name)

    async def delete_topic(self, name: str) -> None:
        """The topic, its messages and all groups' offsets in it."""
        await self._core.topics.delete(name)

    # -- groups --------------------------------------------------------------------------------

    async def groups(self) -> list[str]:
        return list(await self._core.groups.groups())

    async def delete_group(self, group: str) -> None:
        await self._core.groups.delete_group(group)


P = ParamSpec("P")
R = TypeVar("R")
TopicMethod = Callable[Concatenate["AsyncTopic", P], Awaitable[R]]


def by_name(
    method: TopicMethod[P, R],
) -> Callable[Concatenate[AsyncTopic, P], Coroutine[Any, Any, R]]:
    """Errors name the topic and partition instead of the id of a shard, which users do not know."""

    @functools.wraps(method)
    async def named(self: AsyncTopic, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await method(self, *args, **kwargs)
        except StrataError as error:
            with contextlib.suppress(TopicNotFound):  # deleted meanwhile
                shard = re.compile(rf"{self.info.topic_id}_(\d+)")
                error.args = tuple(
                    shard.sub(rf"{self.name}-\1", one) if isinstance(one, str) else one
                    for one in error.args
                )
            raise

    return named


class AsyncTopic:
    """A topic by name. It holds nothing: a topic created again under the same name is found as
    well."""

    def __init__(self, core: NodeCore, name: str) -> None:
        self._core = core
        self._drivers = core.drivers
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def info(self) -> Topic:
        return self._core.broker_cache.topic(self.name)

    @property
    def partitions(self) -> int:
        return self.info.partitions

    @property
    def config(self) -> TopicConfig:
        return self.info.config

    @property
    def storage(self) -> str:
        return self.info.config.storage_name

    # -- writing -------------------------------------------------------------------------------

    @by_name
    async def produce(
        self,
        value: Text | None,
        *,
        key: Text | None = None,
        headers: Headers = (),
        tags: Tags = (),
        timestamp: Timestamp | None = None,
        partition: int | None = None,
    ) -> Placed:
        """Store one message; where it is. On return it is as durable as the topic's `flush` says.

        A message with a key goes to the key's partition, one without to the next in turn.
        """
        record = record_of(value, key, headers, tags, timestamp)
        return await self._drivers.write(self.name, record, partition=partition)

    @by_name
    async def produce_many(
        self, records: Iterable[object], *, partition: int | None = None
    ) -> list[Placed]:
        """Store many; where each one is, in order. An item is a value, a `Record`, or a mapping
        with the names that `produce` has.

        They are stored in batches as large as the topic allows, each of them whole or not at all.
        When one fails after others were stored, PartialWrite says which.
        """
        placed: list[Placed] = []
        bytes_max = self.config.number("max.message.bytes") - BATCH_BYTES_SPARE
        batches = in_batches(map(any_record, records), bytes_max, BATCH_RECORDS_MAX)
        for batch in batches:
            try:
                placed += await self._drivers.batch_write(self.name, batch, partition=partition)
            except StrataError as error:
                if not placed:
                    raise
                raise _after(placed, batch, error) from error
        return placed

    # -- reading -------------------------------------------------------------------------------

    @by_name
    async def read(
        self, offset: int | None = None, *, partition: int = 0, limit: int = 100
    ) -> list[Message]:
        """Messages from `offset` on, or from the oldest there is. At most `limit`, and no more than
        16 MiB at a time. Empty at the end; OffsetOutOfRange before the start or past the end."""
        if offset is None:
            offset = (await self.offsets(partition)).start
        records = await self._drivers.read_by_offset(
            self.name, partition, Offset(offset), _limit(limit)
        )
        return [message_of(partition, record) for record in records]

    @by_name
    async def read_by_key(
        self,
        key: Text,
        *,
        history: bool = False,
        partition: int | None = None,
        offset: int = EARLIEST,
        limit: int = 100,
    ) -> list[Message]:
        """The newest message of the key; with `history` all of them, newest first."""
        found = await self._drivers.read_by_key(
            self.name,
            some_bytes(key),
            partition=partition,
            offset=Offset(offset),
            limit=_limit(limit),
            history=history,
        )
        return [message_of(*one) for one in found]

    @by_name
    async def read_by_tag(
        self,
        tag: Text,
        *,
        partition: int | None = None,
        offset: int = EARLIEST,
        limit: int = 100,
    ) -> list[Message]:
        """Messages with exactly this tag, oldest first, one partition after the other."""
        found = await self._drivers.read_by_tag(
            self.name,
            some_bytes(tag),
            partition=partition,
            offset=Offset(offset),
            limit=_limit(limit),
        )
        return [message_of(*one) for one in found]

    @by_name
    async def offset_at(self, timestamp: Timestamp, *, partition: int = 0) -> Offset:
        """Offset of the first message at or after a time; the end when there is none."""
        return await self._drivers.get_offset_by_timestamp(
            self.name, partition, timestamp_of(timestamp), OffsetStrategy.LATEST
        )

    @by_name
    async def read_from_time(
        self, timestamp: Timestamp, *, partition: int = 0, limit: int = 100
    ) -> list[Message]:
        """Messages from the first one at or after a time on."""
        offset = await self.offset_at(timestamp, partition=partition)
        return await self.read(offset, partition=partition, limit=limit)

    @by_name
    async def offsets(self, partition: int = 0) -> ShardOffsets:
        """Return where the partition starts and ends: `start`, `high_watermark`, `end`."""
        return await self._drivers.offsets(self.name, partition)

    def follower(
        self,
        group: str | None = None,
        *,
        partitions: Collection[int] | None = None,
        latest: bool = False,
        stop_after: float | None = None,
    ) -> Follower:
        return Follower(
            self._drivers,
            self.name,
            lambda: range(self.partitions) if partitions is None else partitions,
            group=group,
            peers=self._core.follow_groups.peers(self.name, group),
            start=OffsetStrategy.LATEST if latest else OffsetStrategy.EARLIEST,
            stop_after_s=stop_after,
        )

    async def follow(
        self,
        group: str | None = None,
        *,
        partitions: Collection[int] | None = None,
        latest: bool = False,
        stop_after: float | None = None,
    ) -> AsyncIterator[Message]:
        """Messages as they come, for ever, or until it was quiet for `stop_after` seconds.

        With a group, it goes on where the group was, and a message is committed once the loop has
        come back for the next one. Without, or for a new group, it begins with the oldest message,
        or with those to come if `latest`.

        Several loops over one group divide the partitions, as Kafka's consumers do; where there are
        more loops than partitions, some wait. They have to be in this process: the folder of an
        embedded node belongs to it.
        """
        follower = self.follower(group, partitions=partitions, latest=latest, stop_after=stop_after)
        try:
            while batch := await follower.next_batch():
                for message in batch:
                    yield message
                    follower.done(message)
        finally:
            with contextlib.suppress(Closed):
                await follower.leave()

    # -- groups --------------------------------------------------------------------------------

    @by_name
    async def commit(self, group: str, partition: int, offset: int) -> None:
        """`offset` is the next message the group wants."""
        await self._drivers.commit_offset(self.name, group, {partition: Offset(offset)})

    async def committed(self, group: str) -> dict[int, Offset]:
        """Return the group's offsets by partition; partitions it never committed are left out."""
        topic = self.info
        kept = await self._core.groups.committed(group)
        by_partition = {
            number: kept.get(shard_name(topic.topic_id, number))
            for number in range(topic.partitions)
        }
        return {number: one.offset for number, one in by_partition.items() if one is not None}

    # -- deleting and changing -----------------------------------------------------------------

    @by_name
    async def delete_by_key(self, key: Text, *, partition: int | None = None) -> int:
        """Delete every message of the key there is now; how many there were."""
        return await self._drivers.delete_by_key(self.name, some_bytes(key), partition=partition)

    @by_name
    async def delete_by_offset(self, offset: int, *, partition: int = 0) -> bool:
        """Delete one message; False when there was none."""
        return await self._drivers.delete_by_offset(self.name, partition, Offset(offset))

    @by_name
    async def trim(self, offset: int, *, partition: int = 0) -> Offset:
        """Delete everything before `offset`; the new start."""
        return await self._drivers.trim(self.name, partition, Offset(offset))

    @by_name
    async def add_partitions(self, partitions: int) -> None:
        """Make it `partitions` in all. Keys will be spread differently; old messages stay where
        they are."""
        await self._core.topics.add_partitions(self.name, partitions)

    @by_name
    async def alter_config(
        self, config: Mapping[str, object] | None = None, *, reset: Sequence[str] = ()
    ) -> None:
        """Give settings new values, and take those in `reset` back to their defaults."""
        await self._core.topics.alter_config(self.name, config, reset)


def _limit(records_max: int) -> ReadLimit:
    return ReadLimit(records_max, READ_BYTES_MAX)


def _after(placed: Sequence[Placed], batch: Sequence[object], error: StrataError) -> PartialWrite:
    """What earlier batches stored, and what this one did before it failed."""
    if isinstance(error, PartialWrite):
        return PartialWrite([*placed, *error.placed], error.errors)
    return PartialWrite([*placed, *[None] * len(batch)], {None: error})
