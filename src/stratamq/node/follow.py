"""Reading a topic as it grows, alone or as a group that remembers how far it came."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from weakref import WeakKeyDictionary, WeakValueDictionary

from stratamq.adapter.drivers import StorageDriverManager
from stratamq.engine.contract import OffsetStrategy, ReadLimit
from stratamq.model.errors import OffsetOutOfRange
from stratamq.model.types import Offset
from stratamq.node.messages import Message, message_of

PAUSE_S_MIN = 0.001
PAUSE_S_MAX = 0.05
BATCH = ReadLimit(records_max=1000, bytes_max=4 << 20)


Peers = WeakKeyDictionary["Follower", None]
"""The followers of one group in one topic, in the order in which they came."""


class FollowGroups:
    """The groups that follow topics of a node in its own process."""

    def __init__(self) -> None:
        self._peers: WeakValueDictionary[tuple[str, str], Peers] = WeakValueDictionary()

    def peers(self, topic: str, group: str | None) -> Peers:
        """A follower without a group is alone."""
        if group is None:
            return WeakKeyDictionary()
        found = self._peers.get((topic, group))
        if found is None:
            found = self._peers[topic, group] = WeakKeyDictionary()
        return found


class Follower:
    """Gives batches of messages, each partition in order; waits for more where there is none.

    A message counts as done when its reader says so, and what is done is committed for the group
    before the next batch and at the end. So a reader that dies sees the messages again that it had
    not finished, and never misses one. What is deleted, expired or trimmed after the last message
    that is done counts as done too: a group that has read everything has no lag.

    Followers of one group divide the partitions. Each takes its share when it asks for a batch:
    then it has finished the last one, so that a partition changes hands between two messages, with
    the offset committed. A follower that is busy with a message holds its partitions; one that
    leaves, or is forgotten by the program, gives them up.
    """

    def __init__(
        self,
        drivers: StorageDriverManager,
        topic: str,
        partitions: Callable[[], Collection[int]],
        *,
        group: str | None,
        peers: Peers,
        start: OffsetStrategy,
        stop_after_s: float | None,
    ) -> None:
        self._drivers = drivers
        self._topic = topic
        self._partitions = partitions
        self._turns: deque[int] = deque()
        self._held: set[int] = set()
        self._group, self._peers = group, peers
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
        self._peers.setdefault(self)
        loop = asyncio.get_running_loop()
        deadline = None if self._stop_after_s is None else loop.time() + self._stop_after_s
        pause = PAUSE_S_MIN
        while True:
            await self._take_share()
            for _ in range(len(self._turns)):
                self._turns.rotate(-1)  # so that a busy partition does not starve the others
                if batch := await self._read(self._turns[-1]):
                    return batch
            await self.commit()  # what was skipped
            if deadline is not None and loop.time() >= deadline:
                return []
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_S_MAX)

    async def leave(self) -> None:
        """Commit, and leave the partitions to others of the group."""
        try:
            await self.commit()
        finally:
            self._peers.pop(self, None)
            self._held.clear()

    async def _take_share(self) -> None:
        """Give up partitions that others should have by now, and take those that nobody holds. The
        topic may have grown, too."""
        share = self._share()
        if lost := self._held - share:
            await self.commit()
            self._held -= lost
            self._turns = deque(one for one in self._turns if one not in lost)
            for partition in lost:
                self._next.pop(partition, None)
        others = [one for one in self._peers if one is not self]
        free = [
            one for one in share - self._held if not any(one in other._held for other in others)
        ]
        self._held.update(free)
        self._turns.extend(sorted(free))

    def _share(self) -> set[int]:
        """Each partition goes to one of the followers that want it."""
        wanted = {one: one._partitions() for one in self._peers}
        share = set()
        for partition in self._partitions():
            wanting = [one for one, some in wanted.items() if partition in some]
            if wanting[partition % len(wanting)] is self:
                share.add(partition)
        return share

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
