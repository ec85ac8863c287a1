"""Clients that log in, that fail to, and that may do some things and not others."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer

from tests.clients.node import Node, running
from tests.clients.security import (
    MECHANISMS,
    PASSWORD,
    SECURE,
    add_users,
    certificates,
    kafka_python,
    librdkafka,
)
from tests.waiting import wait_until

SECONDS_MAX = 20
ANY = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    data: Path = tmp_path_factory.mktemp("guarded")
    add_users(data, "root", "alice", "bob")
    with running(data, *SECURE) as node:
        yield node
        logged = node.logged()
        assert node.end() == 0, logged
        assert "Traceback" not in logged
        assert PASSWORD not in logged, "a password was logged"


@pytest.fixture(scope="module")
def admin(guarded: Node) -> AdminClient:
    """Everybody may use the group that librdkafka asks for although it only assigns."""
    admin = root(guarded)
    allow(admin, "*", AclOperation.READ, ResourceType.GROUP, "unused")
    return admin


@pytest.fixture
def owned(admin: AdminClient, new_topic: Callable[[], str]) -> str:
    """A topic that only root may use."""
    name = new_topic()
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS_MAX)
    return name


def root(node: Node) -> AdminClient:
    return AdminClient(librdkafka(node.address, "root"))


def allow(
    admin: AdminClient,
    user: str,
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    rule = AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permission)
    for done in admin.create_acls([rule], request_timeout=SECONDS_MAX).values():
        done.result(SECONDS_MAX)
    return rule


def produced(config: dict[str, Any], topic: str, value: bytes = b"v") -> KafkaError | None:
    told: list[KafkaError | None] = []
    producer = Producer({**config, "message.timeout.ms": SECONDS_MAX * 1000})
    producer.produce(topic, value, on_delivery=lambda error, _: told.append(error))
    producer.flush(SECONDS_MAX)
    assert len(told) == 1
    return told[0]


def consumed(config: dict[str, Any], topic: str) -> bytes | KafkaError | None:
    consumer = Consumer({"group.id": "unused", "enable.auto.commit": False, **config})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(SECONDS_MAX)
    consumer.close()
    if message is None:
        return None
    return message.error() or message.value()


# -- logging in ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in(guarded: Node, owned: str, mechanism: str) -> None:
    config = librdkafka(guarded.address, "root", mechanism)
    assert produced(config, owned, b"hello") is None
    assert consumed(config, owned) == b"hello"


@pytest.mark.needs("kcat")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kcat_logs_in_with_its_old_librdkafka(guarded: Node, owned: str, mechanism: str) -> None:
    config = librdkafka(guarded.address, "root", mechanism)
    flags = [part for name, value in config.items() for part in ("-X", f"{name}={value}")]
    listed = subprocess.run(
        ["kcat", *flags, "-L"], capture_output=True, text=True, timeout=SECONDS_MAX, check=True
    )
    assert f'topic "{owned}"' in listed.stdout


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in(guarded: Node, owned: str, mechanism: str) -> None:
    async def produce() -> int:
        producer = AIOKafkaProducer(**kafka_python(guarded.address, "root", mechanism))
        await producer.start()
        try:
            return int((await producer.send_and_wait(owned, b"hello")).offset)
        finally:
            await producer.stop()

    assert asyncio.run(produce()) == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in(guarded: Node, owned: str, mechanism: str) -> None:
    config = kafka_python(guarded.address, "root", mechanism)
    producer = KafkaProducer(**config, enable_idempotence=False)
    assert producer.send(owned, b"hello").get(SECONDS_MAX).offset == 0
    producer.close(SECONDS_MAX)
    consumer = KafkaConsumer(
        owned, **config, auto_offset_reset="earliest", consumer_timeout_ms=SECONDS_MAX * 1000
    )
    assert next(consumer).value == b"hello"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["root", "nobody"])
def test_a_wrong_password_is_told(guarded: Node, mechanism: str, user: str) -> None:
    failures: list[KafkaError] = []
    config = librdkafka(guarded.address, user, mechanism)
    config |= {"sasl.password": "wrong", "error_cb": failures.append}
    client = AdminClient(config)
    wait_until(lambda: client.poll(0.1) or failures)
    assert failures[0].code() == KafkaError._AUTHENTICATION


def test_users_come_and_go(guarded: Node, admin: AdminClient, owned: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    added = UserScramCredentialUpsertion("carol", info, PASSWORD.encode(), salt=b"s")
    admin.alter_user_scram_credentials([added])["carol"].result(SECONDS_MAX)
    described = admin.describe_user_scram_credentials(["carol"])["carol"].result(SECONDS_MAX)
    (told,) = described.scram_credential_infos
    assert (told.mechanism, told.iterations) == (ScramMechanism.SCRAM_SHA_512, 8192)
    allow(admin, "carol", AclOperation.WRITE, ResourceType.TOPIC, owned)
    for mechanism in ("SCRAM-SHA-512", "PLAIN"):
        assert produced(librdkafka(guarded.address, "carol", mechanism), owned) is None
    gone = UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([gone])["carol"].result(SECONDS_MAX)
    unknown = admin.describe_user_scram_credentials(["carol"])["carol"]
    with pytest.raises(KafkaException) as failure:
        unknown.result(SECONDS_MAX)
    assert failure.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND


# -- rights ----------------------------------------------------------------------------------------


def test_a_topic_is_nobodys_until_it_is_allowed(
    guarded: Node, admin: AdminClient, owned: str
) -> None:
    alice = librdkafka(guarded.address, "alice")
    refused = produced(alice, owned)
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    her_admin = AdminClient(alice)
    assert owned not in her_admin.list_topics(timeout=SECONDS_MAX).topics
    allow(admin, "alice", AclOperation.WRITE, ResourceType.TOPIC, owned)
    assert produced(alice, owned, b"mine") is None
    assert owned in her_admin.list_topics(timeout=SECONDS_MAX).topics
    refused_read = consumed(alice, owned)
    assert isinstance(refused_read, KafkaError)
    assert refused_read.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(admin, "alice", AclOperation.READ, ResourceType.TOPIC, owned)
    assert consumed(alice, owned) == b"mine"


def test_a_denial_wins_and_prefixes_count(guarded: Node, admin: AdminClient, owned: str) -> None:
    bob = librdkafka(guarded.address, "bob")
    prefix = ResourcePatternType.PREFIXED
    allow(admin, "bob", AclOperation.ALL, ResourceType.TOPIC, owned[:-1], prefix)
    assert produced(bob, owned, b"one") is None
    deny = AclPermissionType.DENY
    rule = allow(admin, "bob", AclOperation.WRITE, ResourceType.TOPIC, owned, permission=deny)
    refused = produced(bob, owned)
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert consumed(bob, owned) == b"one"
    taken_back = AclBindingFilter(
        rule.restype,
        rule.name,
        rule.resource_pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )
    (deleted,) = admin.delete_acls([taken_back])[taken_back].result(SECONDS_MAX)
    assert deleted == rule
    assert produced(bob, owned, b"two") is None


def test_a_group_needs_its_own_right(guarded: Node, admin: AdminClient, owned: str) -> None:
    allow(admin, "alice", AclOperation.READ, ResourceType.TOPIC, owned)
    config = librdkafka(guarded.address, "alice", group_id=f"group-of-{owned}")
    consumer = Consumer(config)
    consumer.subscribe([owned])
    message = consumer.poll(SECONDS_MAX)
    consumer.close()
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def test_rules_are_described_by_whoever_may(guarded: Node, admin: AdminClient, owned: str) -> None:
    one = allow(admin, "alice", AclOperation.READ, ResourceType.TOPIC, owned)
    everything = AclBindingFilter(
        ResourceType.TOPIC,
        owned,
        ResourcePatternType.MATCH,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    found = admin.describe_acls(everything, request_timeout=SECONDS_MAX)
    assert one in found.result(SECONDS_MAX)
    alice = AdminClient(librdkafka(guarded.address, "alice"))
    assert alice.describe_acls(ANY).result(SECONDS_MAX) == [], "the binding hides the error"
    for refused in alice.create_acls([one]).values():
        with pytest.raises(KafkaException) as failure:
            refused.result(SECONDS_MAX)
        assert failure.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_rules_and_users_outlive_a_kill(tmp_path: Path) -> None:
    add_users(tmp_path, "root", "alice")
    with running(tmp_path, *SECURE) as node:
        admin = root(node)
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(SECONDS_MAX)
        allow(admin, "alice", AclOperation.WRITE, ResourceType.TOPIC, "kept")
        node.end(signal.SIGKILL)
    with running(tmp_path, *SECURE) as node:
        assert produced(librdkafka(node.address, "alice"), "kept") is None
        assert node.end() == 0


# -- TLS -------------------------------------------------------------------------------------------


@pytest.mark.needs("openssl")
def test_over_tls_and_by_certificate(tmp_path: Path) -> None:
    authority, server, client = certificates(tmp_path)
    tls = ("--kafka-tls-certificate", str(server))
    data = tmp_path / "data"
    add_users(data, "root")
    with running(data, *SECURE, *tls) as node:
        for mechanism in MECHANISMS:
            config = librdkafka(node.address, "root", mechanism, ssl_ca_location=str(authority))
            config["security.protocol"] = "SASL_SSL"
            assert produced(config, "secret") is None
        assert node.end() == 0
    mutual = (
        *("--kafka-tls-client-authorities", str(authority), "--kafka-tls-client-auth", "required"),
        *("--ssl-principal-mapping-rules", r"RULE:^CN=(\w+),.*$/$1/L"),
        *("--authorizer", "acl", "--super-users", "User:reports", "--topic-flush", "os"),
    )
    with running(data, *tls, *mutual) as node:
        config = {
            "bootstrap.servers": node.address,
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority),
            "ssl.certificate.location": str(client),
            "ssl.key.location": str(client),
        }
        assert produced(config, "secret") is None
        assert node.end() == 0
