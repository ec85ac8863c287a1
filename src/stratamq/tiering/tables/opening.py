"""From a node's settings to the keeper of its tables."""

from __future__ import annotations

from collections.abc import Callable, Collection

from stratamq.engine.contract import ShardTiering
from stratamq.meta.tier.cache import TierCache
from stratamq.model.config import NodeConfig
from stratamq.model.topic import Topic
from stratamq.model.types import ShardName
from stratamq.tiering.mover.mover import Mover
from stratamq.tiering.stores.opening import options_of
from stratamq.tiering.tables.early import EarlyWriter
from stratamq.tiering.tables.keeper import TableKeeper
from stratamq.tiering.tables.process import TableWriter
from stratamq.tiering.tables.requests import NO_CATALOG, TableOptions

CATALOG_FILE = "lake/catalog.sqlite"


def make_keeper(
    config: NodeConfig,
    topics: Callable[[], Collection[Topic]],
    cache: TierCache,
    engine_of: Callable[[ShardName], ShardTiering | None],
    mover: Mover,
) -> TableKeeper:
    """Early files take their turn at the mover's converters and at its bandwidth. Stop it before
    the mover."""
    early = EarlyWriter(
        around=mover.around,
        engine_of=engine_of,
        converters=mover.converters,
        shipper=mover.shipper,
        flights=mover.flights,
        merge_files=config.number("lake.merge.files"),
    )
    return TableKeeper(topics, cache, early, TableWriter(table_options(config)))


def table_options(config: NodeConfig) -> TableOptions:
    return TableOptions(
        store=options_of(config),
        catalog_uri=config.text("lake.catalog.uri"),
        catalog_path=config.data_dir.absolute() / CATALOG_FILE,
        warehouse=config.text("lake.catalog.warehouse"),
        namespace=config.text("lake.namespace"),
        snapshots_ms_max=config.number("tier.orphan.grace.ms"),
    )


def table_name(config: NodeConfig, topic: Topic) -> str | None:
    """What the topic's Iceberg table is called; None if it has none."""
    has_table = topic.config.flag("lake.iceberg") and topic.config["tier.format"] != "log"
    if not has_table or config.text("lake.catalog.uri") == NO_CATALOG:
        return None
    return f"{config.text('lake.namespace')}.{topic.name}"
