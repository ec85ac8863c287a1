"""Upgrade and downgrade of a group with members, call by call: the table of `groups.migration`."""

from __future__ import annotations

import pytest

from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.classic.members import Identity, JoinReply, SyncReply
from stratamq.broker.kafka.groups.classic.phases import ClassicState
from stratamq.broker.kafka.groups.consumer.group import ConsumerGroup
from stratamq.broker.kafka.groups.limits import GroupLimit, GroupLimits
from stratamq.wire.kafka.protocol import ErrorCode
from tests.broker.groups.migration_support import (
    REBALANCE_MS,
    SESSION_MS,
    Mixed,
    Place,
    assignment,
)

NONE, REJOIN = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS
A0, A1, A2, A3 = [("a", number) for number in range(4)]


def numbers(places: set[Place]) -> list[int]:
    return sorted(number for _, number in places)


def upgraded() -> Mixed:
    """Classic m1 and m2 had two partitions each at generation 2; n has joined."""
    mixed = Mixed(a=4)
    assert mixed.stable("m1", "m2", m1={A0, A1}, m2={A2, A3}) == 2
    order = mixed.beat("n", 0)
    assert (order.error, order.epoch) == (NONE, 3)
    return mixed


# -- upgrade ---------------------------------------------------------------------------------------


def test_the_first_consumer_member_upgrades_the_group() -> None:
    mixed = upgraded()
    group = mixed.group
    assert isinstance(group, ConsumerGroup)
    assert list(group.members) == ["m1", "m2", "n"]
    assert [one.epoch for one in group.members.values()] == [2, 2, 3]
    assert numbers(mixed.named(group.members["m1"].assigned)) == [0, 1]
    assert not group.members["n"].assigned, "others still read everything"
    assert mixed.heartbeat("m1", 2) is REJOIN


def test_partitions_move_when_an_eager_member_rejoins() -> None:
    mixed = upgraded()
    joined = mixed.join("m1")
    assert (joined.error, joined.generation, joined.protocol) == (NONE, 3, "range")
    assert joined.leader != joined.member_id, "the server assigns"
    kept = mixed.places(mixed.sync("m1", 3))
    assert mixed.heartbeat("m1", 3) is NONE
    mixed.join("m2")
    kept |= mixed.places(mixed.sync("m2", 3))
    order = mixed.beat("n", 3)
    assert order.assigned is not None
    assert sorted(kept | mixed.named(order.assigned)) == [A0, A1, A2, A3]
    assert len(kept) == 3
    assert mixed.group.state == "Stable"


def test_a_cooperative_member_gives_up_first() -> None:
    mixed = Mixed(a=2)
    generation = mixed.stable("m1", m1={A0, A1})
    assert mixed.beat("n", 0).epoch == generation + 1
    assert mixed.heartbeat("m1", generation) is REJOIN
    joined = mixed.join("m1", owned={A0, A1})
    assert joined.generation == generation, "it has not arrived"
    kept = mixed.places(mixed.sync("m1", generation))
    assert len(kept) == 1
    assert mixed.heartbeat("m1", generation) is REJOIN
    assert mixed.beat("n", generation + 1).assigned is None, "m1 may still read it"
    assert mixed.join("m1", owned=kept).generation == generation + 1
    assert mixed.places(mixed.sync("m1", generation + 1)) == kept
    order = mixed.beat("n", generation + 1)
    assert order.assigned is not None
    assert mixed.named(order.assigned) == {A0, A1} - kept


def test_a_member_that_waits_is_asked_to_rejoin_when_all_it_waits_for_is_free() -> None:
    mixed = Mixed(a=2)
    epoch = mixed.beat("n", 0).epoch
    joined = mixed.join(new_id="m")
    assert joined.generation == epoch + 1
    assert mixed.places(mixed.sync("m", joined.generation)) == set()
    assert mixed.heartbeat("m", joined.generation) is NONE
    order = mixed.beat("n", epoch, owned=[A0, A1])
    assert order.assigned is not None
    kept = mixed.named(order.assigned)
    assert mixed.heartbeat("m", joined.generation) is NONE, "n still reads it"
    assert mixed.beat("n", epoch, owned=kept).epoch == epoch + 1
    assert mixed.heartbeat("m", joined.generation) is REJOIN
    mixed.join("m")
    assert mixed.places(mixed.sync("m", joined.generation)) == {A0, A1} - kept
    assert mixed.heartbeat("m", joined.generation) is NONE


