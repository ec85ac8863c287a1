"""How far groups have come."""

from __future__ import annotations

from typing import NamedTuple

from stratamq.client.cluster import TopicPartition
from stratamq.client.connection import NodeConnection
from stratamq.client.failures import check
from stratamq.client.router import GROUP, Router
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchResponse,
)


class GroupOffset(NamedTuple):
    offset: int
    note: str


async def group_offsets(router: Router, group: str) -> dict[TopicPartition, GroupOffset]:
    """All that the group has committed. Refusal (UNSTABLE_OFFSET_COMMIT) after `retry_ms_max` while
    a transaction that commits some is undecided."""
    request = OffsetFetchRequest(group_id=group, topics=None, require_stable=True)

    async def once(node: NodeConnection) -> dict[TopicPartition, GroupOffset]:
        told = await node.ask(request, OffsetFetchResponse, router.request_s)
        check(told.error_code, f"offsets of group {group!r}")
        found = {}
        for topic in told.topics:
            for part in topic.partitions:
                check(part.error_code, f"offsets of group {group!r}")
                if part.committed_offset >= 0:
                    place = TopicPartition(topic.name, part.partition_index)
                    found[place] = GroupOffset(part.committed_offset, part.metadata or "")
        return found

    return await router.on_coordinator(GROUP, group, once)
