"""Who is in a classic group: members by id, static ones by instance too, ids not used yet."""

from __future__ import annotations

from collections.abc import Iterator

from stratamq.broker.kafka.groups.classic.members import Identity, Member
from stratamq.broker.kafka.groups.limits import GROUP_BYTES, weight
from stratamq.wire.kafka.protocol import ErrorCode


class Roster:
    """Members in the order they came. The leader is one of them while there are any.

    `size_bytes` is the weight of all of it. A member that was changed has to be counted again.
    """

    def __init__(self) -> None:
        self.leader: str | None = None
        self.pending: dict[str, int] = {}
        """Ids that were given out and not used yet, with the time until which they hold."""
        self.size_bytes = GROUP_BYTES
        self._members: dict[str, Member] = {}
        self._instances: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._members.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> Member:
        return self._members[member_id]

    def get(self, member_id: str) -> Member | None:
        return self._members.get(member_id)

    def by_instance(self, instance_id: str | None) -> Member | None:
        member_id = self._instances.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self._members[member_id]

    def check(self, who: Identity) -> ErrorCode:
        """Whether the group has this member, under this instance id if it names one."""
        if who.instance_id is not None:
            holder = self.by_instance(who.instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder.member_id != who.member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if who.member_id in self else ErrorCode.UNKNOWN_MEMBER_ID

    def reserve(self, member_id: str, until_ms: int) -> None:
        """Give out an id that holds until then."""
        self.pending[member_id] = until_ms
        self.size_bytes += weight(member_id)

    def release(self, member_id: str) -> None:
        """An id that was given out is used, or will not be."""
        if self.pending.pop(member_id, None) is not None:
            self.size_bytes -= weight(member_id)

    def add(self, member: Member) -> None:
        self._members[member.member_id] = member
        self.release(member.member_id)
        self.count(member)
        if member.instance_id is not None:
            self._instances[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def count(self, member: Member) -> None:
        self.size_bytes += member.size_bytes - member.counted_bytes
        member.counted_bytes = member.size_bytes

    def remove(self, member: Member) -> None:
        del self._members[member.member_id]
        self.size_bytes -= member.counted_bytes
        if member.instance_id is not None:
            self._instances.pop(member.instance_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self._members), None)

    def rename(self, member: Member, new_id: str) -> None:
        """A static member came back: the same place under a new id."""
        assert member.instance_id is not None, "only static members come back"
        if self.leader == member.member_id:
            self.leader = new_id
        self._members = {
            new_id if key == member.member_id else key: one for key, one in self._members.items()
        }
        self._instances[member.instance_id] = new_id
        member.member_id = new_id
        self.count(member)
