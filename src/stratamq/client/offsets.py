"""Where logs begin and end, what lies at a time, and how far groups have come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stratamq.client.cluster import TopicPartition
from stratamq.client.connection import NodeConnection
from stratamq.client.failures import check
from stratamq.client.options import Server
from stratamq.client.router import GROUP, Router, gathered
from stratamq.model.errors import StrataError
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
EARLIEST = -2
CONSUMER = -1

Asked = Mapping[TopicPartition, int]
"""A timestamp in ms for each partition, or LATEST or EARLIEST."""


async def list_offsets(
    router: Router, asked: Asked, *, committed: bool
) -> dict[TopicPartition, int]:
    """The offset of each; -1 where no record is that new.

    LATEST is the last stable offset if `committed`, else the high watermark.
    """

    async def once() -> dict[TopicPartition, int]:
        groups = await router.by_leader(list(asked))
        parts = [_ask(router, server, asked, some, committed) for server, some in groups.items()]
        found: dict[TopicPartition, int] = {}
        for part in await gathered(parts):
            found.update(part)
        return found

    def moved(error: StrataError) -> None:
        router.forget([place.topic for place in asked], error)

    return await router.retried(once, moved) if asked else {}


async def _ask(
    router: Router,
    server: Server,
    asked: Asked,
    places: Sequence[TopicPartition],
    committed: bool,
) -> dict[TopicPartition, int]:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for place in places:
        one = ListOffsetsPartition(partition_index=place.partition, timestamp=asked[place])
        by_topic.setdefault(place.topic, []).append(one)
    request = ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=int(committed),
        topics=[ListOffsetsTopic(name=name, partitions=some) for name, some in by_topic.items()],
    )
    node = await router.node(server)
    answer = await node.ask(request, ListOffsetsResponse, router.request_s)
    found = {}
    for topic in answer.topics:
        for part in topic.partitions:
            place = TopicPartition(topic.name, part.partition_index)
            check(part.error_code, f"offsets of {place}")
            found[place] = part.offset
    return found


class Undecided(StrataError):
    """A transaction that commits offsets of the group is under way."""


class GroupOffset(NamedTuple):
    offset: int
    note: str


async def group_offsets(router: Router, group: str) -> dict[TopicPartition, GroupOffset]:
    """Ask for all that the group has committed. Undecided while a transaction might change some."""
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
