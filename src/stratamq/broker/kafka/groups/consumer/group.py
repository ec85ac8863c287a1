"""A consumer group (KIP-848) as a state machine: heartbeats and the time go in, replies come out.

Like the classic one it never waits: the caller passes `now_ms` and the topics there are, calls
`tick` at `next_ms`, and stores the group whenever `changed` is set, before it sends the answer.
Members that speak the classic protocol use it through `consumer.classic_members`.

Epochs
------
group     counts changes of members, of what they want and of the topics they want it from
target    the group epoch that the present target assignment was made for
member    the target epoch a member has arrived at; never past the group's

Law: a partition is held by one member at most. It is given away only after its holder has said that
it no longer reads it, or is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from stratamq.broker.kafka.groups.classic.members import GroupReply, Identity, Ticket
from stratamq.broker.kafka.groups.consumer.members import (
    JOINING,
    LEAVING_FOR_NOW,
    NOTHING,
    ConsumerMember,
    HeartbeatReply,
    HeartbeatReport,
    Membership,
    MemberState,
    Partitions,
    Topics,
    TopicSubscription,
)
from stratamq.broker.kafka.groups.consumer.target import Target, reconcile
from stratamq.broker.kafka.groups.limits import GroupLimit, GroupLimits
from stratamq.wire.kafka.protocol import ErrorCode


class ConsumerGroup:
    kind = "consumer"

    def __init__(self, limits: GroupLimits, *, epoch: int = 0, now_ms: int = 0) -> None:
        self.limits = limits
        self.epoch = epoch
        self.since_ms = now_ms
        self.membership = Membership()
        self.target = Target(epoch)
        self.replies: list[tuple[Ticket, GroupReply]] = []
        """To classic members. No request has to wait for other members in this protocol."""
        self.changed = False
        self.is_dead = False
        self._sessions_ms: dict[str, int] = {}
        self._due_ms: dict[str, int] = {}
        """Until when a member has to do what it was asked to: revoke, or join, or sync."""

    @property
    def members(self) -> Mapping[str, ConsumerMember]:
        return self.membership.members

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def size_bytes(self) -> int:
        return self.membership.size_bytes

    @property
    def state(self) -> str:
        """By the names that Kafka's tools show."""
        if not self.members:
            return "Dead" if self.is_dead else "Empty"
        if self.epoch > self.target.epoch:
            return "Assigning"
        arrived = all(
            one.state is MemberState.STABLE and one.epoch == self.target.epoch
            for one in self.members.values()
        )
        return "Stable" if arrived else "Reconciling"

    # -- heartbeat -----------------------------------------------------------------------------

    def heartbeat(self, now_ms: int, report: HeartbeatReport, topics: Topics) -> HeartbeatReply:
        """Join, or go on. The report was checked for sense before (`consumer.validation`)."""
        error = self._error(report)
        if error is not ErrorCode.NONE:
            return HeartbeatReply(error=error, member_id=report.member_id, message=error.text)
        known = self.membership.by_instance(report.instance_id)
        known = known or self.members.get(report.member_id)
        after = _updated(known or ConsumerMember(member_id=report.member_id), report)
        limit = self.limit_reached(known, after)
        if limit is not None:
            return over_limit(report.member_id, limit)
        before = self.admit(report.member_id, report.instance_id)
        owned = NOTHING if report.epoch == JOINING else report.owned
        member = self.advance(now_ms, before, _updated(before, report), owned, topics)
        lost = report.epoch in (JOINING, before.previous_epoch)  # or never sent: no answer came
        answered = lost or report.is_full or member.assigned != before.assigned
        return HeartbeatReply(
            member_id=member.member_id,
            epoch=member.epoch,
            assigned=member.assigned if answered else None,
        )

    def _error(self, report: HeartbeatReport) -> ErrorCode:
        if self.is_dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        joins = report.epoch == JOINING
        holder = self.membership.by_instance(report.instance_id)
        member = self.members.get(report.member_id)
        if holder is not None and holder.member_id != report.member_id:
            if not joins:
                return ErrorCode.FENCED_INSTANCE_ID
            gone = holder.epoch == LEAVING_FOR_NOW or holder.classic is not None
            return ErrorCode.NONE if gone else ErrorCode.UNRELEASED_INSTANCE_ID
        if member is None or (report.instance_id is not None and holder is None):
            return ErrorCode.NONE if joins else ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if joins else _epoch_error(member, report)

    def limit_reached(
        self, known: ConsumerMember | None, after: ConsumerMember
    ) -> GroupLimit | None:
        """By a member, new where none is known, that becomes what it is after a request."""
        if known is None and len(self.members) >= self.limits.members_max:
            return GroupLimit.MEMBERS
        if after == known:
            return None
        if after.size_bytes > self.limits.member_bytes_max:
            return GroupLimit.MEMBER
        growth = after.size_bytes - (0 if known is None else known.size_bytes)
        return self.limits.reached_by(self.size_bytes, growth)

    # -- for each kind of member ---------------------------------------------------------------

    def admit(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """The member as it was, a new one, or a static one under its new id."""
        holder = self.membership.by_instance(instance_id)
        if holder is not None and holder.member_id != member_id:
            return self._take_over(holder, member_id)
        member = self.members.get(member_id)
        if member is None:
            member = ConsumerMember(member_id=member_id)
            self._put(member)
        elif member.epoch == LEAVING_FOR_NOW:
            member = replace(member, epoch=JOINING)
        return member

    def _take_over(self, old: ConsumerMember, new_id: str) -> ConsumerMember:
        """A static member is back: what was its old self's is its own, nothing moves."""
        target = self.target.by_member.pop(old.member_id, NOTHING)
        self._forget(old.member_id)
        member = replace(old, member_id=new_id, epoch=JOINING, previous_epoch=-1)
        self._put(member)
        self.target.by_member[new_id] = target
        return member

    def advance(
        self,
        now_ms: int,
        before: ConsumerMember,
        member: ConsumerMember,
        owned: Partitions | None,
        topics: Topics,
    ) -> ConsumerMember:
        """Let what the member says now count, and take it a step nearer to its target."""
        if member != before:
            self._put(member)
        if member.wants != before.wants or member.member_id not in self.target.by_member:
            self._bump()
        self.look_at(topics)
        if self.epoch > self.target.epoch:
            self.target.work_out(self.members, self.epoch)
            self.changed = True
        return self._step(now_ms, member, owned)

    def look_at(self, topics: Topics) -> None:
        """A topic that came, grew or went changes the group as a member would."""
        up_to_date = self.target.has_seen(topics) and self.epoch == self.target.epoch
        if not up_to_date and self.target.look_at(self.members, topics):
            self._bump()

    def _step(
        self, now_ms: int, member: ConsumerMember, owned: Partitions | None
    ) -> ConsumerMember:
        mine = member.member_id
        is_free = partial(self.membership.is_free_for, mine)
        after = reconcile(member, self.target.epoch, self.target.of(mine), owned, is_free)
        if after != member:
            self._put(after)
        self.heard(now_ms, after)
        if after.state is not MemberState.UNREVOKED:
            self._due_ms.pop(mine, None)
        elif after.revoking != member.revoking or mine not in self._due_ms:
            self._due_ms[mine] = now_ms + after.rebalance_ms
        return after

    def heard(self, now_ms: int, member: ConsumerMember) -> None:
        classic = member.classic
        session_ms = self.limits.consumer_session_ms if classic is None else classic.session_ms
        self._sessions_ms[member.member_id] = now_ms + session_ms

    def expect(self, now_ms: int, member: ConsumerMember) -> None:
        """The member has to act within its rebalance time-out, counted from the first time that it
        was asked to; else it is out."""
        self._due_ms.setdefault(member.member_id, now_ms + member.rebalance_ms)

    def expect_nothing(self, member: ConsumerMember) -> None:
        self._due_ms.pop(member.member_id, None)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether other members still hold some of what is to be this one's."""
        wanted = self.target.of(member.member_id) - member.assigned
        return not all(self.membership.is_free_for(member.member_id, one) for one in wanted)

    # -- leave ---------------------------------------------------------------------------------

    def leave(self, now_ms: int, report: HeartbeatReport) -> HeartbeatReply:
        """For good, or (static members, epoch -2) for as long as a session lasts."""
        error = self._leave_error(report)
        if error is not ErrorCode.NONE:
            return HeartbeatReply(error=error, member_id=report.member_id, message=error.text)
        member = self.members[report.member_id]
        if report.epoch == LEAVING_FOR_NOW:
            self._put(
                replace(member, epoch=LEAVING_FOR_NOW, revoking=NOTHING, state=MemberState.STABLE)
            )
            self.expect_nothing(member)
            self.heard(now_ms, member)
        else:
            self.remove(now_ms, member.member_id)
        return HeartbeatReply(member_id=report.member_id, epoch=report.epoch)

    def _leave_error(self, report: HeartbeatReport) -> ErrorCode:
        if report.instance_id is not None:
            holder = self.membership.by_instance(report.instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder.member_id != report.member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        known = report.member_id in self.members
        return ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID

    def remove(self, now_ms: int, member_id: str) -> None:
        self._forget(member_id)
        self.target.by_member.pop(member_id, None)
        self._bump()
        if not self.members:
            self.since_ms = now_ms

    def delete(self, now_ms: int) -> ErrorCode:
        if self.members:
            return ErrorCode.NON_EMPTY_GROUP
        self.is_dead = self.changed = True
        self.since_ms = now_ms
        return ErrorCode.NONE

    # -- offsets -------------------------------------------------------------------------------

    def commit_error(
        self, now_ms: int, who: Identity, *, epochs: bool, transactional: bool = False
    ) -> ErrorCode:
        """Whether this caller may commit. `epochs`: its version of the API knows member epochs."""
        anonymous = not who.member_id and who.generation < 0
        if anonymous and (transactional or not self.members):
            return ErrorCode.NONE
        member = self.members.get(who.member_id)
        if member is None:
            fenced = self.membership.by_instance(who.instance_id) is not None
            return ErrorCode.FENCED_INSTANCE_ID if fenced else ErrorCode.UNKNOWN_MEMBER_ID
        if member.classic is not None:
            self.heard(now_ms, member)
        elif not epochs and not transactional:
            return ErrorCode.UNSUPPORTED_VERSION
        return _stale(member, who.generation)

    def fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether a member that names itself may fetch offsets, which must be its own."""
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        if not member_id and epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _stale(member, epoch)

    # -- time ----------------------------------------------------------------------------------

    def next_ms(self) -> int | None:
        times = [*self._sessions_ms.values(), *self._due_ms.values()]
        return min(times, default=None)

    def tick(self, now_ms: int) -> None:
        """Members that fell silent, or do not do in time what they have to, are out."""
        for deadlines in (self._sessions_ms, self._due_ms):
            late = [one for one, deadline in deadlines.items() if now_ms >= deadline]
            for member_id in late:
                self.remove(now_ms, member_id)

    def load(self, now_ms: int, members: Iterable[ConsumerMember]) -> None:
        """As after a restart: all members have their whole time again."""
        self.membership.load(members)
        for member in self.members.values():
            self.heard(now_ms, member)
            if member.state is MemberState.UNREVOKED:
                self.expect(now_ms, member)

    # -- small things --------------------------------------------------------------------------

    def _bump(self) -> None:
        self.epoch += 1 if self.epoch == self.target.epoch else 0
        self.changed = True

    def _put(self, member: ConsumerMember) -> None:
        self.membership.put(member)
        self.changed = True

    def _forget(self, member_id: str) -> None:
        self.membership.remove(member_id)
        self._sessions_ms.pop(member_id, None)
        self._due_ms.pop(member_id, None)


def over_limit(member_id: str, limit: GroupLimit) -> HeartbeatReply:
    error = ErrorCode.INVALID_REQUEST if limit is GroupLimit.MEMBER else limit.error
    return HeartbeatReply(
        error=error, message=f"{limit} is reached.", member_id=member_id, limit=limit
    )


def _stale(member: ConsumerMember, epoch: int) -> ErrorCode:
    if epoch == member.epoch:
        return ErrorCode.NONE
    classic = member.classic is not None
    return ErrorCode.ILLEGAL_GENERATION if classic else ErrorCode.STALE_MEMBER_EPOCH


def _epoch_error(member: ConsumerMember, report: HeartbeatReport) -> ErrorCode:
    """A member may be at the previous epoch: then the answer to its last heartbeat got lost."""
    if report.epoch == member.epoch:
        return ErrorCode.NONE
    repeats = report.epoch == member.previous_epoch and report.owned is not None
    if repeats and report.owned is not None and report.owned <= member.assigned:
        return ErrorCode.NONE
    return ErrorCode.FENCED_MEMBER_EPOCH


def _updated(member: ConsumerMember, report: HeartbeatReport) -> ConsumerMember:
    regex = member.wants.regex if report.regex is None else report.regex
    wants = TopicSubscription(
        names=member.wants.names if report.names is None else report.names,
        regex=regex,
        assignor=member.wants.assignor if report.assignor is None else report.assignor,
        reader=report.reader if regex else None,
    )
    rebalance_ms = member.rebalance_ms if report.rebalance_ms is None else report.rebalance_ms
    return replace(
        member,
        instance_id=member.instance_id if report.instance_id is None else report.instance_id,
        rack_id=member.rack_id if report.rack_id is None else report.rack_id,
        client_id=report.client_id,
        client_host=report.client_host,
        rebalance_ms=rebalance_ms,
        wants=wants,
        classic=None,
    )
