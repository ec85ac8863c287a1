"""The one background task that holds shards to their limits: retention, expiry, compaction."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from stratamq.adapter.drivers import StorageDriverManager
from stratamq.adapter.topics import TopicManager
from stratamq.meta.topics import BrokerCacheManager
from stratamq.model.errors import NotFound, ShardPoisoned, ShardUnavailable
from stratamq.model.shard import shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import ShardName

log = logging.getLogger(__name__)


class HousekeepingRound(NamedTuple):
    """What one round over all shards did."""

    shards: int = 0
    segments_deleted: int = 0
    bytes_freed: int = 0
    failures: int = 0


class Housekeeper:
    """One shard at a time, so that it never occupies more than one thread of the storage; a shard
    that fails is logged and tried again in the next round. Interrupted topic work is finished here
    too."""

    def __init__(
        self,
        cache: BrokerCacheManager,
        drivers: StorageDriverManager,
        topics: TopicManager,
        *,
        interval_s: float = 30.0,
    ) -> None:
        self._cache = cache
        self._drivers = drivers
        self._topics = topics
        self._interval_s = interval_s
        self._task: asyncio.Task[None] | None = None
        self._failures: set[str] = set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run_forever(), name="housekeeper")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run_forever(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.run_once()
            except Exception:
                log.exception(
                    "housekeeping: a round failed; the next one is in %g s", self._interval_s
                )

    async def run_once(self) -> HousekeepingRound:
        """Look at everything once."""
        await self._topics.sweep()
        await self._topics.retry_shards()
        done = HousekeepingRound()
        failures: set[str] = set()
        for topic in self._cache.topics():
            for partition in range(topic.partitions):
                shard = shard_name(topic.topic_id, partition)
                done = await self._clean(topic, shard, done, failures)
        self._failures = failures
        return done

    async def _clean(
        self, topic: Topic, shard: ShardName, done: HousekeepingRound, failures: set[str]
    ) -> HousekeepingRound:
        """What failed in the last round or for another shard with the same words is not logged
        again: a storage that cannot be opened fails all of its shards in every round."""
        deleted = freed = failed = 0
        try:
            driver = await self._drivers.driver(topic.config.storage_name)
            deleted = await driver.apply_retention(shard)
            freed = await driver.compact(shard)
        except NotFound:
            pass  # the topic was deleted meanwhile
        except (ShardPoisoned, ShardUnavailable):
            failed = 1  # logged when it happened; `retry_shards` sees to it
        except Exception as error:
            failed = 1
            if str(error) not in self._failures | failures:
                log.error("housekeeping: topic %s, shard %s: %s", topic.name, shard, error)
            failures.add(str(error))
        await asyncio.sleep(0)  # shards in memory never wait, and other tasks want to run
        return HousekeepingRound(
            done.shards + 1,
            done.segments_deleted + deleted,
            done.bytes_freed + freed,
            done.failures + failed,
        )
