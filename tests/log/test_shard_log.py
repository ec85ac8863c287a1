"""The log of a shard when nothing goes wrong: rolling, reading, sealing, reopening."""

from __future__ import annotations

import errno
import logging
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from stratamq.log import names, reader
from stratamq.log.contract import PlacedBatch, ShardStore, must_roll
from stratamq.log.sidecar import SPAN_MAX
from stratamq.model.errors import OffsetOutOfRange
from stratamq.model.record import Record
from stratamq.model.topic import TopicConfig
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records import EMPTY_SCAN, Compression, encode_batch, read_header
from tests.log.crashing import KILLED
from tests.log.rig import SEGMENT_BYTES, Rig
from tests.log.support import (
    FOLDER,
    NOW,
    ROOM,
    batch,
    batches_from,
    commit,
    cut_at,
    open_log,
    read_log,
    record,
)
from tests.twins.disk import Power, SimDisk
from tests.twins.kv import Loss, SimKV
from tests.waiting import every

pytestmark = pytest.mark.usefixtures("dense_points")


def test_it_is_a_shard_store() -> None:
    store: ShardStore = Rig.new().open().log
    assert (store.start_offset, store.end_offset) == (0, 0)
    assert store.read(Offset(0), 100, Offset(0)) == b""
    assert [info.active for info in store.segments()] == [True]


def test_what_goes_in_comes_out_byte_for_byte() -> None:
    rig = Rig.new().open()
    records = [record(number) for number in range(4)]
    batches = [
        batch(number * 4, records, epoch=number, compression=codec)
        for number, codec in enumerate(Compression)
    ]
    commit(rig.log, batches)
    assert rig.log.read(Offset(0), 1 << 20, Offset(99)) == b"".join(b.data for b in batches)


# -- rolling -------------------------------------------------------------------------------------


def test_a_segment_is_sealed_before_it_grows_too_large() -> None:
    rig = Rig.new().open()
    for _ in range(20):
        rig.commit(2, 3)
    infos = rig.log.segments()
    assert len(infos) > 3
    assert all(info.size_bytes <= SEGMENT_BYTES for info in infos)
    for before, after in pairwise(infos):
        first = read_header(rig.log.read(after.base_offset, 1, Offset(999)))
        assert before.size_bytes + first.size_bytes > SEGMENT_BYTES, "not before it must"


def test_one_call_and_many_calls_roll_at_the_same_batches() -> None:
    batches = batches_from(0, [1 + n % 5 for n in range(30)])
    logs = [open_log(SimDisk(), SimKV(), segment_bytes=1024) for _ in range(2)]
    commit(logs[0], batches)
    for one in batches:
        commit(logs[1], [one])
    assert logs[0].segments() == logs[1].segments()


def test_a_batch_larger_than_a_segment_gets_one_of_its_own() -> None:
    rig = Rig.new().open()
    large = [batch(base, [record(base, size=3 * SEGMENT_BYTES)]) for base in (1, 2)]
    commit(rig.log, batches_from(0, (1,)))
    commit(rig.log, large)
    commit(rig.log, batches_from(3, (1,)))
    assert [info.base_offset for info in rig.log.segments()] == [0, 1, 2, 3]
    assert rig.log.read(Offset(1), 10, Offset(4)) == large[0].data, "oversize, and still returned"


def test_age_is_between_the_records_timestamps() -> None:
    config = TopicConfig.of({"segment.ms": 1000})
    assert not must_roll(0, NOW, 10, NOW + 5000, config), "an empty segment takes anything"
    assert not must_roll(1, NOW, 10, NOW + 1000, config)
    assert must_roll(1, NOW, 10, NOW + 1001, config)
    assert not must_roll(1, -1, 10, NOW, config), "no timestamp, no age"
    assert not must_roll(1, NOW, 10, NOW - 5000, config)


def test_age_survives_a_restart() -> None:
    disk, kv = SimDisk(), SimKV()
    log = open_log(disk, kv, segment_ms=1000)
    commit(log, [batch(0, [Record(timestamp=NOW)])])
    for store in (kv.copy(), SimKV()):
        log = open_log(disk.copy(), store, segment_ms=1000)
        commit(log, [batch(1, [Record(timestamp=TimestampMs(NOW + 1001))])])
        assert len(log.segments()) == 2


