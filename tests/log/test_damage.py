"""Flipped bytes in stored batches: reported with file and position, everything else readable.

Every test takes the corrupting function as a parameter and looks at every single offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from stratamq.log import names
from stratamq.log.shard_log import FileShardLog
from stratamq.model.errors import CorruptRecord
from stratamq.model.record import Record
from stratamq.model.types import Offset
from stratamq.wire.kafka.records import encode_batch, iter_batches, read_header
from tests.log.ledger import check_lookups
from tests.log.rig import Rig
from tests.log.support import (
    FOLDER,
    NOW,
    batch,
    batches_from,
    commit,
    cut_at,
    placed,
    read_log,
    record,
)
from tests.twins.disk import Power
from tests.twins.kv import Loss, SimKV
from tests.waiting import every

pytestmark = pytest.mark.usefixtures("dense_points")

Corrupt = Callable[[bytearray, int, int], None]
"""Spoils the batch that lies at this position and has this size."""


def flip(at: int, bit: int = 0) -> Corrupt:
    def corrupt(content: bytearray, position: int, size: int) -> None:
        content[position + at] ^= 1 << bit

    return corrupt


def flip_body(content: bytearray, position: int, size: int) -> None:
    content[position + size - 1] ^= 0x10


def zero(first: int, last: int | None) -> Corrupt:
    def corrupt(content: bytearray, position: int, size: int) -> None:
        stop = size if last is None else last
        content[position + first : position + stop] = bytes(stop - first)

    return corrupt


def put(at: int, value: int, width: int) -> Corrupt:
    def corrupt(content: bytearray, position: int, size: int) -> None:
        content[position + at : position + at + width] = value.to_bytes(width, "big", signed=True)

    return corrupt


DAMAGES: dict[str, Corrupt] = {
    "base offset, highest byte": flip(0, 6),
    "base offset, sign": flip(0, 7),
    "base offset, middle byte": flip(5, 1),
    "base offset, lowest bit": flip(7, 0),
    "base offset, by two": flip(7, 1),
    "base offset, by eight": flip(7, 3),
    "base offset zero": put(0, 0, 8),
    "length, lowest bit": flip(11, 0),
    "length, by 256": flip(10, 0),
    "length, huge": flip(8, 5),
    "length, negative": flip(8, 7),
    "length zero": put(8, 0, 4),
    "magic": flip(16, 0),
    "crc": flip(19, 3),
    "attributes": flip(22, 4),
    "last offset delta, up": flip(26, 4),
    "last offset delta zero": put(23, 0, 4),
    "last offset delta, negative": flip(23, 7),
    "max timestamp": flip(40, 2),
    "record count": flip(60, 1),
    "first byte of the body": flip(61, 0),
    "last byte of the body": flip_body,
    "header zeroed": zero(0, 61),
    "half the header zeroed": zero(8, 40),
    "all of it zeroed": zero(0, None),
    "the body zeroed": zero(61, None),
}

COUNTS = (3, 1, 2, 4, 1)


def build() -> Rig:
    """Two sealed segments and an active one, all alike."""
    rig = Rig.new().open()
    for number in range(3):
        for count in COUNTS:
            rig.commit(count)
        if number < 2:
            rig.roll()
    return rig


class Target(NamedTuple):
    """One batch of the log."""

    path: Path
    position: int
    size: int
    first: int
    last: int


def targets(rig: Rig) -> Iterator[Target]:
    for info in rig.log.segments():
        path = FOLDER / names.segment_file(info.base_offset, names.LOG)
        position = 0
        for header, data in iter_batches(rig.disk.content(path)):
            yield Target(path, position, len(data), header.base_offset, header.last_offset)
            position += len(data)


def check_all_but(log: FileShardLog, good: dict[int, bytes], bad: Target) -> None:
    """Each offset by itself: the batch that holds it, or an error that names the damage."""
    for offset in map(Offset, range(log.start_offset, log.end_offset)):
        if bad.first <= offset <= bad.last:
            with pytest.raises(CorruptRecord) as caught:
                log.read(offset, 1, log.end_offset)
            error = caught.value
            assert (error.file, error.position) == (str(bad.path), bad.position)
            assert (error.offset, error.next_offset) == (offset, bad.last + 1)
        else:
            data = log.read(offset, 1, log.end_offset)
            assert data == good[read_header(data).base_offset]
            assert read_header(data).base_offset <= offset <= read_header(data).last_offset
    in_order = read_log(log, 10_000)
    assert [header.base_offset for header, _ in in_order.batches] == [
        base for base in sorted(good) if base != bad.first
    ]
    assert [found.offset for found in in_order.damaged] == [bad.first]


def spoil(rig: Rig, target: Target, corrupt: Corrupt) -> None:
    rig.disk.damage(target.path, lambda content: corrupt(content, target.position, target.size))


def spoilt(rig: Rig, corrupt: Corrupt) -> list[Target]:
    """The batches that this damage changes: a zero that is made zero is none."""
    found = []
    for target in targets(rig):
        content = bytearray(rig.disk.content(target.path))
        corrupt(content, target.position, target.size)
        if content != rig.disk.content(target.path):
            found.append(target)
    return found


@pytest.mark.parametrize("corrupt", DAMAGES.values(), ids=DAMAGES)
def test_damage_under_an_open_log(corrupt: Corrupt) -> None:
    built = build()
    for target in spoilt(built, corrupt):
        rig = built.fork().open()
        spoil(rig, target, corrupt)
        check_all_but(rig.log, rig.ledger.certain, target)


@pytest.mark.parametrize("corrupt", DAMAGES.values(), ids=DAMAGES)
def test_damage_of_what_was_synced_survives_a_restart_as_damage(corrupt: Corrupt) -> None:
    built = build()
    for target in every(spoilt(built, corrupt)):
        rig = built.after_crash(Power.KEPT, Loss.NOTHING, Random(0))
        spoil(rig, target, corrupt)
        rig.open()
        assert rig.log.end_offset == built.log.end_offset, "the log end is known to the index"
        check_all_but(rig.log, rig.ledger.certain, target)
        rig.commit(2)
        assert len(read_log(rig.log).batches) == 3 * len(COUNTS)


@pytest.mark.parametrize("corrupt", DAMAGES.values(), ids=DAMAGES)
def test_damage_and_no_index(corrupt: Corrupt) -> None:
    """Then damage of the last batches cannot be told from a torn write: they are cut, and kept
    aside. Of the one before the last this is so when nobody can tell how many records it had."""
    built = build()
    for target in every(spoilt(built, corrupt)):
        rig = built.after_crash(Power.KEPT, Loss.WIPED, Random(0))
        spoil(rig, target, corrupt)
        content = rig.disk.content(target.path)
        rig.open()
        if target.last + 2 < built.log.end_offset or rig.log.end_offset > target.last:
            assert rig.log.end_offset == built.log.end_offset
            check_all_but(rig.log, rig.ledger.certain, target)
        else:
            assert rig.log.end_offset == target.first
            assert sorted(read_log(rig.log).records()) == list(range(target.first))
            copy = FOLDER / (target.path.name + f"{names.TORN}{target.position}")
            assert rig.disk.content(copy) == content[target.position :]
        report = " ".join(rig.log.damage)
        assert str(target.path) in report
        assert f"byte {target.position}" in report


@pytest.mark.parametrize("corrupt", DAMAGES.values(), ids=DAMAGES)
def test_damage_of_what_was_never_synced(corrupt: Corrupt) -> None:
    """It was not acknowledged: it may go, with a copy kept; nothing before it may."""
    built = build()
    built.append(2, 3, 1)
    end = built.ledger.end_min
    for target in every([target for target in spoilt(built, corrupt) if target.first >= end]):
        rig = built.after_crash(Power.KEPT, Loss.NOTHING, Random(0))
        spoil(rig, target, corrupt)
        rig.open()
        found = read_log(rig.log)
        assert {header.base_offset for header, _ in found.batches} >= set(rig.ledger.certain)
        rig.ledger.check(rig.log)
        assert any(str(target.path) in text for text in rig.log.damage)
        rig.commit(1)


def test_two_damages_in_one_segment() -> None:
    built = build()
    all_targets = list(targets(built))
    for first, second in [(0, 1), (0, 2), (1, 3), (5, 9), (10, 14), (3, 6)]:
        rig = built.fork().open()
        bad = all_targets[first], all_targets[second]
        spoil(rig, bad[0], zero(0, 61))
        spoil(rig, bad[1], flip_body)
        content = read_log(rig.log)
        lost = {offset for target in bad for offset in range(target.first, target.last + 1)}
        assert set(content.records()) == set(range(rig.log.end_offset)) - lost


# -- records that hold batches -------------------------------------------------------------------


def nested(base: int, inner_base: int) -> list[Record]:
    """Records whose values are batches themselves, with offsets that would fit."""
    inner = encode_batch([record(900), record(901)], now_ms=NOW, base_offset=inner_base)
    return [record(1), Record(value=inner * 2), Record(value=inner), record(2)]


@pytest.mark.parametrize("corrupt", DAMAGES.values(), ids=DAMAGES)
def test_a_batch_inside_a_record_is_never_taken_for_one_of_the_log(corrupt: Corrupt) -> None:
    built = Rig.new().open()
    for base in (0, 4, 8):
        commit(built.log, [batch(base, nested(base, base + 4))])
    good: dict[int, bytes] = {
        header.base_offset: data for header, data in read_log(built.log).batches
    }
    for target in spoilt(built, corrupt):
        rig = built.fork().open()
        spoil(rig, target, corrupt)
        check_all_but(rig.log, good, target)


def test_a_torn_batch_full_of_batches_is_cut_wherever_it_was_torn() -> None:
    built = Rig.new().open()
    commit(built.log, batches_from(0, (2,)))
    path = FOLDER / names.segment_file(Offset(0), names.LOG)
    whole = len(built.disk.content(path))
    torn = batch(2, nested(2, 2))
    built.log.append([torn])
    for size in every(range(1, len(torn.data))):
        rig = built.after_crash(Power.KEPT, Loss.WIPED, Random(0))
        rig.disk.damage(path, cut_at(whole + size))
        rig.open()
        assert rig.log.end_offset == 2, f"torn after {size} bytes"


def test_a_large_batch_is_read_over_and_reported_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Larger than what is read at once, while looking for an offset and while scanning."""
    monkeypatch.setattr("stratamq.log.reader.WINDOW_BYTES", 150)
    monkeypatch.setattr("stratamq.log.scan.SCAN_BYTES", 200)
    built = build()
    for corrupt in (flip_body, flip(7, 0), flip(8, 5), zero(0, 61)):
        for target in spoilt(built, corrupt):
            rig = built.fork().open()
            spoil(rig, target, corrupt)
            check_all_but(rig.log, rig.ledger.certain, target)


