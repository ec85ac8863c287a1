"""The table of APIs, and what a server says of itself."""

from __future__ import annotations

import pytest

from stratamq.wire.kafka.protocol import (
    ALL_VERSIONS,
    APIS,
    ErrorCode,
    Versions,
    api_versions_response,
    error_of,
)
from stratamq.wire.kafka.protocol.schema import ALL, NONE, Array, fields_of, message_of, versions_of
from tests.waiting import every
from tests.wire.protocol.support import TYPES

KAFKA_4 = """
0 Produce 3-13 9+ | 1 Fetch 4-18 12+ | 2 ListOffsets 1-11 6+ | 3 Metadata 0-13 9+
8 OffsetCommit 2-10 8+ | 9 OffsetFetch 1-10 6+ | 10 FindCoordinator 0-6 3+ | 11 JoinGroup 0-9 6+
12 Heartbeat 0-4 4+ | 13 LeaveGroup 0-5 4+ | 14 SyncGroup 0-5 4+ | 15 DescribeGroups 0-6 5+
16 ListGroups 0-5 3+ | 17 SaslHandshake 0-1 none | 18 ApiVersions 0-4 3+ | 19 CreateTopics 2-7 5+
20 DeleteTopics 1-6 4+ | 21 DeleteRecords 0-2 2+ | 22 InitProducerId 0-6 2+
23 OffsetForLeaderEpoch 2-4 4+ | 24 AddPartitionsToTxn 0-5 3+ | 25 AddOffsetsToTxn 0-4 3+
26 EndTxn 0-5 3+ | 27 WriteTxnMarkers 1-2 1+ | 28 TxnOffsetCommit 0-5 3+ | 29 DescribeAcls 1-3 2+
30 CreateAcls 1-3 2+ | 31 DeleteAcls 1-3 2+ | 32 DescribeConfigs 1-4 4+ | 33 AlterConfigs 0-2 2+
34 AlterReplicaLogDirs 1-2 2+ | 35 DescribeLogDirs 1-5 2+ | 36 SaslAuthenticate 0-2 2+
37 CreatePartitions 0-3 2+
42 DeleteGroups 0-2 2+ | 43 ElectLeaders 0-2 2+ | 44 IncrementalAlterConfigs 0-1 1+
45 AlterPartitionReassignments 0-1 0+ | 46 ListPartitionReassignments 0 0+
47 OffsetDelete 0 none | 48 DescribeClientQuotas 0-1 1+
49 AlterClientQuotas 0-1 1+ | 50 DescribeUserScramCredentials 0 0+
51 AlterUserScramCredentials 0 0+ | 55 DescribeQuorum 0-2 0+
57 UpdateFeatures 0-2 0+ | 60 DescribeCluster 0-2 0+ | 61 DescribeProducers 0 0+
64 UnregisterBroker 0 0+ | 65 DescribeTransactions 0 0+ | 66 ListTransactions 0-2 0+
68 ConsumerGroupHeartbeat 0-1 0+
69 ConsumerGroupDescribe 0-1 0+ | 74 ListConfigResources 0-1 0+ | 75 DescribeTopicPartitions 0 0+
"""


OURS = """
32000 DescribeLake 0 0+ | 32001 FlushLake 0 0+ | 32002 CommitLake 0 0+
32003 DeleteSelectedRecords 0 0+ | 32004 BackUp 0 0+ | 32005 CheckNode 0 0+
"""


def test_the_table_is_that_of_kafka_4_and_ours() -> None:
    expected = [
        row.split() for row in (KAFKA_4.strip() + OURS.rstrip()).replace("\n", "|").split("|")
    ]
    assert {key: (api.name, api.versions, api.flexible) for key, api in APIS.items()} == {
        int(key): (name, versions_of(versions), versions_of(flexible))
        for key, name, versions, flexible in expected
    }


def test_requests_and_responses_belong_together() -> None:
    for api in APIS.values():
        assert api.request.__name__ == api.name + "Request"
        assert api.response.__name__ == api.name + "Response"


# -- declarations ----------------------------------------------------------------------------------


def structs_in(struct_type: type) -> set[type]:
    found = {struct_type}
    for field in fields_of(struct_type):
        kind = field.kind.element if isinstance(field.kind, Array) else field.kind
        if isinstance(kind, type):
            found |= structs_in(kind)
    return found


@pytest.mark.parametrize("message_type", TYPES, ids=lambda each: each.__name__)
def test_declarations_keep_their_own_rules(message_type: type) -> None:
    message = message_of(message_type)
    for struct_type in every(structs_in(message_type)):
        tags = [field.tag for field in fields_of(struct_type) if field.tag is not None]
        assert len(tags) == len(set(tags)), "a tag is used twice"
        for field in every(fields_of(struct_type)):
            place = f"{struct_type.__name__}.{field.name}"
            assert field.versions.first <= message.versions.last, f"{place} is in no version"
            if field.tag is not None:
                assert field.versions.first >= message.flexible.first, f"{place} has no place"
            if field.versions == ALL:
                assert not field.ignorable, f"{place} is never left out"


def test_ranges_of_versions() -> None:
    assert versions_of("3-13") == Versions(3, 13)
    assert versions_of("4") == Versions(4, 4)
    assert versions_of("9+").first == 9
    assert versions_of("none") == NONE
    assert 12 in versions_of("9+")
    assert 8 not in versions_of("9+")
    assert 0 not in NONE
    assert [str(each) for each in (Versions(3, 13), Versions(4, 4), NONE)] == ["3-13", "4", "none"]
    assert Versions(0, 4).covers(Versions(1, 4))
    assert not Versions(0, 4).covers(Versions(1, 5))


# -- ApiVersions -----------------------------------------------------------------------------------


def test_what_is_served_is_advertised_and_nothing_else() -> None:
    response = api_versions_response({12: Versions(0, 3), 3: Versions(1, 9)}, throttle_time_ms=5)
    rows = [(row.api_key, row.min_version, row.max_version) for row in response.api_keys]
    assert rows == [(3, 1, 9), (12, 0, 3)]
    assert response.throttle_time_ms == 5


def test_produce_is_advertised_from_version_0() -> None:
    (row,) = api_versions_response({0: Versions(3, 11)}).api_keys
    assert (row.min_version, row.max_version) == (0, 11)


def test_more_than_we_have_cannot_be_advertised() -> None:
    with pytest.raises(ValueError, match="Heartbeat is known in 0-4, not in 0-5"):
        api_versions_response({12: Versions(0, 5)})
    assert len(api_versions_response(ALL_VERSIONS).api_keys) == len(APIS)


# -- error codes -----------------------------------------------------------------------------------


def test_error_codes_are_numbers_with_words() -> None:
    assert int(ErrorCode.UNSUPPORTED_VERSION) == 35
    assert error_of(35) is ErrorCode.UNSUPPORTED_VERSION
    assert error_of(999) is ErrorCode.UNKNOWN_SERVER_ERROR
    texts = [error.text for error in ErrorCode]
    assert len(set(texts)) == len(texts)
    assert all(text and text == text.strip() for text in texts)
