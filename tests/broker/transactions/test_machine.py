"""The machine of a transactional id: each answer of Kafka's as a row, and laws for any history."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.broker.kafka.errors import Refused
from stratamq.broker.kafka.transactions import machine
from stratamq.broker.kafka.transactions.machine import ProducerIdAndEpoch
from stratamq.meta.apply import apply
from stratamq.meta.state import MetaState
from stratamq.meta.transactions import SaveTransaction, TransactionMeta
from stratamq.model.errors import IllegalTransition
from stratamq.model.transaction import (
    AT_REST,
    DECIDED,
    EPOCH_MAX,
    TRANSITIONS,
    TransactionEvent,
    TransactionState,
    after,
)
from stratamq.model.types import ShardName, TimestampMs
from stratamq.wire.kafka.protocol import ErrorCode

NOW = TimestampMs(100)
LATER = TimestampMs(200)
A, B = ShardName("a_0"), ShardName("b_0")
ME = ProducerIdAndEpoch(7, 3)
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
FENCED = ErrorCode.PRODUCER_FENCED
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
NOT_NOW = ErrorCode.INVALID_TXN_STATE
NEW_ID = 99


def one(state: TransactionState = TransactionState.EMPTY, **fields: object) -> TransactionMeta:
    busy = state not in AT_REST
    made = TransactionMeta(
        transactional_id="x",
        producer_id=7,
        producer_epoch=3,
        timeout_ms=50,
        state=state,
        shards=frozenset({A}) if busy else frozenset(),
        start_ms=NOW if busy else TimestampMs(-1),
        update_ms=NOW,
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def refusal(call: object) -> ErrorCode:
    with pytest.raises(Refused) as caught:
        call()  # type: ignore[operator]
    return caught.value.code


# -- the table -------------------------------------------------------------------------------------


def test_what_is_not_in_the_table_does_not_happen() -> None:
    for state in TransactionState:
        for event in TransactionEvent:
            if (state, event) not in TRANSITIONS:
                with pytest.raises(IllegalTransition):
                    after(state, event)


def test_from_a_decision_there_is_one_way_and_from_death_none() -> None:
    for state in DECIDED:
        assert [event for known, event in TRANSITIONS if known is state] == [
            TransactionEvent.MARKED
        ]
    assert not [event for known, event in TRANSITIONS if known is TransactionState.DEAD]


# -- InitProducerId --------------------------------------------------------------------------------


def begin(
    old: TransactionMeta, expected: ProducerIdAndEpoch | None = None, new_id: int = -1
) -> tuple[int, int, bool]:
    made, is_ready = machine.initialize(old, expected, 60, new_id, LATER)
    return made.producer_id, made.producer_epoch, is_ready


def test_the_first_producer_begins_at_epoch_0() -> None:
    made = machine.create("x", 5, 60, NOW)
    assert (made.producer_id, made.producer_epoch, made.state) == (5, 0, TransactionState.EMPTY)


@pytest.mark.parametrize("state", sorted(AT_REST))
def test_a_new_producer_has_the_next_epoch(state: TransactionState) -> None:
    made, is_ready = machine.initialize(one(state), None, 60, -1, LATER)
    assert is_ready
    assert (made.state, made.producer_epoch, made.timeout_ms) == (TransactionState.EMPTY, 4, 60)
    assert made.last_producer_epoch == -1, "nobody may go on with the old one"


@pytest.mark.parametrize("state", sorted(DECIDED))
def test_a_new_producer_waits_for_the_marks(state: TransactionState) -> None:
    assert refusal(lambda: begin(one(state))) is BUSY


def test_an_open_transaction_is_aborted_under_a_new_epoch_first() -> None:
    made, is_ready = machine.initialize(one(TransactionState.ONGOING), None, 60, -1, LATER)
    assert not is_ready
    assert (made.state, made.producer_epoch, made.shards) == (
        TransactionState.PREPARE_ABORT,
        4,
        {A},
    )
    assert begin(machine.complete(made, LATER)) == (7, 5, True)


@pytest.mark.parametrize(
    ("known", "expected", "answer"),
    [
        (one(), ProducerIdAndEpoch(7, 3), (7, 4)),
        (one(last_producer_epoch=2), ProducerIdAndEpoch(7, 2), (7, 3)),  # repeated: nothing is new
        (one(), ProducerIdAndEpoch(7, 2), FENCED),
        (one(), ProducerIdAndEpoch(7, 4), FENCED),
        (one(), ProducerIdAndEpoch(8, 3), FENCED),
        (one(last_producer_id=6, last_producer_epoch=9), ProducerIdAndEpoch(6, 9), (7, 3)),
        (one(last_producer_id=6, last_producer_epoch=9), ProducerIdAndEpoch(7, 9), FENCED),
        (one(TransactionState.ONGOING, last_producer_epoch=2), ProducerIdAndEpoch(7, 2), FENCED),
    ],
)
def test_who_may_go_on_after_an_error(
    known: TransactionMeta, expected: ProducerIdAndEpoch, answer: tuple[int, int] | ErrorCode
) -> None:
    if isinstance(answer, ErrorCode):
        assert refusal(lambda: begin(known, expected)) is answer
    else:
        assert begin(known, expected) == (*answer, True)


def test_who_goes_on_in_the_middle_of_its_own_transaction_is_known_again() -> None:
    made, is_ready = machine.initialize(one(TransactionState.ONGOING), ME, 60, -1, LATER)
    assert not is_ready
    assert begin(machine.complete(made, LATER), ME) == (7, 4, True)


@pytest.mark.parametrize("epoch", [EPOCH_MAX - 1, EPOCH_MAX])
@pytest.mark.parametrize("by_itself", [True, False])
def test_a_used_up_epoch_gives_a_new_producer_id(epoch: int, by_itself: bool) -> None:
    old = one(TransactionState.COMPLETE_ABORT, producer_epoch=epoch)
    assert machine.needs_new_id(old)
    expected = ProducerIdAndEpoch(7, epoch) if by_itself else None
    made, _ = machine.initialize(old, expected, 60, NEW_ID, LATER)
    assert (made.producer_id, made.producer_epoch) == (NEW_ID, 0)
    again = ProducerIdAndEpoch(7, epoch)
    if by_itself:
        assert begin(made, again) == (NEW_ID, 0, True)
    else:
        assert refusal(lambda: begin(made, again)) is FENCED


def test_who_is_fenced_at_the_last_epoch_can_still_go_on() -> None:
    last = EPOCH_MAX - 1
    known = one(TransactionState.ONGOING, producer_epoch=last)
    made, _ = machine.initialize(known, ProducerIdAndEpoch(7, last), 60, -1, LATER)
    done = machine.complete(made, LATER)
    assert machine.needs_new_id(done)
    assert begin(done, ProducerIdAndEpoch(7, last), NEW_ID) == (NEW_ID, 0, True)


# -- adding, verifying -----------------------------------------------------------------------------

OWNERS = [(None, MAPPING), (one(producer_id=8), MAPPING), (one(producer_epoch=4), FENCED)]
BUSY_ONES = [(one(state), BUSY) for state in sorted(DECIDED)]


@pytest.mark.parametrize(("known", "code"), OWNERS + BUSY_ONES)
def test_who_may_not_add(known: TransactionMeta | None, code: ErrorCode) -> None:
    assert refusal(lambda: machine.add(known, ME, LATER, shards=[A])) is code
    assert refusal(lambda: machine.verify(known, ME, shard=A)) is code


@pytest.mark.parametrize("state", sorted(AT_REST))
def test_the_first_partition_begins_the_transaction(state: TransactionState) -> None:
    added = machine.add(one(state), ME, LATER, shards=[A, B])
    assert (added.state, added.shards, added.start_ms) == (TransactionState.ONGOING, {A, B}, LATER)
    assert not machine.verify(one(state), ME, shard=A)


def test_more_partitions_and_groups_leave_the_start_as_it_was() -> None:
    added = machine.add(one(TransactionState.ONGOING), ME, LATER, shards=[B])
    added = machine.add(added, ME, LATER, groups=["g"])
    assert (added.shards, added.groups, added.start_ms) == ({A, B}, {"g"}, NOW)
    assert machine.verify(added, ME, shard=B)
    assert machine.verify(added, ME, group="g")
    assert not machine.verify(added, ME, group="h")


def test_a_transaction_has_room_for_so_many_groups() -> None:
    names = [f"g{number}" for number in range(machine.GROUPS_MAX)]
    full = machine.add(one(), ME, LATER, groups=names)
    assert machine.add(full, ME, LATER, groups=names[:1]) is full
    code = refusal(lambda: machine.add(full, ME, LATER, groups=["one more"]))
    assert code is ErrorCode.INVALID_REQUEST


def test_what_is_there_already_costs_no_write() -> None:
    known = one(TransactionState.ONGOING)
    assert machine.add(known, ME, LATER, shards=[A]) is known


# -- ending ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("known", "code"), OWNERS)
@pytest.mark.parametrize("renews", [True, False])
def test_who_may_not_end(known: TransactionMeta | None, code: ErrorCode, renews: bool) -> None:
    assert refusal(lambda: machine.end(known, ME, commit=True, now_ms=NOW, renews=renews)) is code


NOTHING_TO_DO = ErrorCode.NONE
ENDS = [
    (TransactionState.ONGOING, True, TransactionState.PREPARE_COMMIT),
    (TransactionState.ONGOING, False, TransactionState.PREPARE_ABORT),
    (TransactionState.COMPLETE_COMMIT, True, NOTHING_TO_DO),
    (TransactionState.COMPLETE_COMMIT, False, NOT_NOW),
    (TransactionState.COMPLETE_ABORT, True, NOT_NOW),
    (TransactionState.COMPLETE_ABORT, False, NOTHING_TO_DO),
    (TransactionState.PREPARE_COMMIT, True, BUSY),
    (TransactionState.PREPARE_COMMIT, False, NOT_NOW),
    (TransactionState.PREPARE_ABORT, True, NOT_NOW),
    (TransactionState.PREPARE_ABORT, False, BUSY),
    (TransactionState.EMPTY, True, NOT_NOW),
    (TransactionState.EMPTY, False, NOT_NOW),
]


@pytest.mark.parametrize(("state", "commit", "outcome"), ENDS)
def test_how_a_transaction_ends(
    state: TransactionState, commit: bool, outcome: TransactionState | ErrorCode
) -> None:
    known = one(state)
    if outcome is NOTHING_TO_DO:
        assert machine.end(known, ME, commit=commit, now_ms=LATER) is known
    elif isinstance(outcome, ErrorCode):
        assert refusal(lambda: machine.end(known, ME, commit=commit, now_ms=LATER)) is outcome
    else:
        ended = machine.end(known, ME, commit=commit, now_ms=LATER)
        assert (ended.state, ended.producer_epoch, ended.shards) == (outcome, 3, {A})


def renew(known: TransactionMeta, who: ProducerIdAndEpoch, *, commit: bool) -> TransactionMeta:
    return machine.end(known, who, commit=commit, now_ms=LATER, renews=True, new_id=NEW_ID)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_that_renews_is_marked_with_the_new_epoch(commit: bool) -> None:
    ended = renew(one(TransactionState.ONGOING), ME, commit=commit)
    assert ended.producer_epoch == 4
    assert refusal(lambda: renew(ended, ME, commit=commit)) is BUSY
    done = machine.complete(ended, LATER)
    assert renew(done, ME, commit=commit) is done, "it repeats its request, and gets the answer"
    assert refusal(lambda: renew(done, ME, commit=not commit)) is NOT_NOW
    assert refusal(lambda: machine.add(done, ME, LATER, shards=[A])) is FENCED
    machine.add(done, ProducerIdAndEpoch(7, 4), LATER, shards=[A])


@pytest.mark.parametrize("state", sorted(AT_REST))
def test_an_end_that_renews_before_anything_began(state: TransactionState) -> None:
    assert refusal(lambda: renew(one(state), ME, commit=True)) is NOT_NOW
    ended = renew(one(state), ME, commit=False)
    assert (ended.state, ended.producer_epoch, ended.shards) == (
        TransactionState.PREPARE_ABORT,
        4,
        set(),
    )


def test_an_end_that_renews_at_the_last_epoch_gives_a_new_producer_id() -> None:
    last = ProducerIdAndEpoch(7, EPOCH_MAX - 1)
    known = one(TransactionState.ONGOING, producer_epoch=last.epoch)
    assert machine.ends_with_new_id(known, last)
    ended = renew(known, last, commit=True)
    assert (ended.producer_id, ended.producer_epoch) == (7, EPOCH_MAX), "the marks are the old id's"
    done = machine.complete(ended, LATER)
    assert (done.producer_id, done.producer_epoch) == (NEW_ID, 0)
    assert renew(done, last, commit=True) is done


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("epoch", [3, EPOCH_MAX - 1])
def test_who_has_the_new_epoch_or_id_already_waits_for_the_marks(commit: bool, epoch: int) -> None:
    """An end may be answered before its marks are written: its producer goes on meanwhile."""
    ended = renew(
        one(TransactionState.ONGOING, producer_epoch=epoch),
        ProducerIdAndEpoch(7, epoch),
        commit=commit,
    )
    used_up = epoch == EPOCH_MAX - 1
    new = ProducerIdAndEpoch(NEW_ID, 0) if used_up else ProducerIdAndEpoch(7, 4)
    assert refusal(lambda: renew(ended, new, commit=True)) is BUSY
    assert refusal(lambda: renew(ended, new, commit=False)) is BUSY
    assert refusal(lambda: machine.add(ended, new, LATER, shards=[A])) is BUSY
    assert refusal(lambda: machine.verify(ended, new, shard=A)) is BUSY
    assert refusal(lambda: begin(ended, new)) is BUSY
    stranger = ProducerIdAndEpoch(NEW_ID, 1) if used_up else ProducerIdAndEpoch(NEW_ID, 0)
    assert refusal(lambda: machine.add(ended, stranger, LATER, shards=[A])) is MAPPING
    machine.add(machine.complete(ended, LATER), new, LATER, shards=[A])


def test_nobody_is_told_of_the_epoch_that_is_for_fencing() -> None:
    last = ProducerIdAndEpoch(7, EPOCH_MAX - 1)
    known = one(TransactionState.ONGOING, producer_epoch=last.epoch)
    fenced = machine.fence(known, LATER, by_itself=True)
    assert fenced.producer_epoch == EPOCH_MAX
    done = machine.complete(fenced, LATER)
    assert refusal(lambda: renew(done, last, commit=False)) is FENCED
    assert begin(done, last, NEW_ID) == (NEW_ID, 0, True)


def test_time() -> None:
    known = one(TransactionState.ONGOING)
    assert not machine.has_timed_out(known, TimestampMs(150))
    assert machine.has_timed_out(known, TimestampMs(151))
    assert not machine.has_timed_out(one(), TimestampMs(10**9))
    assert not machine.has_expired(known, 10, TimestampMs(10**9))
    assert not machine.has_expired(one(), 10, TimestampMs(109))
    assert machine.has_expired(one(), 10, TimestampMs(110))


# -- any history -----------------------------------------------------------------------------------

steps = st.one_of(
    st.tuples(st.just("init"), st.none() | st.integers(0, 5)),
    st.tuples(st.just("add"), st.integers(0, 5)),
    st.tuples(st.just("commit"), st.integers(0, 5)),
    st.tuples(st.just("abort"), st.integers(0, 5)),
    st.tuples(st.just("time"), st.none()),
    st.tuples(st.just("marked"), st.none()),
)


class History:
    """Producers that share a transactional id, and remember what they were told."""

    def __init__(self, epoch: int, renews: bool) -> None:
        self.known = replace(machine.create("x", 0, 50, NOW), producer_epoch=epoch)
        self.told = [ProducerIdAndEpoch(0, epoch)]
        self.renews = renews
        self.ids = 0
        self.ended = False
        """The end was asked for, so whoever asked is told the new epoch."""

    def step(self, what: str, number: int | None) -> None:
        who = None if number is None else self.told[-1 - number % len(self.told)]
        old, self.known = self.known, self._moved(what, who)
        if old is not self.known:  # what the machine says is what the Meta Service takes
            state, _ = apply(MetaState(), SaveTransaction(transaction=old))
            apply(state, SaveTransaction(transaction=self.known))

    def _moved(self, what: str, who: ProducerIdAndEpoch | None) -> TransactionMeta:
        known = self.known
        self.ids += 1
        if what == "init":
            made, is_ready = machine.initialize(known, who, 50, self.ids, LATER)
            self.ended = False
            if is_ready:
                self._tell(made, repeats=made is known)
            return made
        if what == "time":
            if known.state is not TransactionState.ONGOING:
                return known
            self.ended = False
            return machine.fence(known, LATER)
        if what == "marked":
            done = machine.complete(known, LATER) if known.state in DECIDED else known
            if self.ended and done is not known:
                self._tell(done, repeats=True)
            return done
        assert who is not None
        if what == "add":
            added = machine.add(known, who, LATER, shards=[A])
            assert who == (known.producer_id, known.producer_epoch), "a zombie got in"
            return added
        return self._end(known, who, commit=what == "commit")

    def _end(
        self, known: TransactionMeta, who: ProducerIdAndEpoch, *, commit: bool
    ) -> TransactionMeta:
        new = machine.end(
            known, who, commit=commit, now_ms=LATER, renews=self.renews, new_id=self.ids
        )
        if new is not known:
            self.ended = self.renews
        elif self.renews:
            self._tell(new, repeats=True)  # it asked again, and is told again
        return new

    def _tell(self, made: TransactionMeta, *, repeats: bool) -> None:
        who = ProducerIdAndEpoch(made.producer_id, made.producer_epoch)
        assert repeats or who not in self.told, "two producers got the same epoch"
        assert who.epoch < EPOCH_MAX, "nobody could fence it any more"
        self.told.append(who)


@given(st.sampled_from([0, EPOCH_MAX - 3]), st.booleans(), st.lists(steps, max_size=40))
def test_whatever_is_asked(epoch: int, renews: bool, wanted: list[tuple[str, int | None]]) -> None:
    history = History(epoch, renews)
    for what, number in wanted:
        before = history.known
        try:
            history.step(what, number)
        except Refused:
            assert history.known is before
        now = history.known
        if before.state in DECIDED:
            assert now is before or what == "marked"
        if now.state in AT_REST:
            assert not now.shards
        if now.producer_id == before.producer_id:
            assert now.producer_epoch >= before.producer_epoch
