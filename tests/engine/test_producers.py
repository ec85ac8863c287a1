"""Producers as a state machine without a log, their snapshots, and what a crash leaves of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.engine import housekeeping
from stratamq.engine.engine_shard import from_batch, from_leader
from stratamq.engine.group import Append, AppendReplica, Group, save_producers
from stratamq.engine.memory.store import MemoryShardStore
from stratamq.engine.producers.rules import Producer, StoredBatch, check_batch, sequence_after
from stratamq.engine.producers.shard import (
    PRODUCERS_MAX,
    PRODUCERS_MIN,
    SNAPSHOT_BATCHES,
    ProducerLimit,
    ShardProducers,
)
from stratamq.engine.producers.snapshot import decode, encode, superfluous
from stratamq.engine.producers.table import ProducerTable
from stratamq.engine.producers.transactions import (
    AbortedIndex,
    AbortedRow,
    Begun,
    Ended,
    Transactions,
    Unstable,
)
from stratamq.engine.shard import Shard
from stratamq.log.snapshots import FileSnapshots
from stratamq.model.errors import DiskFull, InvalidRecord, OutOfOrderSequence
from stratamq.model.transaction import AbortedTxn, ProducerStateEntry
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records import read_header
from tests.engine.support import NOW, produced, spec
from tests.twins.disk import Crash, Power, SimDisk, at_call

NOW_MS = TimestampMs(NOW)
LARGEST = (1 << 31) - 1
FOLDER = Path("/shard")


def producer(
    pid: int = 7, *, sequences: tuple[int, int] = (0, 0), seen: int = NOW, began: int | None = None
) -> Producer:
    batch = StoredBatch(*sequences, Offset(10), Offset(10), NOW_MS)
    start = None if began is None else Offset(began)
    return Producer(pid, 0, (batch,), -1, start, NOW_MS, TimestampMs(seen))


# -- sequences -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sequence", "count", "after"),
    [(0, 1, 1), (-1, 1, 0), (LARGEST, 1, 0), (LARGEST - 1, 3, 1), (5, 0, 5)],
)
def test_sequences_wrap(sequence: int, count: int, after: int) -> None:
    assert sequence_after(sequence, count) == after


@pytest.mark.parametrize("sequence", [0, 9, 11, 12, LARGEST])
def test_only_the_next_sequence_is_taken(sequence: int) -> None:
    known = producer(sequences=(8, 9))
    check_batch(known, read_header(produced(b"v", sequence=10)))
    with pytest.raises(OutOfOrderSequence):
        check_batch(known, read_header(produced(b"v", sequence=sequence)))


# -- a commit that fails ---------------------------------------------------------------------------


def open_shard() -> Shard:
    made = spec()
    return Shard(made, MemoryShardStore(made.config), None)


def request(shard: Shard, *data: bytes) -> list[Append]:
    return [from_batch(shard, one, None, 1 << 20) for one in data]


def commit(shard: Shard, group: Group, error: BaseException | None = None) -> None:
    group.error = error
    if error is None and group.batches:
        shard.store.append(group.batches)
    group.settle()
    save_producers([shard])


def test_what_was_not_stored_is_not_known() -> None:
    shard = open_shard()
    group = Group(shard, NOW_MS)
    requests = request(shard, produced(b"a"), produced(b"b", sequence=1, transactional=True))
    requests += request(shard, produced(b"a"))
    for one in requests:
        group.add(one)
    assert [one.answer for one in requests[:1]] == [requests[2].answer], "it repeats the first"
    commit(shard, group, DiskFull("no room"))
    assert all(isinstance(one.answer, DiskFull) for one in requests), "the repetition as well"
    assert shard.producers.table.states() == []
    assert shard.last_stable() == 0
    again = Group(shard, NOW_MS)
    for one in (retried := request(shard, produced(b"a"))):
        again.add(one)
    commit(shard, again)
    assert not isinstance(retried[0].answer, BaseException)
    assert shard.producers.table.states() == [ProducerStateEntry(7, 0, 0, NOW_MS, -1, None)]


def test_a_log_that_begins_anew_forgets_what_the_commit_had_begun() -> None:
    """The table is another one from then on: what was drafted for the old one is not lost in it."""
    shard = open_shard()
    group = Group(shard, NOW_MS)
    (refused,) = request(shard, produced(b"a", pid=1, epoch=-1))
    group.add(refused)
    assert isinstance(refused.answer, InvalidRecord)
    leader = produced(b"x", pid=9, sequence=3)
    moved = leader[:7] + b"\x32" + leader[8:]
    replica: AppendReplica = from_leader(shard, moved, 1 << 20)
    group.add(replica)
    commit(shard, group)
    assert [one.producer_id for one in shard.producers.table.states()] == [9]


# -- transactions ----------------------------------------------------------------------------------


def test_the_last_stable_offset_is_the_first_of_the_oldest() -> None:
    known = Transactions()
    known.apply([Begun(1, Offset(5)), Begun(2, Offset(7))], Offset(0))
    assert known.last_stable(Offset(9)) == 5
    assert known.last_stable(Offset(3)) == 3
    known.apply([Ended(1, Offset(9), aborted=True)], Offset(9))
    assert known.last_stable(Offset(9)) == 5, "its mark is not committed"
    assert known.last_stable(Offset(10)) == 7
    known.apply([Ended(2, Offset(10), aborted=True)], Offset(10))
    assert known.unstable == (Unstable(Offset(7), 2, Offset(10)),), "the first is decided"
    assert known.last_stable(Offset(11)) == 11
    assert list(known.aborted) == [(9, 5, 1, 7), (10, 7, 2, 11)]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, int, int, bool]]:
    """Transactions as (producer, first, marker, aborted): each producer has one at a time."""
    found, open_since = [], dict[int, int]()
    steps = draw(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30))
    for offset, (pid, aborted) in enumerate(steps):
        if pid in open_since:
            found.append((pid, open_since.pop(pid), offset, aborted))
        else:
            open_since[pid] = offset
    return found


@given(histories(), st.integers(0, 30), st.integers(0, 30))
def test_aborted_transactions_of_a_range(
    history: list[tuple[int, int, int, bool]], start: int, size: int
) -> None:
    known = Transactions()
    steps = sorted(
        [(first, Begun(pid, Offset(first))) for pid, first, _, _ in history]
        + [(mark, Ended(pid, Offset(mark), aborted)) for pid, _, mark, aborted in history]
    )
    for _, step in steps:
        known.apply([step], Offset(0))
    expected = [
        AbortedTxn(pid, Offset(first), Offset(mark))
        for pid, first, mark, aborted in sorted(history, key=lambda one: one[2])
        if aborted and mark >= start and first < start + size
    ]
    assert known.aborted.between(Offset(start), Offset(start + size)) == expected
    known.start_at(Offset(start))
    assert all(row.last_offset >= start for row in known.aborted)


# -- forgetting ------------------------------------------------------------------------------------


def test_who_is_read_out_of_the_log_has_all_its_time() -> None:
    table = ProducerTable([producer(1, seen=-1), producer(2, seen=NOW)])
    table.expire(TimestampMs(NOW + 100), 100)
    assert [one.producer_id for one in table.producers()] == [1]
    table.expire(TimestampMs(NOW + 199), 100)
    assert len(table) == 1
    table.expire(TimestampMs(NOW + 200), 100)
    assert len(table) == 0


def test_of_too_many_those_heard_of_longest_ago_go() -> None:
    table = ProducerTable(producer(pid, began=3 if pid == 1 else None) for pid in range(10))
    table.put(producer(0))
    table.shrink(5)
    assert [one.producer_id for one in table.producers()] == [1, 7, 8, 9, 0]


def test_shards_share_a_limit_and_the_one_that_has_most_forgets() -> None:
    limit, shards = ProducerLimit(100), [open_shard() for _ in range(3)]
    for shard in shards:
        shard.producers.count_in(limit)
    few, many, more = shards
    write_as(few, *range(5))
    write_as(many, *range(90))
    assert len(many.producers.table) == 90
    write_as(many, *range(90, 200))
    assert 80 < len(many.producers.table) <= 95
    assert many.producers.table.get(199) is not None
    write_as(more, *range(30))
    assert len(more.producers.table) == PRODUCERS_MIN
    assert len(few.producers.table) == 5
    many.producers.count_in(ProducerLimit())  # it goes
    write_as(more, *range(30, 60))
    assert len(more.producers.table) == PRODUCERS_MIN + 30


def write_as(shard: Shard, *producer_ids: int) -> None:
    for producer_id in producer_ids:
        group = Group(shard, NOW_MS)
        for one in request(shard, produced(b"v", pid=producer_id)):
            group.add(one)
        commit(shard, group)


def test_a_shard_never_remembers_more_than_it_may() -> None:
    shard = open_shard()
    shard.producers.table = ProducerTable(producer(pid) for pid in range(PRODUCERS_MAX))
    group = Group(shard, NOW_MS)
    for one in request(shard, produced(b"v", pid=PRODUCERS_MAX)):
        group.add(one)
    commit(shard, group)
    assert len(shard.producers.table) < PRODUCERS_MAX
    assert shard.producers.table.get(PRODUCERS_MAX) is not None


# -- snapshots -------------------------------------------------------------------------------------

offsets = st.integers(0, 1 << 62).map(Offset)
stamps = st.integers(-1, 1 << 62).map(TimestampMs)
sequences = st.integers(0, LARGEST)
stored = st.builds(StoredBatch, sequences, sequences, offsets, offsets, stamps)
producers = st.builds(
    Producer,
    st.integers(0, 1 << 62),
    st.integers(0, 32767),
    st.lists(stored, max_size=5).map(tuple),
    st.integers(-1, LARGEST),
    st.none() | offsets,
    stamps,
    stamps,
)
tables = st.builds(
    ProducerTable,
    st.lists(producers, max_size=4, unique_by=lambda one: one.producer_id),
    st.builds(
        Transactions,
        st.lists(st.builds(Unstable, offsets, offsets, st.none() | offsets), max_size=3),
        st.builds(
            AbortedIndex,
            st.lists(st.builds(AbortedRow, offsets, offsets, offsets, offsets), max_size=3),
        ),
    ),
)


def content(table: ProducerTable | None) -> object:
    assert table is not None
    known = table.transactions
    return table.producers(), known.unstable, list(known.aborted)


@given(tables, offsets)
def test_a_snapshot_comes_back_as_it_was(table: ProducerTable, offset: Offset) -> None:
    assert content(decode(encode(table, offset), offset)) == content(table)


@given(tables, offsets, st.data())
def test_a_snapshot_that_is_not_whole_is_none(
    table: ProducerTable, offset: Offset, data: st.DataObject
) -> None:
    whole = encode(table, offset)
    assert decode(whole, Offset(offset + 1)) is None, "of another place"
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert decode(whole[:cut], offset) is None
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    flipped = bytearray(whole)
    flipped[bit // 8] ^= 1 << bit % 8
    assert decode(bytes(flipped), offset) is None


@given(st.lists(st.integers(1, 5000), max_size=60))
def test_few_snapshots_are_kept_and_the_newest(steps: list[int]) -> None:
    kept: list[Offset] = []
    end = 0
    for step in steps:
        end += step
        kept.append(Offset(end))
        kept = [one for one in kept if one not in superfluous(kept, Offset(end))]
        assert kept[-1] == end
        assert len(kept) <= 2 + end.bit_length() // 2
    assert superfluous([Offset(end + 1)], Offset(end)) == [end + 1]


def test_snapshots_come_by_the_number_of_batches() -> None:
    shard = open_shard()
    step = 1000
    for first in range(0, SNAPSHOT_BATCHES + step, step):
        group = Group(shard, NOW_MS)
        data = [produced(b"v", sequence=n) for n in range(first, first + step)]
        for one in request(shard, *data):
            group.add(one)
        commit(shard, group)
    assert shard.store.snapshots.offsets() == [SNAPSHOT_BATCHES]
    before = shard.producers.table.states()
    anew = Shard(shard.spec, shard.store, None)
    assert anew.producers.table.states() == before


# -- what a crash leaves of a snapshot's file ------------------------------------------------------


@pytest.mark.parametrize("power", Power)
@pytest.mark.parametrize("seed", range(5))
def test_a_snapshot_survives_a_crash_whole_or_not_at_all(power: Power, seed: int) -> None:
    kept = 0
    for number in range(30):
        disk = SimDisk()
        disk.make_folder(FOLDER)
        disk.sync_folder(FOLDER.parent)
        saved = {Offset(at): encode(ProducerTable([producer(at)]), Offset(at)) for at in (5, 9)}
        disk.trouble = at_call(number, Crash())
        try:
            snapshots = FileSnapshots(disk, FOLDER)
            for offset, data in saved.items():
                snapshots.save(offset, data)
            snapshots.forget(Offset(5))
        except Crash:
            pass
        left = FileSnapshots(disk.after_crash(power, random.Random(seed)), FOLDER)
        for offset in left.offsets():
            kept += 1
            table = decode(left.load(offset), offset)
            assert table is None or content(table) == content(decode(saved[offset], offset))
    assert kept or power not in (Power.KILLED, Power.KEPT), "others may lose what is not synced"


def test_a_snapshot_that_cannot_be_saved_is_done_without() -> None:
    shard = open_shard()
    group = Group(shard, NOW_MS)
    for one in request(shard, produced(b"v")):
        group.add(one)
    commit(shard, group)

    class Full:
        def offsets(self) -> list[Offset]:
            return []

        def save(self, offset: Offset, data: bytes, *, durable: bool = False) -> None:
            raise DiskFull("no room")

    shard.store.snapshots = Full()  # type: ignore[misc, assignment]
    shard.producers.save(shard.store)
    assert shard.producers.table.states() != []


def test_damaged_snapshots_are_passed_over() -> None:
    shard = open_shard()
    for number in range(4):
        group = Group(shard, NOW_MS)
        for one in request(shard, produced(b"v", sequence=number)):
            group.add(one)
        commit(shard, group)
        shard.producers.save(shard.store)
    expected = shard.producers.table.states()
    snapshots = shard.store.snapshots
    assert snapshots.offsets() == [1, 4]
    for offset in reversed(snapshots.offsets()):
        snapshots.save(offset, snapshots.load(offset)[:-1])
        found = ShardProducers()
        found.derive(shard.store, Offset(4))
        assert found.table.states() == expected


# -- logs that lost their beginning ----------------------------------------------------------------


def write_one(shard: Shard, sequence: int) -> None:
    group = Group(shard, NOW_MS)
    for one in request(shard, produced(b"v", sequence=sequence)):
        group.add(one)
    commit(shard, group)


def opened_again(shard: Shard) -> list[int]:
    """Last sequences, as they are known when the log is opened anew without a clean stop."""
    again = Shard(shard.spec, shard.store, None)
    return [one.last_sequence for one in again.producers.table.states()]


def test_what_is_trimmed_is_saved_before() -> None:
    shard = open_shard()
    for number in range(3):
        write_one(shard, number)
    housekeeping.trim(shard, Offset(3))
    assert opened_again(shard) == [2]


def test_a_snapshot_from_before_the_start_is_not_believed() -> None:
    """The batch that was trimmed behind it would be missing: its successor would seem a gap."""
    shard = open_shard()
    write_one(shard, 0)
    shard.producers.save(shard.store)
    write_one(shard, 1)
    shard.store.trim(Offset(2))  # as memory does it by itself when it is full
    assert opened_again(shard) == []


@pytest.mark.parametrize("first", [1, 2, 50])
def test_another_log_in_its_place_has_producers_of_its_own(first: int) -> None:
    shard = open_shard()
    for number in range(3):
        write_one(shard, number)
        shard.store.snapshots.save(
            shard.store.end_offset, encode(shard.producers.table, shard.store.end_offset)
        )
    housekeeping.trim(shard, Offset(3))
    group = Group(shard, NOW_MS)
    leader = produced(b"x", pid=9, sequence=3)
    group.add(from_leader(shard, leader[:7] + bytes([first]) + leader[8:], 1 << 20))
    commit(shard, group)
    assert [one.producer_id for one in shard.producers.table.states()] == [9]
    assert opened_again(shard) == [3]
