"""FlushLake: what is in the log becomes visible in the table."""

from __future__ import annotations

from stratamq.broker.kafka.admin.task_pool import TaskPool
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import LATE, ApiError, api_error
from stratamq.broker.kafka.lake.contract import Lake
from stratamq.model.errors import StrataError
from stratamq.wire.kafka.protocol.messages.lake import (
    FlushedLake,
    FlushLakeRequest,
    FlushLakeResponse,
    LakeTopic,
)


class FlushLake:
    def __init__(self, services: Services, lake: Lake, tasks: TaskPool) -> None:
        self._services, self._lake, self._tasks = services, lake, tasks

    async def flush(self, request: FlushLakeRequest, caller: Caller) -> FlushLakeResponse:
        answers = await self._tasks.each(
            request.topics, self._topic, request.timeout_ms, lambda one: _failed(one, LATE)
        )
        return FlushLakeResponse(topics=answers)

    async def _topic(self, wanted: LakeTopic) -> FlushedLake:
        try:
            done = await self._lake.flush(self._services.broker_cache.topic(wanted.name))
        except StrataError as error:
            return _failed(wanted, api_error(error))
        return FlushedLake(name=wanted.name, files=done.files, rows=done.rows)


def _failed(wanted: LakeTopic, why: ApiError) -> FlushedLake:
    return FlushedLake(name=wanted.name, error_code=why.code, error_message=why.message)
