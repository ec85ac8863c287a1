"""Members that subscribe by a pattern are given only topics that they may describe."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from stratamq.meta.access import DeleteAcl
from stratamq.model.access import AclRule, Operation, PatternType, ResourceKind
from stratamq.wire.kafka.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.broker.security.support import (
    WITH_SASL,
    Client,
    Front,
    client,
    front,
    log_in,
    rule,
    with_users,
)

TOPIC, GROUP = ResourceKind.TOPIC, ResourceKind.GROUP


def may(user: str, operation: Operation, kind: ResourceKind, name: str) -> AclRule:
    return rule(operation, kind, name, principal=f"User:{user}", pattern=PatternType.PREFIXED)


class Member:
    """Does what it is asked to; `topics` are the names of what it was given."""

    def __init__(self, door: Front, peer: Client, name: str, regex: str) -> None:
        self._door, self._peer, self._name, self._regex = door, peer, name, regex
        self.epoch = 0
        self.topics: set[str] = set()
        self._owned: Any = []

    async def beat(self) -> set[str]:
        joins = self.epoch == 0
        answer = await self._peer.ask(
            ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id=self._name,
                member_epoch=self.epoch,
                rebalance_timeout_ms=30_000 if joins else -1,
                subscribed_topic_regex=self._regex if joins else None,
                topic_partitions=[] if joins else self._owned,
            )
        )
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self._owned = [
                TopicPartitions(topic_id=one.topic_id, partitions=one.partitions)
                for one in answer.assignment.topic_partitions
            ]
            names = {one.topic_id: one.name for one in self._door.core.broker_cache.topics()}
            self.topics = {names[one.topic_id.hex()] for one in self._owned}  # type: ignore[index]
        return self.topics


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Front]:
    """Bob sees all topics, alice the open ones. The secret one has more partitions than others."""
    async with front(tmp_path, **WITH_SASL) as one:
        await with_users(one, "alice", "bob")
        for name, partitions in (("open.a", 1), ("open.b", 1), ("secret.a", 4)):
            await one.core.topics.create(name, partitions=partitions)
        await one.allow(
            may("alice", Operation.READ, GROUP, "g"),
            may("bob", Operation.READ, GROUP, "g"),
            may("alice", Operation.DESCRIBE, TOPIC, "open"),
            rule(Operation.ALL, TOPIC, "*", principal="User:bob"),
        )
        yield one


@asynccontextmanager
async def member(door: Front, name: str) -> AsyncIterator[Member]:
    async with client(door.port) as peer:
        await log_in(peer, name)
        yield Member(door, peer, name, ".*")


async def settle(*members: Member) -> None:
    for _ in range(5):
        for one in members:
            await one.beat()


OPEN = {"open.a", "open.b"}


async def test_a_pattern_finds_what_the_member_may_describe(door: Front) -> None:
    async with member(door, "alice") as alice, member(door, "bob") as bob:
        assert await alice.beat() == OPEN
        await settle(bob, alice)
        assert alice.topics <= OPEN
        assert bob.topics >= {"secret.a"}
        await door.core.topics.create("secret.b", partitions=1)
        await door.core.topics.create("open.c", partitions=1)
        await settle(bob, alice)  # bob is the first who sees them
        assert bob.topics >= {"secret.a", "secret.b"}
        assert alice.topics <= OPEN | {"open.c"}
        assert alice.topics | bob.topics == OPEN | {"open.c", "secret.a", "secret.b"}


async def test_topics_come_and_go_with_rights(door: Front) -> None:
    granted = may("alice", Operation.DESCRIBE, TOPIC, "secret")
    async with member(door, "alice") as alice, member(door, "bob") as bob:
        assert await alice.beat() == OPEN
        await door.allow(granted)
        await settle(alice)
        assert alice.topics == OPEN | {"secret.a"}
        await settle(bob, alice)
        assert "secret.a" in alice.topics & bob.topics
        await door.submit(DeleteAcl(rule=granted))
        await settle(bob, alice)  # to the group as a whole nothing has changed
        assert alice.topics <= OPEN
        assert alice.topics | bob.topics == OPEN | {"secret.a"}
