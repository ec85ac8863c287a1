"""One pass over the partitions of a Fetch: where each stands, and what is read of it.

A pass has three steps. Every partition is looked at (`FetchPass.look`): what its offsets are, or
why it is refused. Those with something to read are read in the order of the request, each within
its own limit and what is left of the request's. Then each has its answer. Batches in memory are
read at once (`read_at_once`), and most requests need no more; the others are read by threads, a few
at a time (`read`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.fetch.cold import BYTES_MAX, ColdAnswer, ColdFetches, ColdOffset
from stratamq.broker.kafka.fetch.sessions import PartitionKey
from stratamq.broker.kafka.partitions import Partitions, ServedPartition
from stratamq.broker.kafka.turns import paced
from stratamq.engine.contract import FetchResult
from stratamq.engine.handle import ShardHandle, ShardPosition
from stratamq.model.errors import OffsetOutOfRange, StrataError
from stratamq.model.types import LeaderEpoch, Offset
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.fetch import (
    AbortedTransaction,
    DivergingEpoch,
    FetchablePartitionResponse,
    FetchPartition,
)

UNKNOWN = -1
READ_COMMITTED = 1
READ_TOGETHER = 8
"""Partitions that threads read at the same time for one request."""

Asked = tuple[PartitionKey, FetchPartition]


class Diverging(StrataError):
    """A follower's log has left ours at the end of this epoch."""

    def __init__(self, epoch: LeaderEpoch, end: Offset) -> None:
        super().__init__(f"epoch {epoch} ends at {end}")
        self.epoch, self.end = epoch, end


class Standing(NamedTuple):
    """A partition that may be read, as it stood when it was looked at. The consumer sees what is
    below `end`."""

    served: ServedPartition
    shard: ShardHandle
    wanted: FetchPartition
    position: ShardPosition
    end: Offset

    @property
    def is_caught_up(self) -> bool:
        """Whether there is nothing to read."""
        return self.wanted.fetch_offset >= self.end

    @property
    def is_cold(self) -> bool:
        """Whether reading waits for object storage."""
        return self.wanted.fetch_offset < self.shard.local_start()


