"""Produce: batches go to the log as they came.

Batches of one connection are handed over in the order in which its requests were taken: that is
what keeps a producer's batches in order. Most are handed over at once. A request whose batches take
long to check (`checking`) holds up those after it on its connection, until its batches are
on their way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from stratamq.broker.kafka.contract import (
    Answered,
    Caller,
    Cancel,
    Family,
    Handled,
    Services,
    nothing,
)
from stratamq.broker.kafka.errors import Refused
from stratamq.broker.kafka.partitions import ServedPartition
from stratamq.broker.kafka.produce import rules
from stratamq.broker.kafka.produce.answers import (
    ACKS,
    PendingProduce,
    Ready,
    by_topic,
    check_unanswered,
    refusal,
    stored_at,
)
from stratamq.broker.kafka.produce.checking import Allowance, Batch, BatchChecker, check_header
from stratamq.broker.kafka.turns import next_turn
from stratamq.engine.contract import AcceptedBatch
from stratamq.engine.handle import append_batch
from stratamq.model.errors import StrataError
from stratamq.model.types import ShardName
from stratamq.wire.kafka.protocol import Buffer, ErrorCode
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from stratamq.wire.kafka.records import BatchHeader
from stratamq.wire.kafka.records.layout import TRANSACTIONAL_BIT

BEGUN_ACKS = (1, -1)
WRITTEN_AT_ONCE = 256
"""Batches of a request that are with the engine at a time. Its workers take what comes in order, so
others would wait for all of them."""

BEGUN_MAX = 64
"""Batches that are checked in one turn. A request with more is not begun at once."""


class CheckedBatch(NamedTuple):
    """A batch that can be handed over."""

    batch: Batch
    partition: PartitionProduceData
    data: Buffer | AcceptedBatch


class Verifier(Protocol):
    """Who knows which transactions are open."""

    async def admit(
        self, transactional_id: str | None, shard: ShardName, header: BatchHeader, version: int
    ) -> None:
        """Refused unless the batch belongs to a transaction that is open and has the shard.

        It must not wait where it need not: batches would overtake each other.
        """


class Produce(Family):
    """The family of one API. Without a `verifier`, transactional batches are taken as they come."""

    def __init__(self, services: Services, verifier: Verifier | None = None) -> None:
        self._services = services
        self._verifier = verifier
        self._checker = BatchChecker(services)
        self._declined: ProduceRequest | None = None
        self._checking: dict[int, asyncio.Event] = {}
        """By connection: set when the batches of its last request are on their way."""

    def handlers(self) -> Mapping[type, Handled]:
        return {ProduceRequest: Handled(self.produce, beginner=self.begin)}

    async def stop(self) -> None:
        self._checker.stop()

    # -- the short way: no coroutine -----------------------------------------------------------

    def begin(self, request: ProduceRequest, caller: Caller, answered: Answered) -> Cancel | None:
        """Batches that need no further check are with the engine when this returns."""
        if request.acks not in BEGUN_ACKS or request.transactional_id is not None:
            return None
        allowance = self._checker.allowance()
        ready: list[Ready | PartitionProduceResponse] = []
        for wanted in request.topic_data:
            if len(ready) + len(wanted.partition_data) > BEGUN_MAX:
                return None
            for partition in wanted.partition_data:
                one = self._ready(wanted, partition, request, caller.version, allowance)
                if one is None:
                    return None
                ready.append(one)
        PendingProduce(request, len(ready), answered).begin(ready)
        return nothing

    def _ready(
        self,
        wanted: TopicProduceData,
        partition: PartitionProduceData,
        request: ProduceRequest,
        version: int,
        allowance: Allowance,
    ) -> Ready | PartitionProduceResponse | None:
        """How to begin it, or why it is refused; None where it takes the long way."""
        try:
            found = self._services.partitions.find(wanted.name, wanted.topic_id, partition.index)
            shard = found.shard
            if shard is None or not shard.answers_at_once:
                return None
            batch = self._checked(found, partition.records, request.acks, version)
            if batch.header.attributes & TRANSACTIONAL_BIT:
                return None
            data = self._checker.check_at_once(batch, allowance)
            if data is None:
                self._declined = request
                return None
            return Ready(shard, partition, data)
        except StrataError as error:
            return refusal(partition, error)

    # -- the long way --------------------------------------------------------------------------

    def produce(self, request: ProduceRequest, caller: Caller) -> Awaitable[ProduceResponse | None]:
        """Not a coroutine: requests of a connection get in line in the order in which they came.
        The batches of each are on their way to the engine before those of the next are."""
        before, mine = self._checking.get(caller.connection), asyncio.Event()
        self._checking[caller.connection] = mine
        tried, self._declined = self._declined is request, None
        return self._produce(request, caller, before, mine, tried)

    async def _produce(
        self,
        request: ProduceRequest,
        caller: Caller,
        before: asyncio.Event | None,
        mine: asyncio.Event,
        tried: bool,
    ) -> ProduceResponse | None:
        allowance = self._checker.allowance()
        try:
            if before is not None:
                await before.wait()
            checked = []
            for at, one in enumerate(_batches(request)):
                if at % BEGUN_MAX == BEGUN_MAX - 1:
                    await next_turn()
                checked.append(
                    await self._check(*one, request.acks, caller.version, allowance, tried)
                )
            writes = await self._begun(checked, request, caller.version)
        finally:
            mine.set()
            if self._checking.get(caller.connection) is mine:
                del self._checking[caller.connection]
        answers = [
            one if isinstance(one, PartitionProduceResponse) else await one for one in writes
        ]
        if request.acks == 0:
            check_unanswered(answers)
            return None
        each, topics = iter(answers), request.topic_data
        responses = by_topic(topics[:BEGUN_MAX], each)
        for at in range(BEGUN_MAX, len(topics), BEGUN_MAX):
            await next_turn()
            responses += by_topic(topics[at : at + BEGUN_MAX], each)
        return ProduceResponse(responses=responses)

    async def _begun(
        self,
        checked: Sequence[CheckedBatch | PartitionProduceResponse],
        request: ProduceRequest,
        version: int,
    ) -> Sequence[Awaitable[PartitionProduceResponse] | PartitionProduceResponse]:
        """All batches are on their way when this returns; a single one is when it is awaited."""
        if len(checked) == 1 and isinstance(checked[0], CheckedBatch):
            return [self._write(checked[0], request, version)]
        begun: list[Awaitable[PartitionProduceResponse] | PartitionProduceResponse] = []
        for at, one in enumerate(checked):
            if at % BEGUN_MAX == BEGUN_MAX - 1:
                await next_turn()
            before = begun[at - WRITTEN_AT_ONCE] if at >= WRITTEN_AT_ONCE else None
            if isinstance(before, asyncio.Task):
                await asyncio.wait([before])
            if isinstance(one, CheckedBatch):
                begun.append(asyncio.create_task(self._write(one, request, version)))
            else:
                begun.append(one)
        await asyncio.sleep(0)
        return begun

    async def _check(
        self,
        wanted: TopicProduceData,
        partition: PartitionProduceData,
        acks: int,
        version: int,
        allowance: Allowance,
        tried: bool,
    ) -> CheckedBatch | PartitionProduceResponse:
        """`tried`: that the event loop is not enough for the request was found out before."""
        try:
            if acks not in ACKS:
                raise Refused(ErrorCode.INVALID_REQUIRED_ACKS)
            partitions = self._services.partitions
            found = await partitions.open(wanted.name, wanted.topic_id, partition.index)
            batch = self._checked(found, partition.records, acks, version)
            data = None
            if tried:
                allowance.count(batch.header)
            else:
                data = self._checker.check_at_once(batch, allowance)
            if data is None:
                data = await self._checker.check_by_thread(batch, allowance)
            return CheckedBatch(batch, partition, data)
        except StrataError as error:
            return refusal(partition, error)

    async def _write(
        self, checked: CheckedBatch, request: ProduceRequest, version: int
    ) -> PartitionProduceResponse:
        (_, shard, header, _), partition, data = checked
        try:
            if self._verifier is not None and header.is_transactional:
                await self._verifier.admit(request.transactional_id, shard.name, header, version)
            stored = await append_batch(shard, data, ACKS[request.acks])
            return stored_at(partition.index, stored)
        except StrataError as error:
            return refusal(partition, error)

    # -- both ----------------------------------------------------------------------------------

    def _checked(
        self, partition: ServedPartition, data: Buffer | None, acks: int, version: int
    ) -> Batch:
        """The batch, or a refusal that its header and its topic are enough for."""
        shard = partition.shard
        assert shard is not None, "found for use"
        partition.lead(shard)
        header, data = check_header(data, version)
        if partition.rules.replicas_min > 1:
            rules.check_replicas(partition.rules, acks, partition.isr_size)
        return Batch(partition, shard, header, data)


def _batches(request: ProduceRequest) -> Iterator[tuple[TopicProduceData, PartitionProduceData]]:
    for wanted in request.topic_data:
        for partition in wanted.partition_data:
            yield wanted, partition
