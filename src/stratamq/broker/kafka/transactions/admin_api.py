"""DescribeTransactions, ListTransactions and DescribeProducers; and WriteTxnMarkers, with which an
administrator ends a transaction that hangs."""

from __future__ import annotations

from collections.abc import Callable

from stratamq.broker.kafka.answer_budget import LongAnswer
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.groups.consumer.regex import BadPattern, compile_pattern
from stratamq.broker.kafka.transactions.coordinator import TransactionCoordinator
from stratamq.broker.kafka.turns import paced
from stratamq.meta.transactions import TransactionMeta
from stratamq.model.errors import AnswerTooLarge, StrataError, TopicNotFound
from stratamq.model.shard import split_shard_name
from stratamq.model.transaction import TransactionState
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from stratamq.wire.kafka.protocol.messages.transactions_admin import (
    DescribedTransaction,
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResult,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ProducerState,
    TransactionTopic,
)

Filter = Callable[[TransactionMeta], bool]

NO_TRANSACTION = -1

PRODUCER_BYTES = 300
SHARD_BYTES = 40
TRANSACTION_BYTES = 250
"""About what they take in an answer, first as objects and then encoded."""


class TransactionAdminApi:
    def __init__(self, services: Services, coordinator: TransactionCoordinator) -> None:
        self._services = services
        self._coordinator = coordinator

    # -- DescribeTransactions ------------------------------------------------------------------

    async def describe(
        self, request: DescribeTransactionsRequest, caller: Caller
    ) -> DescribeTransactionsResponse:
        answer = self._services.answers.begin()
        return DescribeTransactionsResponse(
            transaction_states=[
                await self._described(one, answer) async for one in paced(request.transactional_ids)
            ]
        )

    async def _described(self, transactional_id: str, answer: LongAnswer) -> DescribedTransaction:
        one = self._coordinator.find(transactional_id)
        code = ErrorCode.NONE
        try:
            if one is None:
                code = (
                    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
                    if transactional_id
                    else ErrorCode.INVALID_REQUEST
                )
            else:
                await answer.add(len(one.shards) * SHARD_BYTES)
        except AnswerTooLarge as error:
            code = code_of(error)
        if one is None or code:
            return DescribedTransaction(
                error_code=code,
                transactional_id=transactional_id,
                transaction_state="",
                transaction_timeout_ms=0,
                transaction_start_time_ms=-1,
                producer_id=-1,
                producer_epoch=-1,
                topics=[],
            )
        return DescribedTransaction(
            transactional_id=transactional_id,
            transaction_state=one.state,
            transaction_timeout_ms=one.timeout_ms,
            transaction_start_time_ms=one.start_ms,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            topics=self._topics(one),
        )

    def _topics(self, one: TransactionMeta) -> list[TransactionTopic]:
        topics: dict[str, list[int]] = {}
        for shard in sorted(one.shards):
            topic_id, partition = split_shard_name(shard)
            try:
                name = self._services.broker_cache.topic_by_id(topic_id).name
            except TopicNotFound:
                continue
            topics.setdefault(name, []).append(partition)
        return [
            TransactionTopic(topic=name, partitions=sorted(some)) for name, some in topics.items()
        ]

    # -- ListTransactions ----------------------------------------------------------------------

    async def list_all(
        self, request: ListTransactionsRequest, caller: Caller
    ) -> ListTransactionsResponse:
        known = {str(state) for state in TransactionState}
        unknown = [one for one in request.state_filters if one not in known]
        try:
            wanted = self._filters(request)
        except BadPattern:
            code = ErrorCode.INVALID_REGULAR_EXPRESSION
            return ListTransactionsResponse(
                error_code=code, unknown_state_filters=unknown, transaction_states=[]
            )
        found = [
            one
            async for one in paced(list(self._coordinator.all()))
            if all(test(one) for test in wanted)
        ]
        try:
            await self._services.answers.begin().add(len(found) * TRANSACTION_BYTES)
        except AnswerTooLarge as error:
            return ListTransactionsResponse(
                error_code=code_of(error), unknown_state_filters=unknown, transaction_states=[]
            )
        return ListTransactionsResponse(
            unknown_state_filters=unknown,
            transaction_states=[
                ListedTransaction(
                    transactional_id=one.transactional_id,
                    producer_id=one.producer_id,
                    transaction_state=one.state,
                )
                async for one in paced(sorted(found, key=lambda one: one.transactional_id))
            ],
        )

    def _filters(self, request: ListTransactionsRequest) -> list[Filter]:
        filters: list[Filter] = []
        if states := set(request.state_filters):
            filters.append(lambda one: one.state in states)
        if producers := set(request.producer_id_filters):
            filters.append(lambda one: one.producer_id in producers)
        if request.duration_filter >= 0:
            begun = self._services.clock.now_ms() - request.duration_filter
            filters.append(lambda one: 0 <= one.start_ms < begun)
        if request.transactional_id_pattern:
            pattern = compile_pattern(request.transactional_id_pattern)
            filters.append(lambda one: pattern.matches(one.transactional_id))
        return filters

    # -- DescribeProducers: who writes to a partition, and which transactions are open there ----

    async def describe_producers(
        self, request: DescribeProducersRequest, caller: Caller
    ) -> DescribeProducersResponse:
        answer = self._services.answers.begin()
        return DescribeProducersResponse(
            topics=[
                DescribeProducersTopicResult(
                    name=topic.name,
                    partitions=[
                        await self._producers(topic.name, number, answer)
                        async for number in paced(topic.partition_indexes)
                    ],
                )
                async for topic in paced(request.topics)
            ]
        )

    async def _producers(
        self, name: str, number: int, answer: LongAnswer
    ) -> DescribeProducersPartition:
        try:
            await self._services.partitions.led(name, number)
            found = await self._services.drivers.producers(name, number)
            await answer.add(PRODUCER_BYTES * len(found))
        except StrataError as error:
            return DescribeProducersPartition(
                partition_index=number,
                error_code=code_of(error),
                error_message=str(error),
                active_producers=[],
            )
        return DescribeProducersPartition(
            partition_index=number,
            active_producers=[
                ProducerState(
                    producer_id=one.producer_id,
                    producer_epoch=one.producer_epoch,
                    last_sequence=one.last_sequence,
                    last_timestamp=one.last_timestamp,
                    coordinator_epoch=one.coordinator_epoch,
                    current_txn_start_offset=NO_TRANSACTION
                    if one.transaction_start is None
                    else one.transaction_start,
                )
                async for one in paced(found)
            ],
        )

    # -- WriteTxnMarkers -----------------------------------------------------------------------

    async def write_markers(
        self, request: WriteTxnMarkersRequest, caller: Caller
    ) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=number,
                                    error_code=await self._write_marker(marker, topic.name, number),
                                )
                                async for number in paced(topic.partition_indexes)
                            ],
                        )
                        async for topic in paced(marker.topics)
                    ],
                )
                async for marker in paced(request.markers)
            ]
        )

    async def _write_marker(
        self, marker: WritableTxnMarker, name: str, partition: int
    ) -> ErrorCode:
        try:
            await self._services.partitions.led(name, partition)
            await self._services.drivers.write_marker(
                name,
                partition,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                commit=marker.transaction_result,
                coordinator_epoch=marker.coordinator_epoch,
            )
        except StrataError as error:
            return code_of(error)
        return ErrorCode.NONE
