"""A classic group as a state machine: calls and the time go in, replies come out.

Nothing here waits, reads a clock or stores anything. The caller passes `now_ms` and a ticket for
each request that may have to wait, takes replies from `replies`, calls `tick` at `next_ms`, and
stores `epoch` and the text of `groups.document` whenever `changed` is set, before it sends the
replies that depend on the change.

Laws
----
1.  The generation only grows.
2.  An assignment is given only in the generation it was made for.
3.  A member that waits is answered: by the end of its join or sync phase, or by its removal.
"""

from __future__ import annotations

from stratamq.broker.kafka.groups.classic.members import (
    ClassicMember,
    ClassicRoster,
    GroupReply,
    Identity,
    JoinCall,
    JoinedMember,
    JoinReply,
    SyncCall,
    SyncReply,
    Ticket,
    fits,
    selected,
)
from stratamq.broker.kafka.groups.classic.phases import ClassicEvent, ClassicState, JoinTimer, step
from stratamq.broker.kafka.groups.limits import GroupLimit, GroupLimits, weight
from stratamq.wire.kafka.protocol import ErrorCode

NEW_MEMBER_MS = 300_000
"""How long a member that never finished a join may wait for it, as in Kafka."""


class ClassicGroup:
    kind = "classic"

    def __init__(self, limits: GroupLimits, *, epoch: int = 0, now_ms: int = 0) -> None:
        self.limits = limits
        self.state = ClassicState.EMPTY
        self.since_ms = now_ms
        self.epoch = epoch
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.roster = ClassicRoster()
        self.replies: list[tuple[Ticket, GroupReply]] = []
        self.changed = False
        self.timer = JoinTimer()
        self.unsynced: set[str] = set()
        self.sync_deadline_ms: int | None = None

    @property
    def is_dead(self) -> bool:
        return self.state is ClassicState.DEAD

    @property
    def member_count(self) -> int:
        return len(self.roster)

    @property
    def size_bytes(self) -> int:
        return self.roster.size_bytes

    # -- join ----------------------------------------------------------------------------------

    def join(self, now_ms: int, call: JoinCall, ticket: Ticket) -> None:
        error, limit = self._join_error(call), self._join_limit(call)
        if error is not ErrorCode.NONE:
            self._refuse(ticket, call.member_id, error)
        elif limit is not None:
            self._refuse(ticket, call.member_id, limit.error, limit)
        elif call.member_id == "":
            self._join_first(now_ms, call, ticket)
        elif call.member_id in self.roster.pending:
            self._add(now_ms, call, call.member_id, ticket)
        else:
            self._rejoin(now_ms, call, ticket)

    def _join_error(self, call: JoinCall) -> ErrorCode:
        if self.state is ClassicState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not self.limits.session_ms_min <= call.session_ms <= self.limits.session_ms_max:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        same_type = self.state is ClassicState.EMPTY or call.protocol_type == self.protocol_type
        if not call.protocol_type or not same_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not fits(list(self.roster), call.protocols):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def _join_limit(self, call: JoinCall) -> GroupLimit | None:
        if call.size_bytes > self.limits.member_bytes_max:
            return GroupLimit.MEMBER
        known = self.roster.get(call.member_id) or self.roster.by_instance(call.instance_id)
        if known is not None:
            growth = call.size_bytes + weight(known.assignment) - known.counted_bytes
            return self.limits.reached_by(self.size_bytes, growth)
        if len(self.roster) >= self.limits.members_max:
            return GroupLimit.MEMBERS
        return self.limits.reached_by(self.size_bytes, call.size_bytes)

    def _join_first(self, now_ms: int, call: JoinCall, ticket: Ticket) -> None:
        known = self.roster.by_instance(call.instance_id)
        if known is not None:
            self._come_back(now_ms, known, call, ticket)
        elif call.instance_id is None and call.id_required:
            self.roster.reserve(call.new_id, now_ms + call.session_ms)
            self._refuse(ticket, call.new_id, ErrorCode.MEMBER_ID_REQUIRED)
        else:
            self._add(now_ms, call, call.new_id, ticket)

    def _rejoin(self, now_ms: int, call: JoinCall, ticket: Ticket) -> None:
        error = self.roster.check(Identity(call.member_id, call.instance_id))
        if error is not ErrorCode.NONE:
            self._refuse(ticket, call.member_id, error)
            return
        member = self.roster[call.member_id]
        leads_stable = self.state is ClassicState.STABLE and self.roster.leader == member.member_id
        same = member.protocols == call.protocols and not leads_stable
        if self.state in (ClassicState.COMPLETING, ClassicState.STABLE) and same:
            member.heard(now_ms)  # its answer got lost: the same answer again
            self.replies.append((ticket, self._joined(member)))
        else:
            self._update(now_ms, member, call, ticket)
            self.rebalance(now_ms)

    def _add(self, now_ms: int, call: JoinCall, member_id: str, ticket: Ticket) -> None:
        member = ClassicMember(
            member_id=member_id,
            instance_id=call.instance_id,
            client_id=call.client_id,
            client_host=call.client_host,
            session_ms=call.session_ms,
            rebalance_ms=call.rebalance_ms,
            protocols=call.protocols,
            deadline_ms=now_ms + NEW_MEMBER_MS,
            is_new=True,
            joining=ticket,
        )
        self.protocol_type = call.protocol_type
        self.roster.add(member)
        self.timer.grew = True
        self.rebalance(now_ms)

    def _update(self, now_ms: int, member: ClassicMember, call: JoinCall, ticket: Ticket) -> None:
        self._end_waits(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.protocols = call.protocols
        member.session_ms, member.rebalance_ms = call.session_ms, call.rebalance_ms
        member.client_id, member.client_host = call.client_id, call.client_host
        member.joining = ticket
        member.heard(now_ms)
        self.roster.count(member)

    def _come_back(
        self, now_ms: int, member: ClassicMember, call: JoinCall, ticket: Ticket
    ) -> None:
        """A static member that restarted: it replaces its old self, which is fenced."""
        leader_before = self.roster.leader
        self._end_waits(member, ErrorCode.FENCED_INSTANCE_ID)
        if member.member_id in self.unsynced:
            self.unsynced = self.unsynced - {member.member_id} | {call.new_id}
        self.roster.rename(member, call.new_id)
        self._update(now_ms, member, call, ticket)
        self.changed = True
        if self.state is not ClassicState.STABLE or selected(list(self.roster)) != self.protocol:
            self.rebalance(now_ms)
            return
        member.joining = None
        reply = self._joined(member, skip=call.skips_assignment, leader=leader_before)
        self.replies.append((ticket, reply))

    def _joined(
        self, member: ClassicMember, *, skip: bool = False, leader: str | None = None
    ) -> JoinReply:
        """`leader` is the one before a static member came back. Clients of versions that cannot
        skip the assignment get that name, so that they do not assign as leaders."""
        reported = leader if leader is not None and not skip else self.roster.leader
        leads = reported == member.member_id
        return JoinReply(
            member_id=member.member_id,
            generation=self.epoch,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=reported or "",
            members=tuple(
                JoinedMember(one.member_id, one.instance_id, one.metadata(self.protocol))
                for one in (self.roster if leads else ())
            ),
            skip_assignment=skip and leads,
        )

    # -- sync ----------------------------------------------------------------------------------

    def sync(self, now_ms: int, call: SyncCall, ticket: Ticket) -> None:
        error = self._sync_error(call)
        if error is not ErrorCode.NONE:
            self.replies.append((ticket, SyncReply(error=error)))
            return
        member = self.roster[call.who.member_id]
        self._end_waits(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.heard(now_ms)
        self.unsynced.discard(member.member_id)
        if self.state is ClassicState.STABLE:
            self.replies.append((ticket, self._synced(member)))
            return
        if member.member_id != self.roster.leader:
            member.syncing = ticket
        elif (limit := self._sync_limit(call)) is not None:
            self.replies.append((ticket, SyncReply(error=limit.error, limit=limit)))
            self.rebalance(now_ms)  # or members that wait for assignments would wait on
        else:
            member.syncing = ticket
            self._assign(now_ms, call.assignments)

    def _sync_error(self, call: SyncCall) -> ErrorCode:
        error = self._member_error(call.who)
        if error is not ErrorCode.NONE:
            return error
        if call.protocol_type is not None and call.protocol_type != self.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if call.protocol is not None and call.protocol != self.protocol:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        rebalancing = self.state is ClassicState.PREPARING
        return ErrorCode.REBALANCE_IN_PROGRESS if rebalancing else ErrorCode.NONE

    def _sync_limit(self, call: SyncCall) -> GroupLimit | None:
        given = [call.assignments.get(one.member_id, b"") for one in self.roster]
        if any(len(one) > self.limits.assignment_bytes_max for one in given):
            return GroupLimit.ASSIGNMENT
        growth = weight(*given) - weight(*(one.assignment for one in self.roster))
        return self.limits.reached_by(self.size_bytes, growth)

    def _assign(self, now_ms: int, assignments: dict[str, bytes]) -> None:
        self._step(now_ms, ClassicEvent.ASSIGNED)
        for member in self.roster:
            member.assignment = assignments.get(member.member_id, b"")
            self.roster.count(member)
            if member.syncing is not None:
                ticket, member.syncing = member.syncing, None
                member.heard(now_ms)
                self.replies.append((ticket, self._synced(member)))

    def _synced(self, member: ClassicMember) -> SyncReply:
        return SyncReply(
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            assignment=member.assignment,
        )

    # -- heartbeat, commit, leave --------------------------------------------------------------

    def heartbeat(self, now_ms: int, who: Identity) -> ErrorCode:
        error = self._member_error(who)
        if error is not ErrorCode.NONE:
            return error
        self.roster[who.member_id].heard(now_ms)
        rebalancing = self.state is ClassicState.PREPARING
        return ErrorCode.REBALANCE_IN_PROGRESS if rebalancing else ErrorCode.NONE

    def commit_error(self, now_ms: int, who: Identity, *, transactional: bool = False) -> ErrorCode:
        """Whether this caller may commit offsets now. A commit is a sign of life."""
        if self.state is ClassicState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        anonymous = who.generation < 0 and who.member_id == "" and who.instance_id is None
        if who.generation < 0 and (
            self.state is ClassicState.EMPTY or (anonymous and transactional)
        ):
            return ErrorCode.NONE  # a consumer that assigns partitions to itself
        error = self._member_error(who)
        if error is not ErrorCode.NONE:
            return error
        self.roster[who.member_id].heard(now_ms)
        waiting = self.state is ClassicState.COMPLETING and not transactional
        return ErrorCode.REBALANCE_IN_PROGRESS if waiting else ErrorCode.NONE

    def leave(self, now_ms: int, who: Identity) -> ErrorCode:
        """By member id, or by instance id alone as an administrator does."""
        if self.state is ClassicState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if who.member_id in self.roster.pending:
            self.roster.release(who.member_id)
            self._join_perhaps(now_ms)
            return ErrorCode.NONE
        member = self.roster.by_instance(who.instance_id)
        if member is None or who.member_id:
            error = self.roster.check(who)
            if error is not ErrorCode.NONE:
                return error
            member = self.roster[who.member_id]
        self._remove(now_ms, [member])
        return ErrorCode.NONE

    def _member_error(self, who: Identity) -> ErrorCode:
        if self.state is ClassicState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.roster.check(who)
        if error is not ErrorCode.NONE:
            return error
        own = (
            self.roster[who.member_id].generation if self.state is ClassicState.PREPARING else None
        )
        known = who.generation == (self.epoch if own is None else own)
        return ErrorCode.NONE if known else ErrorCode.ILLEGAL_GENERATION

    def delete(self, now_ms: int) -> ErrorCode:
        if self.state is not ClassicState.EMPTY:
            dead = self.state is ClassicState.DEAD
            return ErrorCode.GROUP_ID_NOT_FOUND if dead else ErrorCode.NON_EMPTY_GROUP
        self._step(now_ms, ClassicEvent.DELETED)
        return ErrorCode.NONE

    # -- time ----------------------------------------------------------------------------------

    def next_ms(self) -> int | None:
        """When `tick` has something to do at the latest; None: never."""
        silent = (
            one.deadline_ms
            for one in self.roster
            if one.is_new or (one.joining is None and one.syncing is None)
        )
        phases = (self.timer.deadline_ms, self.sync_deadline_ms)
        times = (
            *self.roster.pending.values(),
            *silent,
            *(one for one in phases if one is not None),
        )
        return min(times, default=None)

    def tick(self, now_ms: int) -> None:
        for member_id, deadline in list(self.roster.pending.items()):
            if now_ms >= deadline:
                self.roster.release(member_id)
        self._remove(now_ms, [one for one in self.roster if one.silent(now_ms)])
        if self.sync_deadline_ms is not None and now_ms >= self.sync_deadline_ms:
            self.sync_deadline_ms = None
            self._remove(now_ms, [self.roster[one] for one in sorted(self.unsynced)])
        self._join_perhaps(now_ms)

    def _remove(self, now_ms: int, members: list[ClassicMember]) -> None:
        if not members:
            return
        for member in members:
            self._end_waits(member, ErrorCode.UNKNOWN_MEMBER_ID)
            self.unsynced.discard(member.member_id)
            self.roster.remove(member)
        if self.state is ClassicState.PREPARING:
            self._join_perhaps(now_ms)
        else:
            self.rebalance(now_ms)

    # -- rebalance -----------------------------------------------------------------------------

    def rebalance(self, now_ms: int) -> None:
        """All members have to join again; the phase ends at once if they all have."""
        if self.state is not ClassicState.PREPARING:
            first = self.state is ClassicState.EMPTY
            for member in self.roster:
                self._end_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
            self.unsynced, self.sync_deadline_ms = set(), None
            self._step(now_ms, ClassicEvent.REBALANCE_NEEDED)
            delay_ms = self.limits.initial_delay_ms if first else None
            self.timer.start(now_ms, self._rebalance_ms(), delay_ms)
        self._join_perhaps(now_ms)

    def resume(self, now_ms: int) -> None:
        """After a restart: the time to join or sync starts again."""
        if self.state is ClassicState.PREPARING:
            self.timer.start(now_ms, self._rebalance_ms(), None)
        elif self.state is ClassicState.COMPLETING:
            self.unsynced = {one.member_id for one in self.roster}
            self.sync_deadline_ms = now_ms + self._rebalance_ms()

    def _rebalance_ms(self) -> int:
        return max((one.rebalance_ms for one in self.roster), default=0)

    def _join_perhaps(self, now_ms: int) -> None:
        """End the join phase when it is time or no member is missing."""
        if self.state is not ClassicState.PREPARING:
            return
        all_there = not self.roster.pending and all(one.joining is not None for one in self.roster)
        if self.timer.over(now_ms, all_there=all_there):
            self._end_join(now_ms)

    def _end_join(self, now_ms: int) -> None:
        """Dynamic members that did not join are removed; static ones stay for a session."""
        for member in self.roster:
            if member.joining is None and member.instance_id is None:
                self.roster.remove(member)
        joined = [one for one in self.roster if one.joining is not None]
        if len(self.roster) and not joined:
            self.timer.start(now_ms, self._rebalance_ms(), None)
            return
        self.timer.stop()
        self.epoch += 1
        if not joined:
            self.protocol = None
            self._step(now_ms, ClassicEvent.NOBODY_LEFT)
            return
        ids = {one.member_id for one in joined}
        if self.roster.leader not in ids:
            self.roster.leader = joined[0].member_id
        self.protocol = selected(list(self.roster))
        self._step(now_ms, ClassicEvent.ALL_JOINED)
        self.unsynced = ids
        self.sync_deadline_ms = now_ms + self._rebalance_ms()
        for member in joined:
            ticket, member.joining = member.joining, None
            member.is_new, member.generation = False, None
            member.heard(now_ms)
            self.replies.append((ticket, self._joined(member)))

    # -- small things --------------------------------------------------------------------------

    def _step(self, now_ms: int, event: ClassicEvent) -> None:
        self.state = step(self.state, event)
        self.since_ms = now_ms
        self.changed |= self.state is not ClassicState.PREPARING

    def _refuse(
        self, ticket: Ticket, member_id: str, error: ErrorCode, limit: GroupLimit | None = None
    ) -> None:
        self.replies.append((ticket, JoinReply(error=error, member_id=member_id, limit=limit)))

    def _end_waits(self, member: ClassicMember, error: ErrorCode) -> None:
        if member.joining is not None:
            ticket, member.joining = member.joining, None
            self._refuse(ticket, member.member_id, error)
        self._end_sync(member, error)

    def _end_sync(self, member: ClassicMember, error: ErrorCode) -> None:
        if member.syncing is not None:
            ticket, member.syncing = member.syncing, None
            self.replies.append((ticket, SyncReply(error=error)))
