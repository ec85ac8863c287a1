"""Files of a shard that are lost, cut short or not its own: noticed, reported, and no offset is
given out twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from stratamq.log import names
from stratamq.log.disk import RealDisk
from stratamq.log.file_list import FileList
from stratamq.log.sidecar import SPAN_MAX
from stratamq.model.errors import CorruptRecord, OutOfResources, ShardPoisoned, StorageError
from stratamq.model.types import LeaderEpoch, Offset
from stratamq.wire.kafka.records import walk
from tests.log.crashing import KILLED
from tests.log.rig import Rig
from tests.log.support import FOLDER, NAME, NOW, batches_from, commit, open_log
from tests.twins.disk import SimDisk
from tests.twins.kv import SimKV
from tests.waiting import every

pytestmark = pytest.mark.usefixtures("dense_points")


def log_file(base: int, suffix: str = names.LOG) -> Path:
    return FOLDER / names.segment_file(Offset(base), suffix)


def build() -> Rig:
    """Segments at 0, 6 and 12; records 0 to 17, one each."""
    rig = Rig.new().open()
    for segment in range(3):
        if segment:
            rig.roll()
        rig.commit(1, 2, 3)
    assert rig.log.end_offset == 18
    return rig


def after(harm: Callable[[SimDisk], None]) -> Rig:
    rig = build().after_crash(*KILLED, Random(0))
    harm(rig.disk)
    return rig.open()


def remove(base: int) -> Callable[[SimDisk], None]:
    return lambda disk: disk.unlink(log_file(base))


def readable(rig: Rig) -> set[int]:
    """Every offset that a reader gets, asking for each in turn."""
    found = set()
    for offset in range(rig.log.start_offset, min(rig.log.end_offset, 40)):
        try:
            data = rig.log.read(Offset(offset), 1, rig.log.end_offset)
        except CorruptRecord:
            continue
        assert data, f"{offset} is neither read nor refused"
        found.add(offset)
    return found


ALL = set(range(18))


@pytest.mark.parametrize(("base", "gone"), [(0, range(6)), (6, range(6, 12)), (12, range(12, 18))])
def test_a_lost_segment_is_refused_and_its_offsets_are_not_given_again(
    base: int, gone: range
) -> None:
    rig = after(remove(base))
    assert any("missing" in line for line in rig.log.damage)
    assert (rig.log.start_offset, rig.log.end_offset) == (0, 18)
    assert readable(rig) == ALL - set(gone)
    commit(rig.log, batches_from(18, (2,)))
    again = rig.after_crash(*KILLED, Random(0)).open()
    assert readable(again) == (ALL | {18, 19}) - set(gone)
    assert any("missing" in line for line in again.log.damage), "it is still missing"


@pytest.mark.parametrize("base", [0, 6, 12])
def test_a_segment_that_is_brought_back_is_read_again(base: int) -> None:
    rig = build().after_crash(*KILLED, Random(0))
    kept = rig.disk.content(log_file(base))
    rig.disk.unlink(log_file(base))
    rig.open()
    commit(rig.log, batches_from(rig.log.end_offset, (1,)))
    again = rig.after_crash(*KILLED, Random(0))
    file = again.disk.open(log_file(base), create=True)
    file.write([kept], 0)
    file.sync()
    again.open()
    assert readable(again) == set(range(19))
    assert not again.log.damage


def test_the_newest_segment_and_the_index_are_lost() -> None:
    """Nobody knows how far it went: the log goes on above all that it can have held."""
    rig = build().after_crash(*KILLED, Random(0))
    rig.disk.unlink(log_file(12))
    rig = Rig(rig.disk, SimKV(), rig.ledger).open()
    assert rig.log.end_offset == 12 + SPAN_MAX + 1
    assert readable(rig) == set(range(12))


def restored(rig: Rig, older: dict[Path, bytes]) -> Rig:
    """The folder as it was when the copy was made; the index as it is now."""
    rig = rig.after_crash(*KILLED, Random(0))
    for path in rig.disk.files():
        if path.parent == FOLDER:
            rig.disk.unlink(path)
    for path, content in older.items():
        write(rig.disk, path, content)
    return rig.open()


def copied(rig: Rig) -> dict[Path, bytes]:
    return {path: rig.disk.content(path) for path in rig.disk.files() if path.parent == FOLDER}


@pytest.mark.parametrize("rolls", [1, 2])
@pytest.mark.parametrize("more", [(), (1,)], ids=["empty", "filled"])
def test_a_folder_that_is_older_than_the_index_gives_no_offset_twice(
    rolls: int, more: tuple[int, ...]
) -> None:
    rig = build()
    older = copied(rig)
    for _ in range(rolls):
        rig.commit(2)
        rig.roll()
    if more:
        rig.commit(*more)
    end = rig.log.end_offset
    found = restored(rig, older)
    assert found.log.end_offset == end
    assert readable(found) == ALL
    assert any(f"offsets 18 to {end - 1} are lost" in line for line in found.log.damage)
    commit(found.log, batches_from(end, (1,)))
    again = found.after_crash(*KILLED, Random(0)).open()
    assert readable(again) == ALL | {end}


def test_the_newest_segment_and_the_list_are_lost() -> None:
    rig = build().after_crash(*KILLED, Random(0))
    rig.disk.unlink(log_file(12))
    rig.disk.unlink(FOLDER / names.FILE_LIST)
    rig.open()
    assert rig.log.end_offset == 18
    assert readable(rig) == set(range(12))
    assert any("offsets 12 to 17 are lost" in line for line in rig.log.damage)


def test_all_files_of_a_shard_are_lost_and_the_index_knows_its_end() -> None:
    rig = build().after_crash(*KILLED, Random(0))
    for path in copied(rig):
        rig.disk.unlink(path)
    write(rig.disk, FOLDER / names.SPEC, b"")
    rig.open()
    assert (rig.log.end_offset, readable(rig)) == (18, set())
    assert any("offsets 0 to 17 are lost" in line for line in rig.log.damage)


def flip_first_batch(content: bytearray) -> None:
    content[80] ^= 1


@pytest.mark.parametrize("found_by", ["reader", "recovery"])
def test_nothing_is_added_to_a_file_with_damage_in_it(found_by: str) -> None:
    """An operator brings back a whole copy of it: that must not cost what was written since."""
    rig = build()
    if found_by == "recovery":
        rig = Rig(rig.disk, SimKV(), rig.ledger)
    rig = rig.after_crash(*KILLED, Random(0))
    whole = rig.disk.content(log_file(12))
    rig.disk.damage(log_file(12), flip_first_batch)
    rig.open()
    assert readable(rig) == ALL - {12}
    assert not rig.log.takes_at_once(10, NOW, LeaderEpoch(0))
    commit(rig.log, batches_from(18, (2,)))
    assert len(rig.disk.content(log_file(12))) == len(whole)
    again = rig.after_crash(*KILLED, Random(0))
    write(again.disk, log_file(12), whole)
    assert readable(again.open()) == ALL | {18, 19}
    assert not again.log.damage


def without(content: bytes, first: int, last: int) -> bytes:
    """The file without its batches `first` to `last - 1`."""
    starts = [span.position for span in walk(content)] + [len(content)]
    return content[: starts[first]] + content[starts[last] :]


def rewritten(rig: Rig, base: int, content: bytes) -> Rig:
    """After a stop, with other content in a file."""
    rig = rig.after_crash(*KILLED, Random(0))
    rig.disk.unlink(log_file(base))
    write(rig.disk, log_file(base), content)
    return rig.open()


@pytest.mark.parametrize("base", [0, 6, 12])
def test_batches_that_are_missing_in_the_middle_are_refused(base: int) -> None:
    """The second of three, with two records."""
    rig = build()
    rig = rewritten(rig, base, without(rig.disk.content(log_file(base)), 1, 2))
    assert rig.log.end_offset == 18
    assert readable(rig) == ALL - {base + 1, base + 2}
    assert rig.log.damage
    commit(rig.log, batches_from(18, (2,)))
    again = rig.after_crash(*KILLED, Random(0)).open()
    assert readable(again) == (ALL | {18, 19}) - {base + 1, base + 2}


@pytest.mark.parametrize("base", [0, 6, 12])
def test_one_read_does_not_lead_over_missing_batches(base: int) -> None:
    rig = build()
    rig = rewritten(rig, base, without(rig.disk.content(log_file(base)), 1, 2))
    data = rig.log.read(Offset(base), 1 << 20, Offset(18))
    assert walk(data)[-1].last_offset == base
    with pytest.raises(CorruptRecord) as refused:
        rig.log.read(Offset(base + 1), 1 << 20, Offset(18))
    assert refused.value.next_offset == base + 3


@pytest.mark.parametrize("other", [0, 6, 12])
@pytest.mark.parametrize("base", [0, 6, 12])
def test_another_segments_file_is_refused_whole(base: int, other: int) -> None:
    if base == other:
        return
    rig = build()
    content = rig.disk.content(log_file(other))
    rig = rewritten(rig, base, content)
    assert rig.log.end_offset == 18
    assert readable(rig) == ALL - set(range(base, base + 6))
    commit(rig.log, batches_from(18, (2,)))
    again = rig.after_crash(*KILLED, Random(0)).open()
    assert readable(again) == (ALL | {18, 19}) - set(range(base, base + 6))
    assert again.disk.content(log_file(base)) == content


def test_an_unsynced_first_batch_with_flipped_bits_is_a_torn_tail() -> None:
    """No CRC covers its base offset. Nothing of the segment was given out, so nothing is lost."""
    rig = build()
    rig.roll()
    rig.append(2)
    rig.disk.damage(log_file(18), lambda content: content.__setitem__(5, 0xFF))
    again = rig.after_crash(*KILLED, Random(0)).open()
    assert again.log.end_offset == 18
    assert ["torn tail" in line for line in again.log.damage] == [True]
    commit(again.log, batches_from(18, (2,)))
    assert readable(again) == ALL | {18, 19}


def test_a_batch_that_stands_twice_costs_nothing() -> None:
    rig = build()
    content = rig.disk.content(log_file(12))
    second = walk(content)[1]
    doubled = content[: second.position + second.size] + content[second.position :]
    rig = rewritten(rig, 12, doubled)
    assert rig.log.damage
    assert rig.disk.content(log_file(12)) == doubled
    assert readable(rig) == ALL
    commit(rig.log, batches_from(18, (2,)))
    assert readable(rig.after_crash(*KILLED, Random(0)).open()) == ALL | {18, 19}


def test_bytes_that_were_put_in_are_no_torn_tail() -> None:
    rig = build()
    content = rig.disk.content(log_file(12))
    at = walk(content)[1].position
    changed = content[:at] + bytes(300) + content[at:]
    rig = rewritten(rig, 12, changed)
    assert readable(rig) >= ALL - {13, 14}
    assert rig.disk.content(log_file(12)) == changed


def test_what_compaction_removed_is_no_damage() -> None:
    rig = build()
    rig.rewrite(1, lambda offset: offset in (7, 8))
    again = rig.after_crash(*KILLED, Random(0)).open()
    assert not again.log.damage
    assert walk(again.log.read(Offset(7), 1, Offset(18)))[0].base_offset == 9


@pytest.mark.parametrize("counts", [(2,), (9, 9)], ids=["in one segment", "over a roll"])
def test_gaps_that_a_leader_had_are_no_damage(counts: tuple[int, ...]) -> None:
    """The file list says so before such a batch is written."""
    rig = Rig.new().open()
    end = sum(counts)
    commit(rig.log, [*batches_from(0, counts), *batches_from(end + 3, (2, 1))])
    again = rig.after_crash(*KILLED, Random(0)).open()
    assert len(again.log.segments()) == len(counts)
    assert not again.log.damage
    for offset in every(range(end, end + 3)):
        data = again.log.read(Offset(offset), 1 << 20, Offset(end + 6))
        assert walk(data)[0].base_offset == end + 3


def test_a_segment_with_missing_batches_is_not_rewritten() -> None:
    """The rewritten one would have a gap that nobody misses."""
    rig = build()
    rig = rewritten(rig, 12, without(rig.disk.content(log_file(12)), 1, 2))
    with pytest.raises(CorruptRecord):
        rig.log.rewrite(Offset(12), lambda header, data: None)


def test_a_shortened_file_that_is_brought_back_is_not_reported_any_more() -> None:
    rig = build()
    content = rig.disk.content(log_file(12))
    rig = rewritten(rig, 12, content[: len(content) // 2])
    assert any("are lost" in line for line in rig.log.damage)
    commit(rig.log, batches_from(18, (2,)))
    back = rewritten(rig, 12, content)
    assert readable(back) == ALL | {18, 19}
    assert not back.log.damage
    again = back.after_crash(*KILLED, Random(0)).open()
    assert readable(again) == ALL | {18, 19}
    assert not again.log.damage


def test_nothing_is_acknowledged_into_a_file_that_was_removed(tmp_path: Path) -> None:
    """The disk keeps it open, and would take writes into it without an error."""
    disk, kv, folder = RealDisk(), SimKV(), tmp_path / NAME
    log = open_log(disk, kv, folder)
    commit(log, batches_from(0, (2,)))
    (folder / names.segment_file(Offset(0), names.LOG)).unlink()
    with pytest.raises(ShardPoisoned):
        log.append(batches_from(2, (1,)), durable=True)
    with pytest.raises(ShardPoisoned):
        commit(log, batches_from(2, (1,)))
    again = open_log(disk, kv, folder)
    assert again.end_offset >= 2
    assert any("missing" in line for line in again.damage)


@pytest.mark.parametrize("torn", [b"", b"3f2a9c10 cut"], ids=["whole list", "torn list"])
def test_a_truncation_that_a_crash_cut_off_loses_nothing_more(torn: bytes) -> None:
    """The index still names the segment that was removed."""
    rig = build()
    rig.log._files.note(["cutting 8", "segment 6", "removed 12"])
    rig.disk.unlink(log_file(12))
    list_file = rig.disk.open(FOLDER / names.FILE_LIST)
    list_file.write([torn], list_file.size())
    again = rig.after_crash(*KILLED, Random(0)).open()
    assert again.log.end_offset == 12
    assert not again.log.damage


@pytest.mark.parametrize("size", [0, 1, 100, -1])
def test_an_active_segment_that_is_cut_short_loses_only_its_end(size: int) -> None:
    def shorten(disk: SimDisk) -> None:
        file = disk.open(log_file(12))
        file.truncate(size if size >= 0 else file.size() - 1)
        file.sync()

    rig = after(shorten)
    assert any("cut short" in line or "missing" in line for line in rig.log.damage)
    assert rig.log.end_offset == 18
    assert readable(rig) < ALL
    assert readable(rig) >= set(range(12))
    commit(rig.log, batches_from(18, (2,)))
    left = readable(rig)
    again = rig.after_crash(*KILLED, Random(0)).open()
    assert readable(again) == left
    assert {18, 19} <= left


@pytest.mark.parametrize("size", [0, 1, 100, -1])
def test_a_sealed_segment_that_is_cut_short_is_no_gap(size: int) -> None:
    def shorten(disk: SimDisk) -> None:
        file = disk.open(log_file(6))
        file.truncate(size if size >= 0 else file.size() - 1)
        file.sync()

    rig = after(shorten)
    assert any("bytes, where it had" in line for line in rig.log.damage)
    found = readable(rig)
    assert found >= ALL - set(range(6, 12))
    assert 11 not in found
    with pytest.raises(CorruptRecord):
        rig.log.files_of(Offset(6))
    with pytest.raises(CorruptRecord):
        rig.log.rewrite(Offset(6), lambda header, data: bytes(data))


def test_a_segment_cut_at_a_batch_is_noticed_as_well() -> None:
    rig = build().after_crash(*KILLED, Random(0))
    whole = rig.disk.content(log_file(6))
    first = int.from_bytes(whole[8:12], "big") + 12
    file = rig.disk.open(log_file(6))
    file.truncate(first)
    file.sync()
    rig.open()
    assert readable(rig) == ALL - set(range(7, 12))


def test_a_file_that_is_not_the_shards_is_set_aside() -> None:
    def add(disk: SimDisk) -> None:
        file = disk.open(log_file(3), create=True)
        file.write([b"something else"], 0)
        file.sync()

    rig = after(add)
    assert readable(rig) == ALL
    assert rig.disk.content(FOLDER / (log_file(3).name + names.STRAY)) == b"something else"
    assert any("set aside" in line for line in rig.log.damage)


@pytest.mark.parametrize("harm", ["lost", "flipped", "cut"])
def test_a_damaged_list_costs_nothing(harm: str) -> None:
    path = FOLDER / names.FILE_LIST
    size = len(build().disk.content(path))
    for at in every(range(0, size, 7)):

        def spoil(disk: SimDisk, at: int = at) -> None:
            if harm == "lost":
                disk.unlink(path)
            elif harm == "flipped":
                disk.damage(path, lambda content: content.__setitem__(at, content[at] ^ 1))
            else:
                disk.open(path).truncate(at)

        rig = after(spoil)
        assert readable(rig) == ALL, at
        commit(rig.log, batches_from(18, (1,)))
        again = rig.after_crash(*KILLED, Random(0)).open()
        assert readable(again) == ALL | {18}
        assert not again.log.damage, "it was written again"


def small() -> Rig:
    """One segment with the records 0 to 5, and a list, since the log was trimmed."""
    rig = Rig.new().open()
    rig.commit(1, 2, 3)
    rig.log.trim(Offset(1))
    return rig


def write(disk: SimDisk, path: Path, content: bytes) -> None:
    file = disk.open(path, create=True)
    file.write([content], 0)
    file.sync()


def test_an_emptied_list_of_a_single_segment_costs_nothing() -> None:
    rig = small().after_crash(*KILLED, Random(0))
    rig.disk.open(FOLDER / names.FILE_LIST).truncate(0)
    rig.open()
    assert (rig.log.start_offset, rig.log.end_offset) == (1, 6)
    assert readable(rig) == set(range(1, 6))
    assert any(names.FILE_LIST in line for line in rig.log.damage)
    again = rig.after_crash(*KILLED, Random(0)).open()
    assert readable(again) == set(range(1, 6))
    assert not again.log.damage


def test_a_disk_that_is_full_at_the_first_roll_leaves_no_list() -> None:
    rig = Rig.new().open()
    rig.commit(1, 2, 3)
    rig.disk.capacity_bytes = rig.disk.used_bytes()
    with pytest.raises(OutOfResources):
        rig.log.roll()
    rig.disk.capacity_bytes = None
    again = rig.after_crash(*KILLED, Random(0)).open()
    assert readable(again) == set(range(6))
    assert not again.log.damage


@pytest.mark.parametrize("lines", [1, 2])
def test_a_list_that_is_older_than_the_folder_costs_nothing(lines: int) -> None:
    """As after a backup that copied the list first: the files that go on after it are taken."""
    rig = build().after_crash(*KILLED, Random(0))
    path = FOLDER / names.FILE_LIST
    whole = rig.disk.content(path).splitlines(keepends=True)
    rig.disk.open(path).truncate(sum(map(len, whole[:-lines])))
    rig.open()
    assert rig.log.end_offset == 18
    assert readable(rig) == ALL
    again = rig.after_crash(*KILLED, Random(0)).open()
    assert readable(again) == ALL
    assert not again.log.damage


def test_records_that_would_be_above_the_end_are_not_set_aside() -> None:
    """A file of the shard that its list does not name, and before it one that is gone: its offsets
    would be given out again."""
    rig = build()
    rig.roll()
    rig.commit(1)
    rig = rig.after_crash(*KILLED, Random(0))
    path = FOLDER / names.FILE_LIST
    whole = rig.disk.content(path).splitlines(keepends=True)
    rig.disk.open(path).truncate(sum(map(len, whole[:-2])))
    rig.disk.unlink(log_file(12))
    before = rig.disk.content(log_file(18))
    with pytest.raises(StorageError, match=log_file(18).name):
        rig.open()
    assert rig.disk.content(log_file(18)) == before
    rig.disk.rename(log_file(18), log_file(18).with_suffix(".away"))
    rig.open()
    assert readable(rig) >= set(range(12))


@pytest.mark.parametrize("base", [3, 19, 5_000_000_000, 99_999_999_999_999_999_999])
@pytest.mark.parametrize("content", [b"", b"something else"])
def test_a_foreign_log_file_moves_nothing(base: int, content: bytes) -> None:
    rig = build().after_crash(*KILLED, Random(0))
    write(rig.disk, log_file(base), content)
    rig.open()
    assert (rig.log.start_offset, rig.log.end_offset) == (0, 18)
    assert readable(rig) == ALL
    found = {path.name: rig.disk.content(path) for path in rig.disk.files()}
    assert content in (found.get(log_file(base).name), found.get(log_file(base).name + ".stray"))


def test_rewrites_that_were_cut_off_do_not_make_a_segment_look_damaged() -> None:
    rig = build()
    for size in (100, 90, 80):
        rig.log._files.note([f"sealed 6 {size}"])
    again = rig.after_crash(*KILLED, Random(0)).open()
    assert not again.log.damage
    assert readable(again) == ALL


def test_a_removed_segment_is_not_missed() -> None:
    rig = build()
    rig.log.trim(Offset(12))
    again = rig.after_crash(*KILLED, Random(0)).open()
    assert not again.log.damage
    assert again.log.start_offset == 12


def test_lost_offsets_can_be_truncated_and_trimmed() -> None:
    rig = after(remove(6))
    rig.log.truncate(Offset(9))
    assert rig.log.end_offset == 6
    commit(rig.log, batches_from(6, (1,)))
    again = rig.after_crash(*KILLED, Random(0)).open()
    assert readable(again) == set(range(7))
    assert not again.log.damage
    trimmed = after(remove(6))
    trimmed.log.trim(Offset(12))
    assert not trimmed.after_crash(*KILLED, Random(0)).open().log.damage


@pytest.mark.parametrize("name", [names.START_OFFSET, names.DELETIONS])
def test_a_lost_small_file_is_missed(name: str) -> None:
    rig = build()
    rig.log.trim(Offset(2))
    rig.log.delete([Offset(4)])
    crashed = rig.after_crash(*KILLED, Random(0))
    crashed.disk.unlink(FOLDER / name)
    crashed.open()
    assert any(name in line for line in crashed.log.damage)


def test_a_new_shard_has_no_list() -> None:
    disk, rig = SimDisk(), Rig.new()
    disk.make_folder(FOLDER)
    log = open_log(disk, rig.kv)
    commit(log, batches_from(0, (3,)))
    assert names.FILE_LIST not in disk.names(FOLDER)


def test_a_list_that_is_written_again_without_segments_misses_none() -> None:
    """A restart removes all segments before it begins a new one; a crash may come in between."""
    rig = build()
    rig.log._files.note(f"removed {info.base_offset}" for info in rig.log.segments())
    rig.log._files.write_again()
    again = FileList(rig.disk, FOLDER)
    assert (again.segments, again.lost, again.complete, again.damage) == ({}, {}, True, [])
