"""The background task that moves segments that are due and removes objects no longer needed."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from stratamq.log.disk import PRIVATE_FOLDER
from stratamq.log.freeing import clear_away
from stratamq.model.errors import Closed, NotFound, StoreDenied, StoreUnavailable, StrataError
from stratamq.model.shard import shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import ShardName
from stratamq.tiering.converter.processes import Converters
from stratamq.tiering.mover.contract import HOUR_MS, MoverLimits, Surroundings
from stratamq.tiering.mover.orphans import Cleaner
from stratamq.tiering.mover.progress import MoverStatus, Progress, Troubles
from stratamq.tiering.mover.shards import Moved, ShardMover
from stratamq.tiering.mover.ship import Bandwidth, Flights, Shipper
from stratamq.tiering.mover.steps import OnStep, Steps

log = logging.getLogger(__name__)

STORE_FAILURES_MAX = 3
"""When so many shards in a row fail for the store's sake, it is the store: the round ends."""

SHARDS_AT_ONCE = 500
"""Looked at before others on the event loop have their turn."""

STOP_S = 5.0
"""How long an upload that is given up has to abort itself at the store."""

SEARCH_MS_MAX = 6 * HOUR_MS
"""Looking for orphans lists the whole store."""


class Round(NamedTuple):
    """What one look at everything did."""

    shards: int = 0
    segments: int = 0
    log_bytes: int = 0
    freed_bytes: int = 0
    removed: int = 0
    failures: int = 0

    def plus(self, moved: Moved) -> Round:
        return self._replace(
            segments=self.segments + moved.segments,
            log_bytes=self.log_bytes + moved.log_bytes,
            freed_bytes=self.freed_bytes + moved.freed_bytes,
        )


class Mover:
    """Use it from one event loop. `run_once` may also be called while the task runs: rounds take
    turns."""

    def __init__(
        self,
        around: Surroundings,
        limits: MoverLimits | None = None,
        *,
        on_step: OnStep = lambda shard, step: None,
    ) -> None:
        self.around, self.limits = around, limits or MoverLimits()
        self.flights = Flights(around.clock)
        self.converters = Converters(self.limits.workers)
        self.progress = Progress(around.clock)
        self._bandwidth = Bandwidth(self.limits.bytes_per_second)
        self.shipper = Shipper(around.store, self._bandwidth)
        steps = Steps(
            around=around,
            converters=self.converters,
            shipper=self.shipper,
            flights=self.flights,
            on_step=on_step,
        )
        self.shards = ShardMover(
            around=around,
            steps=steps,
            progress=self.progress,
            rewrite_ms=self.limits.rewrite_ms,
        )
        self._cleaner = Cleaner(around, self.flights, self.limits.orphan_grace_ms)
        self.troubles = Troubles(around.clock, self.limits.backoff_ms, self.limits.backoff_ms_max)
        self._turn = asyncio.Lock()
        self._searched_ms: int | None = None
        self._complaint: type[StrataError] | None = None
        self._task: asyncio.Task[None] | None = None

    # -- life ------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Remove what a dead process left of segments on their way."""
        folder = self.around.moving_folder
        await asyncio.to_thread(clear_away, folder)
        await asyncio.to_thread(folder.mkdir, PRIVATE_FOLDER, parents=True, exist_ok=True)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run_forever(), name="mover")

    async def stop(self) -> None:
        """Stop promptly: moves under way are given up, and start again after the next start."""
        self._bandwidth.stop()
        task, self._task = self._task, None
        while task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=STOP_S)
        await self.converters.close()

    def has_work(self, topic: Topic, shard: ShardName) -> bool:
        return not self.troubles.waits(shard) and self.shards.has_work(topic, shard)

    def status(self) -> MoverStatus:
        return self.progress.status(len(self.troubles))

    async def _run_forever(self) -> None:
        while True:
            try:
                await self.run_once()
            except Exception:
                log.exception("tiering: a round failed")
            await asyncio.sleep(self.limits.interval_ms / 1000)

    # -- rounds ----------------------------------------------------------------------------------

    async def run_once(self) -> Round:
        """Look at everything once, and do all that is due. Shards that failed lately wait."""
        async with self._turn:
            done = await _RoundRun(self).run()
            removed = await self._clean()
            self.progress.add(rounds=1, objects_deleted=removed)
            return done._replace(removed=removed)

    async def run_topic(self, topic: Topic) -> Moved:
        """Do all that is due for one topic, also for shards that failed lately, and remove deleted
        records from its files. Raises the first failure; the next round tries that shard again."""
        done = Moved()
        async with self._turn:
            for partition in range(topic.partitions):
                shard = shard_name(topic.topic_id, partition)
                if not self.shards.has_work(topic, shard):
                    continue
                self.shards.look_through_next(shard)
                more = True
                while more:
                    moved = await self._move(topic, shard)
                    done, more = done.plus(moved), moved.more
        return done

    async def _move(self, topic: Topic, shard: ShardName) -> Moved:
        try:
            moved = await self.shards.move(topic, shard)
        except (NotFound, Closed):
            raise
        except (StrataError, OSError) as error:
            self.progress.failed(f"{topic.name}, {shard}: {error}")
            self.troubles.failed(topic.name, shard, error)
            raise
        self.troubles.well(topic.name, shard)
        return moved

    async def _clean(self) -> int:
        removed = 0
        try:
            removed += await self._cleaner.remove_retired()
            every_ms = min(self.limits.orphan_grace_ms, SEARCH_MS_MAX)
            last_ms = self._searched_ms
            if last_ms is None or self.around.clock.now_ms() - last_ms >= every_ms:
                removed += await self._cleaner.remove_orphans()
                await self._cleaner.sweep()
                self._searched_ms = self.around.clock.now_ms()
        except Closed:
            pass  # the node stops
        except StrataError as error:
            self.progress.failed(str(error))
            if type(error) is not self._complaint:
                log.warning("tiering: objects were not removed, this is tried again: %s", error)
            self._complaint = type(error)
        else:
            self._complaint = None
        return removed