def test_joins_that_wait_are_answered_out_of_the_new_group() -> None:
    mixed = Mixed(a=4)
    mixed.stable("m1", "m2", m1={A0, A1}, m2={A2, A3})
    waiting = mixed.ask_to_join("m1")
    newcomer = mixed.ask_to_join(new_id="m3")
    assert not {waiting, newcomer} & mixed.answers.keys()
    assert mixed.beat("n", 0).error is NONE
    for ticket, member in ((waiting, "m1"), (newcomer, "m3")):
        reply = mixed.answers[ticket]
        assert isinstance(reply, JoinReply)
        assert (reply.error, reply.member_id) == (NONE, member)
        assert mixed.sync(member, reply.generation).error is NONE
    assert mixed.heartbeat("m2", 2) is REJOIN


def test_syncs_that_wait_are_asked_to_rejoin() -> None:
    mixed = Mixed(a=2)
    mixed.stable("m1", "m2", m1={A0}, m2={A1})
    mixed.ask_to_join("m1")
    generation = mixed.join("m2").generation
    waiting = mixed.ask_to_sync("m2", generation)
    mixed.beat("n", 0)
    assert mixed.answers[waiting] == SyncReply(error=REJOIN)
    group = mixed.group
    assert numbers(mixed.named(group.members["m1"].assigned)) == [0], "the last it was given"


def test_a_partition_that_a_leader_gave_twice_is_held_once() -> None:
    mixed = Mixed(a=2)
    mixed.stable("m1", "m2", m1={A0, A1}, m2={A1})
    mixed.beat("n", 0)
    assert not mixed.group.members["m2"].assigned


@pytest.mark.parametrize(
    ("setting", "reason"),
    [("policy", "policy"), ("type", "'connect'"), ("metadata", "malformed"), ("assignment", "mal")],
)
def test_a_group_that_cannot_be_upgraded_stays_as_it_is(setting: str, reason: str) -> None:
    limits = GroupLimits(initial_delay_ms=0, upgrades=setting != "policy")
    mixed = Mixed(limits, a=2)
    more = {"type": {"protocol_type": "connect"}, "metadata": {"metadata": b"\xff"}}
    joined = mixed.join(new_id="m", **more.get(setting, {}))
    given = b"\x7f\xff\x00" if setting == "assignment" else b""
    mixed.sync("m", joined.generation, assignments={"m": given})
    order = mixed.beat("n", 0)
    assert order.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert order.message is not None
    assert reason in order.message
    assert mixed.heartbeat("m", joined.generation) is NONE
    assert (mixed.group.kind, mixed.group.state) == ("classic", ClassicState.STABLE)


def test_a_group_does_not_grow_past_its_limit_by_an_upgrade() -> None:
    """Short names weigh more one by one than in the bytes that they were sent in."""
    mixed = Mixed(GroupLimits(initial_delay_ms=0, group_bytes_max=50_000), a=2)
    joined = mixed.join(new_id="m", names=[f"t{number}" for number in range(1000)])
    assert joined.error is NONE
    order = mixed.beat("n", 0)
    assert order.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert GroupLimit.GROUP in (order.message or "")
    assert mixed.group.kind == "classic"


def test_a_join_that_is_refused_upgrades_nothing() -> None:
    mixed = Mixed(GroupLimits(initial_delay_ms=0, members_max=2), a=2)
    generation = mixed.stable("m1", "m2")
    waiting = mixed.ask_to_join("m1")
    assert mixed.beat("n", 0).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert mixed.group.kind == "classic"
    assert waiting not in mixed.answers
    assert mixed.heartbeat("m2", generation) is REJOIN
    assert mixed.join("m2").error is NONE
    assert waiting in mixed.answers


def test_only_a_join_upgrades() -> None:
    mixed = Mixed(a=2)
    generation = mixed.stable("m1")
    for epoch in (1, -1, -2):
        assert mixed.beat("n", epoch).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert mixed.heartbeat("m1", generation) is NONE


