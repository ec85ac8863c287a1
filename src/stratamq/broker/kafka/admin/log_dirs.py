"""DescribeLogDirs and AlterReplicaLogDirs: the one folder that every partition is in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from stratamq.broker.kafka.answer_budget import LongAnswer
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.turns import paced
from stratamq.model.errors import AnswerTooLarge, NotFound, StrataError
from stratamq.model.topic import Topic
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.cluster_admin import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

TOPIC_BYTES = 300
PARTITION_BYTES = 150
"""About what they take in an answer, first as objects and then encoded."""


class LogDirs:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def describe(
        self, request: DescribeLogDirsRequest, caller: Caller
    ) -> DescribeLogDirsResponse:
        folder = self._services.config.data_dir.absolute()
        try:
            disk = await asyncio.to_thread(self._services.disk_usage, folder)
        except OSError:
            broken = DescribeLogDirsResult(
                error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=str(folder), topics=[]
            )
            return DescribeLogDirsResponse(results=[broken])
        answer = self._services.answers.begin()
        try:
            topics = [
                await self._topic(*wanted, answer) async for wanted in paced(self._wanted(request))
            ]
        except AnswerTooLarge as error:
            return DescribeLogDirsResponse(error_code=code_of(error), results=[])
        return DescribeLogDirsResponse(
            results=[
                DescribeLogDirsResult(
                    log_dir=str(folder),
                    topics=[topic for topic in topics if topic.partitions],
                    total_bytes=disk.total,
                    usable_bytes=disk.free,
                )
            ]
        )

    def _wanted(self, request: DescribeLogDirsRequest) -> Iterator[tuple[Topic, list[int]]]:
        """Null stands for all topics. Topics and partitions that do not exist are left out."""
        known = {topic.name: topic for topic in self._services.broker_cache.topics()}
        if request.topics is None:
            for topic in known.values():
                yield topic, list(range(topic.partitions))
            return
        for asked in request.topics:
            if (found := known.get(asked.topic)) is not None:
                numbers = sorted(one for one in asked.partitions if 0 <= one < found.partitions)
                yield found, numbers

    async def _topic(
        self, topic: Topic, partitions: list[int], answer: LongAnswer
    ) -> DescribeLogDirsTopic:
        await answer.add(TOPIC_BYTES + len(partitions) * PARTITION_BYTES)
        try:
            segments = [
                await self._services.drivers.segments(topic.name, number)
                async for number in paced(partitions)
            ]
        except NotFound:  # deleted meanwhile
            partitions, segments = [], []
        return DescribeLogDirsTopic(
            name=topic.name,
            partitions=[
                DescribeLogDirsPartition(
                    partition_index=number,
                    partition_size=sum(segment.size_bytes for segment in some),
                    offset_lag=0,
                    is_future_key=False,
                )
                for number, some in zip(partitions, segments, strict=True)
            ],
        )

    async def alter(
        self, request: AlterReplicaLogDirsRequest, caller: Caller
    ) -> AlterReplicaLogDirsResponse:
        """There is one folder: a partition is there already, or the folder does not exist."""
        ours = self._services.config.data_dir.absolute()
        codes: dict[str, dict[int, ErrorCode]] = {}
        for wanted in request.dirs:
            is_ours = Path(wanted.path) == ours
            for topic in wanted.topics:
                async for number in paced(topic.partitions):
                    code = ErrorCode.NONE if is_ours else ErrorCode.LOG_DIR_NOT_FOUND
                    try:
                        if is_ours:
                            await self._services.partitions.led(topic.name, number)
                    except StrataError as error:
                        code = code_of(error)
                    codes.setdefault(topic.name, {})[number] = code
        return AlterReplicaLogDirsResponse(
            results=[
                AlterReplicaLogDirTopicResult(
                    topic_name=name,
                    partitions=[
                        AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                        for number, code in some.items()
                    ],
                )
                for name, some in codes.items()
            ]
        )
