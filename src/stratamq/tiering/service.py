"""Everything about history on a node, put together: moving it, reading it, showing it as tables.

Parts start in this order and stop in reverse:

    store      where history lies
    cold       reading it; shards that have some get it here, and from then on with every change
    mover moves sealed segments there, and removes what is no longer needed
    tables     manifests, Iceberg tables, and the newest records in them
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from stratamq.meta.tier.files import Replaced, TierFile
from stratamq.model.errors import NotFound
from stratamq.model.topic import Topic
from stratamq.model.types import ShardName
from stratamq.tiering.cold.history import ShardHistory
from stratamq.tiering.cold.limits import limits_of
from stratamq.tiering.cold.reads import ColdReads
from stratamq.tiering.context import TierContext
from stratamq.tiering.mover.contract import MoverLimits, Surroundings
from stratamq.tiering.mover.mover import Mover
from stratamq.tiering.mover.progress import MoverStatus
from stratamq.tiering.replacing import commit_made, object_keys
from stratamq.tiering.stores.opening import open_store, options_of
from stratamq.tiering.stores.store import Store
from stratamq.tiering.tables.early import EarlyWriter, Visible
from stratamq.tiering.tables.process import TableWriter
from stratamq.tiering.tables.requests import table_name, table_options
from stratamq.tiering.tables.updater import TableUpdater


class Histories:
    """Keeps each shard's history what the Meta Service says it is."""

    def __init__(self, context: TierContext, cold: ColdReads) -> None:
        self._context, self._cold = context, cold
        self._histories: dict[ShardName, ShardHistory] = {}

    def attach_all(self) -> None:
        for shard in self._context.cache.shards():
            self.attach(shard)

    def attach(self, shard: ShardName) -> None:
        """Give the engine the shard's files, also when the last one goes: offsets of files that are
        gone lie below the start then."""
        engine = self._context.engine_of(shard)
        files = self._context.cache.files(shard)
        if engine is None:
            self._histories.pop(shard, None)
            return
        history = self._histories.setdefault(shard, self._cold.history(shard))
        history.replace(files)
        with contextlib.suppress(NotFound):  # the shard is being made, or has just gone
            engine.attach_history(shard, history)

    def detach_all(self) -> None:
        for shard in self._histories:
            engine = self._context.engine_of(shard)
            if engine is not None:
                with contextlib.suppress(NotFound):
                    engine.attach_history(shard, None)
        self._histories.clear()


WORK_FOLDER = "tiering"


class TierService:
    """Started once, stopped once, on the node's event loop."""

    def __init__(self, context: TierContext) -> None:
        self._context = context
        self._started = contextlib.AsyncExitStack()
        self._mover: Mover | None = None
        self._tables: TableUpdater | None = None
        self._store: Store | None = None

    async def start(self) -> None:
        """History can be read on return; all else goes on in the background."""
        config = self._context.config
        async with contextlib.AsyncExitStack() as started:
            may_be_new = not self._context.cache.shards()
            store = await open_store(options_of(config), may_be_new=may_be_new)
            started.push_async_callback(store.close)
            cold = await ColdReads.open(store, config.data_dir, limits_of(config))
            started.push_async_callback(cold.close)
            if not may_be_new:  # before a reader waits for it
                await asyncio.to_thread(cold.parquet.load)
            histories = Histories(self._context, cold)
            self._context.cache.listen(histories.attach)
            started.callback(self._context.cache.unlisten, histories.attach)
            histories.attach_all()
            started.callback(histories.detach_all)
            mover = Mover(self._surroundings(store, histories), MoverLimits.of(config))
            await mover.open()
            started.push_async_callback(mover.stop)
            mover.start()
            tables = self._table_updater(mover)
            started.push_async_callback(tables.stop)
            await tables.start()
            self._mover, self._tables, self._store = mover, tables, store
            self._started = started.pop_all()

    async def stop(self) -> None:
        await self._started.aclose()

    @property
    def mover(self) -> Mover:
        assert self._mover is not None, "started"
        return self._mover

    async def flush(self, topic: Topic) -> Visible:
        """Make all that is decided visible in the topic's table; what became so."""
        assert self._tables is not None, "started"
        with self.mover.converters.urgency.awaited():
            return await self._tables.flush(topic)

    async def commit(self, file: TierFile, replaced: Replaced) -> None:
        """Put a file that was made elsewhere in place of others."""
        assert self._store is not None, "started"
        with self.mover.flights.of(object_keys(file)):
            await commit_made(self._context, self._store, file, replaced)

    async def run(self, topic: Topic) -> tuple[int, int, int, int]:
        """Do what is due of the topic's history, and write its table when that changed it."""
        assert self._tables is not None, "started"
        with self.mover.converters.urgency.awaited():
            done = await self.mover.run_topic(topic)
            if (done.segments or done.rewritten) and topic.config["tier.format"] != "log":
                await self._tables.write(topic)
        return done.segments, done.log_bytes, done.freed_bytes, done.rewritten

    def waiting(self, shard: ShardName) -> tuple[int, int]:
        """Segments that are due, and their bytes, as far as the last round saw."""
        return self.mover.progress.waiting(shard)

    def table(self, topic: Topic) -> str | None:
        """The name of the topic's Iceberg table, if it is one."""
        return table_name(self._context.config, topic)

    def shown(self, topic: Topic) -> Collection[str]:
        """The keys of the files that the topic's table shows."""
        assert self._tables is not None, "started"
        return self._tables.shown(topic.topic_id)

    def status(self) -> MoverStatus:
        return self.mover.status()

    def moving(self, shard: ShardName) -> tuple[str, int, int] | None:
        """The step at which a segment of the shard is, with bytes done and in all."""
        for one in self.status().underway:
            if one.shard == shard:
                return one.step, one.done_bytes, one.total_bytes
        return None

    @property
    def trouble(self) -> str | None:
        """What went wrong last, as long as there is something that is to be tried again."""
        status = self.status()
        return status.totals.last_error if status.troubled else None

    def _table_updater(self, mover: Mover) -> TableUpdater:
        """Create the part that writes tables. Early files share the mover's converters and its
        bandwidth, so it stops before the mover does."""
        context = self._context
        early = EarlyWriter(
            around=mover.around,
            engine_of=context.engine_of,
            converters=mover.converters,
            shipper=mover.shipper,
            flights=mover.flights,
            merge_files=context.config.number("lake.merge.files"),
        )
        urgency = mover.converters.urgency
        writer = TableWriter(table_options(context.config), urgency=urgency)
        return TableUpdater(context.topics.topics, context.cache, early, writer)

    def _surroundings(self, store: Store, histories: Histories) -> Surroundings:
        context = self._context
        return Surroundings(
            meta=context.meta,
            files=context.cache,
            topics=context.topics.topics,
            engine_of=context.engine_of,
            attach=histories.attach,
            store=store,
            clock=context.clock,
            work_folder=context.config.data_dir / WORK_FOLDER,
            owner=context.owner,
        )
