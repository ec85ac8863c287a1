"""What limits the audit log must not hide a change, show a secret, or hold up the node."""

from __future__ import annotations

import io
import json
import logging
import math
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.security.audit import AUDITED, Change
from stratamq.cli import logs
from stratamq.model.access import Operation, ResourceKind
from stratamq.model.config import load
from stratamq.net import log_limit
from stratamq.server.kafka import audit_log
from stratamq.server.kafka.audit_log import AuditEntry, AuditFile, AuditLog, lines_of
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages import configs, group_offsets, quotas, topics
from tests.broker.security.requests import TOPIC
from tests.broker.security.support import client, front, rule
from tests.waiting import until

CALLER = Caller(version=1, client_id="tool", principal="User:root", host="10.0.0.7")
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def events(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text().splitlines()
    return [json.loads(line, parse_constant=pytest.fail) for line in lines]


def commit(group: str, *names: str) -> Any:
    partition = group_offsets.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_metadata=None
    )
    return group_offsets.OffsetCommitRequest(
        group_id=group,
        member_id="",
        generation_id_or_member_epoch=-1,
        topics=[
            group_offsets.OffsetCommitRequestTopic(name=name, partitions=[partition])
            for name in names or (TOPIC,)
        ],
    )


# -- what is left out ------------------------------------------------------------------------------


async def test_neither_denials_nor_other_groups_hide_a_reset(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    settings = {"authorizer": "acl", "audit_log": path}
    async with front(tmp_path / "data", **settings) as door, client(door.port) as peer:
        await door.core.topics.create(TOPIC, partitions=1, replicas=1)
        await door.allow(
            rule(Operation.READ, ResourceKind.TOPIC, TOPIC),
            *(rule(Operation.READ, ResourceKind.GROUP, name) for name in ("own", "billing")),
        )
        for _ in range(12):
            await peer.ask(commit("denied"), 9)
            await peer.ask(commit("billing", "missing"), 9)
            await peer.ask(commit("own"), 9)
        await peer.ask(commit("billing"), 9)
    found = events(path)
    made = [one["name"] for one in found if one["result"] == "ok" and "error" not in one]
    assert [name for name in made if name == "billing"] == ["billing"]
    assert made.count("own") == 10
    refused = [one for one in found if one["result"] != "ok"]
    assert len(refused) == 10
    left_out = [one["details"] for one in found if one["action"] == "left out"]
    assert {"left_out": 14} in left_out
    assert {"left_out": 2, "groups": ["own"]} in left_out


async def test_what_is_denied_does_not_hide_the_rest_of_a_commit(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    settings = {"authorizer": "acl", "audit_log": path}
    async with front(tmp_path / "data", **settings) as door, client(door.port) as peer:
        for name in (TOPIC, "other"):
            await door.core.topics.create(name, partitions=1, replicas=1)
        await door.allow(
            rule(Operation.READ, ResourceKind.TOPIC, TOPIC),
            rule(Operation.READ, ResourceKind.GROUP, "g"),
        )
        await peer.ask(commit("g", "other", TOPIC), 9)
    found = {one["result"]: one["details"]["offsets"] for one in events(path)}
    assert found == {"ok": {f"{TOPIC}-0": 0}, "denied": {"other-0": 0}}


async def test_groups_that_share_a_limit_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_limit, "KEYS_MAX", 1)
    monkeypatch.setattr(audit_log, "GROUPS_MAX", 3)
    path = tmp_path / "audit.jsonl"
    async with front(tmp_path / "data", audit_log=path) as door, client(door.port) as peer:
        await door.core.topics.create(TOPIC, partitions=1, replicas=1)
        for number in range(16):
            await peer.ask(commit(f"g{number}"), 9)
    *_, rest = events(path)
    assert (rest["action"], rest["name"]) == ("left out", log_limit.OTHERS)
    assert rest["details"] == {"left_out": 5, "groups": ["g11", "g12", "g13"]}


def denied_topics(count: int, config_count: int) -> AuditEntry:
    config = [
        topics.CreatableTopicConfig(name=f"c{n}", value="v" * 900) for n in range(config_count)
    ]
    names = [f"{n}" + "x" * 2000 for n in range(count)]
    asked = [
        topics.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=config
        )
        for name in names
    ]
    answer = [topics.CreatableTopicResult(name=name, error_code=DENIED) for name in names]
    return AuditEntry(
        time.time(),
        {"principal": "User:x"},
        AUDITED["CreateTopics"],
        topics.CreateTopicsRequest(topics=asked),
        topics.CreateTopicsResponse(topics=answer),
    )