def test_offsets_of_a_segment_stay_within_31_bits() -> None:
    """A replica of a compacted log may have to leave a large gap."""
    for first in ((2,), ()):
        rig = Rig.new().open()
        near = batches_from(0, first)
        if near:
            commit(rig.log, near)
        far = batches_from(SPAN_MAX + 10, (4, 1))
        commit(rig.log, far)
        rig.log.roll()
        for log in (rig.log, rig.fork().open().log):
            assert [info.base_offset for info in log.segments()][:2] == [0, SPAN_MAX + 10]
            assert [data for _, data in read_log(log).batches] == [b.data for b in (*near, *far)]
            assert log.read(Offset(7), 1, log.end_offset) == far[0].data


def test_a_large_gap_between_records_of_one_age_begins_a_segment() -> None:
    """By size and age the batch would fit: only its offset does not."""
    rig = Rig.new().open()
    commit(rig.log, [batch(0, [record(1)])])
    commit(rig.log, [batch(SPAN_MAX + 1, [record(1)])])
    assert [info.base_offset for info in rig.log.segments()] == [0, SPAN_MAX + 1]


def test_rolling_an_empty_segment_changes_nothing() -> None:
    rig = Rig.new().open()
    calls = len(rig.disk.calls)
    rig.roll()
    assert len(rig.log.segments()) == 1
    assert all(call.kind == "sync_folder" for call in rig.disk.calls[calls:])


def test_points_leave_the_index_store_when_a_segment_is_sealed() -> None:
    rig = Rig.new().open()
    rig.commit(3, 3, 3)
    points = [key for key in rig.kv.rows() if key[4:5] in (b"O", b"T")]
    assert points
    rig.roll()
    assert not [key for key in rig.kv.rows() if key[4:5] in (b"O", b"T")]
    assert rig.disk.content(FOLDER / names.segment_file(Offset(0), names.OFFSET_INDEX))


def test_a_sealed_segment_rebuilt_is_the_same_segment() -> None:
    """Points come out the same whether they were collected on the way or afterwards."""
    rig = Rig.new().open()
    for count in (1, 4, 2, 2, 1, 1, 3):
        rig.commit(count)
    rig.roll()
    paths = [path for path in rig.disk.files() if path.suffix in (".index", ".timeindex")]
    before = [rig.disk.content(path) for path in paths]
    for path in paths:
        rig.disk.unlink(path)
    again = rig.fork().open()
    assert [again.disk.content(path) for path in paths] == before


# -- reading -------------------------------------------------------------------------------------


def test_reads_are_bounded_by_bytes_and_by_the_end() -> None:
    rig = Rig.new().open()
    batches = batches_from(0, (2, 2, 2))
    commit(rig.log, batches)
    two = len(batches[0].data) + len(batches[1].data)
    assert rig.log.read(Offset(0), two, Offset(6)) == batches[0].data + batches[1].data
    assert rig.log.read(Offset(0), two - 1, Offset(6)) == batches[0].data
    assert rig.log.read(Offset(0), 1 << 20, Offset(5)) == batches[0].data + batches[1].data
    assert rig.log.read(Offset(1), 1, Offset(6)) == batches[0].data, "the batch that holds it"
    assert rig.log.read(Offset(4), 1 << 20, Offset(5)) == b"", "it reaches past the end"
    assert rig.log.read(Offset(6), 1 << 20, Offset(6)) == b""


