"""Who reads which partition: pure functions, tried by properties.

`uniform` keeps what members have as far as balance allows; `range_` gives each a run of every
topic, the same run of each, so that topics with equal keys meet in one member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heapreplace

from stratamq.broker.kafka.groups.consumer.members import NOTHING, Partition, Partitions
from stratamq.model.dataclass import dataclass
from stratamq.model.types import TopicId


@dataclass(frozen=True, slots=True)
class MemberWish:
    """What a member subscribes to, and what it was to have so far."""

    topics: frozenset[TopicId]
    had: Partitions = NOTHING


Wishes = Mapping[str, MemberWish]
Counts = Mapping[TopicId, int]
"""Partitions of each topic."""

Result = dict[str, Partitions]


def range_(wishes: Wishes, counts: Counts) -> Result:
    given: dict[str, set[Partition]] = {member: set() for member in wishes}
    for topic, count in counts.items():
        readers = sorted(member for member, wish in wishes.items() if topic in wish.topics)
        if not readers:
            continue
        each, more = divmod(count, len(readers))
        start = 0
        for index, member in enumerate(readers):
            end = start + each + (index < more)
            given[member].update(Partition(topic, number) for number in range(start, end))
            start = end
    return {member: frozenset(partitions) for member, partitions in given.items()}


def uniform(wishes: Wishes, counts: Counts) -> Result:
    given = _kept(wishes, counts)
    topics = {wish.topics.intersection(counts) for wish in wishes.values()}
    if len(topics) == 1:
        _trim(given, sum(counts[topic] for topic in next(iter(topics))))
    _fill(given, wishes, counts)
    if len(topics) > 1:
        _even_out(given, wishes)
    return {member: frozenset(partitions) for member, partitions in given.items()}


def _kept(wishes: Wishes, counts: Counts) -> dict[str, set[Partition]]:
    """What each had, wants and still exists. Nothing twice."""
    taken: set[Partition] = set()
    given: dict[str, set[Partition]] = {}
    for member, wish in sorted(wishes.items()):
        mine = {
            one
            for one in wish.had
            if one.topic_id in wish.topics and one.number < counts.get(one.topic_id, 0)
        }
        given[member] = mine - taken
        taken |= mine
    return given


def _trim(given: dict[str, set[Partition]], total: int) -> None:
    """All want the same: no member keeps more than a fair share. Those with more keep the odd
    ones."""
    each, more = divmod(total, len(given))
    for member in sorted(given, key=lambda one: (-len(given[one]), one)):
        share = each + (more > 0)
        surplus = sorted(given[member])[share:]
        given[member].difference_update(surplus)
        more -= len(given[member]) > each


def _fill(given: dict[str, set[Partition]], wishes: Wishes, counts: Counts) -> None:
    """Partitions without a member go to the one that has least; topics with few readers first."""
    taken = frozenset().union(*given.values())
    readers = {
        topic: [member for member, wish in wishes.items() if topic in wish.topics]
        for topic in counts
    }
    for topic in sorted(counts, key=lambda one: (len(readers[one]), one)):
        heap = [(len(given[member]), member) for member in readers[topic]]
        heapify(heap)
        for number in range(counts[topic]):
            partition = Partition(topic, number)
            if heap and partition not in taken:
                load, member = heap[0]
                given[member].add(partition)
                heapreplace(heap, (load + 1, member))


def _even_out(given: dict[str, set[Partition]], wishes: Wishes) -> None:
    """Move single partitions while that makes a difference of two or more smaller.

    Each move makes the sum of squared loads smaller, so there is an end.
    """
    while (move := _next_move(given, wishes)) is not None:
        partition, giver, taker = move
        given[giver].discard(partition)
        given[taker].add(partition)


def _next_move(
    given: dict[str, set[Partition]], wishes: Wishes
) -> tuple[Partition, str, str] | None:
    by_load = sorted(given, key=lambda one: (len(given[one]), one))
    for giver in reversed(by_load):
        spare = {one.topic_id: one for one in sorted(given[giver], reverse=True)}
        for taker in by_load:
            if len(given[taker]) + 1 >= len(given[giver]):
                break
            for topic, partition in spare.items():
                if topic in wishes[taker].topics:
                    return partition, giver, taker
    return None


ASSIGNORS: dict[str, Callable[[Wishes, Counts], Result]] = {"uniform": uniform, "range": range_}
DEFAULT_ASSIGNOR = "uniform"
