"""The commit protocol: a table of events, and a property against the definition of each acks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.engine.commit import CommitProtocol, Due, Replicas
from stratamq.engine.contract import Acks
from stratamq.model.errors import NotLeader, StrataError
from stratamq.model.types import NodeId, Offset

A, B, C = NodeId(2), NodeId(3), NodeId(4)
GONE = NotLeader("node 2 leads")


def nodes(*members: NodeId) -> frozenset[NodeId]:
    return frozenset(members)


def leader(end: int = 0, **replicas: object) -> CommitProtocol:
    """A leader with two followers in sync, unless said otherwise."""
    protocol = CommitProtocol(Offset(end), Offset(0), leads=True)
    given = {"followers": nodes(A, B), "in_sync": nodes(A, B), **replicas}
    assert protocol.lead(Replicas(**given)) == []  # type: ignore[arg-type]
    return protocol


class Answers:
    """What producers were answered, by name, in order."""

    def __init__(self) -> None:
        self.got: list[tuple[str, StrataError | None]] = []

    def wait(self, protocol: CommitProtocol, name: str, end: int, acks: Acks) -> bool:
        """Whether it has to wait."""
        return protocol.wait(Offset(end), acks, lambda e: self.got.append((name, e))) is not None

    def take(self, due: Sequence[Due]) -> list[str]:
        for one in due:
            one.done(one.error)
        names = [name for name, _ in self.got]
        self.got.clear()
        return names


def test_alone_everything_stored_is_committed() -> None:
    protocol, answers = CommitProtocol(Offset(3), Offset(3), leads=True), Answers()
    assert protocol.stored(Offset(10)) == []
    assert protocol.high_watermark == 10
    for acks in Acks:
        assert not answers.wait(protocol, "p", 10, acks)


def test_one_who_comes_before_the_log_has_got_so_far_waits_for_it() -> None:
    protocol, answers = CommitProtocol(Offset(0), Offset(0), leads=True), Answers()
    assert answers.wait(protocol, "p", 5, Acks.ALL)
    assert answers.take(protocol.stored(Offset(4))) == []
    assert answers.take(protocol.stored(Offset(5))) == ["p"]
    assert answers.take(protocol.stored(Offset(6))) == [], "answered once"


@pytest.mark.parametrize(
    ("acks", "before", "at_a", "at_b"),
    [
        (Acks.NONE, True, True, True),
        (Acks.LEADER, True, True, True),
        (Acks.QUORUM, False, True, True),
        (Acks.ALL, False, False, True),
    ],
)
def test_who_must_have_it(acks: Acks, before: bool, at_a: bool, at_b: bool) -> None:
    protocol = leader()
    protocol.stored(Offset(10))
    assert protocol.is_safe(Offset(10), acks) is before
    protocol.copied(A, Offset(10))
    assert protocol.is_safe(Offset(10), acks) is at_a
    protocol.copied(B, Offset(10))
    assert protocol.is_safe(Offset(10), acks) is at_b


def test_the_high_watermark_follows_the_policy_of_the_topic() -> None:
    for policy, after_a in ((Acks.ALL, 0), (Acks.QUORUM, 10)):
        protocol = leader(policy=policy)
        protocol.stored(Offset(10))
        protocol.copied(A, Offset(10))
        assert protocol.high_watermark == after_a
        protocol.copied(B, Offset(7))
        assert protocol.high_watermark == max(after_a, 7)


def test_each_producer_waits_for_its_own_acks() -> None:
    protocol, answers = leader(), Answers()
    protocol.stored(Offset(10))
    assert not answers.wait(protocol, "leader", 10, Acks.LEADER)
    assert answers.wait(protocol, "quorum", 10, Acks.QUORUM)
    assert answers.wait(protocol, "all", 10, Acks.ALL)
    assert answers.wait(protocol, "all, earlier", 5, Acks.ALL)
    assert answers.take(protocol.copied(A, Offset(10))) == ["quorum"]
    assert answers.take(protocol.copied(B, Offset(5))) == ["all, earlier"]
    assert answers.take(protocol.copied(B, Offset(10))) == ["all"]


def test_a_smaller_isr_lets_those_who_wait_for_all_go_on() -> None:
    protocol, answers = leader(), Answers()
    protocol.stored(Offset(10))
    protocol.copied(A, Offset(10))
    assert answers.wait(protocol, "all", 10, Acks.ALL)
    smaller = Replicas(nodes(A, B), in_sync=nodes(A))
    assert answers.take(protocol.lead(smaller)) == ["all"]
    assert protocol.high_watermark == 10


def test_too_small_an_isr_commits_nothing() -> None:
    protocol, answers = leader(isr_min=2), Answers()
    protocol.stored(Offset(4))
    protocol.copied(A, Offset(4))
    protocol.copied(B, Offset(4))
    protocol.lead(Replicas(nodes(A, B), in_sync=nodes(), isr_min=2))
    protocol.stored(Offset(10))
    assert protocol.high_watermark == 4, "it does not go back either"
    assert answers.wait(protocol, "all", 10, Acks.ALL)
    assert not answers.wait(protocol, "leader", 10, Acks.LEADER)


def test_a_follower_nobody_named_does_not_count() -> None:
    protocol = leader(in_sync=nodes(A), followers=nodes(A))
    protocol.stored(Offset(10))
    assert protocol.copied(C, Offset(10)) == []
    assert protocol.high_watermark == 0


def test_a_follower_is_never_ahead_of_its_leader() -> None:
    protocol = leader(followers=nodes(A), in_sync=nodes(A))
    protocol.stored(Offset(5))
    protocol.copied(A, Offset(9))
    protocol.stored(Offset(9))
    assert protocol.high_watermark == 5


def test_a_follower_hears_of_commits_from_its_leader() -> None:
    protocol = CommitProtocol(Offset(0), Offset(0), leads=False)
    assert protocol.stored(Offset(10)) == []
    assert protocol.high_watermark == 0
    assert protocol.advance(Offset(6))
    assert not protocol.advance(Offset(4)), "never backwards"
    assert protocol.advance(Offset(12))
    assert protocol.high_watermark == 10, "never past its own log"


def test_truncation_fails_those_whose_records_are_gone() -> None:
    protocol, answers = leader(), Answers()
    protocol.stored(Offset(10))
    assert answers.wait(protocol, "kept", 5, Acks.ALL)
    assert answers.wait(protocol, "lost", 10, Acks.ALL)
    due = protocol.truncated(Offset(5))
    assert [type(one.error) for one in due] == [NotLeader]
    assert answers.take(due) == ["lost"]
    protocol.copied(A, Offset(5))
    assert answers.take(protocol.copied(B, Offset(5))) == ["kept"]
    assert (protocol.end, protocol.high_watermark) == (5, 5)


def test_what_is_to_be_cut_is_hidden_first_and_comes_back_if_it_stays() -> None:
    protocol = CommitProtocol(Offset(10), Offset(8), leads=False)
    protocol.hide(Offset(5))
    assert protocol.high_watermark == 5
    assert protocol.advance(Offset(8))
    assert protocol.high_watermark == 8


def test_a_leader_that_resigns_answers_everybody() -> None:
    protocol, answers = leader(), Answers()
    protocol.stored(Offset(10))
    for number in range(3):
        assert answers.wait(protocol, f"{number}", 10 - number, Acks.ALL)
    due = protocol.resign(GONE)
    assert {one.error for one in due} == {GONE}
    assert answers.take(due) == ["0", "1", "2"]
    assert protocol.stored(Offset(11)) == []
    assert protocol.high_watermark == 0


def test_one_who_gave_up_is_not_answered() -> None:
    protocol, answers = leader(), Answers()
    protocol.stored(Offset(10))
    waiting = protocol.wait(Offset(10), Acks.ALL, lambda error: answers.got.append(("no", error)))
    assert waiting is not None
    assert answers.wait(protocol, "yes", 10, Acks.ALL)
    protocol.forget(waiting)
    protocol.forget(waiting)
    protocol.copied(A, Offset(10))
    assert answers.take(protocol.copied(B, Offset(10))) == ["yes"]


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["stored", "copied", "isr", "truncated", "wait"]),
        st.integers(0, 7),
        st.integers(0, 12),
    ),
    max_size=40,
)


@given(STEPS, st.sampled_from([Acks.ALL, Acks.QUORUM]), st.integers(1, 3))
def test_nobody_is_answered_too_early_or_left_waiting(
    steps: list[Step], policy: Acks, isr_min: int
) -> None:
    """Against the plain definition: count who has the record."""
    everyone = (A, B)
    protocol = leader(policy=policy, isr_min=isr_min)
    end, ends, in_sync = 0, dict.fromkeys(everyone, -1), set(everyone)
    waiting: dict[int, tuple[int, Acks]] = {}
    answered: list[int] = []

    def is_safe(at: int, acks: Acks) -> bool:
        have = {node for node in everyone if ends[node] >= at}
        if acks is Acks.QUORUM:
            return (end >= at) + len(have) >= 2
        if acks is Acks.ALL:
            return end >= at and in_sync <= have and 1 + len(in_sync) >= isr_min
        return end >= at

    for number, (step, which, amount) in enumerate(steps):
        due: Sequence[Due] = ()
        if step == "stored":
            end += amount
            due = protocol.stored(Offset(end))
        elif step == "copied":
            node = everyone[which % 2]
            ends[node] = min(amount, end)
            due = protocol.copied(node, Offset(amount))
        elif step == "isr":
            in_sync = {node for at, node in enumerate(everyone) if which >> at & 1}
            due = protocol.lead(Replicas(nodes(*everyone), nodes(*in_sync), isr_min, policy))
        elif step == "truncated":
            cut = min(amount, end)
            end, ends = cut, {node: min(has, cut) for node, has in ends.items()}
            for one in protocol.truncated(Offset(cut)):
                one.done(one.error)
            assert all(waiting[one][0] > cut for one in answered)
            waiting = {one: what for one, what in waiting.items() if one not in answered}
            answered.clear()
            assert all(at <= cut for at, _ in waiting.values())
        elif amount <= end:
            acks = (Acks.LEADER, Acks.QUORUM, Acks.ALL)[which % 3]
            done = lambda _, one=number: answered.append(one)  # noqa: E731
            if protocol.wait(Offset(amount), acks, done) is not None:
                waiting[number] = amount, acks
            else:
                assert is_safe(amount, acks)
        for one in due:
            one.done(one.error)
        assert all(is_safe(*waiting[one]) for one in answered)
        waiting = {one: what for one, what in waiting.items() if one not in answered}
        answered.clear()
        assert not [at for at in waiting.values() if is_safe(*at)]
        assert protocol.high_watermark <= end
