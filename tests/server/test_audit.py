"""The audit log: each change with who, what, when and from where; no secrets; never in the way."""

from __future__ import annotations

import errno
import json
import logging
import os
import resource
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stratamq.broker.kafka.cluster import uuid_of
from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.security.audit import AUDITED, READ_ONLY, Change
from stratamq.model.access import Operation, ResourceKind
from stratamq.model.errors import InvalidConfig
from stratamq.server.kafka import audit_log
from stratamq.server.kafka.audit_log import AuditFile, AuditLog
from stratamq.wire.kafka.protocol import APIS, NO_UUID
from stratamq.wire.kafka.protocol.messages import (
    configs,
    group_offsets,
    lake,
    log_offsets,
    metadata,
    sasl,
    topics,
)
from stratamq.wire.kafka.protocol.schema import message_of
from tests.broker.security.requests import SAMPLES, TOPIC
from tests.broker.security.support import (
    WITH_SASL,
    Client,
    Front,
    client,
    front,
    log_in,
    rule,
)
from tests.waiting import every, until

CALLER = Caller(version=1, client_id="tool", principal="User:root", host="10.0.0.7")


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def audit_of(door: Front) -> AuditLog:
    assert door.kafka.server is not None
    assert door.kafka.server.audit is not None
    return door.kafka.server.audit


async def asked(door: Front, peer: Client, request_type: type) -> Any:
    """The sample of an API, in its newest version."""
    if request_type is lake.FlushLakeRequest:  # a flush that does something takes seconds
        return await peer.ask(lake.FlushLakeRequest(topics=[lake.LakeTopic(name="missing")]))
    topic_id = uuid_of(door.core.broker_cache.topic(TOPIC))
    version = message_of(request_type).versions.last
    return await peer.ask(SAMPLES[request_type].make(version, topic_id), version)


def test_every_api_is_audited_or_named_as_one_that_is_not() -> None:
    """A new one has to be put into one of the tables."""
    names = {api.name for api in APIS.values()}
    assert set(AUDITED) | READ_ONLY == names
    assert not set(AUDITED) & READ_ONLY


@pytest.mark.parametrize("name", list(AUDITED))
async def test_every_audited_api_leaves_an_event(tmp_path: Path, name: str) -> None:
    (request_type,) = (api.request for api in APIS.values() if api.name == name)
    path = tmp_path / "audit.jsonl"
    async with front(tmp_path / "data", audit_log=path) as door, client(door.port) as peer:
        await door.core.topics.create(TOPIC, partitions=1, replicas=1)
        await asked(door, peer, request_type)
        await until(lambda: audit_of(door).written)
    found = events(path)
    for event in every(found):
        assert (event["action"], event["api"]) == (AUDITED[name].action, name)
        assert (event["principal"], event["client"]) == ("User:ANONYMOUS", "tester")
        assert event["host"] == "127.0.0.1"
        assert event["request"].endswith("-7")
        assert event["time"].endswith("Z")
        assert event["result"] in ("ok", "failed")
        assert event["resource"]


