"""A node's inside: everything between the disk and the fronts, put together.

The one place that knows all parts. They start in this order and stop in reverse:

    lock           no other process has the folder
    meta           the Meta Service and its store
    configs        what brokers were configured with while they ran
    caches         what this node knows of topics, shards and segments
    groups         group offsets
    drivers        engines, each when a topic needs it
    topics         what a crash cut short is finished, shards are made to agree with the metadata
    tiering        history: read, moved and visible as tables, where there is or will be some
    housekeeping   retention and compaction
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from functools import partial

from stratamq.adapter.contract import StorageAdapter
from stratamq.adapter.drivers import DriverFactory, StorageDriverManager
from stratamq.adapter.engine_adapter import EngineStorageAdapter
from stratamq.adapter.housekeeping import Housekeeper
from stratamq.adapter.shards import ShardManager, specs_of
from stratamq.adapter.topics import TopicManager, new_topic_id
from stratamq.engine.contract import ShardSpec
from stratamq.engine.engine import StorageEngine
from stratamq.engine.handler import MetaLeadership, StorageEngineHandler
from stratamq.engine.layout import holds_anything, shard_roots, stored_shards
from stratamq.engine.segment.folders import ShardFolders
from stratamq.meta.configs import ConfigCacheManager
from stratamq.meta.nodes import RegisterNode
from stratamq.meta.service import MetaService
from stratamq.meta.shards import StorageCacheManager
from stratamq.meta.store import KVMetaStore
from stratamq.meta.tier.cache import TierCache
from stratamq.meta.topics import BrokerCacheManager
from stratamq.model.config import NodeConfig
from stratamq.model.errors import StorageError, StrataError, TopicNotFound
from stratamq.model.settings.topic import StorageType
from stratamq.model.shard import split_shard_name
from stratamq.model.types import NodeId, ShardName
from stratamq.node import composition as make
from stratamq.node.data_dir import damage_file
from stratamq.node.descriptors import descriptors
from stratamq.node.doors import Doors
from stratamq.node.follow import FollowGroups
from stratamq.node.identity import cluster_id
from stratamq.node.layout import META_FOLDER
from stratamq.node.metadata_check import MetaRevisionFile, report_unknown_shards
from stratamq.node.tiering import Service, Tiering, make_service
from stratamq.tiering.context import TierContext

log = logging.getLogger(__name__)


class NodeCore:
    """Made once, started once, stopped once, all on one event loop.

    `storages` are kinds of storage of the user's own, by the name that topics give as
    `storage.type`; what is no longer given here leaves its topics unreadable, not lost.
    """

    def __init__(
        self,
        config: NodeConfig,
        *,
        doors: Doors = Doors(),
        storages: Mapping[str, DriverFactory] | None = None,
    ) -> None:
        self.doors, self.config = doors, config
        self.node_id = NodeId(config.number("node.id"))
        self.descriptors = descriptors(config)
        self.lock = doors.lock(config.data_dir)
        meta_folder = config.data_dir / META_FOLDER
        store = KVMetaStore(partial(doors.open_kv, meta_folder, check_rows=True))
        self.meta_revision = MetaRevisionFile(doors.own_disk, config.data_dir)
        self.meta = MetaService(
            store, limits=make.meta_limits(config), on_durable=self.meta_revision.moved
        )
        reconcile_s = make.seconds(config, "meta.reconcile.interval.ms")
        self.configs = ConfigCacheManager(self.meta, self.node_id, config, reconcile_s=reconcile_s)
        self.broker_cache = BrokerCacheManager(self.meta, reconcile_s=reconcile_s)
        self.storage_cache = StorageCacheManager(self.meta, reconcile_s=reconcile_s)
        self.groups = make.offset_manager(config, self.meta, self.storage_cache, doors)
        self.engines: dict[StorageType, StorageEngine] = {}
        leadership = MetaLeadership(self.storage_cache, self.node_id)
        self.handler = StorageEngineHandler(self.engines, leadership)
        self.drivers = StorageDriverManager(self.broker_cache)
        self._register_drivers(storages or {})
        self.topics = self._topic_manager()
        self.configs.listen(self._take_topic_defaults)
        interval_s = make.seconds(config, "housekeeping.interval.ms")
        self.housekeeper = Housekeeper(
            self.broker_cache, self.drivers, self.topics, interval_s=interval_s
        )
        self.follow_groups = FollowGroups()
        self.tier_cache = TierCache(self.meta, reconcile_s=reconcile_s)
        self.tiering = Tiering(self._tier_service, self.broker_cache, self.tier_cache, config)
        self._started = contextlib.AsyncExitStack()

    def _topic_manager(self) -> TopicManager:
        timeouts = make.topic_timeouts(self.config)
        shards = ShardManager(self.meta, self.storage_cache, self.drivers, self.groups, timeouts)
        return TopicManager(
            self.node_id,
            self.meta,
            self.broker_cache,
            self.drivers,
            shards,
            timeouts=timeouts,
            defaults=self.config.topic_defaults.given,
            new_id=lambda: new_topic_id(self.doors.entropy),
        )

    def _take_topic_defaults(self) -> None:
        self.topics.defaults = self.config.topic_defaults.given

    def _register_drivers(self, storages: Mapping[str, DriverFactory]) -> None:
        for kind in StorageType:
            if kind.value not in storages:
                self.drivers.register(kind.value, self._engine_driver(kind))
        for name, factory in storages.items():
            self.drivers.register(name, factory)

    def _engine_driver(self, kind: StorageType) -> DriverFactory:
        files_max = self.descriptors.files_max
        make_engine = make.engine_maker(kind, self.config, files_max, self.doors)

        def make_driver() -> StorageAdapter:
            self.engines[kind] = engine = make_engine()
            return EngineStorageAdapter(self.handler, kind, engine, self.groups)

        return make_driver

    async def start(self) -> None:
        """Ready for use on return. A start that fails takes down what had come up."""
        async with contextlib.AsyncExitStack() as started:
            disk, data_dir = self.doors.own_disk, self.config.data_dir
            self.lock.acquire()
            started.callback(self.lock.release)
            started.enter_context(damage_file(disk, data_dir))
            await asyncio.to_thread(cluster_id, data_dir, self.doors)
            started.push_async_callback(self.meta_revision.stop)
            started.push_async_callback(self.meta.close)  # also when opening fails half-way
            meta = data_dir / META_FOLDER
            # Before a new one is made: the one that is brought back takes its place.
            self._check_records(has_metadata=holds_anything(disk, meta))
            await self.meta.open()
            # Metadata that is older than it was would let users create their topics again.
            await self.meta_revision.check(meta, self.meta.state)
            self._check_records(has_metadata=self.meta.state.revision > 0)
            self._check_node_id()
            await self.meta.submit(
                RegisterNode(
                    node_id=self.node_id,
                    address=f"{self.config.text('host')}:{self.config.number('kafka.port')}",
                )
            )
            for cache in (self.configs, self.broker_cache, self.storage_cache, self.tier_cache):
                await cache.start()
                started.push_async_callback(cache.stop)
            await self.groups.open()
            started.push_async_callback(self.groups.close)
            started.push_async_callback(self.drivers.close)
            await self.topics.restore()
            await report_unknown_shards(disk, data_dir, self.meta.state, self.drivers)
            started.push_async_callback(self.tiering.stop)
            await self.tiering.start()
            self.housekeeper.start()
            started.push_async_callback(self.housekeeper.stop)
            self._started = started.pop_all()

    async def stop(self) -> None:
        """Answer what is under way, store what is not stored yet, release everything."""
        await self._started.aclose()

    async def recover(self) -> None:
        """An operator asks for it: open again what is unavailable, and write lost or damaged
        `shard.json` files from the metadata, also those of shards that are open."""
        specs = [
            spec
            for topic in self.broker_cache.topics()
            for spec in specs_of(topic, range(topic.partitions))
        ]
        await asyncio.to_thread(self._repair_specs, specs)
        await self.topics.retry_shards(repair=True)

    def _repair_specs(self, specs: Sequence[ShardSpec]) -> None:
        disk = self.doors.own_disk
        for root in shard_roots(disk, self.config.data_dir):
            folders = ShardFolders(disk, root)
            for spec in specs:
                try:
                    if disk.is_folder(folders.of(spec.name)):
                        folders.spec_of(spec, repair=True)
                except (OSError, StrataError) as error:
                    log.error("%s: %s", folders.of(spec.name), error)

    def _check_records(self, *, has_metadata: bool) -> None:
        """Shards without any metadata mean that the metadata was lost. A node that started would
        show its users nothing, and let them create their topics again."""
        found = next(stored_shards(self.doors.own_disk, self.config.data_dir), None)
        if found is not None and not has_metadata:
            raise StorageError(
                f"{self.config.data_dir / META_FOLDER} is empty, but {found} holds records:"
                " bring the metadata back, or move the records to another folder"
            )

    def _check_node_id(self) -> None:
        """Every shard of the folder is led by the node that made it. Another one would start, and
        serve none of them."""
        nodes = sorted(self.meta.state.nodes)
        if nodes and self.node_id not in nodes:
            raise StorageError(
                f"{self.config.data_dir} belongs to node {nodes[0]}, and this is node"
                f" {self.node_id}: start it with --node-id {nodes[0]}, or name another --data-dir"
            )

    def _tier_service(self) -> Service:
        from stratamq.tiering.keys import owner_mark

        context = TierContext(
            config=self.config,
            clock=self.doors.clock,
            meta=self.meta,
            topics=self.broker_cache,
            cache=self.tier_cache,
            engine_of=self._engine_of,
            owner=owner_mark(cluster_id(self.config.data_dir, self.doors)),
        )
        return make_service(context)

    def _engine_of(self, shard: ShardName) -> StorageEngine | None:
        try:
            topic = self.broker_cache.topic_by_id(split_shard_name(shard)[0])
        except TopicNotFound:
            return None
        storage = topic.config.storage_name
        return self.engines.get(StorageType(storage)) if storage in tuple(StorageType) else None
