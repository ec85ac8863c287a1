"""Reading a topic as it grows, alone or as a group that remembers how far it came."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from stratamq.adapter.drivers import StorageDriverManager
from stratamq.engine.contract import OffsetStrategy, ReadLimit
from stratamq.model.errors import OffsetOutOfRange
from stratamq.model.types import Offset
from stratamq.node.messages import Message, message_of

PAUSE_S_MIN = 0.001
PAUSE_S_MAX = 0.05
BATCH = ReadLimit(records_max=1000, bytes_max=4 << 20)


class Follower:
    """Gives batches of messages, each partition in order; waits for more where there is none.

    A message counts as done when its reader says so, and what is done is committed for the group
    before the next batch and at the end. So a reader that dies sees the messages again that it had
    not finished, and never misses one. What is deleted, expired or trimmed after the last message
    that is done counts as done too: a group that has read everything has no lag.
    """

    def __init__(
        self,
        drivers: StorageDriverManager,
        topic: str,
        partitions: Callable[[], Iterable[int]],
        *,
        group: str | None,
        start: OffsetStrategy,
        stop_after_s: float | None,
    ) -> None:
        self._drivers = drivers
        self._topic = topic
        self._partitions = partitions
        self._turns: deque[int] = deque()
        self._group = group
        self._start = start
        self._stop_after_s = stop_after_s
        self._next: dict[int, Offset] = {}
        self._finished: dict[int, Offset] = {}
        self._done: dict[int, Offset] = {}
        """What of it is not committed yet."""

    def done(self, message: Message) -> None:
        offset = Offset(message.offset + 1)
        self._done[message.partition] = self._finished[message.partition] = offset

    async def next_batch(self) -> list[Message]:
        """At least one message; none when it has been quiet for `stop_after_s`."""
        await self.commit()
        loop = asyncio.get_running_loop()
        deadline = None if self._stop_after_s is None else loop.time() + self._stop_after_s
        pause = PAUSE_S_MIN
        while True:
            # A topic may have grown.
            self._turns.extend(one for one in self._partitions() if one not in self._turns)
            for _ in range(len(self._turns)):
                self._turns.rotate(-1)  # so that a busy partition does not starve the others
                if batch := await self._read(self._turns[-1]):
                    return batch
            await self.commit()  # what was skipped
            if deadline is not None and loop.time() >= deadline:
                return []
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_S_MAX)

    async def commit(self) -> None:
        done, self._done = self._done, {}
        if done and self._group is not None:
            await self._drivers.commit_offset(self._topic, self._group, done)

    async def _read(self, partition: int) -> list[Message]:
        if partition not in self._next:
            self._next[partition] = self._finished[partition] = await self._first(partition)
        start, high_watermark, _ = await self._drivers.offsets(self._topic, partition)
        if self._next[partition] < start:  # retention was faster
            self._skip(partition, start)
        offset = self._next[partition]
        if offset >= high_watermark:
            return []
        try:
            records = await self._drivers.read_by_offset(self._topic, partition, offset, BATCH)
        except OffsetOutOfRange:
            return []  # trimmed while we looked; the next look starts further on
        if not records:  # the rest was deleted, or it expired
            self._skip(partition, high_watermark)
            return []
        self._next[partition] = Offset(records[-1].offset + 1)
        return [message_of(partition, record) for record in records]

    def _skip(self, partition: int, offset: Offset) -> None:
        """There is nothing to show up to `offset`."""
        if self._finished[partition] == self._next[partition]:
            self._done[partition] = self._finished[partition] = offset
        self._next[partition] = offset

    async def _first(self, partition: int) -> Offset:
        start, high_watermark, _ = await self._drivers.offsets(self._topic, partition)
        fallback = start if self._start is OffsetStrategy.EARLIEST else high_watermark
        if self._group is None:
            return fallback
        committed = await self._drivers.get_offset_by_group(
            self._topic, partition, self._group, self._start
        )
        # Past the end: the records it had read are gone, as those of EngineMemory after a restart.
        return committed if committed <= high_watermark else fallback
