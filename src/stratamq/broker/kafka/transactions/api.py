"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.broker.kafka.cluster import FoundShard, ShardLookup
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import Refused, coordinator_code
from stratamq.broker.kafka.transactions import machine
from stratamq.broker.kafka.transactions.coordinator import TransactionCoordinator
from stratamq.broker.kafka.transactions.machine import ProducerIdAndEpoch
from stratamq.broker.kafka.turns import paced
from stratamq.meta.groups import check_group_name
from stratamq.model.errors import StrataError
from stratamq.model.transaction import NO_PRODUCER_ID
from stratamq.model.types import ShardName
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

ID_BYTES_MAX = 1024
BATCHED_FROM = 4
RENEWS_FROM = 5
"""EndTxn versions of producers that get a new epoch with each end."""

INIT_FENCED_SINCE, ADD_FENCED_SINCE, END_FENCED_SINCE = 4, 2, 2


class TransactionApi:
    def __init__(self, services: Services, coordinator: TransactionCoordinator) -> None:
        self._services = services
        self._coordinator = coordinator

    # -- InitProducerId ------------------------------------------------------------------------

    async def init_producer_id(
        self, request: InitProducerIdRequest, caller: Caller
    ) -> InitProducerIdResponse:
        try:
            who = await self._init(request)
        except StrataError as error:
            code = fenced_before(INIT_FENCED_SINCE, caller.version, coordinator_code(error))
            return InitProducerIdResponse(error_code=code, producer_epoch=-1)
        return InitProducerIdResponse(producer_id=who.producer_id, producer_epoch=who.epoch)

    async def _init(self, request: InitProducerIdRequest) -> ProducerIdAndEpoch:
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        if (expected.producer_id < 0) != (expected.epoch < 0):
            raise Refused(ErrorCode.INVALID_REQUEST)
        transactional_id = request.transactional_id
        if transactional_id is None:
            return ProducerIdAndEpoch(await self._coordinator.ids.next(), 0)
        check_id(transactional_id)
        if request.enable2_pc:  # Kafka's answer where two-phase commit is not enabled
            raise Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if request.keep_prepared_txn:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION)
        timeout_ms_max = self._services.config.number("transaction.max.timeout.ms")
        if not 0 < request.transaction_timeout_ms <= timeout_ms_max:
            raise Refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        timeout_ms = request.transaction_timeout_ms
        known = None if expected.producer_id < 0 else expected
        one = await self._coordinator.initialize(transactional_id, timeout_ms, known)
        return ProducerIdAndEpoch(one.producer_id, one.producer_epoch)

    # -- AddPartitionsToTxn --------------------------------------------------------------------

    async def add_partitions(
        self, request: AddPartitionsToTxnRequest, caller: Caller
    ) -> AddPartitionsToTxnResponse:
        if caller.version < BATCHED_FROM:
            wanted = AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
            topics = await self._add(wanted, caller.version)
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=await self._add(one, caller.version),
                )
                async for one in paced(request.transactions)
            ]
        )

    async def _add(
        self, wanted: AddPartitionsToTxnTransaction, version: int
    ) -> list[AddPartitionsToTxnTopicResult]:
        """All partitions or none, as Kafka does it."""
        lookup = ShardLookup(self._services.broker_cache, by_id=False)
        found = [(topic, await _shards(lookup, topic)) async for topic in paced(wanted.topics)]
        unknown = any(shard.error for _, some in found for shard in some)
        if unknown:
            # Says which partitions are at fault, and that the others were therefore not added.
            skipped = ErrorCode.OPERATION_NOT_ATTEMPTED
            return [
                await _topic_result(topic, [shard.error or skipped for shard in some])
                for topic, some in found
            ]
        shards = [shard.shard for _, some in found for shard in some if shard.shard is not None]
        failures = await self._add_shards(wanted, shards)
        codes = iter([fenced_before(ADD_FENCED_SINCE, version, code) for code in failures])
        return [await _topic_result(topic, [next(codes) for _ in some]) for topic, some in found]

    async def _add_shards(
        self, wanted: AddPartitionsToTxnTransaction, shards: Sequence[ShardName]
    ) -> Sequence[ErrorCode]:
        who = ProducerIdAndEpoch(wanted.producer_id, wanted.producer_epoch)
        try:
            check_id(wanted.transactional_id)
            if wanted.verify_only:
                one = self._coordinator.find(wanted.transactional_id)
                return [
                    ErrorCode.NONE
                    if machine.verify(one, who, shard=shard)
                    else ErrorCode.TRANSACTION_ABORTABLE
                    async for shard in paced(shards)
                ]
            if shards:
                await self._coordinator.add(wanted.transactional_id, who, shards=shards)
        except StrataError as error:
            return [coordinator_code(error)] * len(shards)
        return [ErrorCode.NONE] * len(shards)

    # -- AddOffsetsToTxn -----------------------------------------------------------------------

    async def add_offsets(
        self, request: AddOffsetsToTxnRequest, caller: Caller
    ) -> AddOffsetsToTxnResponse:
        who = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        code = ErrorCode.NONE
        try:
            check_id(request.transactional_id)
            check_group_name(request.group_id)
            await self._coordinator.add(request.transactional_id, who, groups=[request.group_id])
        except StrataError as error:
            code = fenced_before(ADD_FENCED_SINCE, caller.version, coordinator_code(error))
        return AddOffsetsToTxnResponse(error_code=code)

    # -- EndTxn --------------------------------------------------------------------------------

    async def end(self, request: EndTxnRequest, caller: Caller) -> EndTxnResponse:
        who = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        try:
            check_id(request.transactional_id)
            ended = await self._coordinator.end(
                request.transactional_id,
                who,
                commit=request.committed,
                renews=caller.version >= RENEWS_FROM,
            )
        except StrataError as error:
            code = fenced_before(END_FENCED_SINCE, caller.version, coordinator_code(error))
            return EndTxnResponse(error_code=code)
        if ended.next_producer_id != NO_PRODUCER_ID:
            return EndTxnResponse(producer_id=ended.next_producer_id, producer_epoch=0)
        return EndTxnResponse(producer_id=ended.producer_id, producer_epoch=ended.producer_epoch)


def fenced_before(fenced_since: int, version: int, code: ErrorCode) -> ErrorCode:
    """Versions that do not know PRODUCER_FENCED get the older code."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def check_id(transactional_id: str) -> None:
    size_bytes = len(transactional_id.encode("utf-8", "surrogatepass"))
    if not 0 < size_bytes <= ID_BYTES_MAX:
        raise Refused(ErrorCode.INVALID_REQUEST)


async def _shards(lookup: ShardLookup, topic: AddPartitionsToTxnTopic) -> list[FoundShard]:
    known = lookup.topic(topic.name, NO_UUID)
    return [lookup.shard(known, number) async for number in paced(topic.partitions)]


async def _topic_result(
    topic: AddPartitionsToTxnTopic, codes: Sequence[ErrorCode]
) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        name=topic.name,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
            async for number, code in paced(zip(topic.partitions, codes, strict=True))
        ],
    )
