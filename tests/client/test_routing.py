"""Leaders and coordinators that move, and connections that break: the right node is found again."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack

import pytest

from stratamq.client import LATEST, Client, ClientOptions, TopicPartition
from stratamq.client.options import Server
from stratamq.model.errors import NotLeader
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from stratamq.wire.kafka.protocol.messages.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from stratamq.wire.kafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.scripted import Script, scripted

PLACE = TopicPartition("orders", 0)


class Cluster:
    """Two peers; `leader` is who leads and coordinates, `told` whom metadata names."""

    def __init__(self) -> None:
        self.servers: list[Server] = []
        self.leader = self.told = 0
        self.hangs_up: set[int] = set()
        self.asked: Counter[tuple[int, str]] = Counter()

    def script(self, number: int) -> Script:
        return {
            MetadataRequest: lambda request: self._metadata(number),
            ListOffsetsRequest: lambda request: self._offsets(number),
            FindCoordinatorRequest: lambda request: self._coordinator(number),
            OffsetFetchRequest: lambda request: self._group(number),
        }

    def _metadata(self, number: int) -> MetadataResponse:
        self.asked[number, "metadata"] += 1
        part = MetadataResponsePartition(
            partition_index=0, leader_id=self.told, replica_nodes=[0, 1], isr_nodes=[0, 1]
        )
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=i, host=server.host, port=server.port)
                for i, server in enumerate(self.servers)
            ],
            topics=[MetadataResponseTopic(name="orders", partitions=[part])],
        )

    def _offsets(self, number: int) -> ListOffsetsResponse | None:
        self.asked[number, "offsets"] += 1
        if number in self.hangs_up:
            self.hangs_up.discard(number)
            return None
        leads = number == self.leader
        if not leads:
            self.told = self.leader  # word has got round since
        code = ErrorCode.NONE if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER
        part = ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=7)
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name="orders", partitions=[part])]
        )

    def _coordinator(self, number: int) -> FindCoordinatorResponse:
        self.asked[number, "find"] += 1
        server = self.servers[self.told]
        return FindCoordinatorResponse(node_id=self.told, host=server.host, port=server.port)

    def _group(self, number: int) -> OffsetFetchResponse:
        coordinates = number == self.leader
        self.told = self.leader
        code = ErrorCode.NONE if coordinates else ErrorCode.NOT_COORDINATOR
        return OffsetFetchResponse(error_code=code)


async def started(stack: AsyncExitStack, retry_ms: int = 5000) -> tuple[Cluster, Client]:
    cluster = Cluster()
    for number in range(2):
        server = await stack.enter_async_context(scripted(cluster.script(number)))
        cluster.servers.append(server)
    options = ClientOptions(servers=(cluster.servers[0],), retry_ms_max=retry_ms)
    return cluster, await stack.enter_async_context(Client(options))


async def test_a_leader_that_moved_is_found() -> None:
    async with AsyncExitStack() as stack:
        cluster, client = await started(stack)
        assert await client.list_offsets({PLACE: LATEST}) == {PLACE: 7}
        cluster.leader = 1
        assert await client.list_offsets({PLACE: LATEST}) == {PLACE: 7}
        assert cluster.asked == {(0, "metadata"): 2, (0, "offsets"): 2, (1, "offsets"): 1}


async def test_what_is_known_is_not_asked_again() -> None:
    async with AsyncExitStack() as stack:
        cluster, client = await started(stack)
        for _ in range(3):
            await client.list_offsets({PLACE: LATEST})
        assert cluster.asked[0, "metadata"] == 1


async def test_a_connection_that_breaks_is_made_again() -> None:
    async with AsyncExitStack() as stack:
        cluster, client = await started(stack)
        cluster.hangs_up = {0}
        assert await client.list_offsets({PLACE: LATEST}) == {PLACE: 7}
        assert cluster.asked[0, "offsets"] == 2


async def test_nobody_leads_for_too_long() -> None:
    async with AsyncExitStack() as stack:
        cluster, client = await started(stack, retry_ms=150)
        cluster.leader = 5
        with pytest.raises(NotLeader, match="orders-0"):
            await client.list_offsets({PLACE: LATEST})
        assert cluster.asked[0, "metadata"] > 2


async def test_a_coordinator_that_moved_is_found() -> None:
    async with AsyncExitStack() as stack:
        cluster, client = await started(stack)
        assert await client.group_offsets("readers") == {}
        cluster.leader = 1
        assert await client.group_offsets("readers") == {}
        assert cluster.asked[0, "find"] == 2
