"""What a node hands to tiering, in a module that needs no library of the `lake` extra.

A node without the extra imports this and not `service`, which it loads only where it is used.
"""

from __future__ import annotations

from collections.abc import Callable

from stratamq.engine.contract import ShardTiering
from stratamq.meta.client import MetaClient
from stratamq.meta.tier.cache import TierCache
from stratamq.meta.topics import BrokerCacheManager
from stratamq.model.clock import Clock
from stratamq.model.config import NodeConfig
from stratamq.model.dataclass import dataclass
from stratamq.model.types import ShardName


@dataclass(frozen=True, slots=True, kw_only=True)
class TierContext:
    """The parts of a node, all of them started. `engine_of` is None for a shard that no engine of
    this node stores, or that is being deleted. `owner` marks the objects that are ours."""

    config: NodeConfig
    clock: Clock
    meta: MetaClient
    topics: BrokerCacheManager
    cache: TierCache
    engine_of: Callable[[ShardName], ShardTiering | None]
    owner: str
