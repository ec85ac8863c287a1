"""Produce: batches go to the log as they came.

Here is the handler and the short way: an ordinary request needs no task. Its batches are checked on
the event loop and are with the engine when `begin` returns; the last that is stored answers it.
Other requests take the long way (`long_way`), and nothing overtakes them on their connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial
from itertools import islice
from typing import NamedTuple

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
from stratamq.broker.kafka.produce.answers import ACKS, NOWHERE, refusal
from stratamq.broker.kafka.produce.checking import AT_ONCE_BYTES, BatchChecker, checked_header
from stratamq.broker.kafka.produce.long_way import BEGUN_MAX, LongProduce, Verifier
from stratamq.engine.contract import AcceptedBatch, AppendResult
from stratamq.engine.handle import Local, ShardHandle
from stratamq.model.config import NodeConfig
from stratamq.model.errors import BatchTooLarge, StrataError
from stratamq.model.settings.setting import Value
from stratamq.wire.kafka.protocol import Buffer, ErrorCode
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from stratamq.wire.kafka.records import HEADER_BYTES, BatchHeader
from stratamq.wire.kafka.records.layout import ATTRIBUTES_LOW_AT, CODEC_MASK, TRANSACTIONAL_BIT

BEGUN_ACKS = (1, -1)
_NOT_PLAIN = CODEC_MASK | TRANSACTIONAL_BIT
_MISSING = PartitionProduceResponse(index=-1, base_offset=NOWHERE)

Ready = tuple[ShardHandle, PartitionProduceData, Buffer | AcceptedBatch]
"""A batch that can be handed over at once, and where it goes."""


class ProduceLimits(NamedTuple):
    """What one request may cost."""

    batches: int
    records: int
    unpacked_bytes: int
    batch_unpacked_bytes: int

    @classmethod
    def of(cls, config: NodeConfig) -> ProduceLimits:
        return cls(
            config.number("produce.batches.max"),
            config.number("produce.records.max"),
            config.number("produce.decompressed.bytes.max"),
            config.number("batch.decompressed.bytes.max"),
        )


class Allowance:
    """What the batches of one request may still cost, together: what they count and unpack to is
    limited."""

    __slots__ = ("_batch_max", "_batches", "_records", "_unpacked", "_unpacked_max")

    def __init__(self, limits: ProduceLimits) -> None:
        self._batches, self._records, self._unpacked_max, self._batch_max = limits
        self._unpacked = 0

    @property
    def unpacked_bytes(self) -> int:
        """What the next batch may unpack to."""
        return min(self._batch_max, self._unpacked_max - self._unpacked)

    def count(self, header: BatchHeader) -> None:
        """One more batch, before any of it is checked."""
        self._batches -= 1
        self._records -= max(header.record_count, 0)
        if self._batches < 0:
            raise Refused(ErrorCode.POLICY_VIOLATION, "more batches than produce.batches.max")
        if self._records < 0:
            raise BatchTooLarge("more records in one request than produce.records.max")
        if self._unpacked >= self._unpacked_max:
            raise BatchTooLarge("more in one request than produce.decompressed.bytes.max unpacked")

    def unpacked(self, accepted: Buffer | AcceptedBatch) -> None:
        if isinstance(accepted, AcceptedBatch):
            self._unpacked += accepted.unpacked_bytes


class Produce(Family):
    """The family of one API. Without a `verifier`, transactional batches are taken as they come."""

    def __init__(self, services: Services, verifier: Verifier | None = None) -> None:
        self._config, self._partitions = services.config, services.partitions
        self._values: Mapping[str, Value] = {}
        self._limits = ProduceLimits.of(services.config)
        self._checker = BatchChecker(services)
        self._long = LongProduce(services, self._checker, verifier)
        self._declined: ProduceRequest | None = None

    def handlers(self) -> Mapping[type, Handled]:
        return {ProduceRequest: Handled(self.produce, beginner=self.begin)}

    async def stop(self) -> None:
        self._checker.stop()

    def produce(self, request: ProduceRequest, caller: Caller) -> Awaitable[ProduceResponse | None]:
        tried, self._declined = self._declined is request, None
        self._look_at_limits()
        return self._long.produce(request, caller, Allowance(self._limits), tried=tried)

    def _look_at_limits(self) -> None:
        """They may be altered while the node runs."""
        if self._config.values is not self._values:
            self._values, self._limits = self._config.values, ProduceLimits.of(self._config)

    # -- the short way: no coroutine -----------------------------------------------------------

    def begin(self, request: ProduceRequest, caller: Caller, answered: Answered) -> Cancel | None:
        """Batches that need no further check are with the engine when this returns."""
        if request.acks not in BEGUN_ACKS or request.transactional_id is not None:
            return None
        if self._config.values is not self._values:
            self._look_at_limits()
        allowance = Allowance(self._limits)
        ready: list[Ready | PartitionProduceResponse] = []
        for wanted in request.topic_data:
            if len(ready) + len(wanted.partition_data) > BEGUN_MAX:
                return None
            for partition in wanted.partition_data:
                found = self._ready(wanted, partition, request, caller.version, allowance)
                if found is None:
                    return None
                ready.append(found)
        if not ready:
            answered(ProduceResponse(responses=[]))
            return nothing
        pending, acks = PendingProduce(request, len(ready), answered), ACKS[request.acks]
        for at, one in enumerate(ready):
            if isinstance(one, PartitionProduceResponse):
                pending.take(at, one)
                continue
            shard, partition, data = one
            try:
                shard.append(data, acks, partial(pending.stored, at, partition))
            except StrataError as error:
                pending.take(at, refusal(partition, error))
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
            found = self._partitions.find(wanted.name, wanted.topic_id, partition.index)
            shard, data = found.shard, partition.records
            if shard is None or not shard.answers_at_once:
                return None
            if (
                data is not None
                and HEADER_BYTES < len(data) <= AT_ONCE_BYTES
                and not data[ATTRIBUTES_LOW_AT] & _NOT_PLAIN
                and found.rules.are_plain
                and found.rules.replicas_min <= 1
            ):  # as most are: one call of the kernel, which reads the header as well
                if not isinstance(shard.leader, Local):
                    raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                accepted: Buffer | AcceptedBatch
                try:
                    accepted = shard.accept(data, AT_ONCE_BYTES, self._checker.scratch)
                except StrataError:
                    accepted = data  # the first thing that is wrong with it is found below
                if isinstance(accepted, AcceptedBatch):
                    allowance.count(accepted.header)
                    return shard, partition, accepted
            batch = checked_header(found, data, request.acks, version)
            if batch.header.attributes & TRANSACTIONAL_BIT:
                return None
            checked = self._checker.check_at_once(batch, allowance)
            if checked is None:
                self._declined = request
                return None
            return shard, partition, checked
        except StrataError as error:
            return refusal(partition, error)


class PendingProduce:
    """A request whose batches are with the engine. It is answered when the last of them is."""

    __slots__ = ("_answered", "_answers", "_missing", "_request")

    def __init__(self, request: ProduceRequest, count: int, answered: Answered) -> None:
        self._request, self._answered = request, answered
        self._answers = [_MISSING] * count
        self._missing = count

    def stored(
        self, at: int, partition: PartitionProduceData, stored: AppendResult | BaseException
    ) -> None:
        if not isinstance(stored, AppendResult):
            self.take(at, refusal(partition, stored))
            return
        base, _, append_time, log_start = stored
        answer = PartitionProduceResponse(
            index=partition.index,
            base_offset=base,
            log_append_time_ms=append_time,
            log_start_offset=log_start,
        )
        self.take(at, answer)

    def take(self, at: int, answer: PartitionProduceResponse) -> None:
        self._answers[at] = answer
        self._missing -= 1
        if self._missing:
            return
        answers, responses = iter(self._answers), []
        for topic in self._request.topic_data:
            partitions = list(islice(answers, len(topic.partition_data)))
            responses.append(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
                )
            )
        self._answered(ProduceResponse(responses=responses))
