"""The APIs about history and tables, put together."""

from __future__ import annotations

from collections.abc import Mapping

from stratamq.broker.kafka.admin.task_pool import TaskPool
from stratamq.broker.kafka.contract import Family, Handled, Services
from stratamq.broker.kafka.lake.commit import CommitLake
from stratamq.broker.kafka.lake.contract import Lake
from stratamq.broker.kafka.lake.describe import DescribeLake
from stratamq.broker.kafka.lake.flush import FlushLake
from stratamq.wire.kafka.protocol.messages.lake import (
    CommitLakeRequest,
    DescribeLakeRequest,
    FlushLakeRequest,
)


class LakeApis(Family):
    """The family."""

    def __init__(self, services: Services, lake: Lake) -> None:
        self._services, self._lake = services, lake
        self._tasks = TaskPool()

    def handlers(self) -> Mapping[type, Handled]:
        flush = FlushLake(self._services, self._lake, self._tasks)
        return {
            DescribeLakeRequest: Handled(DescribeLake(self._services, self._lake).describe),
            FlushLakeRequest: Handled(flush.flush),
            CommitLakeRequest: Handled(CommitLake(self._services, self._lake).commit),
        }

    async def stop(self) -> None:
        await self._tasks.stop()
