"""Producers that count their batches, and transactions, on every engine."""

from __future__ import annotations

import asyncio

import pytest

from stratamq.engine.contract import AppendResult
from stratamq.engine.engine import StorageEngine
from stratamq.model.clock import ManualClock
from stratamq.model.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTransactionState,
    OutOfOrderSequence,
    StrataError,
)
from stratamq.model.transaction import AbortedTxn, ProducerStateEntry
from stratamq.model.types import Offset
from tests.engine.conftest import House
from tests.engine.support import (
    NOW,
    S,
    T,
    batch,
    commit_mark,
    decoded,
    fetch_all,
    headers,
    produced,
    read_all,
    record,
    spec,
    values,
    write_mark,
)

DAY_MS = 24 * 60 * 60 * 1000


async def put(engine: StorageEngine, *batches: bytes) -> list[AppendResult]:
    return [await engine.append_batch(S, data) for data in batches]


def state(engine: StorageEngine, producer_id: int = 7) -> ProducerStateEntry:
    (found,) = [one for one in engine.producers(S) if one.producer_id == producer_id]
    return found


# -- sequences -------------------------------------------------------------------------------------


async def test_a_batch_that_comes_again_is_stored_once(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    sent = [produced(b"%d" % n, b"and", sequence=2 * n) for n in range(5)]
    first = await put(engine, *sent)
    assert await put(engine, *sent) == first
    assert engine.offsets(S).end == 10
    assert state(engine).last_sequence == 9


async def test_a_batch_that_comes_again_at_once_is_stored_once(engine: StorageEngine) -> None:
    await engine.create_shard(spec(flush="sync"))
    sent = [produced(b"v", sequence=n) for n in (0, 1, 1, 0, 2)]
    answers = await asyncio.gather(*(engine.append_batch(S, data) for data in sent))
    assert [answer.base_offset for answer in answers] == [0, 1, 1, 0, 2]
    assert values(await read_all(engine)) == [b"v"] * 3


async def test_the_time_of_a_repeated_batch_is_that_of_the_first(
    engine: StorageEngine, clock: ManualClock
) -> None:
    await engine.create_shard(spec(message_timestamp_type="LogAppendTime"))
    first = await engine.append_batch(S, produced(b"v"))
    clock.advance(500)
    assert await engine.append_batch(S, produced(b"v")) == first
    assert first[:3] == (0, 0, NOW)


async def test_only_the_last_five_are_recognised(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    sent = [produced(b"v", sequence=n) for n in range(6)]
    await put(engine, *sent)
    with pytest.raises(OutOfOrderSequence):
        await engine.append_batch(S, sent[0])
    assert (await engine.append_batch(S, sent[1])).base_offset == 1


async def test_a_gap_is_refused_and_stores_nothing(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.append_batch(S, produced(b"v", sequence=0))
    for wrong in (2, 5, 1 << 30):
        with pytest.raises(OutOfOrderSequence):
            await engine.append_batch(S, produced(b"v", sequence=wrong))
    assert engine.offsets(S).end == 1
    assert (await engine.append_batch(S, produced(b"v", sequence=1))).base_offset == 1


async def test_who_is_not_known_may_begin_anywhere(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await put(engine, produced(b"v", sequence=41), produced(b"v", sequence=42))
    assert engine.offsets(S).end == 2


async def test_sequences_begin_anew_after_the_largest(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    largest = (1 << 31) - 1
    spanning = produced(b"a", b"b", b"c", sequence=largest - 1)
    await engine.append_batch(S, spanning)
    assert state(engine).last_sequence == 0
    assert (await engine.append_batch(S, spanning)).base_offset == 0
    assert (await engine.append_batch(S, produced(b"d", sequence=1))).base_offset == 3


async def test_a_new_epoch_begins_with_sequence_zero_and_ends_the_old(
    engine: StorageEngine,
) -> None:
    await engine.create_shard(spec())
    await put(engine, produced(b"v", sequence=0), produced(b"v", sequence=1))
    with pytest.raises(OutOfOrderSequence):
        await engine.append_batch(S, produced(b"v", epoch=1, sequence=2))
    await engine.append_batch(S, produced(b"v", epoch=1, sequence=0))
    with pytest.raises(InvalidProducerEpoch):
        await engine.append_batch(S, produced(b"v", epoch=0, sequence=2))
    with pytest.raises(InvalidProducerEpoch):
        await engine.append_batch(S, produced(b"v", epoch=0, sequence=1))
    assert engine.offsets(S).end == 3


async def test_producers_do_not_know_of_each_other(engine: StorageEngine) -> None:
    await engine.create_shard(spec(S))
    await engine.create_shard(spec(T))
    for pid in (1, 2, 3):
        await put(engine, produced(b"v", pid=pid, sequence=0), produced(b"v", pid=pid, sequence=1))
    await engine.append_batch(T, produced(b"v", pid=1, sequence=0))
    assert engine.offsets(S).end == 6
    assert [one.producer_id for one in engine.producers(S)] == [1, 2, 3]
    assert [one.producer_id for one in engine.producers(T)] == [1]


@pytest.mark.parametrize(
    "refused",
    [
        commit_mark(),
        produced(b"v", pid=-1, transactional=True),
        produced(b"v", pid=7, epoch=-1),
        produced(b"v", pid=7, sequence=-1),
    ],
    ids=["mark", "transaction of nobody", "no epoch", "no sequence"],
)
async def test_what_no_producer_may_write(engine: StorageEngine, refused: bytes) -> None:
    await engine.create_shard(spec())
    with pytest.raises(InvalidRecord):
        await engine.append_batch(S, refused)
    assert engine.offsets(S).end == 0
    assert engine.producers(S) == []


# -- transactions ----------------------------------------------------------------------------------


async def test_readers_of_committed_data_wait_for_the_oldest_transaction(
    engine: StorageEngine,
) -> None:
    await engine.create_shard(spec())
    await engine.write(S, record(b"plain"))
    assert engine.last_stable_offset(S) == 1
    await engine.append_batch(S, produced(b"a", pid=1, transactional=True))
    await engine.append_batch(S, produced(b"b", pid=2, transactional=True))
    await engine.write(S, record(b"plain"))
    assert engine.last_stable_offset(S) == 1
    assert await write_mark(engine, 1) == 4
    assert engine.last_stable_offset(S) == 2
    assert await write_mark(engine, 2, commit=False) == 5
    assert engine.last_stable_offset(S) == 6
    assert engine.aborted_transactions(S, Offset(0), Offset(6)) == [
        AbortedTxn(2, Offset(2), Offset(5))
    ]


async def test_a_transaction_goes_over_several_batches(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    for number in range(3):
        await engine.append_batch(S, produced(b"v", sequence=number, transactional=True))
    assert state(engine).transaction_start == 0
    with pytest.raises(InvalidTransactionState):
        await engine.append_batch(S, produced(b"v", sequence=3))
    await write_mark(engine, commit=False)
    assert state(engine).transaction_start is None
    await engine.append_batch(S, produced(b"v", sequence=3, transactional=True))
    await write_mark(engine, commit=False)
    assert engine.aborted_transactions(S, Offset(0), Offset(99)) == [
        AbortedTxn(7, Offset(0), Offset(3)),
        AbortedTxn(7, Offset(4), Offset(5)),
    ]
    assert engine.aborted_transactions(S, Offset(4), Offset(99)) == [
        AbortedTxn(7, Offset(4), Offset(5))
    ]
    assert engine.aborted_transactions(S, Offset(0), Offset(4)) == [
        AbortedTxn(7, Offset(0), Offset(3))
    ]


async def test_a_mark_may_be_repeated(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.append_batch(S, produced(b"v", transactional=True))
    marks = [await write_mark(engine, commit=False) for _ in range(3)]
    assert marks == [1, 2, 3]
    assert len(engine.aborted_transactions(S, Offset(0), Offset(9))) == 1
    assert engine.last_stable_offset(S) == 4


async def test_a_mark_for_somebody_unknown_does_no_harm(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    assert await write_mark(engine, 99, epoch=3, commit=False) == 0
    assert engine.aborted_transactions(S, Offset(0), Offset(9)) == []
    assert state(engine, 99) == ProducerStateEntry(99, 3, -1, NOW, 0, None)
    with pytest.raises(InvalidProducerEpoch):
        await engine.append_batch(S, produced(b"v", pid=99, epoch=2))


async def test_a_mark_of_a_newer_epoch_shuts_out_who_wrote(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.append_batch(S, produced(b"v", epoch=0, transactional=True))
    await write_mark(engine, epoch=1, commit=False)
    assert engine.aborted_transactions(S, Offset(0), Offset(9)) == [
        AbortedTxn(7, Offset(0), Offset(1))
    ]
    with pytest.raises(InvalidProducerEpoch):
        await engine.append_batch(S, produced(b"v", epoch=0, sequence=1, transactional=True))
    with pytest.raises(OutOfOrderSequence):
        await engine.append_batch(S, produced(b"v", epoch=1, sequence=1, transactional=True))
    await engine.append_batch(S, produced(b"v", epoch=1, sequence=0, transactional=True))


async def test_marks_of_the_past_are_refused(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.append_batch(S, produced(b"v", epoch=2, transactional=True))
    with pytest.raises(InvalidProducerEpoch):
        await write_mark(engine, epoch=1)
    await write_mark(engine, epoch=2, coordinator=5)
    with pytest.raises(CoordinatorFenced):
        await write_mark(engine, epoch=2, coordinator=4)
    assert engine.offsets(S).end == 2


async def test_a_mark_counts_when_it_is_committed(engine: StorageEngine) -> None:
    await engine.create_shard(spec(replicated=True))
    await engine.append_batch(S, produced(b"v", transactional=True))
    await write_mark(engine)
    assert engine.last_stable_offset(S) == 0
    await engine.advance_high_watermark(S, Offset(1))
    assert engine.last_stable_offset(S) == 0, "the mark might still be lost"
    await engine.advance_high_watermark(S, Offset(2))
    assert engine.last_stable_offset(S) == 2


async def test_consumers_get_marks_where_they_lie(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.append_batch(S, produced(b"v", transactional=True))
    await write_mark(engine)
    found = headers(await fetch_all(engine))
    assert [(one.is_control, one.is_transactional) for one in found] == [
        (False, True),
        (True, True),
    ]
    assert [one.leader_epoch for one in found] == [0, 0]
    assert found[1].max_timestamp == NOW


# -- after the log was changed ---------------------------------------------------------------------


async def filled(engine: StorageEngine) -> None:
    await engine.append_batch(S, produced(b"0", pid=1, sequence=0))
    await engine.append_batch(S, produced(b"1", pid=2, sequence=0, transactional=True))
    await write_mark(engine, 2, commit=False)
    await engine.append_batch(S, produced(b"3", pid=1, sequence=1))
    await engine.append_batch(S, produced(b"4", pid=2, sequence=1, transactional=True))
    await engine.append_batch(S, produced(b"5", pid=3, sequence=0))


def known(engine: StorageEngine) -> object:
    everything = engine.aborted_transactions(S, Offset(0), Offset(1 << 40))
    by_id = sorted(engine.producers(S), key=lambda one: one.producer_id)
    return by_id, everything, engine.last_stable_offset(S)


async def test_a_truncation_takes_back_what_producers_wrote(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    seen = []
    for step in range(7):
        await engine.truncate(S, Offset(0))
        await filled(engine)
        await engine.truncate(S, Offset(step))
        seen.append(known(engine))
    for step in range(5, -1, -1):
        await engine.truncate(S, Offset(step))
        assert known(engine) == seen[step]
    await filled(engine)
    assert known(engine) == seen[6]


async def test_a_replica_knows_what_its_leader_knows(engine: StorageEngine) -> None:
    await engine.create_shard(spec(S))
    await engine.create_shard(spec(T))
    await filled(engine)
    await engine.append_replica(T, await engine.read_raw(S, Offset(0)))
    assert engine.producers(T) == engine.producers(S)
    assert engine.last_stable_offset(T) == engine.last_stable_offset(S) == 4
    everything = Offset(0), Offset(9)
    assert engine.aborted_transactions(T, *everything) == engine.aborted_transactions(
        S, *everything
    )


async def test_a_log_that_begins_anew_knows_nobody(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await filled(engine)
    await engine.truncate(S, Offset(0))
    await engine.append_replica(S, batch(b"x", base=50))
    assert known(engine) == ([], [], 51)


async def test_a_trim_forgets_no_sequence(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await filled(engine)
    await write_mark(engine, 2, commit=False)
    await engine.trim(S, Offset(7))
    assert await engine.apply_retention(S) == 0
    assert engine.aborted_transactions(S, Offset(0), Offset(99)) == []
    await engine.append_batch(S, produced(b"6", pid=1, sequence=2))
    with pytest.raises(OutOfOrderSequence):
        await engine.append_batch(S, produced(b"7", pid=3, sequence=2))


async def test_nobody_waits_for_what_was_trimmed(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await filled(engine)
    await engine.trim(S, Offset(6))
    assert engine.last_stable_offset(S) == 6
    await write_mark(engine, 2)
    assert engine.last_stable_offset(S) == 7


async def test_who_is_silent_for_long_is_forgotten(
    engine: StorageEngine, clock: ManualClock
) -> None:
    await engine.create_shard(spec(retention_ms=-1))
    await filled(engine)
    clock.advance(DAY_MS // 2)
    await engine.append_batch(S, produced(b"6", pid=3, sequence=1))
    await engine.apply_retention(S)
    assert {one.producer_id for one in engine.producers(S)} == {1, 2, 3}
    clock.advance(DAY_MS // 2)
    await engine.apply_retention(S)
    assert {one.producer_id for one in engine.producers(S)} == {2, 3}, "2 is in a transaction"
    await engine.append_batch(S, produced(b"7", pid=1, sequence=77))


async def test_everything_is_known_after_a_restart(house: House) -> None:
    await house.engine.create_shard(spec())
    await filled(house.engine)
    before = known(house.engine)
    engine = await house.reopen()
    assert known(engine) == before
    again = await engine.append_batch(S, produced(b"3", pid=1, sequence=1))
    assert again.base_offset == 3
    await write_mark(engine, 2)
    assert engine.last_stable_offset(S) == 7


async def test_what_was_trimmed_is_known_after_a_restart(house: House) -> None:
    await house.engine.create_shard(spec())
    await filled(house.engine)
    await write_mark(house.engine, 2)
    await house.engine.trim(S, Offset(7))
    before = known(house.engine)
    engine = await house.reopen()
    assert known(engine) == before
    with pytest.raises(OutOfOrderSequence):
        await engine.append_batch(S, produced(b"v", pid=1, sequence=3))


async def test_a_recovered_shard_knows_its_producers(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await filled(engine)
    before = known(engine)
    await engine.recover_shard(S)
    assert known(engine) == before


async def test_many_at_once_lose_and_repeat_nothing(engine: StorageEngine) -> None:
    """Producers with five requests under way, each sent twice: all are stored once, in order."""
    await engine.create_shard(spec(flush="sync"))

    async def produce(pid: int) -> None:
        for first in range(0, 40, 5):
            window = [produced(b"%d" % n, pid=pid, sequence=n) for n in range(first, first + 5)]
            sent = [engine.append_batch(S, data) for data in (*window, *window)]
            answers = await asyncio.gather(*sent)
            assert answers[:5] == answers[5:]

    await asyncio.gather(*(produce(pid) for pid in range(8)))
    by_producer: dict[int, list[bytes | None]] = {}
    for header in headers(data := await engine.read_raw(S, Offset(0), 1 << 30)):
        by_producer.setdefault(header.producer_id, []).append(b"%d" % header.base_sequence)
    assert len(decoded(data)) == 320
    assert by_producer == {pid: [b"%d" % n for n in range(40)] for pid in range(8)}


async def test_refusals_leave_those_beside_them_alone(engine: StorageEngine) -> None:
    await engine.create_shard(spec(flush="sync"))
    sent = [
        produced(b"a", pid=1, sequence=0),
        produced(b"gap", pid=1, sequence=5),
        produced(b"b", pid=1, sequence=1),
        produced(b"c", pid=2, sequence=0),
    ]
    answers = await asyncio.gather(
        *(engine.append_batch(S, data) for data in sent), return_exceptions=True
    )
    assert [isinstance(answer, StrataError) for answer in answers] == [False, True, False, False]
    assert values(await read_all(engine)) == [b"a", b"b", b"c"]


# -- compaction ------------------------------------------------------------------------------------


async def test_what_was_aborted_supersedes_nothing_and_goes(engine: StorageEngine) -> None:
    await engine.create_shard(spec(cleanup_policy="compact"))
    await engine.write(S, record(b"counts", b"k"))
    await engine.append_batch(S, produced(record(b"aborted", b"k"), transactional=True))
    await write_mark(engine, commit=False)
    await engine.append_batch(S, produced(record(b"w", b"l"), sequence=1, transactional=True))
    await write_mark(engine)
    await engine.roll(S)
    before = known(engine)
    await engine.compact(S)
    assert values(await read_all(engine)) == [b"counts", b"w"]
    assert known(engine) == before


async def test_nothing_undecided_is_compacted(engine: StorageEngine) -> None:
    await engine.create_shard(spec(cleanup_policy="compact"))
    await engine.write(S, record(b"old", b"k"))
    await engine.append_batch(S, produced(record(b"new", b"k"), transactional=True))
    await engine.roll(S)
    assert await engine.compact(S) == 0
    await write_mark(engine)
    await engine.roll(S)
    await engine.compact(S)
    assert values(await read_all(engine)) == [b"new"]


async def test_a_producers_last_batch_leaves_its_header(engine: StorageEngine) -> None:
    """A replica that never saw the records knows the sequence by it."""
    await engine.create_shard(spec(cleanup_policy="compact"))
    await engine.create_shard(spec(T, cleanup_policy="compact"))
    for number in range(2):
        await engine.append_batch(S, produced(record(b"old", b"k"), pid=1, sequence=number))
    await engine.append_batch(S, produced(record(b"new", b"k"), pid=2))
    await engine.roll(S)
    await engine.compact(S)
    data = await engine.read_raw(S, Offset(0))
    assert [(one.base_offset, one.record_count) for one in headers(data)] == [(1, 0), (2, 1)]
    await engine.append_replica(T, data)
    assert engine.producers(T) == engine.producers(S)
    for shard in (S, T):
        assert values(await read_all(engine, shard)) == [b"new"]
        assert values(decoded(await fetch_all(engine, shard))) == [b"new"]
        again = await engine.append_batch(shard, produced(record(b"old", b"k"), pid=1, sequence=1))
        assert again.base_offset == 1


async def test_a_header_goes_when_its_producer_has_moved_on(engine: StorageEngine) -> None:
    await engine.create_shard(spec(cleanup_policy="compact"))
    await engine.append_batch(S, produced(record(b"a", b"k"), pid=1, sequence=0))
    await engine.append_batch(S, produced(record(b"b", b"k"), pid=2, sequence=0))
    await engine.roll(S)
    await engine.compact(S)
    await engine.append_batch(S, produced(record(b"c", b"k"), pid=1, sequence=1))
    await engine.append_batch(S, produced(record(b"d", b"k"), pid=2, sequence=1))
    await engine.roll(S)
    await engine.compact(S)
    found = headers(await engine.read_raw(S, Offset(0)))
    assert [(one.base_offset, one.record_count) for one in found] == [(2, 0), (3, 1)]


async def test_a_compacted_log_tells_the_same_after_a_restart(house: House) -> None:
    await house.engine.create_shard(spec(cleanup_policy="compact"))
    for number in range(3):
        for pid in (1, 2):
            sent = produced(record(b"v", b"k"), pid=pid, sequence=number, transactional=pid == 2)
            await house.engine.append_batch(S, sent)
        await write_mark(house.engine, 2, commit=number == 1)
        await house.engine.roll(S)
    await house.engine.compact(S)
    before = known(house.engine)
    assert known(await house.reopen()) == before
