"""Batches into partitions: plain, idempotent, or as part of a transaction."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

from stratamq.client.cluster import TopicPartition
from stratamq.client.connection import NodeConnection
from stratamq.client.failures import check
from stratamq.client.router import Router
from stratamq.model.record import Record
from stratamq.wire.kafka.protocol import Buffer, ErrorCode
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from stratamq.wire.kafka.protocol.messages.transactions import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from stratamq.wire.kafka.records import Compression, Packed, pack_batch, pack_records

ALL = -1
SEQUENCES = 1 << 31
"""They go round after the largest int32."""


class ProducerId(NamedTuple):
    producer_id: int
    epoch: int


NO_PRODUCER = ProducerId(-1, -1)


async def produce(
    router: Router,
    place: TopicPartition,
    batch: Buffer,
    *,
    acks: int = ALL,
    transactional_id: str | None = None,
) -> int:
    """The offset of its first record. Safe to repeat only for batches with a producer id."""
    data = PartitionProduceData(index=place.partition, records=batch)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=router.options.request_ms_max,
        topic_data=[TopicProduceData(name=place.topic, partition_data=[data])],
    )

    async def once(node: NodeConnection) -> int:
        response = await node.ask(request, ProduceResponse, router.request_s)
        answer = response.responses[0].partition_responses[0]
        if answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return -1  # stored before, too long ago for the node to know where
        check(answer.error_code, f"produce to {place}", answer.error_message)
        return answer.base_offset

    return await router.on_leader(place, once)


async def init_producer(router: Router) -> ProducerId:
    """An id of one's own, for a producer without transactions."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)

    async def once() -> ProducerId:
        answer = await router.ask_any(request, InitProducerIdResponse)
        check(answer.error_code, "producer id")
        return ProducerId(answer.producer_id, answer.producer_epoch)

    return await router.retried(once)


class Sender:
    """Records into batches, each partition's in order, one under way at a time.

    A batch that was sent and not answered is sent again with the same sequence: the node stores it
    once.
    """

    def __init__(
        self,
        router: Router,
        who: ProducerId,
        *,
        transactional_id: str | None = None,
        compression: Compression = Compression.NONE,
    ) -> None:
        self._router, self._who = router, who
        self._transactional_id = transactional_id
        self._compression = compression
        self._sequences: dict[TopicPartition, int] = {}
        self._turns: dict[TopicPartition, asyncio.Lock] = {}

    async def send(self, place: TopicPartition, records: Sequence[Record] | Packed) -> int:
        """The offset of the first. After an error the sender cannot be used any more."""
        async with self._turns.setdefault(place, asyncio.Lock()):
            sequence = self._sequences.get(place, 0)
            packed = (
                records
                if isinstance(records, Packed)
                else pack_records(records, time.time_ns() // 1_000_000)
            )
            batch = pack_batch(
                packed,
                compression=self._compression,
                producer_id=self._who.producer_id,
                producer_epoch=self._who.epoch,
                base_sequence=sequence,
                transactional=self._transactional_id is not None,
            )
            offset = await produce(
                self._router, place, batch, transactional_id=self._transactional_id
            )
            self._sequences[place] = (sequence + packed.record_count) % SEQUENCES
            return offset
