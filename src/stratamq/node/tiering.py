"""The part of a node that knows object storage.

It is there from the start and costs nothing until a topic needs it: then the libraries are loaded
and the service (`stratamq.tiering.service`) is started. A node without history never loads them.

| state | until                                                     | then  |
|-------|-----------------------------------------------------------|-------|
| idle  | a topic asks to be tiered or flushed, or anything has files | begun |
| begun | the node stops                                            | over  |

What keeps the service from starting (no library, no such folder) is said in the log, once for each
reason, and tried again at the next look. Readers of history get a retriable error meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from stratamq.broker.kafka.lake import (
    LakeFlush,
    MovingSegment,
    StoreAddress,
    TierRun,
    WaitingSegments,
)
from stratamq.meta.tier.cache import TierCache
from stratamq.meta.tier.files import Replaced, TierFile
from stratamq.meta.topics import BrokerCacheManager
from stratamq.model.config import NodeConfig
from stratamq.model.errors import Closed, InvalidConfig, StrataError
from stratamq.model.settings.topic import LIKE_RETENTION
from stratamq.model.topic import Topic, TopicConfig
from stratamq.model.types import ShardName, TopicId
from stratamq.tiering.context import TierContext

if TYPE_CHECKING:
    from stratamq.tiering.mover.progress import MoverStatus

log = logging.getLogger(__name__)

SERVICE = "stratamq.tiering.service"
PACKAGES = ("pyarrow",)
LOOK_S = 1.0


class Service(Protocol):
    """What `stratamq.tiering.service.TierService` is to a node."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def commit(self, file: TierFile, replaced: Replaced) -> None:
        """Replace files by one that was written elsewhere."""

    async def flush(self, topic: Topic) -> tuple[int, int]:
        """Files and rows that became visible."""

    async def run(self, topic: Topic) -> tuple[int, int, int, int]:
        """Segments and bytes moved, bytes freed here, files rewritten."""

    def waiting(self, shard: ShardName) -> tuple[int, int]:
        """Segments that are due to move, and their bytes."""

    def table(self, topic: Topic) -> str | None: ...

    def shown(self, topic: Topic) -> Collection[str]:
        """The keys of the files that the topic's table shows."""

    def status(self) -> MoverStatus: ...

    def moving(self, shard: ShardName) -> tuple[str, int, int] | None:
        """The step at which a segment of the shard is, with bytes done and in all."""

    @property
    def trouble(self) -> str | None: ...


def asks_for_tiers(config: TopicConfig) -> bool:
    """Whether a topic's config gives the service something to do by itself."""
    local = (config.number("local.retention.ms"), config.number("local.retention.bytes"))
    return any(limit != LIKE_RETENTION for limit in local) or bool(
        config.number("lake.flush.interval.ms")
    )


class Tiering:
    """A `Lake` for the fronts, and the owner of the service."""

    def __init__(
        self,
        make_service: Callable[[], Service],
        topics: BrokerCacheManager,
        cache: TierCache,
        config: NodeConfig,
    ) -> None:
        self._make_service, self._topics, self._cache = make_service, topics, cache
        self._config = config
        self._service: Service | None = None
        self._beginning = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._complaint = ""
        self._runs: dict[TopicId, asyncio.Task[TierRun]] = {}

    async def start(self) -> None:
        """Start tiering if it is wanted. Where there is history, it can be read on return."""
        await self._look()
        self._task = asyncio.create_task(self._look_again(), name="tiering")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if runs := list(self._runs.values()):
            for run in runs:
                run.cancel()
            await asyncio.wait(runs)
        service, self._service = self._service, None
        if service is not None:
            await service.stop()

    async def _look_again(self) -> None:
        """Soon after a topic was changed, and otherwise every `tier.interval.ms`: what kept it from
        beginning may have passed."""
        loop, seen = asyncio.get_running_loop(), self._topics.revision
        interval_s = self._config.number("tier.interval.ms") / 1000
        due_s = loop.time() + interval_s
        while self._service is None:
            await asyncio.sleep(min(LOOK_S, interval_s))
            if self._topics.revision != seen or loop.time() >= due_s:
                seen, due_s = self._topics.revision, loop.time() + interval_s
                await self._look()

    async def _look(self) -> None:
        # Objects that wait for their deletion want it too.
        if not bool(
            self._cache.shards()
            or self._cache.retired()
            or any(asks_for_tiers(topic.config) for topic in self._topics.topics())
        ):
            return
        try:
            await self._begun()
        except Exception as error:
            if str(error) != self._complaint:
                unexpected = not isinstance(error, StrataError)
                log.error("tiering cannot begin: %s", error, exc_info=unexpected)
            self._complaint = str(error)

    async def _begun(self) -> Service:
        async with self._beginning:
            if self._service is None:
                service = await asyncio.to_thread(self._make_service)
                await service.start()
                self._service = service
            return self._service

    # -- what fronts ask for -----------------------------------------------------------------------

    @property
    def store(self) -> StoreAddress:
        from stratamq.tiering.stores.opening import options_of  # few ask

        store = options_of(self._config)
        return StoreAddress(store.url, store.s3_endpoint, store.s3_region, store.s3_path_style)

    def files(self, shard: ShardName) -> tuple[TierFile, ...]:
        return self._cache.files(shard)

    def table(self, topic: Topic) -> str | None:
        return None if self._service is None else self._service.table(topic)

    def shown(self, topic: Topic) -> Collection[str]:
        return () if self._service is None else self._service.shown(topic)

    def status(self) -> MoverStatus | None:
        """What the mover does; None where no topic has history."""
        return None if self._service is None else self._service.status()

    def moving(self, shard: ShardName) -> MovingSegment | None:
        found = None if self._service is None else self._service.moving(shard)
        return None if found is None else MovingSegment(*found)

    @property
    def trouble(self) -> str | None:
        return (self._complaint or None) if self._service is None else self._service.trouble

    async def flush(self, topic: Topic) -> LakeFlush:
        service = await self._begun()
        return LakeFlush(*await service.flush(topic))

    def waiting(self, shard: ShardName) -> WaitingSegments:
        return WaitingSegments(*((0, 0) if self._service is None else self._service.waiting(shard)))

    async def run(self, topic: Topic) -> TierRun:
        """One run of a topic at a time. It goes on when its callers are gone: a client that has
        waited for long enough asks again, and waits for the same run."""
        run = self._runs.get(topic.topic_id)
        if run is None:
            run = self._runs[topic.topic_id] = asyncio.create_task(self._run(topic))
            run.add_done_callback(partial(self._ended, topic.topic_id))
        try:
            return await asyncio.shield(run)
        except asyncio.CancelledError:
            if run.cancelled():
                raise Closed("the node stops") from None
            raise

    def _ended(self, topic_id: TopicId, run: asyncio.Task[TierRun]) -> None:
        del self._runs[topic_id]
        if not run.cancelled():
            run.exception()  # marked as seen: a caller may have given up, and the log has it

    async def _run(self, topic: Topic) -> TierRun:
        return TierRun(*await (await self._begun()).run(topic))

    async def commit(self, file: TierFile, replaced: Replaced) -> None:
        await (await self._begun()).commit(file, replaced)


def make_service(context: TierContext) -> Service:
    """Import the service by name when it is needed. Its libraries are loaded later still, by
    readers of history and by other processes, but has to be there."""
    for package in PACKAGES:
        if find_spec(package) is None:
            raise InvalidConfig(
                f"tiering needs {package}, which is not installed: pip install 'stratamq[lake]'"
            )
    service: Service = import_module(SERVICE).TierService(context)
    return service
