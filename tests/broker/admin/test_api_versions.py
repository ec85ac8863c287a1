"""Clients say what they are, in words that can stand in a metric's name."""

from __future__ import annotations

import pytest

from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.api_versions import ApiVersionsRequest
from stratamq.wire.kafka.protocol.messages.topics import CreateTopicsRequest
from stratamq.wire.kafka.protocol.schema import message_of
from tests.broker.admin.conftest import Rig

NAMES = {
    "apache-kafka-java": True,
    "a": True,
    "1.2.3": True,
    "a--b..c": True,
    "": False,
    "-a": False,
    "a-": False,
    "a.": False,
    "a b": False,
    "a_b": False,
    "ä": False,
    "a\n": False,
}


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", NAMES)
async def test_a_client_that_cannot_say_it_is_refused(rig: Rig, name: str, version: int) -> None:
    for said in ((name, "1"), ("a", name)):
        request = ApiVersionsRequest(client_software_name=said[0], client_software_version=said[1])
        answer = await rig.ask(request, version)
        expected = ErrorCode.NONE if NAMES[name] else ErrorCode.INVALID_REQUEST
        assert ErrorCode(answer.error_code) is expected
        assert bool(answer.api_keys) == NAMES[name]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_older_versions_say_nothing(rig: Rig, version: int) -> None:
    answer = await rig.ask(ApiVersionsRequest(), version)
    assert answer.error_code == 0
    served = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    assert served[message_of(CreateTopicsRequest).key] == (2, 7)


@pytest.mark.parametrize("version", [3, 4])
async def test_the_features_of_the_cluster(rig: Rig, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    answer = await rig.ask(request, version)
    finalized = {one.name: one.max_version_level for one in answer.finalized_features}
    assert finalized == {"group.version": 1, "transaction.version": 2}
    assert answer.finalized_features_epoch >= 0, "clients keep what has the highest epoch"
    for one in answer.supported_features:
        assert 1 <= one.min_version <= finalized[one.name] <= one.max_version, (
            "older Java clients cannot read a lowest version of 0"
        )