async def test_every_denied_request_leaves_an_event(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    settings = {"authorizer": "acl", "audit_log": path}
    refused = [one for one, sample in SAMPLES.items() if sample.told is not None]
    async with front(tmp_path / "data", **settings) as door, client(door.port) as peer:
        await door.core.topics.create(TOPIC, partitions=1, replicas=1)
        assert door.kafka.server is not None
        served = [one for one in refused if message_of(one).key in door.kafka.server.served]
        for request_type in served:
            await asked(door, peer, request_type)
    denied = [one for one in events(path) if one["result"] == "denied"]
    names = {message_of(one).name.removesuffix("Request") for one in served}
    assert {one["api"] for one in denied} == names
    assert all(one["error"].endswith("AUTHORIZATION_FAILED") for one in every(denied))
    (produced,) = (one for one in denied if one["api"] == "ListOffsets")
    assert (produced["action"], produced["resource"], produced["name"]) == (
        *("request", "topic", TOPIC),
    )


async def test_what_was_changed_is_told_and_secrets_are_not(tmp_path: Path) -> None:
    path, salted = tmp_path / "audit.jsonl", b"not-to-be-seen-salted-password"
    async with front(tmp_path / "data", audit_log=path) as door, client(door.port) as peer:
        config = topics.CreatableTopicConfig(name="retention.ms", value="1000")
        topic = topics.CreatableTopic(
            name="orders", num_partitions=2, replication_factor=1, assignments=[], configs=[config]
        )
        await peer.ask(topics.CreateTopicsRequest(topics=[topic]))
        await peer.ask(topics.CreateTopicsRequest(topics=[topic]))
        await peer.ask(topics.CreateTopicsRequest(topics=[topic], validate_only=True))
        user = sasl.ScramCredentialUpsertion(
            name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=salted
        )
        altered = sasl.AlterUserScramCredentialsRequest(deletions=[], upsertions=[user])
        await peer.ask(altered)
        secret = configs.IncrementalAlterableConfig(
            name="ssl.key.password", config_operation=0, value="hunter2"
        )
        broker = configs.IncrementalAlterConfigsResource(
            resource_type=4, resource_name="1", configs=[secret]
        )
        await peer.ask(
            configs.IncrementalAlterConfigsRequest(resources=[broker], validate_only=False)
        )
        state = topics.DeleteTopicState(name="orders", topic_id=NO_UUID)
        await peer.ask(topics.DeleteTopicsRequest(topics=[state], timeout_ms=1000))
    created, again, user_set, configured, deleted = events(path)
    assert created["details"] == {
        "partitions": 2,
        "replicas": 1,
        "configs": {"retention.ms": "1000"},
    }
    assert (created["name"], created["result"]) == ("orders", "ok")
    assert (again["result"], again["error"]) == ("failed", "TOPIC_ALREADY_EXISTS")
    assert (user_set["name"], user_set["details"]) == ("alice", {"set": ["SCRAM-SHA-256"]})
    assert configured["details"] == {"set": {"ssl.key.password": "(hidden)"}}
    assert (deleted["action"], deleted["name"]) == ("topic.delete", "orders")
    text = path.read_text()
    for one in (salted.decode(), salted.hex(), "hunter2"):
        assert one not in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_topic_that_was_created_by_being_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with front(tmp_path / "data", audit_log=path) as door, client(door.port) as peer:
        for _ in range(2):
            topic = metadata.MetadataRequestTopic(name="new")
            await peer.ask(metadata.MetadataRequest(topics=[topic]))
    (event,) = events(path)
    assert (event["action"], event["name"], event["api"]) == ("topic.create", "new", "Metadata")
    assert event["request"].endswith("-7")


def committed(member: str, generation: int, offset: int) -> Any:
    partition = group_offsets.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=None
    )
    topic = group_offsets.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    return group_offsets.OffsetCommitRequest(
        group_id="g",
        member_id=member,
        generation_id_or_member_epoch=generation,
        topics=[topic],
    )


