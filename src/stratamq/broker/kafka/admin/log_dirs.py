"""DescribeLogDirs and AlterReplicaLogDirs: the one folder that every partition is in."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

from stratamq.broker.kafka.admin.answers import failure
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.topics import lead
from stratamq.model.errors import NotFound, StrataError
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

_NO_DIR = ErrorCode.LOG_DIR_NOT_FOUND


class LogDirs:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def describe(
        self, request: DescribeLogDirsRequest, caller: Caller
    ) -> DescribeLogDirsResponse:
        folder = self._services.config.data_dir.absolute()
        try:
            disk = await asyncio.to_thread(shutil.disk_usage, folder)
        except OSError:
            broken = DescribeLogDirsResult(
                error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=str(folder), topics=[]
            )
            return DescribeLogDirsResponse(results=[broken])
        topics = [await self._topic(*wanted) for wanted in self._wanted(request)]
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
        """Null stands for everything. What is not here is left out, and told twice is nothing."""
        known = {topic.name: topic for topic in self._services.broker_cache.topics()}
        if request.topics is None:
            for topic in known.values():
                yield topic, list(range(topic.partitions))
            return
        wanted: dict[str, set[int]] = {}
        for asked in request.topics:
            wanted.setdefault(asked.topic, set()).update(asked.partitions)
        for name, numbers in wanted.items():
            if (found := known.get(name)) is not None:
                yield found, sorted(one for one in numbers if 0 <= one < found.partitions)

    async def _topic(self, topic: Topic, partitions: list[int]) -> DescribeLogDirsTopic:
        try:
            sizes = [await self._size_bytes(topic.name, number) for number in partitions]
        except NotFound:  # deleted meanwhile
            partitions = sizes = []
        return DescribeLogDirsTopic(
            name=topic.name,
            partitions=[
                DescribeLogDirsPartition(
                    partition_index=number, partition_size=size, offset_lag=0, is_future_key=False
                )
                for number, size in zip(partitions, sizes, strict=True)
            ],
        )

    async def _size_bytes(self, topic: str, partition: int) -> int:
        segments = await self._services.drivers.segments(topic, partition)
        return sum(segment.size_bytes for segment in segments)

    async def alter(
        self, request: AlterReplicaLogDirsRequest, caller: Caller
    ) -> AlterReplicaLogDirsResponse:
        """Every partition is where it is asked to be, or it is asked to be where no folder is."""
        ours = self._services.config.data_dir.absolute()
        codes: dict[str, dict[int, ErrorCode]] = {}
        for wanted in request.dirs:
            is_ours = Path(wanted.path) == ours
            for topic in wanted.topics:
                for number in topic.partitions:
                    code = self._exists(topic.name, number) if is_ours else _NO_DIR
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

    def _exists(self, name: str, partition: int) -> ErrorCode:
        try:
            lead(self._services, self._services.broker_cache.topic(name), partition)
        except StrataError as error:
            return failure(error).code
        return ErrorCode.NONE
