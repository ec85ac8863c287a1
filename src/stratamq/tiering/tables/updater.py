"""Updates topics' tables: after files were committed, and as often as a topic asks for it.

Two tasks. One writes the manifests and Iceberg tables of topics whose files have changed; changes
that come close together are written together, and what fails is retried, with growing pauses. The
other flushes topics that ask for it every so often.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from stratamq.meta.tier.cache import TierCache
from stratamq.model.errors import Closed, InvalidConfig, StrataError
from stratamq.model.shard import shard_name, split_shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import ShardName, TopicId
from stratamq.tiering.tables.early import EarlyWriter, Visible
from stratamq.tiering.tables.process import TableWriter
from stratamq.tiering.tables.requests import DropTable, KeepTables, WriteTable, Written

log = logging.getLogger(__name__)

FLUSH_INTERVAL = "lake.flush.interval.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdaterLimits:
    gather_s: float = 1.0
    """Changes of a table that come within it are written together."""
    tick_s: float = 0.5
    """How often it is looked for topics that want to be flushed."""
    resync_s: float = 3600.0
    """How often every table is looked at: old snapshots go by their age."""
    backoff_s: float = 1.0
    backoff_s_max: float = 600.0


@dataclass(slots=True)
class _Due:
    """A table that is not what it should be, and when to write it."""

    at_s: float
    failures: int = 0
    said: str = ""


class TableUpdater:
    """Use it from one event loop. `topics` are those to look after, by this node."""

    def __init__(
        self,
        topics: Callable[[], Collection[Topic]],
        cache: TierCache,
        early: EarlyWriter,
        writer: TableWriter,
        limits: UpdaterLimits | None = None,
    ) -> None:
        self._topics, self._cache = topics, cache
        self._early, self._writer = early, writer
        self._limits = limits or UpdaterLimits()
        self._due: dict[TopicId, _Due] = {}
        self._names: dict[TopicId, str] = {}
        self._shown: dict[TopicId, frozenset[str]] = {}
        """Keys of the files of each table that was written since the start."""
        self._flushed_s: dict[TopicId, float] = {}
        self._unflushed: dict[TopicId, str] = {}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the tasks. All tables are checked: a process that died may have left some
        outdated."""
        await self._early.open()
        self._cache.listen(self._on_change)
        self._tasks = [
            asyncio.create_task(self._keep_writing(), name="tables"),
            asyncio.create_task(self._keep_flushing(), name="table-flushes"),
            asyncio.create_task(self._look_at_all(), name="tables-all"),
        ]

    async def stop(self) -> None:
        """Stop promptly: writes under way are given up, and repeated after the next start."""
        tasks, self._tasks = self._tasks, []
        if tasks:
            self._cache.unlisten(self._on_change)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        await self._writer.close()

    # -- what others ask for -----------------------------------------------------------------------

    async def flush(self, topic: Topic) -> Visible:
        """Make all that is decided visible in the topic's table; what became so."""
        if topic.config["tier.format"] == "log":
            raise InvalidConfig(f"topic {topic.name!r} has no table: its tier.format is log")
        visible = await self._flush(topic)
        await self.write(topic)
        return visible

    async def write(self, topic: Topic) -> Written:
        """Write the topic's manifest and its Iceberg table as its files are now."""
        due = self._due.pop(topic.topic_id, None)
        try:
            self._names[topic.topic_id] = topic.name
            shards = (shard_name(topic.topic_id, number) for number in range(topic.partitions))
            request = WriteTable(
                topic=topic,
                files=[file for shard in shards for file in self._cache.files(shard)],
                revision=self._cache.revision,
            )
            written = await self._writer.ask(request)
        except BaseException:
            self._due.setdefault(topic.topic_id, due or _Due(self._now_s()))
            raise
        keys = (file.parquet.key for file in request.files if file.parquet)
        self._shown[topic.topic_id] = frozenset(keys)
        return written

    def shown(self, topic_id: TopicId) -> Collection[str]:
        """The keys of the files that a table shows, as it was last written. Empty until it has been
        checked after a start."""
        return self._shown.get(topic_id, ())

    # -- writing tables ----------------------------------------------------------------------------

    def _on_change(self, shard: ShardName) -> None:
        self._mark(split_shard_name(shard)[0], self._limits.gather_s)

    def _mark(self, topic_id: TopicId, wait_s: float) -> None:
        self._due.setdefault(topic_id, _Due(self._now_s() + wait_s))
        self._changed.set()

    async def _look_at_all(self) -> None:
        while True:
            with_files = {split_shard_name(shard)[0] for shard in self._cache.shards()}
            for topic_id in with_files | self._names.keys():
                self._mark(topic_id, 0.0)
            await asyncio.sleep(self._limits.resync_s)

    async def _keep_writing(self) -> None:
        await self._drop_others()
        while True:
            self._changed.clear()
            now_s = self._now_s()
            for topic_id in [one for one, due in self._due.items() if due.at_s <= now_s]:
                await self._attempt(topic_id)
            try:
                async with asyncio.timeout_at(
                    min((due.at_s for due in self._due.values()), default=None)
                ):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _drop_others(self) -> None:
        if not self._writer.may_have_tables:
            return
        topics = {topic.name: topic.topic_id for topic in self._topics()}
        try:
            await self._writer.ask(KeepTables(topics=topics))
        except Closed:
            pass
        except Exception as error:
            log.warning("tables of topics that are gone were not looked for: %s", error)

    async def _attempt(self, topic_id: TopicId) -> None:
        due = self._due[topic_id]
        topic = next((one for one in self._topics() if one.topic_id == topic_id), None)
        try:
            await (self.write(topic) if topic else self._drop(topic_id))
        except Closed:
            self._due.pop(topic_id, None)
        except Exception as error:
            self._failed(topic.name if topic else topic_id, due, error)
            self._due[topic_id] = due

    async def _drop(self, topic_id: TopicId) -> None:
        name = self._names.get(topic_id)
        if name is not None:
            await self._writer.ask(DropTable(name=name, topic_id=topic_id))
        self._due.pop(topic_id, None)
        self._names.pop(topic_id, None)
        self._shown.pop(topic_id, None)
        self._flushed_s.pop(topic_id, None)
        self._unflushed.pop(topic_id, None)

    def _failed(self, name: str, due: _Due, error: Exception) -> None:
        pause_s = self._limits.backoff_s * 2 ** min(due.failures, 20)
        due.failures += 1
        due.at_s = self._now_s() + min(pause_s, self._limits.backoff_s_max)
        if str(error) == due.said:
            return
        due.said = str(error)
        unexpected = not isinstance(error, StrataError)
        log.warning("table %s is tried again: %s", name, error, exc_info=unexpected)

    # -- flushing ----------------------------------------------------------------------------------

    async def _flush(self, topic: Topic) -> Visible:
        visible = Visible()
        for number in range(topic.partitions):
            done = await self._early.flush(topic, shard_name(topic.topic_id, number))
            visible = Visible(visible.files + done.files, visible.rows + done.rows)
        return visible

    async def _keep_flushing(self) -> None:
        while True:
            for topic in self._topics():
                if self._wants_flush(topic):
                    await self._flush_quietly(topic)
            await asyncio.sleep(self._limits.tick_s)

    def _wants_flush(self, topic: Topic) -> bool:
        """The first time is one interval after it was first seen."""
        interval_ms = topic.config.number(FLUSH_INTERVAL)
        if not interval_ms or topic.config["tier.format"] == "log":
            return False
        last_s = self._flushed_s.setdefault(topic.topic_id, self._now_s())
        return self._now_s() - last_s >= interval_ms / 1000

    async def _flush_quietly(self, topic: Topic) -> None:
        """The table is written by the other task, as after any change."""
        said = ""
        try:
            await self._flush(topic)
        except Exception as error:
            said = str(error) or repr(error)
        if said and said != self._unflushed.get(topic.topic_id):
            log.warning("topic %s was not flushed into its table: %s", topic.name, said)
        self._unflushed[topic.topic_id] = said
        self._flushed_s[topic.topic_id] = self._now_s()

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()
