"""OffsetCommit, OffsetFetch and OffsetDelete, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from stratamq.meta.groups import CommitOffset
from stratamq.model.clock import ManualClock
from stratamq.model.shard import shard_name
from stratamq.model.types import Offset, ShardName
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.broker.groups.node_support import Node


def topic_id(node: Node, name: str) -> bytes:
    return bytes.fromhex(node.services.broker_cache.topic(name).topic_id)


def shard(node: Node, partition: int) -> ShardName:
    return shard_name(node.services.broker_cache.topic("t").topic_id, partition)


async def commit(
    node: Node,
    offsets: dict[int, int],
    version: int = 9,
    *,
    topic: str = "t",
    generation: int = -1,
    member: str = "",
    metadata: str | None = "note",
) -> set[int]:
    """The codes of all partitions."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=number, committed_offset=offset, committed_metadata=metadata
        )
        for number, offset in offsets.items()
    ]
    by_id = version >= 10
    ident = (topic_id(node, topic) if topic == "t" else bytes([7] * 16)) if by_id else NO_UUID
    one = OffsetCommitRequestTopic(
        name="" if by_id else topic, topic_id=ident, partitions=partitions
    )
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=generation, member_id=member, topics=[one]
    )
    (answer,) = (await node.ask(request, version)).topics
    return {one.error_code for one in answer.partitions}


async def fetch(
    node: Node,
    partitions: list[int] | None,
    version: int = 9,
    *,
    topic: str = "t",
    group: str = "g",
    stable: bool = False,
    member: str | None = None,
    epoch: int = -1,
) -> Any:
    """Offsets by partition; a code instead where there is one."""
    by_id = version >= 10
    ident = (topic_id(node, topic) if topic == "t" else bytes([7] * 16)) if by_id else NO_UUID
    if version >= 8:
        topics = None
        if partitions is not None:
            name = "" if by_id else topic
            topics = [
                OffsetFetchRequestTopics(name=name, topic_id=ident, partition_indexes=partitions)
            ]
        one = OffsetFetchRequestGroup(
            group_id=group, member_id=member, member_epoch=epoch, topics=topics
        )
        request = OffsetFetchRequest(groups=[one], require_stable=stable)
        (answer,) = (await node.ask(request, version)).groups
    else:
        asked = (
            None
            if partitions is None
            else [OffsetFetchRequestTopic(name=topic, partition_indexes=partitions)]
        )
        request = OffsetFetchRequest(group_id=group, topics=asked, require_stable=stable)
        answer = await node.ask(request, version)
    if answer.error_code:
        return ErrorCode(answer.error_code)
    return {
        one.partition_index: ErrorCode(one.error_code) if one.error_code else one.committed_offset
        for found in answer.topics
        for one in found.partitions
    }


@pytest.mark.parametrize("version", range(2, 11))
async def test_what_was_committed_is_fetched(node: Node, version: int) -> None:
    assert await commit(node, {0: 5, 3: 7}, version) == {0}
    assert await fetch(node, [0, 1, 3], version=min(version, 10)) == {0: 5, 1: -1, 3: 7}


@pytest.mark.parametrize("version", range(1, 11))
async def test_fetching_in_all_versions(node: Node, version: int) -> None:
    await commit(node, {1: 5})
    await node.restart()
    assert await fetch(node, [1, 2], version) == {1: 5, 2: -1}
    assert await fetch(node, [1], version, group="nobody") == {1: -1}
    if version >= 2:
        assert await fetch(node, None, version) == {1: 5}
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else -1
    assert await fetch(node, [0], version, topic="x") == {0: unknown}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"generation": 3}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"generation": 3, "version": 8}, ErrorCode.ILLEGAL_GENERATION),
        ({"topic": "x"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "x", "version": 10}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"offsets": {4: 1}}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"offsets": {0: -1}}, ErrorCode.INVALID_REQUEST),
        ({"metadata": "x" * 4097}, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ({"metadata": None}, ErrorCode.NONE),
    ],
)
async def test_commits_that_are_refused(
    node: Node, change: dict[str, Any], error: ErrorCode
) -> None:
    assert await commit(node, **{"offsets": {0: 1}, **change}) == {error}


async def test_one_bad_partition_does_not_hurt_the_others(node: Node) -> None:
    codes = await commit(node, {0: 1, 9: 1})
    assert codes == {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert await fetch(node, [0]) == {0: 1}


async def test_offsets_of_a_transaction_are_unstable_until_its_end(node: Node) -> None:
    await commit(node, {0: 1})
    entry = CommitOffset(shard=shard(node, 0), offset=Offset(9))
    await node.groups.pending.add("g", 77, [entry])
    await node.restart()
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert await fetch(node, [0, 1], stable=True) == {0: unstable, 1: -1}
    assert await fetch(node, [0]) == {0: 1}, "who does not ask is told what is committed"
    assert node.groups.pending.groups(77) == {"g"}
    await node.groups.pending.commit(77)
    await node.groups.pending.commit(77)
    assert await fetch(node, [0], stable=True) == {0: 9}
    await node.groups.pending.add("g", 77, [CommitOffset(shard=shard(node, 0), offset=Offset(10))])
    await node.groups.pending.abort(77)
    assert await fetch(node, [0], stable=True) == {0: 9}


async def delete(node: Node, *partitions: int, topic: str = "t", group: str = "g") -> Any:
    some = [OffsetDeleteRequestPartition(partition_index=number) for number in partitions]
    request = OffsetDeleteRequest(
        group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=some)]
    )
    answer = await node.ask(request)
    if answer.error_code:
        return ErrorCode(answer.error_code)
    return [one.error_code for found in answer.topics for one in found.partitions]


async def test_offsets_are_deleted_one_by_one(node: Node) -> None:
    assert await delete(node, 0) is ErrorCode.GROUP_ID_NOT_FOUND
    await commit(node, {0: 1, 1: 2})
    assert await delete(node, 0, 9) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await fetch(node, None) == {1: 2}


async def test_offsets_of_a_group_that_never_had_members_expire_one_by_one(tmp_path: Any) -> None:
    clock = ManualClock()
    node = Node(tmp_path / "data", clock=clock, offsets_retention_minutes=2)
    await node.start()
    await node.services.topics.create("t", partitions=2)
    await commit(node, {0: 1})
    clock.advance(60_000)
    await commit(node, {1: 1})
    clock.advance(60_000)
    await node.groups.coordinator.sweep()
    assert await fetch(node, None) == {1: 1}
    clock.advance(60_000)
    await node.groups.coordinator.sweep()
    assert await node.services.offsets.groups() == []
    await node.stop()
