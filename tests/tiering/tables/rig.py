"""A node's tables with everything they stand on: engine, Meta Service, store, mover, catalog."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from stratamq.lake.tables.manifest import Manifest, parse_manifest
from stratamq.model.shard import shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import ShardName
from stratamq.tiering import keys
from stratamq.tiering.tables.early import EarlyWriter
from stratamq.tiering.tables.process import TableWriter
from stratamq.tiering.tables.requests import TableOptions
from stratamq.tiering.tables.updater import TableUpdater, UpdaterLimits
from tests.lake.tables.readers import Found, by_duckdb, by_pyiceberg, users_table
from tests.tiering.mover.rig import Rig

SOON = UpdaterLimits(gather_s=0.02, tick_s=0.02, backoff_s=0.02, backoff_s_max=0.1)


@dataclass
class TableRig(Rig):
    updater_limits: UpdaterLimits = field(default_factory=lambda: SOON)
    merge_files: int = 8

    async def __aenter__(self) -> TableRig:
        await super().__aenter__()
        self.early = EarlyWriter(
            around=self.mover.around,
            engine_of=self.engine_of,
            converters=self.mover.converters,
            shipper=self.mover.shipper,
            flights=self.mover.flights,
            merge_files=self.merge_files,
        )
        self.writer = self.new_writer()
        self.updater = TableUpdater(
            lambda: self.topics, self.cache, self.early, self.writer, self.updater_limits
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.updater.stop()
        await super().__aexit__(*exc)

    def new_writer(self) -> TableWriter:
        return TableWriter(TableOptions(store=self.options, catalog_path=self.catalog_path))

    @staticmethod
    def shard_of(topic: Topic) -> ShardName:
        return shard_name(topic.topic_id, 0)

    @property
    def catalog_path(self) -> Path:
        return self.folder / "lake" / "catalog.sqlite"

    async def manifest(self, topic: Topic) -> Manifest:
        key = keys.manifest_key(keys.topic_folder(topic.name, topic.topic_id))
        return parse_manifest(await self.store.get_range(key, 0, 1 << 24))

    async def table(self, topic: Topic, where: tuple[str, str] = ("true", "true")) -> Found:
        """What users find in it, with pyiceberg and with DuckDB alike."""

        def read() -> Found:
            with users_table(self.catalog_path, topic.name) as table:
                found = by_pyiceberg(table, where[0])
                if found.rows:
                    assert by_duckdb(table, where[1]) == found
                return found

        return await asyncio.to_thread(read)
