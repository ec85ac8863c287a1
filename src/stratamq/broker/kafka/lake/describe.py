"""DescribeLake: where a topic's records are."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.broker.kafka.answer_budget import LongAnswer
from stratamq.broker.kafka.cluster import uuid_of
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import api_error
from stratamq.broker.kafka.lake.contract import Lake
from stratamq.broker.kafka.turns import paced
from stratamq.meta.tier.files import TierFile
from stratamq.model.errors import AnswerTooLarge, StrataError
from stratamq.model.shard import shard_name
from stratamq.model.topic import Topic
from stratamq.wire.kafka.protocol.messages.lake import (
    DescribedLake,
    DescribeLakeRequest,
    DescribeLakeResponse,
    LakeFile,
    LakePartition,
)

PARTITION_BYTES = 400
FILE_BYTES = 700
"""About what they take in an answer, first as objects and then encoded."""


class DescribeLake:
    def __init__(self, services: Services, lake: Lake) -> None:
        self._services, self._lake = services, lake

    async def describe(self, request: DescribeLakeRequest, caller: Caller) -> DescribeLakeResponse:
        answer = self._services.answers.begin()
        return DescribeLakeResponse(
            topics=[await self._topic(one.name, answer) async for one in paced(request.topics)]
        )

    async def _topic(self, name: str, answer: LongAnswer) -> DescribedLake:
        try:
            topic = self._services.broker_cache.topic(name)
            partitions = [
                await self._partition(topic, one, answer)
                async for one in paced(range(topic.partitions))
            ]
        except StrataError as error:
            code, message = api_error(error)
            return DescribedLake(name=name, error_code=code, error_message=message)
        store = self._lake.store
        return DescribedLake(
            name=name,
            topic_id=uuid_of(topic),
            store_url=store.url,
            s3_endpoint=store.s3_endpoint,
            s3_region=store.s3_region,
            s3_path_style=store.s3_path_style,
            value_format=str(topic.config["lake.value.format"]),
            value_schema=str(topic.config["lake.value.schema"]),
            log_append_time=topic.config["message.timestamp.type"] == "LogAppendTime",
            table=self._lake.table(topic),
            trouble=self._lake.trouble,
            partitions=partitions,
        )

    async def _partition(self, topic: Topic, number: int, answer: LongAnswer) -> LakePartition:
        shard = shard_name(topic.topic_id, number)
        try:
            handle, _ = await self._services.partitions.led(topic.name, number)
            driver = await self._services.drivers.driver(topic.config.storage_name)
            # In this order: what leaves the disks meanwhile is seen twice, never missed.
            local_start = handle.local_start()
            files = self._lake.files(shard)
            await answer.add(PARTITION_BYTES + len(files) * FILE_BYTES)
            start, committed, _ = handle.offsets()
            moving = self._lake.moving(shard)
            segments = await driver.segments(shard)
            cold_end = files[-1].end_offset if files else start
            return LakePartition(
                partition_index=number,
                start_offset=start,
                local_start_offset=local_start,
                high_watermark=committed,
                last_stable_offset=handle.last_stable(),
                local_bytes=sum(segment.size_bytes for segment in segments),
                moving=moving.step if moving else None,
                moving_done=moving.done_bytes if moving else 0,
                moving_total=moving.total_bytes if moving else 0,
                deleted=await driver.deleted(shard, start, cold_end),
                files=_files(files),
            )
        except AnswerTooLarge:
            raise  # a topic is described whole, or refused
        except StrataError as error:
            return LakePartition(partition_index=number, error_code=api_error(error).code)


def _files(files: Sequence[TierFile]) -> list[LakeFile]:
    return [
        LakeFile(
            base_offset=file.base_offset,
            end_offset=file.end_offset,
            final=file.final,
            parquet_key=file.parquet.key if file.parquet else None,
            parquet_size=file.parquet.size if file.parquet else 0,
            log_key=file.log.key if file.log else None,
            log_size=file.log.size if file.log else 0,
            rows=file.rows,
            min_timestamp=file.min_timestamp,
            max_timestamp=file.max_timestamp,
            log_bytes=file.log_bytes,
            unparsed=file.unparsed,
            misfits=file.misfits,
            columns=file.columns,
            start=file.start,
            deleted=file.deleted,
        )
        for file in files
    ]
