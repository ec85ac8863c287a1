"""Stored shards that the metadata does not know: reported at start, by name, and left alone.

A shard is registered before it is stored and forgotten after it is deleted, so there is none
unless metadata was lost, or a folder was brought from elsewhere.
"""

from __future__ import annotations

from pathlib import Path

from stratamq.adapter.drivers import StorageDriverManager
from stratamq.engine.layout import ROCKSDB_FOLDER, stored_shards
from stratamq.engine.segment.folders import TOPICS_SHARD
from stratamq.log.disk import Disk
from stratamq.meta.state import MetaState
from stratamq.model.damage import report_damage
from stratamq.model.errors import StrataError
from stratamq.model.settings.topic import StorageType
from stratamq.model.types import ShardName

UNKNOWN = "the metadata knows no such shard; its records are kept, and no client can read them"


async def report_unknown_shards(
    disk: Disk, data_dir: Path, state: MetaState, drivers: StorageDriverManager
) -> None:
    """After the engines of all known topics were opened."""
    rocksdb = data_dir / ROCKSDB_FOLDER

    def is_unknown(name: str) -> bool:
        return TOPICS_SHARD.fullmatch(name) is not None and ShardName(name) not in state.shards

    for path in stored_shards(disk, data_dir, is_unknown):
        if path != rocksdb:
            report_damage(f"{path}: {UNKNOWN}")
            continue
        for shard in await _shards_in_rocksdb(drivers):
            if shard not in state.shards:
                report_damage(f"{rocksdb}, shard {shard}: {UNKNOWN}")


async def _shards_in_rocksdb(drivers: StorageDriverManager) -> list[ShardName]:
    """The store is opened for this even if no known topic is in it."""
    try:
        driver = await drivers.driver(StorageType.ROCKSDB.value)
        return sorted({**await driver.list_shard(), **driver.unavailable_shards()})
    except StrataError:
        return []  # reported: its topics are unavailable
