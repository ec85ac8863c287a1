"""DescribeProducers: who writes to a partition, and which transactions are open there."""

from __future__ import annotations

from collections.abc import Mapping

from stratamq.broker.kafka.answer_budget import LongAnswer
from stratamq.broker.kafka.contract import Caller, Family, Handled, Services
from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.turns import paced
from stratamq.model.errors import StrataError
from stratamq.model.transaction import ProducerStateEntry
from stratamq.wire.kafka.protocol.messages.transactions_admin import (
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResult,
    ProducerState,
)

NO_TRANSACTION = -1
PRODUCER_BYTES = 300
"""About what one takes in an answer, first as objects and then encoded."""


class Producers(Family):
    """The family of one API."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handlers(self) -> Mapping[type, Handled]:
        return {DescribeProducersRequest: Handled(self.describe)}

    async def describe(
        self, request: DescribeProducersRequest, caller: Caller
    ) -> DescribeProducersResponse:
        answer = self._services.answers.begin()
        return DescribeProducersResponse(
            topics=[
                DescribeProducersTopicResult(
                    name=topic.name,
                    partitions=[
                        await self._partition(topic.name, number, answer)
                        async for number in paced(topic.partition_indexes)
                    ],
                )
                async for topic in paced(request.topics)
            ]
        )

    async def _partition(
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
            partition_index=number, active_producers=[_told(one) async for one in paced(found)]
        )


def _told(one: ProducerStateEntry) -> ProducerState:
    start = one.transaction_start
    return ProducerState(
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        last_sequence=one.last_sequence,
        last_timestamp=one.last_timestamp,
        coordinator_epoch=one.coordinator_epoch,
        current_txn_start_offset=NO_TRANSACTION if start is None else start,
    )
