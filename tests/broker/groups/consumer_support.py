"""Drives a consumer group by hand, with topics and a clock that are plain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stratamq.broker.kafka.groups.consumer.group import ConsumerGroup
from stratamq.broker.kafka.groups.consumer.members import (
    HeartbeatReply,
    HeartbeatReport,
    Partition,
    TopicInfo,
    Topics,
)
from stratamq.broker.kafka.groups.limits import GroupLimits
from stratamq.model.types import TopicId

SESSION_MS = 45_000
REBALANCE_MS = 100_000
A = TopicId("a" * 32)


def report(member_id: str, epoch: int, **fields: Any) -> HeartbeatReport:
    return HeartbeatReport(member_id=member_id, epoch=epoch, **fields)


class Rig:
    def __init__(self, *, members_max: int = 100, **topics: int) -> None:
        self.group = ConsumerGroup(GroupLimits(members_max=members_max))
        self.now_ms = 1_000
        self.ids: dict[str, TopicId] = {}
        self.topics = Topics(0, {})
        self.set_topics(**topics)

    def set_topics(self, **topics: int) -> None:
        for name in topics:
            self.ids.setdefault(name, TopicId((name + "0" * 32)[:32]) if name != "a" else A)
        infos = {name: TopicInfo(self.ids[name], count) for name, count in topics.items()}
        self.topics = Topics(self.topics.revision + 1, infos)

    def send(self, sent: HeartbeatReport) -> HeartbeatReply:
        return self.group.heartbeat(self.now_ms, sent, self.topics)

    def join(
        self,
        member_id: str,
        *,
        names: Iterable[str] | None = ("a",),
        regex: str | None = None,
        instance: str | None = None,
        assignor: str | None = None,
    ) -> HeartbeatReply:
        return self.send(
            report(
                member_id,
                0,
                instance_id=instance,
                rebalance_ms=REBALANCE_MS,
                names=None if names is None else frozenset(names),
                regex=regex,
                assignor=assignor,
                owned=frozenset(),
            )
        )

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        owned: Iterable[int] | None = None,
        instance: str | None = None,
    ) -> HeartbeatReply:
        """`owned` are partitions of topic a."""
        has = None if owned is None else frozenset(Partition(A, number) for number in owned)
        return self.send(report(member_id, epoch, owned=has, instance_id=instance))

    def leave(self, member_id: str, epoch: int, instance: str | None = None) -> HeartbeatReply:
        return self.group.leave(self.now_ms, report(member_id, epoch, instance_id=instance))

    def settle(self) -> None:
        """Everyone does as told until nothing moves any more."""
        for _ in range(10):
            for member in list(self.group.members.values()):
                if member.epoch >= 0:
                    self.send(report(member.member_id, member.epoch, owned=member.assigned))

    def wait(self, ms: int) -> None:
        end = self.now_ms + ms
        while (due := self.group.next_ms()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            self.group.tick(self.now_ms)
        self.now_ms = end