@pytest.mark.parametrize("window", [61, 150, 400, 1 << 17])
def test_a_healthy_log_is_read_the_short_way(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    """Whatever the size of its batches against what is read at once."""
    monkeypatch.setattr(reader, "WINDOW_BYTES", window)
    rig = Rig.new().open()
    for counts in ((1, 1, 5, 2), (9, 1), (3, 3, 3)) * 3:
        rig.commit(*counts)
    rig.roll()
    rig.commit(4, 1, 7)
    rig.rewrite(0, lambda offset: offset == 3)
    monkeypatch.setattr(reader, "_by_scan", None)
    end = rig.log.end_offset
    for offset in every(sorted(range(end), key=lambda offset: offset * 7 % end)):
        header = read_header(rig.log.read(Offset(offset), 1, end))
        assert header.base_offset <= offset <= header.last_offset


def test_a_reader_that_was_overtaken_by_a_trim_is_told() -> None:
    rig = Rig.new().open()
    rig.commit(3)
    rig.roll()
    rig.commit(3)
    segments = rig.log._segments.all
    log = rig.log

    def trim_then_fail(path: Path) -> OSError | None:
        rig.disk.read_trouble = lambda path: None
        log.trim(Offset(4))
        return OSError(errno.ENOENT, "gone", str(path))

    rig.disk.read_trouble = trim_then_fail
    with pytest.raises(OffsetOutOfRange) as caught:
        log.read(Offset(0), 100, Offset(6))
    assert (caught.value.start, caught.value.end) == (4, 6)
    assert log._segments.all is not segments


def test_without_an_index_there_is_no_look_up() -> None:
    log = open_log(SimDisk(), SimKV(), index_key=False, index_tag=False)
    commit(log, batches_from(0, (3,)))
    assert log.offsets_by_key(b"key-0", Offset(3)) is None
    assert log.offsets_by_tag(b"a", Offset(0), Offset(3)) is None


def test_recovery_indexes_what_the_config_says() -> None:
    rig = Rig.new().open()
    rig.commit(6)
    for keys, tags in ((True, False), (False, True), (False, False)):
        kv = SimKV()
        open_log(rig.disk.copy(), kv, index_key=keys, index_tag=tags)
        kinds = {key[4:5] for key in kv.rows()}
        assert (b"K" in kinds, b"G" in kinds) == (keys, tags)


def test_a_batch_that_does_not_decode_is_kept_and_not_indexed() -> None:
    """Stored without being looked into; readers will say what is wrong with it."""
    rig = Rig.new().open()
    huge = [Record(value=bytes(ROOM), key=b"key-0")]
    data = encode_batch(huge, now_ms=NOW, compression=Compression.ZSTD)
    commit(rig.log, [PlacedBatch(read_header(data), (data,), EMPTY_SCAN)])
    again = rig.after_crash(Power.KEPT, Loss.WIPED, Random(0)).open()
    assert again.log.read(Offset(0), 1, Offset(1)) == data
    found = again.log.offsets_by_key(b"key-0", Offset(1))
    assert found is not None
    assert list(found) == []


# -- reopening -----------------------------------------------------------------------------------


def test_a_closed_log_opens_without_reading_it() -> None:
    rig = Rig.new().open()
    rig.commit(3, 2)
    rig.roll()
    rig.append(4)
    rig.close()
    again = rig.after_crash(Power.LOST, Loss.NOTHING, Random(0))
    again.disk.read_trouble = not_a_log
    again.open()
    again.disk.read_trouble = lambda path: None
    again.ledger.check(again.log)


def not_a_log(path: Path) -> OSError | None:
    return OSError(errno.EIO, "read", str(path)) if path.suffix == names.LOG else None


def test_what_never_came_into_force_is_swept_away() -> None:
    rig = Rig.new().open()
    rig.commit(3)
    litter = [
        FOLDER / ("0" * 20 + ".log.cleaned"),
        FOLDER / ("0" * 20 + ".index.cleaned"),
        FOLDER / "start-offset.tmp",
    ]
    for path in litter:
        rig.disk.open(path, create=True)
    again = rig.fork().open()
    assert not set(litter) & set(again.disk.files())


def test_strangers_are_left_alone() -> None:
    rig = Rig.new().open()
    rig.disk.open(FOLDER / "notes.txt", create=True)
    rig.disk.open(FOLDER / names.SPEC, create=True)
    again = rig.fork().open()
    assert {FOLDER / "notes.txt", FOLDER / names.SPEC} <= set(again.disk.files())


def test_copies_of_torn_tails_are_few(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig.new().open()
    with caplog.at_level(logging.ERROR):
        for _ in range(8):
            rig.commit(1)
            rig.append(2)
            active = rig.log.segments()[-1].base_offset
            rig.disk.damage(FOLDER / names.segment_file(active, names.LOG), cut_at(-5))
            rig = rig.after_crash(*KILLED, Random(0)).open()
    copies = [found for found in rig.disk.files() if names.TORN in found.name]
    assert 1 <= len(copies) <= 4
    assert "torn tail" in caplog.text
    assert rig.log.end_offset == 8


def test_a_log_of_another_name_does_not_see_this_one() -> None:
    rig = Rig.new().open()
    rig.commit(3)
    other = open_log(rig.disk, rig.kv, FOLDER.with_name("other"))
    assert other.end_offset == 0
    assert len(read_log(rig.log).batches) == 1
