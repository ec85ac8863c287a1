"""Laws of the assignors, for any members, topics and history."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.broker.kafka.groups.consumer.assignors import (
    ASSIGNORS,
    Counts,
    MemberWish,
    Result,
    Wishes,
    range_,
    uniform,
)
from stratamq.broker.kafka.groups.consumer.members import NOTHING, Partition
from stratamq.model.types import TopicId

TOPICS = [TopicId(letter * 32) for letter in "abcd"]

members = st.sampled_from([f"m{number}" for number in range(6)])
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12), max_size=4)
partitions = st.frozensets(
    st.builds(Partition, st.sampled_from(TOPICS), st.integers(0, 13)), max_size=10
)
mixed = st.dictionaries(
    members,
    st.builds(MemberWish, st.frozensets(st.sampled_from(TOPICS)), partitions),
    min_size=1,
)
alike = st.builds(
    lambda some, topics: {name: MemberWish(topics, had) for name, had in some.items()},
    st.dictionaries(members, partitions, min_size=1),
    st.frozensets(st.sampled_from(TOPICS)),
)


def everything(wishes: Wishes, counts: Counts) -> set[Partition]:
    wanted = frozenset().union(*(wish.topics for wish in wishes.values()))
    return {
        Partition(topic, number)
        for topic, count in counts.items()
        if topic in wanted
        for number in range(count)
    }


def again(wishes: Wishes, result: Result) -> dict[str, MemberWish]:
    return {
        name: MemberWish(wish.topics, result.get(name, NOTHING)) for name, wish in wishes.items()
    }


@pytest.mark.parametrize("name", ASSIGNORS)
@given(wishes=st.one_of(mixed, alike), counts=counts)
def test_every_partition_has_one_reader_who_wants_it(
    name: str, wishes: Wishes, counts: Counts
) -> None:
    result = ASSIGNORS[name](wishes, counts)
    assert set(result) == set(wishes)
    readers = Counter(one for some in result.values() for one in some)
    assert set(readers.values()) <= {1}
    assert set(readers) == everything(wishes, counts)
    for member, some in result.items():
        assert {one.topic_id for one in some} <= wishes[member].topics


@pytest.mark.parametrize("name", ASSIGNORS)
@given(wishes=st.one_of(mixed, alike), counts=counts)
def test_nothing_moves_when_nothing_changed(name: str, wishes: Wishes, counts: Counts) -> None:
    result = ASSIGNORS[name](wishes, counts)
    assert ASSIGNORS[name](again(wishes, result), counts) == result


@given(alike, counts)
def test_uniform_is_fair_to_equals(wishes: Wishes, counts: Counts) -> None:
    loads = [len(some) for some in uniform(wishes, counts).values()]
    assert max(loads) - min(loads) <= 1


@given(mixed, counts)
def test_uniform_leaves_no_move_that_would_be_fairer(wishes: Wishes, counts: Counts) -> None:
    result = uniform(wishes, counts)
    for giver, some in result.items():
        for taker, wish in wishes.items():
            if any(one.topic_id in wish.topics for one in some):
                assert len(result[taker]) + 1 >= len(some), (giver, taker)


@given(alike, counts)
def test_who_stays_keeps_everything_when_another_goes(wishes: Wishes, counts: Counts) -> None:
    before = uniform(wishes, counts)
    left = dict(list(again(wishes, before).items())[1:])
    if left:
        after = uniform(left, counts)
        assert all(before[member] <= after[member] for member in left)


@given(alike, counts)
def test_a_newcomer_takes_no_more_than_its_share(wishes: Wishes, counts: Counts) -> None:
    before = uniform(wishes, counts)
    topics = next(iter(wishes.values())).topics
    after = uniform({**again(wishes, before), "new": MemberWish(topics)}, counts)
    assert all(after[member] <= before[member] for member in wishes)


@given(alike, counts)
def test_range_gives_runs_that_differ_by_one_at_most(wishes: Wishes, counts: Counts) -> None:
    result = range_(wishes, counts)
    for topic in counts:
        runs = [
            sorted(one.number for one in some if one.topic_id == topic) for some in result.values()
        ]
        assert all(run == list(range(run[0], run[0] + len(run))) for run in runs if run)
        assert max(map(len, runs)) - min(map(len, runs)) <= 1


def test_range_gives_equal_runs_of_equal_topics() -> None:
    wishes = {name: MemberWish(frozenset(TOPICS[:2])) for name in ("m1", "m2")}
    result = range_(wishes, {TOPICS[0]: 3, TOPICS[1]: 3})
    assert {(one.topic_id[0], one.number) for one in result["m1"]} == {
        ("a", 0), ("a", 1), ("b", 0), ("b", 1),
    }  # fmt: skip
