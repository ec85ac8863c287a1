"""The marks that end a transaction in each of its shards."""

from __future__ import annotations

import asyncio
import logging

from stratamq.broker.kafka.contract import Services
from stratamq.meta.transactions import TransactionMeta
from stratamq.model.errors import NotFound, ProducerRefused, StrataError
from stratamq.model.shard import split_shard_name
from stratamq.model.transaction import TransactionState
from stratamq.model.types import ShardName

log = logging.getLogger(__name__)

COORDINATOR_EPOCH = 0
"""There is one coordinator, and nobody takes over from it."""


class Marker:
    """Writes marks. Writing one again does no harm, so whoever is unsure does it again."""

    def __init__(self, services: Services) -> None:
        self._topics = services.broker_cache
        self._drivers = services.drivers

    async def mark(self, one: TransactionMeta, shards: list[ShardName]) -> list[ShardName]:
        """Those shards that could not be marked now."""
        done = await asyncio.gather(*(self._try(one, shard) for shard in shards))
        return [shard for shard, marked in zip(shards, done, strict=True) if not marked]

    async def _try(self, one: TransactionMeta, shard: ShardName) -> bool:
        try:
            await self._mark(one, shard)
        except NotFound:
            log.info("transaction %r: %s is gone", one.transactional_id, shard)
        except ProducerRefused as error:  # a newer mark is there: ours would say nothing new
            log.error("transaction %r, mark in %s: %s", one.transactional_id, shard, error)
        except StrataError as error:
            log.warning("transaction %r, mark in %s: %s", one.transactional_id, shard, error)
            return False
        return True

    async def _mark(self, one: TransactionMeta, shard: ShardName) -> None:
        topic_id, partition = split_shard_name(shard)
        topic = self._topics.topic_by_id(topic_id)
        await self._drivers.write_marker(
            topic.name,
            partition,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            commit=one.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=COORDINATOR_EPOCH,
        )
