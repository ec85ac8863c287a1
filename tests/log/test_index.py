"""Index rows: their bytes, their reach, and taking them back."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratamq.log.contract import PlacedBatch
from stratamq.log.index import IndexState, IndexStore, ShardIndex
from stratamq.log.kv import KVStore, RocksKV
from stratamq.log.sidecar import OffsetPoint, TimePoint
from stratamq.model.record import Record
from stratamq.model.types import Offset, Position, ShardName, TimestampMs
from stratamq.wire.kafka.records import key_hash
from tests.log.support import batch
from tests.twins.kv import SimKV

BASE = Offset(1 << 33)
OTHER = Offset(BASE + 100)
SHARD = ShardName("s_0")


@pytest.fixture(params=["twin", "rocksdb"])
def kv(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KVStore]:
    store: KVStore = SimKV() if request.param == "twin" else RocksKV(tmp_path)
    yield store
    store.close()


@pytest.fixture
def index(kv: KVStore) -> ShardIndex:
    return IndexStore(kv).shard(SHARD)


def keyed(base: int, *keys: bytes | None) -> PlacedBatch:
    return batch(base, [Record(key=key, tags=(key,) if key else ()) for key in keys])


def put(index: ShardIndex, segment: Offset, *batches: PlacedBatch) -> None:
    rows = index.kv.batch()
    index.put_records(rows, segment, list(batches))
    index.kv.write(rows)


def test_the_bytes_of_the_rows() -> None:
    """The table in docs/formats/index-rows.md."""
    kv = SimKV()
    index = IndexStore(kv).shard(SHARD)
    rows = kv.batch()
    index.put_offset_point(rows, BASE, OffsetPoint(Offset(BASE + 7), Position(900)))
    index.put_time_point(rows, BASE, TimePoint(TimestampMs(1234), Offset(BASE + 6)))
    index.put_records(rows, BASE, [keyed(BASE + 5, b"k", b"k", None)])
    index.put_state(rows, IndexState.new(BASE))
    kv.write(rows)
    shard, segment, hashed = b"\0\0\0\1", struct.pack(">Q", BASE), struct.pack(">Q", key_hash(b"k"))
    assert kv.rows() == {
        b"\xff\xff\xff\xffN" + b"s_0": shard,
        shard + b"S": struct.pack(">QQIQIIqqQ", BASE, BASE, 0, BASE, 0, 0, -1, -1, 0),
        shard + b"O" + segment + struct.pack(">I", 7): struct.pack(">I", 900),
        shard + b"T" + segment + struct.pack(">Q", 1234 + (1 << 63)): struct.pack(">I", 6),
        shard + b"K" + segment + hashed + struct.pack(">I", 5): b"",
        shard + b"K" + segment + hashed + struct.pack(">I", 6): b"",
        shard + b"G" + segment + hashed + struct.pack(">I", 5): struct.pack(">II", 0, 1),
    }


def test_keys_newest_first_and_tags_oldest_first(index: ShardIndex) -> None:
    put(index, BASE, keyed(BASE, b"a", b"b", b"a"), keyed(BASE + 3, None, b"a"))
    put(index, OTHER, keyed(OTHER, b"a"))
    assert list(index.by_key(BASE, b"a")) == [BASE + 4, BASE + 2, BASE]
    assert list(index.by_tag(BASE, b"a", BASE)) == [BASE, BASE + 2, BASE + 4]
    assert list(index.by_key(OTHER, b"a")) == [OTHER]
    assert list(index.by_key(BASE, b"")) == []


@pytest.mark.parametrize("start", range(8))
def test_tags_from_an_offset_inside_a_batch(index: ShardIndex, start: int) -> None:
    put(index, BASE, keyed(BASE, b"a", b"a", b"b", b"a"), keyed(BASE + 4, b"b", b"a", b"a"))
    expected = [BASE + delta for delta in (0, 1, 3, 5, 6) if delta >= start]
    assert list(index.by_tag(BASE, b"a", Offset(BASE + start))) == expected


def test_a_row_is_the_segments_own(index: ShardIndex) -> None:
    put(index, BASE, keyed(BASE, b"a"))
    put(index, OTHER, keyed(OTHER, b"a"))
    rows = index.kv.batch()
    index.drop_segment(rows, BASE)
    index.kv.write(rows)
    assert list(index.by_key(BASE, b"a")) == []
    assert list(index.by_tag(OTHER, b"a", OTHER)) == [OTHER]


def test_dropping_segments_from_one_on(index: ShardIndex) -> None:
    for segment in (BASE, OTHER, Offset(OTHER + 9)):
        put(index, segment, keyed(segment, b"a"))
    rows = index.kv.batch()
    index.drop_segments_from(rows, OTHER)
    index.kv.write(rows)
    left = [list(index.by_key(segment, b"a")) for segment in (BASE, OTHER, Offset(OTHER + 9))]
    assert left == [[BASE], [], []]


def test_taking_back_what_lies_behind_an_end(index: ShardIndex) -> None:
    put(index, BASE, keyed(BASE, b"a", b"a"), keyed(BASE + 2, b"a"), keyed(BASE + 3, b"a"))
    rows = index.kv.batch()
    for number in range(4):
        index.put_offset_point(rows, BASE, OffsetPoint(Offset(BASE + number), Position(number)))
        index.put_time_point(rows, BASE, TimePoint(TimestampMs(number), Offset(BASE + number)))
    index.kv.write(rows)
    rows = index.kv.batch()
    index.drop_points_from(rows, BASE, Offset(BASE + 2))
    index.drop_records_from(rows, BASE, Offset(BASE + 2))
    index.kv.write(rows)
    assert list(index.by_key(BASE, b"a")) == [BASE + 1, BASE]
    assert list(index.by_tag(BASE, b"a", BASE)) == [BASE, BASE + 1]
    assert [point.last_offset for point in index.offset_points(BASE)] == [BASE, BASE + 1]
    assert [point.offset for point in index.time_points(BASE)] == [BASE, BASE + 1]


def test_floors(index: ShardIndex) -> None:
    points = [OffsetPoint(Offset(BASE + last), Position(last * 10)) for last in (3, 8, 20)]
    times = [TimePoint(TimestampMs(time), Offset(BASE + time)) for time in (5, 9)]
    rows = index.kv.batch()
    for point in points:
        index.put_offset_point(rows, BASE, point)
    for time in times:
        index.put_time_point(rows, BASE, time)
    index.kv.write(rows)
    for offset in range(-2, 30):
        below = [point for point in points if point.last_offset <= BASE + offset]
        assert index.floor_offset(BASE, Offset(BASE + offset)) == (below[-1] if below else None)
    for wanted in range(-1, 15):
        older = [time.offset for time in times if time.timestamp < wanted]
        assert index.floor_time(BASE, TimestampMs(wanted)) == (older[-1] if older else BASE)


def test_shards_do_not_meet(kv: KVStore) -> None:
    """Also when the name of one begins with that of another."""
    store = IndexStore(kv)
    first, second = store.shard(SHARD), store.shard(ShardName("s_00"))
    for index in (first, second):
        put(index, BASE, keyed(BASE, b"a"))
    store.drop(SHARD)
    store.drop(SHARD)
    assert store.names() == ["s_00"]
    assert list(first.by_key(BASE, b"a")) == []
    assert list(second.by_key(BASE, b"a")) == [BASE]


def test_ids_are_remembered_and_not_given_twice(kv: KVStore) -> None:
    store = IndexStore(kv)
    put(store.shard(SHARD), BASE, keyed(BASE, b"a"))
    store.shard(ShardName("t_0"))
    again = IndexStore(kv)
    assert sorted(again.names()) == ["s_0", "t_0"]
    assert list(again.shard(SHARD).by_key(BASE, b"a")) == [BASE]
    assert list(again.shard(ShardName("u_0")).by_key(BASE, b"a")) == []


def test_a_state_comes_back(index: ShardIndex) -> None:
    assert index.state() is None
    state = IndexState(
        BASE,
        Offset(BASE + 9),
        Position(7),
        Offset(BASE + 8),
        Position(6),
        3,
        TimestampMs(-1),
        TimestampMs(5),
        Offset(BASE + 2),
    )
    rows = index.kv.batch()
    index.put_state(rows, state)
    index.kv.write(rows)
    assert index.state() == state