def test_a_denied_request_has_events_of_limited_number_and_size() -> None:
    *found, rest = lines_of(denied_topics(5000, 50))
    assert len(found) == audit_log.REFUSED_MAX
    assert (rest["action"], rest["details"]) == ("left out", {"left_out": 4900})
    assert max(len(json.dumps(one)) for one in found) < 4000
    (event,) = lines_of(denied_topics(1, 50))
    details: Any = event["details"]
    assert details["configs"]["more"] == 40


# -- what is hidden --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "is_shown"),
    [
        ("log.retention.ms", "1000", True),
        ("log.slow.ms", "1000", True),
        ("sasl.jaas.config", 'password="hunter2"', False),
        ("ssl.keystore.key", "hunter2", False),
        ("listener.name.x.scram-sha-256.sasl.jaas.config", "hunter2", False),
        ("otel.endpoint", "http://user:hunter2@host", False),
        ("store.url", "s3://user:hunter2@bucket", False),
    ],
)
async def test_only_values_of_our_own_harmless_settings_are_shown(
    tmp_path: Path, name: str, value: str, is_shown: bool
) -> None:
    path = tmp_path / "audit.jsonl"
    changed = configs.IncrementalAlterableConfig(name=name, config_operation=0, value=value)
    broker = configs.IncrementalAlterConfigsResource(
        resource_type=4, resource_name="1", configs=[changed]
    )
    request = configs.IncrementalAlterConfigsRequest(resources=[broker], validate_only=False)
    async with front(tmp_path / "data", audit_log=path) as door, client(door.port) as peer:
        await peer.ask(request)
    (event,) = events(path)
    assert event["details"] == {"set": {name: value if is_shown else "(hidden)"}}
    assert "hunter2" not in path.read_text()


# -- with the other logs ---------------------------------------------------------------------------


@pytest.fixture
def root_logger() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("stratamq")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


@pytest.mark.usefixtures("root_logger")
async def test_with_the_other_logs_whatever_their_level() -> None:
    stream = io.StringIO()
    logs.setup(load(flags={"log.format": "json", "log.level": "error"}), stream)
    log = AuditLog("log")
    logging.getLogger("stratamq").setLevel("ERROR")  # as altering log.level does
    log.note(CALLER, "topic.create", Change("topic", "t", 0, {"configs": {"a": "b"}}))
    await log.close()
    line = json.loads(stream.getvalue())
    assert (line["logger"], line["action"]) == ("stratamq.audit", "topic.create")
    assert line["details"] == {"configs": {"a": "b"}}
    assert log.written == 1


# -- trouble ---------------------------------------------------------------------------------------


def test_a_file_that_is_there_already_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch()
    path.chmod(0o640)  # as logrotate makes it
    file = AuditFile(path)
    assert file.append([b"1\n"]) == 1
    file.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


async def test_a_fault_of_ours_costs_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(str(path))

    def fail(*_: object) -> int:
        raise ValueError("ours")

    with monkeypatch.context() as patched:
        patched.setattr(AuditFile, "append", fail)
        log.note(CALLER, "backup", Change("node", "1"))
        await until(lambda: log.lost == 1)
    log.note(CALLER, "backup", Change("node", "2"))
    await log.close()
    assert [one["name"] for one in events(path)] == ["2"]


async def test_a_number_that_json_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    user = quotas.QuotaEntity(entity_type="user", entity_name="a")
    operation = quotas.QuotaOperation(key="producer_byte_rate", value=math.nan, remove=False)
    altered = quotas.QuotaAlteration(entity=[user], ops=[operation])
    request = quotas.AlterClientQuotasRequest(entries=[altered], validate_only=False)
    async with front(tmp_path / "data", audit_log=path) as door, client(door.port) as peer:
        await peer.ask(request)
    (event,) = events(path)
    assert event["details"] == {"producer_byte_rate": "nan"}


HANGS = """
import asyncio, sys, threading
from stratamq.broker.kafka.security.audit import Change
from stratamq.server.kafka import audit_log
audit_log.CLOSE_S = 0.1
audit_log.AuditFile.append = lambda *_: threading.Event().wait()
async def main():
    log = audit_log.AuditLog(sys.argv[1])
    log.left_out("x", 1)
    await log.close()
asyncio.run(main())
print("ended")
"""


def test_a_disk_that_hangs_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HANGS, str(tmp_path / "audit.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "ended\n"
