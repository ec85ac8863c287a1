"""The target of a consumer group: the topics its members subscribe to, what each member is to have,
and its steps towards that.

A partition goes to its new owner only after the old one has given it up. So first a member has to
revoke what is no longer its own, then it gets what is free. Partitions that others still hold come
with a later heartbeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from stratamq.broker.kafka.groups.consumer.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, MemberWish
from stratamq.broker.kafka.groups.consumer.members import (
    NOTHING,
    ConsumerMember,
    MemberState,
    Partition,
    Partitions,
    Subscriber,
    TopicInfo,
    Topics,
    TopicSubscription,
)
from stratamq.broker.kafka.groups.consumer.regex import Pattern, compile_pattern
from stratamq.model.types import TopicId

WORK_MAX = 40_000
"""Of patterns, for one request: about 20 ms, or 8,000 topics for one ordinary pattern. A search
that takes more goes on with the next request; until it is over, what was found before counts."""


# -- which topics ----------------------------------------------------------------------------------


class _Search(NamedTuple):
    regex: str
    reader: Subscriber | None


class _Scan:
    """A search under way through the topics of one revision."""

    def __init__(self, topics: Topics, pattern: Pattern) -> None:
        self.revision = topics.revision
        self.found: set[str] = set()
        self.is_over = False
        self._names = iter(topics.by_name)
        self._pattern = pattern

    def go_on(self, reader: Subscriber | None, topics: Topics, work_max: int) -> int:
        """Search until all is seen or so much is done; how much was done."""
        before = self._pattern.work
        while self._pattern.work - before <= work_max:
            name = next(self._names, None)
            if name is None:
                self.is_over = True
                break
            seen = self._pattern.matches(name) and (reader is None or topics.shows(reader, name))
            if seen:
                self.found.add(name)
        return self._pattern.work - before


class Subscriptions:
    """Remembers compiled patterns and what they find for each reader, until topics or rights
    change."""

    def __init__(self) -> None:
        self._scans: dict[_Search, _Scan] = {}
        self._found: dict[_Search, frozenset[str]] = {}

    @property
    def is_complete(self) -> bool:
        """Whether the last look at the topics went through all of them."""
        return all(scan.is_over for scan in self._scans.values())

    def topics(self, wants: Iterable[TopicSubscription], topics: Topics) -> dict[str, TopicInfo]:
        """Every topic that a member subscribes to and that exists."""
        wants = list(wants)
        self._search({_Search(one.regex, one.reader) for one in wants if one.regex}, topics)
        names = {name for one in wants for name in self._names(one)}
        return {name: topics.by_name[name] for name in sorted(names) if name in topics.by_name}

    def ids(
        self, wants: TopicSubscription, topics: Mapping[str, TopicInfo]
    ) -> frozenset[TopicId] | None:
        """The ids of one member's topics, out of those that `topics` gave. None: its first search
        is not over."""
        if wants.regex and _Search(wants.regex, wants.reader) not in self._found:
            return None
        found = (topics.get(name) for name in self._names(wants))
        return frozenset(info.topic_id for info in found if info is not None)

    def _names(self, wants: TopicSubscription) -> frozenset[str]:
        return wants.names | self._found.get(_Search(wants.regex, wants.reader), frozenset())

    def _search(self, searches: set[_Search], topics: Topics) -> None:
        for unused in self._scans.keys() - searches:
            del self._scans[unused]
            self._found.pop(unused, None)
        left = WORK_MAX
        for search in searches:
            scan = self._scans.get(search)
            if scan is None or scan.revision != topics.revision:
                scan = self._scans[search] = _Scan(topics, compile_pattern(search.regex))
            if not scan.is_over and left > 0:
                left -= scan.go_on(search.reader, topics, left)
                if scan.is_over:
                    self._found[search] = frozenset(scan.found)


# -- what each member is to have -------------------------------------------------------------------


Members = Mapping[str, ConsumerMember]


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
        lost the right to see one: then the target has to be worked out again."""
        now = self._subscriptions.topics([one.wants for one in members.values()], topics)
        searched, self._searches = self._searches, not self._subscriptions.is_complete
        self._seen_revision = None if self._searches else topics.revision
        if self._searches:  # what members had stays theirs until all is found
            known = {name: topics.by_name[name] for name in self.topics if name in topics.by_name}
            now = known | now
        before, self.topics = self.topics, now
        found = searched and not self._searches
        return now != before or found or self._sees_less(members)

    def _sees_less(self, members: Members) -> bool:
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
            wishes[member_id] = MemberWish(
                frozenset(one.topic_id for one in had) if ids is None else ids, had
            )
        self.by_member = ASSIGNORS[self.assignor](wishes, counts)
        self.epoch = epoch


def preferred_assignor(members: Members) -> str:
    """What most members ask for; the default when none asks."""
    asked = [one.wants.assignor for one in members.values() if one.wants.assignor is not None]
    votes = Counter(asked)
    best = max(votes.values(), default=0)
    return next((name for name in ASSIGNORS if best and votes[name] == best), DEFAULT_ASSIGNOR)


# -- the way there ---------------------------------------------------------------------------------


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: Callable[[Partition], bool],
) -> ConsumerMember:
    """`owned` is what the member says it still reads; `is_free`: no other member holds it."""
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return member
    if member.state is MemberState.UNREVOKED and _still_has(owned, member.revoking):
        return member
    stays = member.assigned & target
    revoking = member.assigned - target
    if revoking and _still_has(owned, revoking):
        return replace(member, state=MemberState.UNREVOKED, assigned=stays, revoking=revoking)
    wanted = target - stays
    free = frozenset(one for one in wanted if is_free(one))
    state = MemberState.STABLE if free == wanted else MemberState.UNRELEASED
    moved = replace(member, state=state, assigned=stays | free, revoking=NOTHING)
    if member.epoch != target_epoch:
        moved = replace(moved, epoch=target_epoch, previous_epoch=member.epoch)
    return moved


def _still_has(owned: Partitions | None, partitions: Partitions) -> bool:
    """A member that does not say what it owns owns what it did."""
    return owned is None or bool(owned & partitions)