class FetchPass:
    """See the module. `answers` are in the order of the request when the pass is done.

    The first batch of the first partition that has any comes whatever its size, or a consumer with
    too small a limit would never get on; no other may go over.
    """

    __slots__ = (
        "_cold",
        "_committed",
        "_left_bytes",
        "_partitions",
        "_todo",
        "answers",
        "asked",
        "failed",
        "found_bytes",
        "is_cold",
        "is_full",
        "offsets_read",
        "skips",
        "standing",
        "under_way",
    )

    def __init__(
        self,
        partitions: Partitions,
        cold: ColdFetches,
        asked: Sequence[Asked],
        bytes_max: int,
        isolation: int,
    ) -> None:
        self._partitions, self._cold = partitions, cold
        self._committed = isolation == READ_COMMITTED
        self._left_bytes = bytes_max
        self._todo: deque[tuple[int, Standing]] = deque()
        self.asked = asked
        self.answers: list[FetchablePartitionResponse | None] = [None] * len(asked)
        self.standing: dict[int, Standing] = {}
        """Partitions that are not refused, by their index in the request."""
        self.offsets_read: dict[int, int] = {}
        """How many offsets the records of an answer lead over, by index; only where it has any."""
        self.found_bytes = 0
        self.failed = False
        self.skips = False
        """Whether an answer leads a consumer over deleted records: it does not wait for more."""
        self.is_cold = False
        """Whether something came from object storage."""
        self.is_full = bytes_max <= 0
        """Whether the limits of bytes left records out: waiting for more would add nothing."""
        self.under_way: list[asyncio.Task[ColdAnswer]] = []
        """Reads of object storage that are not done yet."""

    # -- looking -------------------------------------------------------------------------------

    def look(self, at: int) -> bool:
        """Where a partition stands. False: its storage has to be opened or asked first."""
        key, wanted = self.asked[at]
        try:
            served = self._partitions.find(key.topic, key.topic_id, wanted.partition)
            if served.shard is None or not served.shard.answers_at_once:
                return False
            self._stand(at, served, served.shard, wanted)
        except StrataError as error:
            self._refuse(at, error)
        return True

    async def look_all(self) -> None:
        """The same for all partitions, wherever they are stored."""
        async for at in paced(range(len(self.asked))):
            if self.look(at):
                continue
            key, wanted = self.asked[at]
            try:
                served = await self._partitions.open(key.topic, key.topic_id, wanted.partition)
                assert served.shard is not None, "opened just now"
                self._stand(at, served, served.shard, wanted)
            except StrataError as error:
                self._refuse(at, error)

    def _stand(
        self, at: int, served: ServedPartition, shard: ShardHandle, wanted: FetchPartition
    ) -> None:
        served.lead(shard, wanted.current_leader_epoch)
        if wanted.last_fetched_epoch >= 0:
            _check_same_log(shard, wanted)
        position = shard.position()
        start, high_watermark, _ = position.offsets
        if not start <= wanted.fetch_offset <= high_watermark:
            raise OffsetOutOfRange(served.topic.name, wanted.fetch_offset, start, high_watermark)
        end = position.last_stable if self._committed else high_watermark
        self.standing[at] = found = Standing(served, shard, wanted, position, end)
        if wanted.fetch_offset < end:
            self._todo.append((at, found))
        else:
            self._answer(at, found, b"", None)

    def drop(self) -> None:
        """Forget what was read: it would be held while its request waits for more."""
        for at in self.offsets_read:
            self.answers[at] = None

    def adopt(self, before: FetchPass, at: int) -> None:
        """A partition that has not changed since it was looked at, with nothing to read."""
        self.standing[at], self.answers[at] = before.standing[at], before.answers[at]

    # -- reading -------------------------------------------------------------------------------

    def read_at_once(self) -> bool:
        """Read what is in memory, in the order of the request and in the same turn of the loop in
        which it was looked at. False: the rest takes a thread, object storage, or a turn at the
        budget."""
        todo = self._todo
        if todo and self._left_bytes <= 0:
            return False
        while todo:
            at, one = todo[0]
            limit = min(one.wanted.partition_max_bytes, self._left_bytes)
            fetched = None
            if limit > 0:
                try:
                    offset = Offset(one.wanted.fetch_offset)
                    fetched = one.shard.fetch_at_once(
                        offset, limit, one.position, stable=self._committed
                    )
                except StrataError as error:
                    todo.popleft()
                    self._refuse(at, error)
                    continue
                if fetched is None:
                    return False
            todo.popleft()
            self._take(at, one, fetched)
        return True

    def readable_bytes(self) -> int:
        """How many bytes `read` could find at most, by the limits and by what is stored."""
        found = 0
        for _, one in self._todo:
            limit = one.wanted.partition_max_bytes
            stored = one.shard.bytes_from(Offset(one.wanted.fetch_offset))
            found += max(limit if stored is None else min(limit, stored), 0)
            if found >= self._left_bytes:
                return self._left_bytes
        return found

    async def read(self, bytes_max: int | None = None) -> None:
        """Read the rest; `bytes_max` is a limit in place of the first one. Object storage is read
        first: it has been under way for longest, and what it has given by now goes into the
        answer."""
        if bytes_max is not None:
            self._left_bytes = bytes_max
        cold = [(at, one) for at, one in self._todo if one.is_cold]
        self._todo = deque((at, one) for at, one in self._todo if not one.is_cold)
        for at, one in cold:
            self._pick_up(at, one)
        while self._todo:
            limits = [
                one.wanted.partition_max_bytes for _, one in islice(self._todo, READ_TOGETHER)
            ]
            wave = [self._todo.popleft() for _ in range(fitting(limits, self._left_bytes))]
            left_bytes = self._left_bytes
            found = await asyncio.gather(*(self._within(one, left_bytes) for _, one in wave))
            for (at, one), fetched in zip(wave, found, strict=True):
                self._take(at, one, fetched)

    async def _within(self, one: Standing, left_bytes: int) -> ColdAnswer | None:
        limit = min(one.wanted.partition_max_bytes, left_bytes)
        return await self._fetch(one, limit) if limit > 0 else None

    async def _fetch(self, one: Standing, limit: int) -> ColdAnswer:
        """No records past the watermark that the answer states, even if it rises meanwhile."""
        try:
            return await one.shard.fetch(Offset(one.wanted.fetch_offset), limit, one.end)
        except StrataError as error:
            return error

    def _pick_up(self, at: int, one: Standing) -> None:
        """What object storage has given by now. What does not fit this answer waits for the
        next."""
        limit = min(one.wanted.partition_max_bytes, BYTES_MAX)
        task = None
        position = ColdOffset(one.shard.name, one.wanted.fetch_offset, self._committed)
        if min(limit, self._left_bytes) > 0:
            task = self._cold.begin(position, lambda: self._fetch(one, limit))
        if task is None or not task.done():
            if task is not None:
                self.under_way.append(task)
            self._answer(at, one, b"", None)
            return
        fetched = task.result()
        if isinstance(fetched, FetchResult) and fetched.next_offset > one.end:
            # A Fetch that came later has begun the read. Its records are past our watermark.
            self._answer(at, one, b"", None)
            return
        taken = self._take(at, one, fetched)
        if taken or isinstance(fetched, StrataError) or not fetched.data:
            self._cold.forget(position)
        self.is_cold = self.is_cold or taken

    # -- answering -----------------------------------------------------------------------------

    def _take(self, at: int, one: Standing, fetched: ColdAnswer | None) -> bool:
        """Answer with what was read, if it fits; whether it does."""
        if isinstance(fetched, StrataError):
            self._refuse(at, fetched)
            return False
        if fetched is None:
            self.is_full = True
            self._answer(at, one, b"", None)
            return False
        data = fetched.data
        limit = min(one.wanted.partition_max_bytes, self._left_bytes)
        if len(data) > limit and self.found_bytes:
            self.is_full = True
            self._answer(at, one, b"", None)
            return False
        self.found_bytes += len(data)
        self._left_bytes -= len(data)
        self.skips = self.skips or fetched.skips
        self.is_full = self.is_full or self._left_bytes <= 0
        self.is_full = self.is_full or bool(data and fetched.next_offset < one.end)
        if data:
            self.offsets_read[at] = fetched.next_offset - one.wanted.fetch_offset
        self._answer(at, one, data, fetched)
        return bool(data)

    def _answer(self, at: int, one: Standing, data: bytes, fetched: FetchResult | None) -> None:
        aborted: Sequence[AbortedTransaction] | None = None
        if self._committed:
            aborted = _aborted(one, fetched.next_offset) if fetched and data else []
        (start, high_watermark, _), last_stable, _ = one.position
        self.answers[at] = FetchablePartitionResponse(
            partition_index=one.wanted.partition,
            high_watermark=high_watermark,
            last_stable_offset=min(last_stable, high_watermark),
            log_start_offset=start,
            aborted_transactions=aborted,
            records=data,
        )

    def _refuse(self, at: int, error: StrataError) -> None:
        self.failed = True
        self.standing.pop(at, None)
        number = self.asked[at][1].partition
        if isinstance(error, Diverging):
            self.answers[at] = diverging(number, error)
        else:
            code = code_of(error)
            self.answers[at] = refusal(number, code)