def test_a_log_of_compaction_leaves_gaps_that_are_not_damage() -> None:
    rig = build()
    rig.rewrite(0, lambda offset: offset in (0, 1, 2, 5, 9))
    rig.rewrite(1, lambda offset: offset not in (14, 15, 16, 19))
    for log in (rig.log, rig.fork().open().log):
        content = read_log(log)
        assert not content.damaged
        bases = sorted(rig.ledger.certain)
        for offset in map(Offset, range(log.end_offset)):
            holder = next(base for base in bases if offset <= last_of(rig.ledger.certain[base]))
            assert read_header(log.read(offset, 1, log.end_offset)).base_offset == holder


def last_of(data: bytes) -> int:
    return read_header(data).last_offset


def test_a_flipped_leader_epoch_is_set_right_from_the_history() -> None:
    """It is outside the CRC; but the history was durable before the batch was written."""
    built = Rig.new().open()
    built.commit(2, epoch=3)
    built.append(2, 1, epoch=5)
    for target in every(list(targets(built))[1:]):
        rig = built.after_crash(Power.KEPT, Loss.NOTHING, Random(0))
        spoil(rig, target, flip(15, 1))
        rig.open()
        rig.ledger.check(rig.log)
        assert len(read_log(rig.log).batches) == 3
        assert [entry.epoch for entry in rig.log.epochs()] == [3, 5]


