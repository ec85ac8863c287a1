"""How far groups have come."""

from __future__ import annotations

from typing import NamedTuple

from stratamq.client.cluster import TopicPartition
from stratamq.client.connection import NodeConnection
from stratamq.client.failures import check
from stratamq.client.router import GROUP, Router
from stratamq.model.errors import StrataError
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchResponse,
)


class Undecided(StrataError):
    """A transaction that commits offsets of the group is under way."""


class GroupOffset(NamedTuple):
    offset: int
    note: str


async def group_offsets(router: Router, group: str) -> dict[TopicPartition, GroupOffset]:
    """All that the group has committed. Undecided while a transaction might change some of it."""
    request = OffsetFetchRequest(group_id=group, topics=None, require_stable=True)

    async def once(node: NodeConnection) -> dict[TopicPartition, GroupOffset]:
        answer = await node.ask(request, OffsetFetchResponse, router.request_s)
        _check(answer.error_code, group)
        found = {}
        for topic in answer.topics:
            for part in topic.partitions:
                _check(part.error_code, group)
                if part.committed_offset >= 0:
                    place = TopicPartition(topic.name, part.partition_index)
                    found[place] = GroupOffset(part.committed_offset, part.metadata or "")
        return found

    return await router.on_coordinator(GROUP, group, once)


def _check(code: int, group: str) -> None:
    if code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
        raise Undecided(f"offsets of group {group!r} are part of a transaction under way")
    check(code, f"offsets of group {group!r}")
