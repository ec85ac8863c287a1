"""The long way of a Produce: a task checks its batches one after the other, and waits for each.

Batches of one connection are handed over in the order in which its requests were taken: that is
what keeps a producer's batches in order. A request whose batches take long to check (`checking`)
holds up those after it on its connection, until its batches are on their way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import Refused
from stratamq.broker.kafka.produce.answers import (
    ACKS,
    check_unanswered,
    refusal,
    stored_at,
)
from stratamq.broker.kafka.produce.checking import Batch, BatchChecker, checked_header
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
    TopicProduceResponse,
)
from stratamq.wire.kafka.records import BatchHeader

if TYPE_CHECKING:
    from stratamq.broker.kafka.produce.api import Allowance

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


class LongProduce:
    """See the module. Without a `verifier`, transactional batches are taken as they come."""

    def __init__(
        self, services: Services, checker: BatchChecker, verifier: Verifier | None
    ) -> None:
        self._services, self._checker, self._verifier = services, checker, verifier
        self._checking: dict[int, asyncio.Event] = {}
        """By connection: set when the batches of its last request are on their way."""

    def produce(
        self, request: ProduceRequest, caller: Caller, allowance: Allowance, *, tried: bool
    ) -> Awaitable[ProduceResponse | None]:
        """Not a coroutine: requests of a connection get in line in the order in which they came.
        The batches of each are on their way to the engine before those of the next are. `tried`:
        that the event loop is not enough for it was found out before."""
        before, mine = self._checking.get(caller.connection), asyncio.Event()
        self._checking[caller.connection] = mine
        return self._produce(request, caller, before, mine, allowance, tried)

    async def _produce(
        self,
        request: ProduceRequest,
        caller: Caller,
        before: asyncio.Event | None,
        mine: asyncio.Event,
        allowance: Allowance,
        tried: bool,
    ) -> ProduceResponse | None:
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
            batch = checked_header(found, partition.records, acks, version)
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


def _batches(request: ProduceRequest) -> Iterator[tuple[TopicProduceData, PartitionProduceData]]:
    for wanted in request.topic_data:
        for partition in wanted.partition_data:
            yield wanted, partition


def by_topic(
    topics: Iterable[TopicProduceData], answers: Iterator[PartitionProduceResponse]
) -> list[TopicProduceResponse]:
    """The answers of these topics' partitions, which are next."""
    responses = []
    for topic in topics:
        partitions = list(islice(answers, len(topic.partition_data)))
        responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
            )
        )
    return responses