# -- downgrade -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["leaves", "expires"])
def test_the_last_consumer_member_downgrades_the_group(how: str) -> None:
    mixed = upgraded()
    joined = {member: mixed.join(member).generation for member in ("m1", "m2")}
    assert joined == {"m1": 3, "m2": 3}
    assert all(mixed.sync(member, 3).error is NONE for member in joined)
    if how == "leaves":
        mixed.beat("n", -1)
    else:
        for _ in range(10):
            mixed.wait(SESSION_MS // 2)
            for member in joined:
                mixed.heartbeat(member, 3)
    group = mixed.group
    assert isinstance(group, ClassicGroup)
    assert group.state is ClassicState.PREPARING
    assert [one.member_id for one in group.roster] == ["m1", "m2"]
    assert mixed.heartbeat("m1", 3) is REJOIN
    assert group.commit_error(mixed.now_ms, Identity("m1", None, 3)) is NONE
    first = mixed.ask_to_join("m1")
    second = mixed.join("m2")
    reply = mixed.answers[first]
    assert isinstance(reply, JoinReply)
    assert second.generation == reply.generation > 3
    assert reply.leader == second.leader == "m1", "a client assigns again"


def test_members_that_were_left_behind_may_commit_before_they_rejoin() -> None:
    mixed = upgraded()
    mixed.join("m1")
    mixed.beat("n", -1)
    group = mixed.group
    assert isinstance(group, ClassicGroup)
    for member, generation in (("m1", 3), ("m2", 2)):
        assert mixed.heartbeat(member, generation) is REJOIN
        assert group.commit_error(mixed.now_ms, Identity(member, None, generation)) is NONE
    assert mixed.heartbeat("m2", 3) is ErrorCode.ILLEGAL_GENERATION
    mixed.ask_to_join("m1")
    generation = mixed.join("m2").generation
    assert mixed.heartbeat("m2", 2) is ErrorCode.ILLEGAL_GENERATION
    assert mixed.heartbeat("m2", generation) is NONE


def test_a_static_member_that_did_not_rejoin_has_no_say_in_the_new_generation() -> None:
    mixed = Mixed(a=2)
    mixed.beat("n", 0)
    static = mixed.join(instance="i", new_id="s")
    mixed.join(new_id="m")
    mixed.beat("n", -1)
    assert mixed.heartbeat("s", static.generation, "i") is REJOIN
    ticket = mixed.ask_to_join("m")
    for _ in range(REBALANCE_MS // 5_000):
        mixed.heartbeat("s", static.generation, "i")
        mixed.wait(5_000)
    assert ticket in mixed.answers
    assert mixed.group.state is ClassicState.COMPLETING
    assert mixed.heartbeat("s", static.generation, "i") is ErrorCode.ILLEGAL_GENERATION


def test_without_downgrades_classic_members_go_on() -> None:
    mixed = Mixed(GroupLimits(initial_delay_ms=0, downgrades=False), a=2)
    generation = mixed.stable("m1", m1={A0, A1})
    mixed.beat("n", 0)
    mixed.beat("n", -1)
    assert mixed.group.kind == "consumer"
    assert mixed.heartbeat("m1", generation) is REJOIN
    joined = mixed.join("m1")
    assert mixed.places(mixed.sync("m1", joined.generation)) == {A0, A1}
    assert mixed.heartbeat("m1", joined.generation) is NONE


def test_up_again_before_anybody_has_rejoined() -> None:
    mixed = upgraded()
    mixed.join("m1")
    mixed.beat("n", -1)
    assert mixed.group.kind == "classic"
    assert mixed.beat("o", 0).error is NONE
    group = mixed.group
    assert isinstance(group, ConsumerGroup)
    held = {member: numbers(mixed.named(one.assigned)) for member, one in group.members.items()}
    assert held["m2"] == [2, 3], "it never heard of another target"
    assert not set(held["o"]) & {*held["m1"], *held["m2"]}
    assert mixed.heartbeat("m2", 2) is REJOIN


# -- static members --------------------------------------------------------------------------------


def test_a_static_member_comes_back_under_the_new_protocol() -> None:
    mixed = Mixed(a=2)
    joined = mixed.join(instance="i", new_id="m")
    given = {"m": assignment([A0, A1])}
    mixed.sync("m", joined.generation, assignments=given)
    order = mixed.beat("n", 0, instance_id="i")
    assert order.error is NONE
    assert order.assigned is not None
    assert mixed.named(order.assigned) == {A0, A1}, "nothing moved"
    assert list(mixed.group.members) == ["n"]
    assert mixed.heartbeat("m", joined.generation, "i") is ErrorCode.FENCED_INSTANCE_ID
    old = Identity("m", "i", joined.generation)
    fenced = mixed.group.commit_error(mixed.now_ms, old, epochs=False)
    assert fenced is ErrorCode.FENCED_INSTANCE_ID
    again = mixed.beat("o", 0, instance_id="i")
    assert again.error is ErrorCode.UNRELEASED_INSTANCE_ID


@pytest.mark.parametrize("epoch", [-2, None])
def test_a_static_member_comes_back_under_the_old_protocol(epoch: int | None) -> None:
    mixed = Mixed(a=2)
    joined = mixed.beat("n", 0, instance_id="i")
    mixed.beat("other", 0)
    if epoch is not None:
        mixed.beat("n", epoch, instance_id="i")
    reply = mixed.join(instance="i", new_id="m")
    assert reply.error is NONE
    assert set(mixed.group.members) == {"m", "other"}
    synced = mixed.sync("m", reply.generation, instance="i")
    assert len(mixed.places(synced)) == 1
    fenced = mixed.beat("n", joined.epoch, instance_id="i")
    assert fenced.error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_is_the_last_of_its_protocol_is_replaced() -> None:
    mixed = Mixed(a=2)
    mixed.beat("n", 0, instance_id="i")
    reply = mixed.join(instance="i", new_id="m")
    assert (reply.error, reply.member_id) == (NONE, "m")
    assert mixed.group.kind == "classic"
    assert mixed.sync("m", reply.generation, instance="i").error is REJOIN
    again = mixed.join("m", instance="i")
    assert (again.error, again.leader) == (NONE, "m")


# -- requests of classic members -------------------------------------------------------------------


def test_who_joins_a_consumer_group_first_gets_an_id() -> None:
    mixed = Mixed(a=2)
    mixed.beat("n", 0)
    reply = mixed.join(id_required=True, new_id="m")
    assert reply == JoinReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id="m")
    assert list(mixed.group.members) == ["n"]
    assert mixed.join("m").error is NONE


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ("roundrobin",)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"metadata": b"?"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "x", "instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"names": ["t" * 200 + str(n) for n in range(5000)]}, ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_a_join_that_is_refused(change: dict[str, object], error: ErrorCode) -> None:
    mixed = upgraded()
    before = set(mixed.group.members)
    assert mixed.join(**change).error is error  # type: ignore[arg-type]
    assert set(mixed.group.members) == before


def test_a_full_group_takes_no_classic_member() -> None:
    mixed = Mixed(GroupLimits(initial_delay_ms=0, members_max=1), a=2)
    mixed.beat("n", 0)
    reply = mixed.join(new_id="m")
    assert (reply.error, reply.limit) == (ErrorCode.GROUP_MAX_SIZE_REACHED, GroupLimit.MEMBERS)


def test_a_sync_that_is_refused() -> None:
    mixed = upgraded()
    assert mixed.sync("m1", 2).error is REJOIN, "it has not rejoined"
    generation = mixed.join("m1").generation
    assert mixed.sync("m1", 2).error is ErrorCode.ILLEGAL_GENERATION
    assert mixed.sync("x", generation).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert mixed.sync("n", 3).error is ErrorCode.UNKNOWN_MEMBER_ID
    other = mixed.sync("m1", generation, protocol="roundrobin")
    assert other.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    synced = mixed.sync("m1", generation, protocol="range")
    assert (synced.error, synced.protocol, synced.protocol_type) == (NONE, "range", "consumer")
    mixed.beat("o", 0)
    assert mixed.sync("m1", generation).error is REJOIN


def test_leaving_is_for_members_of_ones_own_kind() -> None:
    mixed = upgraded()
    assert mixed.leave("n") is ErrorCode.UNKNOWN_MEMBER_ID
    assert mixed.leave("x") is ErrorCode.UNKNOWN_MEMBER_ID
    assert mixed.leave("m1") is NONE
    assert set(mixed.group.members) == {"m2", "n"}
    assert mixed.heartbeat("m2", 2) is REJOIN
    static = mixed.join(instance="i", new_id="s")
    assert static.error is NONE
    assert mixed.leave("", "j") is ErrorCode.UNKNOWN_MEMBER_ID
    assert mixed.leave("x", "i") is ErrorCode.FENCED_INSTANCE_ID
    assert mixed.leave("", "i") is NONE, "as an administrator does"


def test_classic_members_commit_in_their_generation() -> None:
    mixed = upgraded()
    group = mixed.group
    assert isinstance(group, ConsumerGroup)

    def error(member: str, epoch: int, *, epochs: bool = False) -> ErrorCode:
        return group.commit_error(mixed.now_ms, Identity(member, None, epoch), epochs=epochs)

    assert error("m1", 2) is NONE
    assert error("m1", 3) is ErrorCode.ILLEGAL_GENERATION
    assert error("n", 3) is ErrorCode.UNSUPPORTED_VERSION
    assert error("n", 3, epochs=True) is NONE
    assert error("n", 2, epochs=True) is ErrorCode.STALE_MEMBER_EPOCH


def test_classic_members_hear_of_topics() -> None:
    mixed = Mixed(a=1)
    mixed.beat("n", 0, names=["b"])
    joined = mixed.join(new_id="m")
    assert mixed.places(mixed.sync("m", joined.generation)) == {A0}
    mixed.set_topics(a=2)
    assert mixed.heartbeat("m", joined.generation) is REJOIN
    joined = mixed.join("m")
    assert mixed.places(mixed.sync("m", joined.generation)) == {A0, A1}


# -- time ------------------------------------------------------------------------------------------


def alive_until(mixed: Mixed, member: str, generation: int) -> int:
    """For how long a member that only sends heartbeats is kept."""
    start = mixed.now_ms
    while member in mixed.group.members:  # type: ignore[union-attr]
        mixed.beat("n", mixed.group.epoch)
        mixed.heartbeat(member, generation)
        mixed.wait(1_000)
        assert mixed.now_ms - start < 10 * REBALANCE_MS
    return mixed.now_ms - start


@pytest.mark.parametrize("rejoined", [False, True])
def test_a_classic_member_that_does_not_do_its_part_in_time_is_out(rejoined: bool) -> None:
    mixed = upgraded()
    mixed.beat("n", 3)
    generation = mixed.join("m1").generation if rejoined else 2
    assert alive_until(mixed, "m1", generation) == REBALANCE_MS


def test_a_classic_member_has_the_session_it_asked_for() -> None:
    mixed = upgraded()
    for member in ("m1", "m2"):
        mixed.join(member)
        mixed.sync(member, 3)
    mixed.wait(SESSION_MS - 1)
    mixed.heartbeat("m1", 3)
    mixed.wait(1)
    assert set(mixed.group.members) == {"m1", "n"}
    mixed.wait(4 * SESSION_MS)
    assert mixed.group.state == "Empty"


@pytest.mark.parametrize("step", range(4))
def test_a_crash_changes_nothing_for_members(step: int) -> None:
    """Kept: ids, generations, partitions. Lost: who was asked to do what, which is asked again."""
    mixed = upgraded()
    steps = [
        lambda: mixed.join("m1", owned={A0, A1}),
        lambda: mixed.join("m2"),
        lambda: mixed.beat("n", -1),
    ]
    for act in steps[:step]:
        act()
    before = mixed.group
    mixed.crash()
    assert mixed.group.kind == before.kind
    if isinstance(before, ConsumerGroup):
        assert mixed.group.members == before.members
        assert mixed.group.target.by_member == before.target.by_member
    else:
        said = [(one.member_id, one.generation, one.assignment) for one in before.roster]
        group = mixed.group
        assert isinstance(group, ClassicGroup)
        assert [(o.member_id, o.generation, o.assignment) for o in group.roster] == said
        assert group.state is ClassicState.PREPARING
    assert mixed.group.size_bytes == before.size_bytes
