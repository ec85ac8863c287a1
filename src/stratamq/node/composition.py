"""From a node's configuration to what its parts are made with. No part is started here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

from stratamq.adapter.offset_cache import OffsetCacheLimits, OffsetCacheManager
from stratamq.adapter.offsets import OffsetManager, OffsetStorageManager
from stratamq.adapter.shards import TopicTimeouts
from stratamq.engine.engine import StorageEngine
from stratamq.engine.limits import EngineLimits
from stratamq.meta.client import MetaClient
from stratamq.meta.limits import MetaLimits
from stratamq.meta.shards import StorageCacheManager
from stratamq.model.config import NodeConfig
from stratamq.model.settings.topic import StorageType
from stratamq.node.doors import Doors
from stratamq.node.layout import OFFSETS_FOLDER

ENGINES = {
    StorageType.MEMORY: ("stratamq.engine.memory.engine", "EngineMemory", ("disk", "open_kv")),
    StorageType.ROCKSDB: ("stratamq.engine.rocksdb.engine", "EngineRocksDB", ("open_kv", "pool")),
    StorageType.SEGMENT: (
        "stratamq.engine.segment.engine",
        "EngineSegment",
        ("disk", "open_kv", "pool"),
    ),
}
"""By name: an engine that no topic uses is not even imported. With the doors that each takes."""

_ENGINE_LIMITS = {
    "shards_opened_first_max": "shards.opened.first.max",
    "queue_requests_max": "io.queue.requests.max",
    "queue_bytes_max": "io.queue.bytes.max",
    "drain_requests_max": "io.drain.requests.max",
    "drain_bytes_max": "io.drain.bytes.max",
    "reader_threads": "reader.threads",
    "cold_reader_threads": "cold.reader.threads",
    "open_files_max": "files.open.max",
    "decompressed_bytes_max": "batch.decompressed.bytes.max",
    "checkpoint_ms": "checkpoint.interval.ms",
    "compaction_keys_max": "compaction.keys.max",
    "producer_expiration_ms": "producer.id.expiration.ms",
    "producers_max": "producer.ids.max",
    "aborted_transactions_max": "transactions.aborted.per.shard.max",
    "deletion_marks_max": "deletions.per.shard.max",
    "memory_bytes_max": "memory.bytes.max",
    "memory_age_ms_max": "memory.age.ms.max",
    "memory_full": "memory.full",
}

_META_LIMITS = {
    "topics_max": "meta.topics.max",
    "partitions_per_topic_max": "meta.partitions.per.topic.max",
    "shards_max": "meta.shards.max",
    "groups_max": "meta.groups.max",
    "offset_bytes_max": "meta.offset.bytes.max",
    "transactions_max": "meta.transactions.max",
    "transaction_shards_max": "meta.transaction.partitions.max",
    "acls_max": "meta.acls.max",
    "credentials_max": "meta.credentials.max",
    "quotas_max": "meta.quotas.max",
    "configs_max": "meta.configs.max",
    "files_max": "meta.files.max",
    "pending_commands_max": "meta.pending.commands.max",
    "watch_updates_max": "meta.watch.updates.max",
}


def engine_limits(config: NodeConfig) -> EngineLimits:
    values = {field: config.values[name] for field, name in _ENGINE_LIMITS.items()}
    if config.number("io.workers"):
        values["workers"] = config.number("io.workers")
    return EngineLimits(**values)  # type: ignore[arg-type]


def meta_limits(config: NodeConfig) -> MetaLimits:
    return MetaLimits(**{field: config.number(name) for field, name in _META_LIMITS.items()})


def topic_timeouts(config: NodeConfig) -> TopicTimeouts:
    return TopicTimeouts(
        topic_s=seconds(config, "create.topic.timeout.ms"),
        shard_s=seconds(config, "create.shard.timeout.ms"),
    )


def seconds(config: NodeConfig, name: str) -> float:
    return config.number(name) / 1000


def engine_maker(
    kind: StorageType, config: NodeConfig, files_max: int, doors: Doors
) -> Callable[[], StorageEngine]:
    limits = replace(engine_limits(config), open_files_max=files_max)
    pool = partial(doors.pool, now_s=doors.now_s)
    given = {"disk": doors.disk, "open_kv": doors.open_kv, "pool": pool}

    def make() -> StorageEngine:
        module, name, taken = ENGINES[kind]
        engine_class = getattr(import_module(module), name)
        engine: StorageEngine = engine_class(
            config.data_dir, clock=doors.clock, limits=limits, **{one: given[one] for one in taken}
        )
        return engine

    return make


def offset_manager(
    config: NodeConfig, meta: MetaClient, storage: StorageCacheManager, doors: Doors
) -> OffsetManager:
    if config.text("offset.store") == "meta":
        return OffsetStorageManager(meta, doors.clock)
    folder: Path = config.data_dir / OFFSETS_FOLDER
    return OffsetCacheManager(
        partial(doors.open_kv, folder),
        lambda shard: storage.shard(shard) is not None,
        doors.clock,
        OffsetCacheLimits(
            flush_interval_s=seconds(config, "offset.flush.interval.ms"),
            dirty_offsets_max=config.number("offset.dirty.max"),
            offsets_max=config.number("offset.cache.max"),
            offset_bytes_max=config.number("meta.offset.bytes.max"),
        ),
    )
