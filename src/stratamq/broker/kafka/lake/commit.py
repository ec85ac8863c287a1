"""CommitLake: files that somebody made of a topic's history take the places of others."""

from __future__ import annotations

from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import api_error
from stratamq.broker.kafka.lake.contract import Lake
from stratamq.meta.tier.files import ParquetEnd, Replaced, TierFile, TierObject
from stratamq.model.errors import StrataError
from stratamq.model.shard import shard_name
from stratamq.model.types import Offset, ShardName, TimestampMs
from stratamq.wire.kafka.protocol.messages.lake import (
    CommitLakeRequest,
    CommitLakeResponse,
    CommitLakeTopic,
    CommittedLake,
    MadeFile,
)


class CommitLake:
    """Safe to repeat: a file that is there already stays there."""

    def __init__(self, services: Services, lake: Lake) -> None:
        self._services, self._lake = services, lake

    async def commit(self, request: CommitLakeRequest, caller: Caller) -> CommitLakeResponse:
        return CommitLakeResponse(topics=[await self._topic(one) for one in request.topics])

    async def _topic(self, wanted: CommitLakeTopic) -> CommittedLake:
        try:
            topic = self._services.broker_cache.topic(wanted.name)
            await self._services.partitions.led(topic.name, wanted.partition_index)
            shard = shard_name(topic.topic_id, wanted.partition_index)
            replaced = Replaced(tuple(map(Offset, wanted.replace)), frozenset(wanted.objects))
            await self._lake.commit(_tier_file(shard, wanted.file), replaced)
        except StrataError as error:
            code, message = api_error(error)
            return CommittedLake(name=wanted.name, error_code=code, error_message=message)
        return CommittedLake(name=wanted.name)


def _tier_file(shard: ShardName, made: MadeFile) -> TierFile:
    end = ParquetEnd(made.end_size, made.end_crc, made.index_size, made.index_crc)
    return TierFile(
        shard=shard,
        base_offset=Offset(made.base_offset),
        end_offset=Offset(made.end_offset),
        final=True,
        parquet=None if made.key is None else TierObject(made.key, made.size, made.crc),
        parquet_end=None if made.key is None else end,
        log=None if made.log_key is None else TierObject(made.log_key, made.log_size, made.log_crc),
        rows=made.rows,
        batches=made.batches,
        min_timestamp=TimestampMs(made.min_timestamp),
        max_timestamp=TimestampMs(made.max_timestamp),
        unparsed=made.unparsed,
        misfits=made.misfits,
        deleted=made.deleted,
        start=Offset(made.start),
        columns=made.columns,
    )
