"""Transactions: begin, write, commit offsets with them, end.

    transaction = await begin(router, "orders-7", timeout_ms=60_000)
    await transaction.send(TopicPartition("orders", 0), records)
    await transaction.end(commit=True)

`begin` fences the producer that used the id before. `handle` is all that is needed to end a
transaction from somewhere else, such as the driver of a job whose tasks wrote it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from stratamq.client.cluster import TopicPartition
from stratamq.client.connection import NodeConnection
from stratamq.client.failures import check
from stratamq.client.producing import ProducerId, Sender
from stratamq.client.router import GROUP, TRANSACTION, Router
from stratamq.model.record import Record
from stratamq.wire.kafka.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from stratamq.wire.kafka.protocol.messages.transactions_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from stratamq.wire.kafka.records import Compression, Packed

TIMEOUT_MS = 60_000


class Handle(NamedTuple):
    """A transaction, wherever it was begun."""

    transactional_id: str
    producer_id: int
    epoch: int


class Described(NamedTuple):
    handle: Handle
    state: str
    """`Ongoing`, `PrepareCommit`, `CompleteAbort`, `Empty`, ... as Kafka has them."""


async def fence(router: Router, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> Handle:
    """Take the id over. What its last owner left open is aborted before this returns."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )

    async def once(node: NodeConnection) -> Handle:
        answer = await node.ask(request, InitProducerIdResponse, router.request_s)
        check(answer.error_code, f"transactional id {transactional_id!r}")
        return Handle(transactional_id, answer.producer_id, answer.producer_epoch)

    return await router.on_coordinator(TRANSACTION, transactional_id, once)


async def end(router: Router, handle: Handle, *, commit: bool) -> None:
    """Safe to repeat. InvalidProducerEpoch or InvalidTransactionState: it ended otherwise."""
    request = EndTxnRequest(
        transactional_id=handle.transactional_id,
        producer_id=handle.producer_id,
        producer_epoch=handle.epoch,
        committed=commit,
    )

    async def once(node: NodeConnection) -> None:
        answer = await node.ask(request, EndTxnResponse, router.request_s)
        check(answer.error_code, f"end of transaction {handle.transactional_id!r}")

    await router.on_coordinator(TRANSACTION, handle.transactional_id, once)


async def add_partitions(router: Router, handle: Handle, places: Sequence[TopicPartition]) -> None:
    """Add partitions to a transaction, before the first batch goes to them."""
    by_topic: dict[str, list[int]] = {}
    for place in places:
        by_topic.setdefault(place.topic, []).append(place.partition)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=handle.transactional_id,
        v3_and_below_producer_id=handle.producer_id,
        v3_and_below_producer_epoch=handle.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=some) for name, some in by_topic.items()
        ],
    )

    async def once(node: NodeConnection) -> None:
        answer = await node.ask(request, AddPartitionsToTxnResponse, router.request_s)
        for topic in answer.results_by_topic_v3_and_below:
            for part in topic.results_by_partition:
                place = TopicPartition(topic.name, part.partition_index)
                check(part.partition_error_code, f"{place} in {handle.transactional_id!r}")

    await router.on_coordinator(TRANSACTION, handle.transactional_id, once)


async def commit_offset(
    router: Router, handle: Handle, group: str, place: TopicPartition, offset: int, note: str
) -> None:
    """An offset of a group that counts if, and only if, the transaction commits."""
    joining = AddOffsetsToTxnRequest(
        transactional_id=handle.transactional_id,
        producer_id=handle.producer_id,
        producer_epoch=handle.epoch,
        group_id=group,
    )

    async def join(node: NodeConnection) -> None:
        answer = await node.ask(joining, AddOffsetsToTxnResponse, router.request_s)
        check(answer.error_code, f"group {group!r} in {handle.transactional_id!r}")

    await router.on_coordinator(TRANSACTION, handle.transactional_id, join)
    entry = TxnOffsetCommitRequestPartition(
        partition_index=place.partition, committed_offset=offset, committed_metadata=note
    )
    request = TxnOffsetCommitRequest(
        transactional_id=handle.transactional_id,
        group_id=group,
        producer_id=handle.producer_id,
        producer_epoch=handle.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=place.topic, partitions=[entry])],
    )

    async def once(node: NodeConnection) -> None:
        answer = await node.ask(request, TxnOffsetCommitResponse, router.request_s)
        check(answer.topics[0].partitions[0].error_code, f"offset of group {group!r}")

    await router.on_coordinator(GROUP, group, once)


async def describe(router: Router, transactional_id: str) -> Described:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    async def once(node: NodeConnection) -> Described:
        response = await node.ask(request, DescribeTransactionsResponse, router.request_s)
        answer = response.transaction_states[0]
        check(answer.error_code, f"transaction {transactional_id!r}")
        handle = Handle(transactional_id, answer.producer_id, answer.producer_epoch)
        return Described(handle, answer.transaction_state)

    return await router.on_coordinator(TRANSACTION, transactional_id, once)


class Transaction:
    """One transaction under way. Partitions are added to it when they are first written to."""

    def __init__(self, router: Router, handle: Handle, compression: Compression) -> None:
        self.handle = handle
        self.places: set[TopicPartition] = set()
        self._router = router
        self._adding = asyncio.Lock()
        who = ProducerId(handle.producer_id, handle.epoch)
        self._sender = Sender(
            router, who, transactional_id=handle.transactional_id, compression=compression
        )

    async def send(self, place: TopicPartition, records: Sequence[Record] | Packed) -> int:
        async with self._adding:
            if place not in self.places:
                await add_partitions(self._router, self.handle, [place])
                self.places.add(place)
        return await self._sender.send(place, records)

    async def commit_offset(
        self, group: str, place: TopicPartition, offset: int, note: str = ""
    ) -> None:
        await commit_offset(self._router, self.handle, group, place, offset, note)

    async def end(self, *, commit: bool) -> None:
        await end(self._router, self.handle, commit=commit)


async def begin(
    router: Router,
    transactional_id: str,
    *,
    timeout_ms: int = TIMEOUT_MS,
    compression: Compression = Compression.NONE,
) -> Transaction:
    return Transaction(router, await fence(router, transactional_id, timeout_ms), compression)