def fitting(limits: Sequence[int], left_bytes: int) -> int:
    """How many of the next partitions to read together, when each may bring up to its limit.

    No more than fit together, so that each gets the bytes it would get if it were read alone and in
    its turn.
    """
    count, together = 1, limits[0]
    for limit in limits[1:]:
        together += limit
        if together > left_bytes:
            break
        count += 1
    return count


def _check_same_log(shard: ShardHandle, wanted: FetchPartition) -> None:
    """A follower says which epoch it read last; where its log left ours, it must cut it."""
    epoch, end = shard.end_of_epoch(LeaderEpoch(wanted.last_fetched_epoch))
    if end >= 0 and (epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset):
        raise Diverging(epoch, end)


def _aborted(one: Standing, end: Offset) -> list[AbortedTransaction]:
    """Transactions that were aborted and have records among those of the answer."""
    start = Offset(one.wanted.fetch_offset)
    return [
        AbortedTransaction(producer_id=found.producer_id, first_offset=found.first_offset)
        for found in one.shard.aborted(start, end)
        if found.first_offset < end and found.last_offset >= start
    ]


def refusal(partition: int, code: ErrorCode) -> FetchablePartitionResponse:
    return FetchablePartitionResponse(
        partition_index=partition,
        error_code=code,
        high_watermark=UNKNOWN,
        aborted_transactions=None,
        records=b"",
    )


def diverging(partition: int, error: Diverging) -> FetchablePartitionResponse:
    """Not a failure: it says where a follower goes on."""
    answer = refusal(partition, ErrorCode.NONE)
    answer.diverging_epoch = DivergingEpoch(epoch=error.epoch, end_offset=error.end)
    return answer
