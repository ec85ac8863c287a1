"""Drives a classic group by hand: members with names for tickets, and a clock that is a number."""

from __future__ import annotations

from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.classic.members import (
    GroupProtocol,
    GroupReply,
    Identity,
    JoinCall,
    JoinReply,
    SyncCall,
    SyncReply,
)
from stratamq.broker.kafka.groups.limits import GroupLimits
from stratamq.wire.kafka.protocol import ErrorCode

SESSION_MS = 10_000
REBALANCE_MS = 60_000


class Driver:
    """`join` and `sync` give the reply, or None while it waits; `answers` holds late ones."""

    def __init__(self, *, delay_ms: int = 0, members_max: int = 100) -> None:
        limits = GroupLimits(initial_delay_ms=delay_ms, members_max=members_max)
        self.group = ClassicGroup(limits)
        self.now_ms = 1_000
        self.answers: dict[str, list[GroupReply]] = {}
        self._ids = 0

    def join(
        self,
        member_id: str = "",
        *,
        ticket: str = "",
        instance: str | None = None,
        protocols: tuple[str, ...] = ("range",),
        metadata: bytes = b"",
        version: int = 3,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
    ) -> JoinReply | None:
        self._ids += 1
        call = JoinCall(
            member_id=member_id,
            instance_id=instance,
            new_id=f"m{self._ids}",
            client_id="c",
            client_host="/h",
            session_ms=session_ms,
            rebalance_ms=REBALANCE_MS,
            protocol_type=protocol_type,
            protocols=tuple(GroupProtocol(name, metadata) for name in protocols),
            id_required=version >= 4,
            skips_assignment=version >= 9,
        )
        ticket = ticket or member_id or f"m{self._ids}"
        self.group.join(self.now_ms, call, ticket)
        reply = self._reply(ticket)
        assert reply is None or isinstance(reply, JoinReply)
        return reply

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        ticket: str = "",
    ) -> SyncReply | None:
        call = SyncCall(
            who=Identity(member_id, None, generation),
            protocol_type=None,
            protocol=None,
            assignments=assignments or {},
        )
        ticket = ticket or member_id
        self.group.sync(self.now_ms, call, ticket)
        reply = self._reply(ticket)
        assert reply is None or isinstance(reply, SyncReply)
        return reply

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        return self.group.heartbeat(self.now_ms, Identity(member_id, instance, generation))

    def leave(self, member_id: str, instance: str | None = None) -> ErrorCode:
        error = self.group.leave(self.now_ms, Identity(member_id, instance))
        self._collect()
        return error

    def wait(self, ms: int) -> None:
        """Time passes, and everything that falls due in it happens when it is due."""
        end = self.now_ms + ms
        while (due := self.group.next_ms()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            self.group.tick(self.now_ms)
            self._collect()
        self.now_ms = end

    def late(self, ticket: str) -> GroupReply:
        """The answer to a request that had to wait."""
        return self.answers[ticket].pop(0)

    def stable(self, *names: str) -> int:
        """A group of these members (m1, m2, ...), each with its own name as assignment."""
        for _ in names:
            self.join()
        for name in names:
            if name in self.answers:
                self.answers.pop(name)
        for _ in range(3):
            for name in names:
                if self.group.roster[name].joining is None and self.group.state != "Stable":
                    self.join(name)
        self.answers.clear()
        generation = self.group.epoch
        for name in sorted(names, key=lambda one: one == self.group.roster.leader):
            self.sync(name, generation, {one: one.encode() for one in names})
        self.answers.clear()
        assert self.group.state == "Stable"
        return generation

    def _reply(self, ticket: str) -> GroupReply | None:
        self._collect()
        waiting = self.answers.get(ticket, [])
        return waiting.pop() if waiting else None

    def _collect(self) -> None:
        for ticket, reply in self.group.replies:
            self.answers.setdefault(ticket, []).append(reply)
        self.group.replies = []