async def test_offsets_that_no_member_commits_and_not_too_many(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with front(tmp_path / "data", audit_log=path) as door, client(door.port) as peer:
        await door.core.topics.create(TOPIC, partitions=1, replicas=1)
        await peer.ask(committed("member", 3, 1), 9)
        for offset in range(25):
            await peer.ask(committed("", -1, offset), 9)
    *found, rest = events(path)
    assert [one["details"]["offsets"] for one in found] == [
        {f"{TOPIC}-0": offset} for offset in range(10)
    ]
    assert (rest["action"], rest["details"]) == (*("left out", {"left_out": 15, "groups": ["g"]}),)


async def test_a_flood_of_denials_is_limited_and_hides_no_change(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    settings = {"authorizer": "acl", "audit_log": path}
    async with front(tmp_path / "data", **settings) as door, client(door.port) as peer:
        for name in (TOPIC, "mine"):
            await door.core.topics.create(name, partitions=1, replicas=1)
        await door.allow(rule(Operation.DELETE, ResourceKind.TOPIC, "mine"))
        for _ in range(30):
            await asked(door, peer, metadata.DescribeTopicPartitionsRequest)
            await asked(door, peer, log_offsets.DeleteRecordsRequest)
        both = topics.DeleteTopicsRequest(topic_names=[TOPIC, "mine"], timeout_ms=1000)
        for _ in range(12):
            await peer.ask(both, 5)
    found = events(path)
    denied = Counter(one["api"] for one in found if one["result"] == "denied")
    assert denied == dict.fromkeys(("DescribeTopicPartitions", "DeleteRecords", "DeleteTopics"), 10)
    mine = [one["result"] for one in found if one["name"] == "mine"]
    assert mine == ["ok", *["failed"] * 11], "it is not there any more"
    left_out = [one["details"]["left_out"] for one in found if one["action"] == "left out"]
    assert left_out == [20, 20, 2]


async def test_failed_logins_within_their_limit(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with front(tmp_path / "data", **WITH_SASL, audit_log=path) as door:
        for _ in range(12):
            async with client(door.port) as peer:
                await log_in(peer, "mallory", b"wrong-password")
    *failed, rest = events(path)
    assert len(failed) == 10
    for event in every(failed):
        assert (event["action"], event["name"], event["result"]) == ("login", "mallory", "denied")
        assert event["details"]["mechanism"] == "PLAIN"
        assert event["host"] == "127.0.0.1"
    assert (rest["action"], rest["details"]) == ("left out", {"left_out": 2})
    assert "wrong-password" not in path.read_text()


async def test_with_the_other_logs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stratamq.audit")
    async with front(tmp_path, audit_log="log") as door, client(door.port) as peer:
        topic = metadata.MetadataRequestTopic(name="new")
        await peer.ask(metadata.MetadataRequest(topics=[topic]))
    (line,) = (one for one in caplog.records if one.name == "stratamq.audit")
    assert vars(line)["fields"]["action"] == "topic.create"


# -- the file --------------------------------------------------------------------------------------


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """As on a full disk: a write stops in the middle, and the next one fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_tears_no_later_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    file = AuditFile(path)
    assert file.append([b"1\n"]) == 1
    with files_of_at_most(5):
        assert file.append([b"2\n", b"333\n", b"4\n"]) == 1
        assert file.trouble
        assert file.append([b"5\n"]) == 0
    assert file.append([b"6\n", b"7\n"]) == 2
    assert not file.trouble
    file.close()
    assert path.read_bytes() == b"1\n2\n3\n6\n7\n"


@pytest.mark.parametrize("how", ["removed", "renamed"])
def test_a_file_that_is_gone_is_made_again(tmp_path: Path, how: str) -> None:
    path = tmp_path / "audit.jsonl"
    file = AuditFile(path)
    file.append([b"1\n"])
    if how == "removed":
        path.unlink()
    else:
        path.rename(tmp_path / "audit.jsonl.1")
        assert (tmp_path / "audit.jsonl.1").read_bytes() == b"1\n"
    file.append([b"2\n"])
    file.close()
    assert path.read_bytes() == b"2\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_no_file_or_cannot_be_opened_is_refused_at_the_start(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, tmp_path / "none" / "audit", Path("/dev/full")):
        with pytest.raises(InvalidConfig, match=r"^audit\.log: .+ cannot be written"):
            AuditFile(path)


async def test_events_that_cannot_be_written_are_counted_and_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = AuditLog(str(folder / "audit.jsonl"))
    (folder / "audit.jsonl").unlink()
    folder.rmdir()
    for count in range(1, 4):
        log.note(CALLER, "backup", Change("node", "1"))
        await until(lambda count=count: log.lost == count)
    folder.mkdir()
    log.note(CALLER, "backup", Change("node", "2"))
    await until(lambda: log.written == 1)
    await log.close()
    (event,) = events(folder / "audit.jsonl")
    assert (event["action"], event["name"]) == ("backup", "2")
    assert (event["principal"], event["host"]) == ("User:root", "10.0.0.7")
    assert [one.message for one in caplog.records] == [
        *("the audit log cannot be written", "the audit log is written again"),
    ]
    assert vars(caplog.records[0])["fields"]["reason"] == os.strerror(errno.ENOENT)
    assert vars(caplog.records[1])["fields"]["lost"] == 3


async def test_events_above_the_limit_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "PENDING_MAX", 3)
    log = AuditLog(str(tmp_path / "audit.jsonl"))
    for number in range(10):  # the first is under way, three wait
        log.note(CALLER, "backup", Change("node", str(number)))
    assert log.lost == 6
    await log.close()
    assert [one["name"] for one in events(tmp_path / "audit.jsonl")] == ["0", "1", "2", "3"]


async def test_names_cannot_forge_an_event(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "audit.jsonl"))
    caller = Caller(version=1, client_id='x"}\n{"action": "forged"}' + "y" * 32_000)
    log.note(caller, "backup", Change("node", "a\nb\u2028c"))
    await log.close()
    (event,) = events(tmp_path / "audit.jsonl")
    assert event["name"] == "a\nb\u2028c"
    assert len(event["client"]) == 1000