def test_damaged_segments_are_not_rewritten() -> None:
    rig = build()
    target = next(targets(rig))
    spoil(rig, target, flip_body)
    with pytest.raises(CorruptRecord, match="not rewritten"):
        rig.log.rewrite(Offset(0), lambda header, data: bytes(data))
    check_all_but(rig.log, rig.ledger.certain, target)


def test_a_truncation_behind_damage_keeps_what_lies_between() -> None:
    built = build()
    for target in every(list(targets(built))[10:13]):
        rig = built.fork().open()
        spoil(rig, target, zero(0, 61))
        rig.log.truncate(Offset(31))
        assert rig.log.end_offset == 28, "a batch that reaches past the end goes as a whole"
        lost = set(range(target.first, target.last + 1))
        assert set(read_log(rig.log).records()) == set(range(28)) - lost


def test_a_truncation_into_damage_cuts_there() -> None:
    built = build()
    for target in every(list(targets(built))[10:]):
        rig = built.fork().open()
        spoil(rig, target, zero(0, 61))
        rig.log.truncate(Offset(target.last))
        assert rig.log.end_offset in (target.first, target.last)
        assert set(read_log(rig.log).records()) == set(range(target.first))
        commit(rig.log, [placed(batches_from(rig.log.end_offset, (3,))[0].data)])
        assert not read_log(rig.log).damaged or rig.log.end_offset == target.last + 3


@pytest.mark.parametrize("damaged", [(0, 1, 3), (1, 2, 4), (0, 2, 3)], ids=str)
def test_what_can_be_read_between_damage_is_found_by_key_and_time(damaged: tuple[int, ...]) -> None:
    """Recovery, in search of a torn tail, wants more witnesses than a reader."""
    rig = Rig.new().open()
    rig.commit(1, 1, 1, 1, 1, 1, 1)
    path = FOLDER / names.segment_file(Offset(0), names.LOG)
    position, spoilt = 0, bytearray(rig.disk.content(path))
    for number, (header, _) in enumerate(iter_batches(bytes(spoilt))):
        if number in damaged:
            flip_body(spoilt, position, header.size_bytes)
        position += header.size_bytes
    rig.disk.damage(path, lambda content: content.__setitem__(slice(None), spoilt))
    found = Rig(rig.disk, SimKV(), rig.ledger).open()
    content = read_log(found.log)
    assert content.records(Offset(0)).keys() == set(range(7)) - set(damaged)
    check_lookups(found.log, content)
