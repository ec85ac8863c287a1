"""A real node below everything transactional at the Kafka front, asked through the codec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stratamq.broker.kafka.answer_budget import AnswerBudget
from stratamq.broker.kafka.broker import KafkaBroker
from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.fetch import Fetch
from stratamq.broker.kafka.groups.family import Groups
from stratamq.broker.kafka.log_offsets import LogOffsets
from stratamq.broker.kafka.produce.api import Produce
from stratamq.broker.kafka.transactions.family import TransactionApis
from stratamq.broker.kafka.transactions.machine import ProducerIdAndEpoch
from stratamq.model.clock import ManualClock
from stratamq.model.config import load
from stratamq.model.record import Record
from stratamq.node.core import NodeCore
from stratamq.node.doors import Doors
from stratamq.node.kafka import services_of
from stratamq.wire.kafka.protocol import APIS, ErrorCode, decode, encode
from stratamq.wire.kafka.protocol.messages import transactions as tx
from stratamq.wire.kafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from stratamq.wire.kafka.protocol.schema import message_of
from stratamq.wire.kafka.records import decode_batch, encode_batch, iter_batches

TOPIC, ID, GROUP = "t", "x", "g"
OLD = 11
"""Produce up to this version does not add partitions by itself."""

FAST = {
    "group.initial.rebalance.delay.ms": 0,
    "topic.flush": "os",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 600_000,
}


class Rig:
    """Started and stopped by hand, so that a test can restart it. `t` has three partitions."""

    def __init__(self, path: Path, **settings: object) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = load(flags={"data.dir": str(path), **FAST, **given})
        self.clock = ManualClock()

    async def start(self) -> None:
        self.core = NodeCore(self.config, doors=Doors(clock=self.clock))
        await self.core.start()
        services = self.services = services_of(self.core)
        self.groups = Groups(services)
        self.transactions = TransactionApis(services, self.groups)
        self.coordinator = self.transactions.coordinator
        self.broker = KafkaBroker(
            [
                Produce(services, self.transactions.verifier),
                LogOffsets(services),
                self.groups,
                self.transactions,
                Fetch(services, AnswerBudget(64 << 20)),
            ]
        )
        await self.broker.start()
        if TOPIC not in {one.name for one in services.broker_cache.topics()}:
            await services.topics.create(TOPIC, partitions=3)

    async def stop(self) -> None:
        await self.broker.stop()
        await self.core.stop()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def ask(self, request: Any, version: int | None = None) -> Any:
        message = message_of(type(request))
        version = message.versions.last if version is None else version
        sent = decode(type(request), version, b"".join(encode(request, version, b"")), 0)
        handler = self.broker.handler(type(request))
        assert handler is not None
        response = await handler(sent, Caller(version=version))
        kind = APIS[message.key].response
        return decode(kind, version, b"".join(encode(response, version, b"")), 0)

    # -- what a producer does ------------------------------------------------------------------

    async def init(
        self,
        transactional_id: str | None = ID,
        expected: ProducerIdAndEpoch = ProducerIdAndEpoch(-1, -1),
        *,
        timeout_ms: int = 60_000,
        version: int = 4,
        **wishes: bool,
    ) -> Any:
        asked = tx.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected.producer_id,
            producer_epoch=expected.epoch,
            **wishes,
        )
        return await self.ask(asked, version)

    async def producer(self, transactional_id: str = ID) -> ProducerIdAndEpoch:
        told = await self.init(transactional_id)
        assert told.error_code == 0, ErrorCode(told.error_code)
        return ProducerIdAndEpoch(told.producer_id, told.producer_epoch)

    async def add(
        self,
        who: ProducerIdAndEpoch,
        *partitions: int,
        version: int = 3,
        topic: str = TOPIC,
        id_: str = ID,
    ) -> list[int]:
        topics = [tx.AddPartitionsToTxnTopic(name=topic, partitions=partitions)]
        asked = tx.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=id_,
            v3_and_below_producer_id=who.producer_id,
            v3_and_below_producer_epoch=who.epoch,
            v3_and_below_topics=topics,
        )
        told = await self.ask(asked, version)
        results = told.results_by_topic_v3_and_below[0].results_by_partition
        return [one.partition_error_code for one in results]

    async def add_group(self, who: ProducerIdAndEpoch, group: str = GROUP, version: int = 3) -> int:
        asked = tx.AddOffsetsToTxnRequest(
            transactional_id=ID,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            group_id=group,
        )
        code: int = (await self.ask(asked, version)).error_code
        return code

    async def commit_offset(
        self,
        who: ProducerIdAndEpoch,
        offset: int,
        *,
        version: int = 3,
        partition: int = 0,
        **member: Any,
    ) -> int:
        part = tx.TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata="m"
        )
        asked = tx.TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id=GROUP,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            topics=[tx.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[part])],
            **member,
        )
        code: int = (await self.ask(asked, version)).topics[0].partitions[0].error_code
        return code

    async def end(
        self, who: ProducerIdAndEpoch, *, commit: bool = True, version: int = 3, id_: str = ID
    ) -> Any:
        asked = tx.EndTxnRequest(
            transactional_id=id_,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            committed=commit,
        )
        return await self.ask(asked, version)

    async def produce(
        self,
        who: ProducerIdAndEpoch,
        *values: bytes,
        sequence: int = 0,
        partition: int = 0,
        transactional_id: str | None = ID,
        transactional: bool = True,
        version: int = OLD,
    ) -> Any:
        records = encode_batch(
            [Record(value=one) for one in values],
            now_ms=self.clock.now_ms(),
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        part = PartitionProduceData(index=partition, records=records)
        asked = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[part])],
        )
        return (await self.ask(asked, version)).responses[0].partition_responses[0]

    # -- what a consumer sees ------------------------------------------------------------------

    async def fetch(
        self, *, committed: bool = True, offset: int = 0, partition: int = 0, wait_ms: int = 0
    ) -> Any:
        part = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        asked = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            isolation_level=int(committed),
            topics=[FetchTopic(topic=TOPIC, partitions=[part])],
        )
        return (await self.ask(asked, 11)).responses[0].partitions[0]

    async def read(self, *, committed: bool = True, partition: int = 0) -> list[bytes]:
        """The values a client shows: aborted and control records are left out by it."""
        told = await self.fetch(committed=committed, partition=partition)
        return shown(told)

    async def end_offset(self, *, committed: bool) -> int:
        part = ListOffsetsPartition(partition_index=0, timestamp=-1)
        asked = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=[ListOffsetsTopic(name=TOPIC, partitions=[part])],
        )
        offset: int = (await self.ask(asked, 4)).topics[0].partitions[0].offset
        return offset

    async def committed_offset(self, *, stable: bool = False, partition: int = 0) -> Any:
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[partition])]
        asked = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)], require_stable=stable
        )
        return (await self.ask(asked, 9)).groups[0].topics[0].partitions[0]


def shown(told: Any) -> list[bytes]:
    """As Kafka's consumers do it: an aborted producer's records go until its mark comes."""
    data = bytes(told.records)
    waiting = sorted(told.aborted_transactions or [], key=lambda one: one.first_offset)
    aborted: set[int] = set()
    values: list[bytes] = []
    for header, batch in iter_batches(data):
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborted.add(waiting.pop(0).producer_id)
        if header.is_control:
            aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            values += [one.value or b"" for one in decode_batch(header, batch)]
    return values
