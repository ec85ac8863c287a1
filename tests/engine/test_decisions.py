"""The pure parts: what is due, what has expired, what compaction takes, what a look-up believes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.engine import compaction, lookups, reads
from stratamq.engine.compaction import OffsetSet
from stratamq.engine.contract import ReadLimit, ShardSpec
from stratamq.engine.housekeeping import Rewrite
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.store import MemoryShardStore
from stratamq.engine.producers.transactions import AbortedIndex
from stratamq.engine.retention import due
from stratamq.engine.shard import Shard
from stratamq.engine.view import View, expiry_of
from stratamq.log.contract import PlacedBatch, SegmentInfo, must_roll
from stratamq.model.errors import InvalidConfig
from stratamq.model.record import TTL_HEADER, Record
from stratamq.model.topic import TopicConfig
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records import EMPTY_SCAN, decode_batch, read_header, scan_batch
from tests.engine.support import NOW, S, batch, commit_mark, offsets, record


def config(**given: object) -> TopicConfig:
    return TopicConfig.of({key.replace("_", "."): value for key, value in given.items()})


# -- rolling ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "first", "batch_bytes", "stamp", "expected"),
    [
        (0, 0, 5000, 10**9, False),
        (1, 0, 2047, 0, False),
        (1, 0, 2048, 0, True),
        (1, 0, 1, 1000, False),
        (1, 0, 1, 1001, True),
        (1, -1, 1, 10**9, False),
        (1, 5000, 1, -1, False),
    ],
)
def test_when_a_segment_is_full(
    size: int, first: int, batch_bytes: int, stamp: int, expected: bool
) -> None:
    limits = config(segment_bytes=2048, segment_ms=1000)
    assert must_roll(size, first, batch_bytes, stamp, limits) is expected


# -- retention -------------------------------------------------------------------------------------


def segments(*described: tuple[int, int]) -> list[SegmentInfo]:
    """(size, newest timestamp) each, ten offsets long; the last is active."""
    return [
        SegmentInfo(
            Offset(10 * n),
            Offset(10 * n + 10),
            size,
            TimestampMs(0),
            TimestampMs(newest),
            n == len(described) - 1,
        )
        for n, (size, newest) in enumerate(described)
    ]


AGED = segments((100, 10), (100, 20), (100, 30))


@pytest.mark.parametrize(
    ("now", "expected"), [(110, 0), (111, 1), (120, 1), (121, 2), (130, 2), (131, 3)]
)
def test_segments_are_due_by_age(now: int, expected: int) -> None:
    assert due(AGED, 30, now, config(retention_ms=100)) == expected


def test_what_is_not_committed_is_never_due() -> None:
    for committed, expected in ((0, 0), (9, 0), (10, 1), (29, 2), (30, 3)):
        assert due(AGED, committed, 10**6, config(retention_ms=100)) == expected


@pytest.mark.parametrize(("limit", "expected"), [(300, 0), (299, 1), (200, 1), (199, 2), (0, 2)])
def test_segments_are_due_by_size(limit: int, expected: int) -> None:
    assert due(AGED, 30, 0, config(retention_ms=-1, retention_bytes=limit)) == expected


def test_nothing_is_due_without_a_limit_or_another_policy() -> None:
    assert due(AGED, 30, 10**9, config(retention_ms=-1, retention_bytes=-1)) == 0
    compacting = config(retention_ms=1, retention_bytes=1, cleanup_policy="compact")
    assert due(AGED, 30, 10**9, compacting) == 0
    both = config(retention_ms=1, cleanup_policy="compact,delete")
    assert due(AGED, 30, 10**9, both) == 3


def test_a_segment_of_unknown_age_is_not_due_by_age() -> None:
    assert due(segments((100, -1), (100, 10)), 20, 10**9, config(retention_ms=1)) == 0


def test_a_segment_without_timestamps_is_due_by_its_last_write() -> None:
    untimed, timed = segments((100, -1), (100, 10))
    untimed = untimed._replace(written_ms=TimestampMs(50))
    rule = config(retention_ms=100)
    assert [due([untimed, timed], 20, now, rule) for now in (150, 151)] == [0, 2]
    timed = timed._replace(written_ms=TimestampMs(5), max_timestamp=TimestampMs(60))
    assert due([untimed, timed], 20, 151, rule) == 1, "timestamps count where there are any"


def test_emptied_segments_go_with_an_old_one_behind_them() -> None:
    rule = config(retention_ms=100)
    assert due(segments((0, -1), (0, -1), (100, 10), (0, -1)), 40, 200, rule) == 3
    assert due(segments((0, -1), (0, -1), (100, 190), (0, -1)), 40, 200, rule) == 0
    assert due(segments((0, -1)), 10, 200, rule) == 0


# -- expiry ----------------------------------------------------------------------------------------


def aged(age: int, ttl: bytes | None = None) -> Record:
    headers = ((b"other", b"1"), (TTL_HEADER, ttl)) if ttl is not None else ()
    return Record(b"v", headers=headers, timestamp=TimestampMs(NOW - age))


def test_expiry_is_off_below_zero() -> None:
    assert expiry_of(config(record_ttl_ms=-1), NOW) is None


@pytest.mark.parametrize(
    ("ttl_ms", "record", "expected"),
    [
        (100, aged(100), False),
        (100, aged(101), True),
        (0, aged(10**9), False),
        (0, aged(11, b"10"), True),
        (100, aged(101, b"1000"), False),
        (100, aged(11, b"10"), True),
        (100, aged(1, b"0"), True),
        (100, aged(101, b"x"), True),
        (100, aged(99, b"-5"), False),
        (100, Record(b"v", timestamp=TimestampMs(-1)), False),
    ],
)
def test_when_a_record_has_expired(ttl_ms: int, record: Record, expected: bool) -> None:
    expiry = expiry_of(config(record_ttl_ms=ttl_ms), NOW)
    assert expiry is not None
    assert expiry(record) is expected


# -- compaction ------------------------------------------------------------------------------------


@given(st.sets(st.integers(0, 5000)), st.integers(0, 5000), st.integers(0, 5000))
def test_an_offset_set_is_a_set(members: set[int], one: int, other: int) -> None:
    found = OffsetSet()
    for member in members:
        found.add(member)
    first, last = min(one, other), max(one, other)
    assert found.between(first, last) == sorted(m for m in members if first <= m <= last)
    assert bool(found) is bool(members)


def store_of(*batches: list[Record]) -> MemoryShardStore:
    """Every batch in a sealed segment of its own."""
    store = MemoryShardStore(config(cleanup_policy="compact"))
    for records in batches:
        data = batch(*records, base=store.end_offset)
        header = read_header(data)
        scan = scan_batch(header, data, keys=True, tags=True, decompressed_max=1 << 20)
        store.append([PlacedBatch(header, (data,), scan)])
        store.roll()
    return store


def view_of(store: MemoryShardStore) -> View:
    return View(S, store, store.start_offset, store.end_offset, None, 1 << 20)


def scope(view: View, *deleted: Offset) -> compaction.Scope:
    return compaction.Scope(view, frozenset(deleted), AbortedIndex())


def test_keys_beyond_the_limit_are_left_alone() -> None:
    """Their deletion marks too: what they hide may still be there."""
    store = store_of(
        [record(b"v", b"a", at=0), record(b"v", b"b", at=0)],
        [record(b"v", b"a", at=0), record(None, b"b", at=0)],
    )
    plans = compaction.plan(scope(view_of(store)), store.config, NOW, keys_max=1)
    doomed = [offset for plan in plans for offset in plan.doomed.between(0, 10)]
    assert doomed == [0]
    plans = compaction.plan(scope(view_of(store)), store.config, NOW, keys_max=2)
    doomed = [offset for plan in plans for offset in plan.doomed.between(0, 10)]
    assert doomed == [0, 1, 3]


def test_a_batch_that_cannot_be_decoded_is_kept_as_it_is() -> None:
    doomed = OffsetSet()
    doomed.add(0)
    data = batch(b"v" * 50)
    broken = data[:61] + b"\xff" * (len(data) - 61)
    rewrite = compaction.rewriter(doomed, 1 << 20)
    assert rewrite(read_header(data), memoryview(data)) is None
    assert rewrite(read_header(broken), memoryview(broken)) == broken


def rewrite_of(shard: Shard) -> Rewrite:
    """A plan to take out offset 0."""
    (plan,) = compaction.plan(scope(view_of_store(shard), Offset(0)), shard.spec.config, NOW, 10)
    return Rewrite(shard, plan, shard.generation, 1 << 20)


def carry_out(rewrite: Rewrite) -> int:
    """As the engine does it; the bytes given back."""
    if rewrite.begin():
        rewrite.prepare()
    return sum(step() for step in rewrite.steps)


def view_of_store(shard: Shard) -> View:
    return View(S, shard.store, Offset(0), shard.store.end_offset, None, 1 << 20)


def sealed_shard() -> Shard:
    store = store_of([record(b"0", b"a"), record(b"1", b"b"), record(b"2", b"c")])
    return Shard(ShardSpec(name=S, config=store.config), store, None)


def test_what_is_deleted_after_the_plan_goes_as_well() -> None:
    """The marks of a rewritten segment are forgotten: its record would be back."""
    shard = sealed_shard()
    rewrite = rewrite_of(shard)
    shard.store.delete([Offset(2)])
    assert carry_out(rewrite) > 0
    view = view_of_store(shard)
    assert offsets(reads.by_offset(view, Offset(0), ReadLimit())) == [1]
    assert not shard.store.deleted()


def test_a_plan_that_was_overtaken_is_dropped() -> None:
    shard = sealed_shard()
    rewrite = rewrite_of(shard)
    shard.generation += 1
    assert carry_out(rewrite) == 0
    assert offsets(reads.by_offset(view_of_store(shard), Offset(0), ReadLimit())) == [0, 1, 2]


def test_a_plan_for_a_segment_that_is_gone_is_dropped() -> None:
    shard = sealed_shard()
    rewrite = rewrite_of(shard)
    shard.store.trim(Offset(3))
    assert carry_out(rewrite) == 0


def test_control_batches_are_kept_whatever_is_planned() -> None:
    doomed = OffsetSet()
    doomed.add(0)
    mark = commit_mark()
    assert compaction.rewriter(doomed, 1 << 20)(read_header(mark), memoryview(mark)) == mark


# -- look-ups --------------------------------------------------------------------------------------


class Credulous(MemoryShardStore):
    """A store whose indexes name every offset there is: all hashes collide."""

    def offsets_by_key(self, key: bytes, end: Offset) -> Iterator[Offset] | None:
        return iter([Offset(n) for n in range(end - 1, -1, -1)])

    def offsets_by_tag(self, tag: bytes, start: Offset, end: Offset) -> Iterator[Offset] | None:
        return iter([Offset(n) for n in range(start, end)])


@given(
    st.lists(
        st.lists(
            st.builds(
                lambda key, tag: record(b"v", key, tag),
                st.sampled_from([None, b"a", b"b"]),
                st.sampled_from([b"x", b"y"]),
            ),
            min_size=1,
            max_size=30,
        ),
        max_size=5,
    ),
    st.integers(0, 40),
    st.integers(1, 20),
)
def test_an_index_is_never_believed(batches: list[list[Record]], floor: int, count: int) -> None:
    honest = store_of(*batches)
    store = Credulous(honest.config)
    store._segments = honest.snapshot()
    everything = [found for records in batches for found in records]
    tagged = [n for n, found in enumerate(everything) if b"x" in found.tags and n >= floor]
    keyed = [n for n, found in enumerate(everything) if found.key == b"a" and n >= floor]
    view, limit, start = view_of(store), ReadLimit(count), Offset(floor)
    assert offsets(lookups.by_tag(view, b"x", start, limit)) == tagged[:count]
    assert offsets(lookups.by_key(view, b"a", start, limit, True)) == keyed[::-1][:count]
    assert offsets(lookups.by_key(view, b"a", start, limit, False)) == keyed[-1:]
    assert sorted(lookups.offsets_of_key(view, b"a")) == [
        n for n, found in enumerate(everything) if found.key == b"a"
    ]


def test_an_index_that_names_a_control_batch_is_not_believed_either() -> None:
    store = Credulous(config())
    mark = commit_mark()
    header = read_header(mark)
    store.append([PlacedBatch(header, (mark,), EMPTY_SCAN)])
    (found,) = decode_batch(header, mark)
    assert found.key is not None
    view, start = view_of(store), Offset(0)
    assert lookups.by_key(view, found.key, start, ReadLimit(), True) == []
    assert list(lookups.offsets_of_key(view, found.key)) == []


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [{"workers": 0}, {"workers": 17}, {"queue_requests_max": 0}, {"reader_threads": 0}]
)
def test_limits_that_cannot_work_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(InvalidConfig, match=next(iter(bad))):
        EngineLimits(**bad)  # type: ignore[arg-type]
