"""Reads for Fetch that wait for object storage.

A Fetch does not wait longer than its client wants, nor keep back what it has of other partitions. A
read that is not done by then goes on, and the next Fetch of the same offset picks its answer up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import field
from typing import NamedTuple

from stratamq.broker.kafka.answer_budget import AnswerBudget
from stratamq.engine.contract import FetchResult
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import StrataError
from stratamq.model.types import ShardName

logger = logging.getLogger(__name__)

READS_MAX = 64
"""Reads under way, and answers that no Fetch has picked up yet. When the limit is reached, the
oldest answer goes; where all are under way, the client asks again."""

BYTES_MAX = 2 << 20
"""What one of them reads; a first batch may be larger."""

KEPT_S = 10.0
"""How long an answer waits to be picked up."""

ColdAnswer = FetchResult | StrataError


class ColdOffset(NamedTuple):
    shard: ShardName
    offset: int
    committed: bool
    """Whether the read ends at the last stable offset."""


@dataclass(slots=True)
class ColdRead:
    task: asyncio.Task[ColdAnswer]
    done_at: float | None = None
    size_bytes: int = field(default=0)


class ColdFetches:
    """Answers count against the budget for answers while they wait."""

    def __init__(self, budget: AnswerBudget) -> None:
        self._budget = budget
        self._reads: dict[ColdOffset, ColdRead] = {}

    def begin(
        self, position: ColdOffset, read: Callable[[], Coroutine[None, None, ColdAnswer]]
    ) -> asyncio.Task[ColdAnswer] | None:
        """The read from this offset, under way or done; None where there are too many."""
        self._forget_old()
        known = self._reads.get(position)
        if known is not None:
            return known.task
        if len(self._reads) >= READS_MAX and not self._forget_one():
            return None
        task = asyncio.create_task(read())
        self._reads[position] = ColdRead(task)
        task.add_done_callback(lambda _: self._done(position, task))
        return task

    def forget(self, position: ColdOffset) -> None:
        """Its answer was picked up, or is not wanted any more."""
        read = self._reads.pop(position, None)
        if read is not None:
            self._budget.give(read.size_bytes)

    async def stop(self) -> None:
        tasks = [read.task for read in self._reads.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for position in list(self._reads):
            self.forget(position)

    def _done(self, position: ColdOffset, task: asyncio.Task[ColdAnswer]) -> None:
        read = self._reads.get(position)
        if read is None or read.task is not task or task.cancelled():
            return
        loop = asyncio.get_running_loop()
        read.done_at = loop.time()
        loop.call_later(KEPT_S, self._forget_old)  # fetches may wait for the bytes that it holds
        if error := task.exception():
            logger.error("a read of object storage failed", exc_info=error)
            self.forget(position)
            return
        answer = task.result()
        if isinstance(answer, FetchResult):
            read.size_bytes = len(answer.data)
            self._budget.take(read.size_bytes)

    def _forget_old(self) -> None:
        since = asyncio.get_running_loop().time() - KEPT_S
        for position, read in list(self._reads.items()):
            if read.done_at is not None and read.done_at <= since:
                self.forget(position)

    def _forget_one(self) -> bool:
        """The oldest of those that are done."""
        for position, read in self._reads.items():
            if read.done_at is not None:
                self.forget(position)
                return True
        return False
