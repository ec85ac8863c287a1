"""The target of a consumer group: what each member is to have, and of which topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

from stratamq.broker.kafka.groups.consumer.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Wish
from stratamq.broker.kafka.groups.consumer.members import (
    NOTHING,
    Member,
    Partitions,
    TopicInfo,
    Topics,
)
from stratamq.broker.kafka.groups.consumer.subscriptions import Subscriptions

Members = Mapping[str, Member]


class Target:
    """`epoch` is the group's at the time when the target was worked out. `topics` are those that
    members subscribed to then, as they were."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.assignor = DEFAULT_ASSIGNOR
        self.topics: dict[str, TopicInfo] = {}
        self.by_member: dict[str, Partitions] = {}
        self._subscriptions = Subscriptions()
        self._seen_revision: Hashable = None
        self._searches = False
        """A search for topics by a pattern is not over."""

    def of(self, member_id: str) -> Partitions:
        return self.by_member.get(member_id, NOTHING)

    def has_seen(self, topics: Topics) -> bool:
        return topics.revision == self._seen_revision

    def look_at(self, members: Members, topics: Topics) -> bool:
        """Whether a topic that members subscribe to came, grew or went, or whether one of them has
        lost sight of one: then the target has to be worked out again."""
        now = self._subscriptions.topics([one.wants for one in members.values()], topics)
        searched, self._searches = self._searches, not self._subscriptions.is_complete
        self._seen_revision = None if self._searches else topics.revision
        if self._searches:  # what members had stays theirs until all is found
            known = {name: topics.by_name[name] for name in self.topics if name in topics.by_name}
            now = known | now
        before, self.topics = self.topics, now
        found = searched and not self._searches
        return now != before or found or self._is_out_of_sight(members)

    def _is_out_of_sight(self, members: Members) -> bool:
        """Whether a member is to have a topic that it may no longer know of; others still may."""
        for member_id, member in members.items():
            ids = self._subscriptions.ids(member.wants, self.topics)
            if ids is not None and any(one.topic_id not in ids for one in self.of(member_id)):
                return True
        return False

    def work_out(self, members: Members, epoch: int) -> None:
        self.assignor = preferred_assignor(members)
        counts = {info.topic_id: info.partitions for info in self.topics.values()}
        wishes = {}
        for member_id, member in members.items():
            had = self.of(member_id)
            ids = self._subscriptions.ids(member.wants, self.topics)
            wishes[member_id] = Wish(
                frozenset(one.topic_id for one in had) if ids is None else ids, had
            )
        self.by_member = ASSIGNORS[self.assignor](wishes, counts)
        self.epoch = epoch


def preferred_assignor(members: Members) -> str:
    """What most members ask for; the default when nobody asks."""
    asked = [one.wants.assignor for one in members.values() if one.wants.assignor is not None]
    votes = Counter(asked)
    best = max(votes.values(), default=0)
    return next((name for name in ASSIGNORS if best and votes[name] == best), DEFAULT_ASSIGNOR)
