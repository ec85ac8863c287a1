"""Who is in a consumer group, and who holds which partition."""

from __future__ import annotations

from collections.abc import Iterable

from stratamq.broker.kafka.groups.consumer.members import Member, Partition
from stratamq.broker.kafka.groups.limits import GROUP_BYTES


class Membership:
    """Members by id. `size_bytes` is the weight of all of them.

    Law: a partition has one holder at most.
    """

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.size_bytes = GROUP_BYTES
        self._holders: dict[Partition, str] = {}

    def load(self, members: Iterable[Member]) -> None:
        for member in members:
            self.put(member)

    def by_instance(self, instance_id: str | None) -> Member | None:
        if instance_id is None:
            return None
        named = (one for one in self.members.values() if one.instance_id == instance_id)
        return next(named, None)

    def is_free_for(self, member_id: str, partition: Partition) -> bool:
        """Whether no other member holds it."""
        return self._holders.get(partition, member_id) == member_id

    def put(self, member: Member) -> None:
        """Add the member, or replace it by its new state."""
        old = self.members.get(member.member_id)
        if old is not None:
            self._release(old)
        self.size_bytes += member.size_bytes
        self.members[member.member_id] = member
        self._holders |= dict.fromkeys(member.holds, member.member_id)

    def remove(self, member_id: str) -> None:
        self._release(self.members.pop(member_id))

    def _release(self, member: Member) -> None:
        self.size_bytes -= member.size_bytes
        for partition in member.holds:
            if self._holders.get(partition) == member.member_id:
                del self._holders[partition]