class _RoundRun:
    """One round: shards are taken from one line by as many tasks as there are workers. Those that
    are not finished go to the end of the line."""

    def __init__(self, mover: Mover) -> None:
        self._mover = mover
        self._done = Round()
        self._store_failures = 0
        self._line = self._shards()
        self._again: deque[tuple[Topic, ShardName]] = deque()
        self._over = False

    async def run(self) -> Round:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._mover.limits.workers):
                group.create_task(self._work())
        here = {shard for _, shard in self._shards()}
        self._mover.troubles.keep(here)
        self._mover.progress.keep(here)
        self._mover.shards.keep(here)
        return self._done

    def _shards(self) -> Iterator[tuple[Topic, ShardName]]:
        for topic in self._mover.around.topics():
            for partition in range(topic.partitions):
                yield topic, shard_name(topic.topic_id, partition)

    async def _next(self) -> tuple[Topic, ShardName] | None:
        if self._over or self._store_failures >= STORE_FAILURES_MAX:
            return None
        for topic, shard in self._line:
            self._done = self._done._replace(shards=self._done.shards + 1)
            if self._mover.has_work(topic, shard):
                return topic, shard
            if self._done.shards % SHARDS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return self._again.popleft() if self._again else None

    async def _work(self) -> None:
        while found := await self._next():
            await self._move(*found)

    async def _move(self, topic: Topic, shard: ShardName) -> None:
        try:
            moved = await self._mover.shards.move(topic, shard)
        except NotFound:
            return  # deleted meanwhile
        except Closed:
            self._over = True
            return
        except Exception as error:
            if isinstance(error, StoreUnavailable | StoreDenied):
                self._store_failures += 1
            if not isinstance(error, StrataError | OSError):
                log.exception("tiering: topic %s, shard %s", topic.name, shard, exc_info=error)
            self._done = self._done._replace(failures=self._done.failures + 1)
            self._mover.progress.failed(f"{topic.name}, {shard}: {error}")
            self._mover.troubles.failed(topic.name, shard, error)
            return
        self._store_failures = 0
        self._mover.troubles.well(topic.name, shard)
        self._done = self._done.plus(moved)
        if moved.more:
            self._again.append((topic, shard))
        if moved.segments:
            log.info(
                "tiering: topic %s, shard %s: %d segments moved, %d bytes freed here",
                topic.name,
                shard,
                moved.segments,
                moved.freed_bytes,
            )
