"""The cluster, disks, leaders and pages of topics, as administrators see them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stratamq.broker.kafka.admin.leaders import PREFERRED, UNCLEAN, election
from stratamq.broker.kafka.cluster import active_segment
from stratamq.meta.nodes import LoseNode, RegisterNode
from stratamq.meta.segments import CreateSegment
from stratamq.meta.shards import CreateShard
from stratamq.model.record import Record
from stratamq.model.shard import shard_name
from stratamq.model.types import NodeId
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.cluster_admin import (
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    ElectLeadersTopic,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from stratamq.wire.kafka.protocol.messages.metadata import (
    Cursor,
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopic,
)
from stratamq.wire.kafka.protocol.messages.quorum import (
    DescribeQuorumRequest,
    FeatureUpdate,
    QuorumPartition,
    QuorumTopic,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from tests.broker.admin.conftest import Rig

# -- the cluster -----------------------------------------------------------------------------------


async def test_who_is_in_it(rig: Rig) -> None:
    await rig.core.meta.submit(RegisterNode(node_id=NodeId(2), address="there:9"))
    await rig.core.meta.submit(LoseNode(node_id=NodeId(2)))

    async def asked(version: int, **more: Any) -> Any:
        request = DescribeClusterRequest(include_cluster_authorized_operations=False, **more)
        return await rig.ask(request, version)

    answer = await asked(0)
    assert (answer.cluster_id, answer.controller_id) == ("cluster", 1)
    assert [one.broker_id for one in answer.brokers] == [1]
    everybody = await asked(2, include_fenced_brokers=True)
    assert [(one.broker_id, one.host, one.is_fenced) for one in everybody.brokers] == [
        (1, "127.0.0.1", False),
        (2, "there", True),
    ]
    refused = await asked(1, endpoint_type=2)
    assert ErrorCode(refused.error_code) is ErrorCode.MISMATCHED_ENDPOINT_TYPE
    refused = await asked(1, endpoint_type=3)
    assert ErrorCode(refused.error_code) is ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


# -- disks -----------------------------------------------------------------------------------------


async def test_sizes_are_those_on_the_disk(rig: Rig, tmp_path: Path) -> None:
    topic = await rig.core.topics.create("t", partitions=2)
    await rig.core.topics.create("u")
    for _ in range(10):
        await rig.services.drivers.write("t", Record(value=b"v" * 1000), partition=1)
    answer = await rig.ask(DescribeLogDirsRequest(topics=None))
    (folder,) = answer.results
    assert (folder.error_code, folder.log_dir) == (0, str(tmp_path))
    assert 0 < folder.usable_bytes < folder.total_bytes
    sizes = {
        (one.name, part.partition_index): part.partition_size
        for one in folder.topics
        for part in one.partitions
    }
    on_disk = _log_bytes(tmp_path, f"{topic.topic_id}_1")
    assert sizes == {("t", 0): 0, ("t", 1): on_disk, ("u", 0): 0}
    assert on_disk > 10_000


def _log_bytes(folder: Path, shard: str) -> int:
    return sum(log.stat().st_size for log in folder.glob(f"**/{shard}/*.log"))


async def test_only_the_partitions_asked_for(rig: Rig) -> None:
    await rig.core.topics.create("t", partitions=3)
    wanted = [
        DescribableLogDirTopic(topic="t", partitions=[1, 7, -1, 1]),
        DescribableLogDirTopic(topic="t", partitions=[0, 1]),
        DescribableLogDirTopic(topic="nobody", partitions=[0]),
    ]
    (folder,) = (await rig.ask(DescribeLogDirsRequest(topics=wanted))).results
    assert [(one.name, [p.partition_index for p in one.partitions]) for one in folder.topics] == [
        ("t", [0, 1])
    ]


async def test_partitions_are_in_the_one_folder_and_in_no_other(rig: Rig, tmp_path: Path) -> None:
    await rig.core.topics.create("t", partitions=2)

    async def moved(path: str, version: int) -> list[tuple[str, int, ErrorCode]]:
        topics = [
            AlterReplicaLogDirTopic(name="t", partitions=[0, 1, 2]),
            AlterReplicaLogDirTopic(name="u", partitions=[0]),
        ]
        one = AlterReplicaLogDir(path=path, topics=topics)
        answer = await rig.ask(AlterReplicaLogDirsRequest(dirs=[one]), version)
        return [
            (topic.topic_name, part.partition_index, ErrorCode(part.error_code))
            for topic in answer.results
            for part in topic.partitions
        ]

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for version in (1, 2):
        assert await moved(str(tmp_path), version) == [
            *(("t", 0, ErrorCode.NONE), ("t", 1, ErrorCode.NONE)),
            *(("t", 2, unknown), ("u", 0, unknown)),
        ]
        codes = {code for _, _, code in await moved("/elsewhere", version)}
        assert codes == {ErrorCode.LOG_DIR_NOT_FOUND}


# -- the quorum and the features -------------------------------------------------------------------


async def quorum(rig: Rig, *wanted: tuple[str, int], version: int = 2) -> Any:
    topics = [
        QuorumTopic(topic_name=topic, partitions=[QuorumPartition(partition_index=partition)])
        for topic, partition in wanted
    ]
    return await rig.ask(DescribeQuorumRequest(topics=topics), version)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_one_voter_that_has_all_of_the_metadata(rig: Rig, version: int) -> None:
    await rig.core.meta.submit(RegisterNode(node_id=NodeId(2), address="there:9"))
    answer = await quorum(rig, ("__cluster_metadata", 0), version=version)
    (found,) = answer.topics[0].partitions
    revision = rig.services.meta.state.revision
    assert (found.leader_id, found.leader_epoch, found.high_watermark) == (1, 1, revision)
    (voter,), (observer,) = found.current_voters, found.observers
    assert (voter.replica_id, observer.replica_id) == (1, 2)
    assert {voter.log_end_offset, observer.log_end_offset} == {revision}
    now_ms = rig.clock.now_ms() if version else -1
    assert voter.last_caught_up_timestamp == now_ms
    assert [one.node_id for one in answer.nodes] == ([1] if version == 2 else [])


async def test_there_is_one_partition_of_metadata(rig: Rig) -> None:
    for wanted in (("__cluster_metadata", 1), ("t", 0)):
        (found,) = (await quorum(rig, wanted)).topics[0].partitions
        assert ErrorCode(found.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for several in ((), (("__cluster_metadata", 0),) * 2):
        answer = await quorum(rig, *several)
        assert ErrorCode(answer.error_code) is ErrorCode.INVALID_REQUEST
        assert answer.topics == []


async def test_a_broker_is_not_forgotten_while_it_may_hold_replicas(rig: Rig) -> None:
    async def unregistered(broker: int) -> ErrorCode:
        return ErrorCode((await rig.ask(UnregisterBrokerRequest(broker_id=broker))).error_code)

    assert await unregistered(7) is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert await unregistered(1) is ErrorCode.INVALID_REQUEST
    assert rig.services.meta.state.live_nodes() == [1]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_features_are_fixed(rig: Rig, version: int) -> None:
    async def updated(**levels: int) -> ErrorCode:
        asked = [
            FeatureUpdate(feature=name.replace("_", "."), max_version_level=level)
            for name, level in levels.items()
        ]
        answer = await rig.ask(UpdateFeaturesRequest(feature_updates=asked), version)
        named = [one.feature for one in asked] if version < 2 and not answer.error_code else []
        assert [one.feature for one in answer.results] == named
        return ErrorCode(answer.error_code)

    refused = ErrorCode.INVALID_UPDATE_VERSION
    assert await updated(group_version=1) is ErrorCode.NONE
    assert await updated(group_version=1, transaction_version=1) is refused
    assert await updated(metadata_version=27) is refused
    many = {f"f{number}": 1 for number in range(101)}
    assert await updated(**many) is ErrorCode.INVALID_REQUEST


# -- leaders ---------------------------------------------------------------------------------------


async def test_nobody_has_to_be_elected(rig: Rig) -> None:
    await rig.core.topics.create("t", partitions=2)

    async def elect(topics: list[ElectLeadersTopic] | None, kind: int = 0) -> Any:
        request = ElectLeadersRequest(topic_partitions=topics, election_type=kind)
        answer = await rig.ask(request)
        return answer.error_code, {
            (one.topic, part.partition_id): ErrorCode(part.error_code)
            for one in answer.replica_election_results
            for part in one.partition_result
        }

    assert await elect(None) == (0, {})
    asked = [
        ElectLeadersTopic(topic="t", partitions=[0, 2, -1]),
        ElectLeadersTopic(topic="u", partitions=[0]),
    ]
    for kind in (PREFERRED, UNCLEAN):
        assert await elect(asked, kind) == (
            0,
            {
                ("t", 0): ErrorCode.ELECTION_NOT_NEEDED,
                ("t", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ("t", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ("u", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            },
        )
    assert await elect(asked, 5) == (ErrorCode.INVALID_REQUEST, {})


async def test_a_partition_that_is_still_being_made_is_unknown(rig: Rig) -> None:
    topic = await rig.core.topics.create("t")
    shard = shard_name(topic.topic_id, 1)
    await rig.core.meta.submit(
        CreateShard(topic_id=topic.topic_id, partition=1),
        CreateSegment(shard=shard, seq=0, replicas=(NodeId(1),), leader=NodeId(1)),
    )
    await rig.services.storage_cache.wait_for_shard(shard, 10)
    asked = [ElectLeadersTopic(topic="t", partitions=[1])]
    answer = await rig.ask(ElectLeadersRequest(topic_partitions=asked))
    (part,) = answer.replica_election_results[0].partition_result
    assert ErrorCode(part.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("leader", "kind", "code"),
    [
        (1, PREFERRED, ErrorCode.ELECTION_NOT_NEEDED),
        (2, PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (None, PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (2, UNCLEAN, ErrorCode.ELECTION_NOT_NEEDED),
        (None, UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
async def test_when_an_election_is_needed(
    rig: Rig, leader: NodeId | None, kind: int, code: ErrorCode
) -> None:
    topic = await rig.core.topics.create("t")
    segment = active_segment(rig.services.storage_cache, topic, 0)
    assert segment is not None
    led = replace(segment, leader=leader, replicas=(NodeId(1), NodeId(2)))
    assert election(led, kind).code is code


async def test_replicas_are_not_moved_by_hand(rig: Rig) -> None:
    await rig.core.topics.create("t")
    given: list[tuple[int, list[int] | None, ErrorCode]] = [
        (0, [1], ErrorCode.NONE),
        (0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (9, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    for number, replicas, code in given:
        partition = ReassignablePartition(partition_index=number, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name="t", partitions=[partition])]
        )
        for version in (0, 1):
            (topic,) = (await rig.ask(request, version)).responses
            assert [ErrorCode(one.error_code) for one in topic.partitions] == [code]
    moving = await rig.ask(ListPartitionReassignmentsRequest())
    assert (moving.error_code, moving.topics) == (0, [])


# -- pages of topics -------------------------------------------------------------------------------


async def page(rig: Rig, names: list[str], limit: int = 2000, cursor: Cursor | None = None) -> Any:
    topics = [DescribeTopicPartitionsTopic(name=name) for name in names]
    request = DescribeTopicPartitionsRequest(
        topics=topics, response_partition_limit=limit, cursor=cursor
    )
    return await rig.ask(request)


async def test_partitions_in_full(rig: Rig) -> None:
    await rig.core.topics.create("t")
    answer = await page(rig, ["t", "u"])
    found, missing = answer.topics
    (part,) = found.partitions
    assert (part.leader_id, part.replica_nodes, part.isr_nodes) == (1, [1], [1])
    assert (part.eligible_leader_replicas, part.last_known_elr) == ([], [])
    assert (part.error_code, part.offline_replicas, answer.next_cursor) == (0, [], None)
    assert ErrorCode(missing.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 7])
@pytest.mark.parametrize("named", [False, True])
async def test_page_by_page_nothing_is_missed_or_told_twice(
    rig: Rig, limit: int, named: bool
) -> None:
    for name, partitions in (("a", 3), ("b", 1), ("c", 2)):
        await rig.core.topics.create(name, partitions=partitions)
    seen: list[tuple[str, int]] = []
    cursor = None
    for _ in range(10):
        answer = await page(rig, ["c", "a", "b"] if named else [], limit, cursor)
        told = [(one.name, p.partition_index) for one in answer.topics for p in one.partitions]
        assert 0 < len(told) <= limit
        seen += told
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]
