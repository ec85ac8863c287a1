"""Rewriting a segment takes the index rows of what is gone with it."""

from __future__ import annotations

import pytest

from stratamq.log import names, rewriting
from stratamq.log.contract import Rewriter
from stratamq.log.index import KEYS, TAGS
from stratamq.model.errors import DiskFull
from stratamq.model.types import Offset
from stratamq.wire.kafka.records import BatchHeader, drop_records
from tests.log.rig import Rig
from tests.log.support import FOLDER, ROOM, read_log
from tests.twins.kv import SimKV

pytestmark = pytest.mark.usefixtures("dense_points")


def looked_up(kv: SimKV) -> dict[bytes, bytes]:
    """Key and tag rows of all segments."""
    return {key: row for key, row in kv.rows().items() if key[4:5] in (KEYS, TAGS)}


def rebuilt(rig: Rig) -> dict[bytes, bytes]:
    """The rows of an index that is made from the log as it is."""
    other = rig.fork()
    other.kv = SimKV()
    other.open()
    return looked_up(other.kv)


def filled() -> Rig:
    rig = Rig.new().open()
    for _ in range(2):
        rig.commit(5, 1, 4)
        rig.roll()
    rig.commit(2)
    return rig


@pytest.mark.parametrize("rows_per_write", [1, 3, 1000])
@pytest.mark.parametrize(
    "gone", [{0}, {3, 4, 5}, set(range(9)), set(range(10)), {1, 11, 15}], ids=str
)
def test_no_row_outlives_its_record(
    gone: set[int], rows_per_write: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "ROWS_PER_WRITE", rows_per_write)
    rig = filled()
    before = looked_up(rig.kv)
    assert before == rebuilt(rig)
    for number in (1, 0):
        rig.rewrite(number, lambda at: at in gone)
    assert looked_up(rig.kv) == rebuilt(rig) != before
    rig.ledger.check(rig.log)


def test_rows_above_the_limit_stay_and_mislead_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "ROWS_PER_WRITE", 1)
    monkeypatch.setattr(rewriting, "ROWS_MAX", 1)
    rig = filled()
    rig.rewrite(0, lambda at: at in {0, 5, 6})
    assert looked_up(rig.kv).keys() > rebuilt(rig).keys()
    rig.ledger.check(rig.log)


def test_rows_of_a_segment_that_was_cut_since_are_left_alone() -> None:
    """Other records may be at the offsets of those that went."""
    rig = filled()

    def without_8(header: BatchHeader, data: memoryview) -> bytes | None:
        return drop_records(header, data, [8], ROOM)

    swap, *takings_back = rig.log.prepare_rewrite(Offset(0), without_8, frozenset())
    swap()
    rig.log.truncate(Offset(6))
    rig.log.append(rig._next_batches((4,), 0))
    rig.log.sync()
    rig.log.flush_index()
    for step in takings_back:
        step()
    assert takings_back
    left, right = looked_up(rig.kv), rebuilt(rig)
    assert left.items() >= right.items(), "a row too many costs a read, one too few a record"


def test_of_two_preparations_the_first_in_force_wins() -> None:
    """The second knows only the segment as it was."""
    rig = filled()

    def without(*gone: int) -> Rewriter:
        return lambda header, data: drop_records(header, data, list(gone), ROOM)

    first = rig.log.prepare_rewrite(Offset(0), without(8), frozenset())
    second = rig.log.prepare_rewrite(Offset(0), without(2, 3, 4), frozenset())
    for step in (*first, *second):
        step()
    found = read_log(rig.log).records(Offset(0))
    assert set(range(10)) - found.keys() == {8}
    assert looked_up(rig.kv) == rebuilt(rig)
    assert not [path for path in rig.disk.files() if path.name.endswith(names.CLEANED)]


def test_a_preparation_that_finds_no_room_changes_nothing() -> None:
    rig = filled()
    names = set(rig.disk.files())
    rig.disk.trouble = lambda call: OSError(28, "no room") if call.kind == "sync" else None
    with pytest.raises(DiskFull):
        rig.log.rewrite(Offset(0), lambda header, data: None if header.base_offset else bytes(data))
    rig.disk.trouble = lambda call: None
    assert set(rig.disk.files()) == names, "and leaves nothing"
    rig.commit(1)
    rig.ledger.check(rig.log)


def test_a_rewritten_segment_keeps_the_time_of_its_last_write() -> None:
    """Retention goes by it where records have no timestamps: compaction makes nothing younger."""
    rig = filled()
    path = FOLDER / names.segment_file(Offset(0), names.LOG)
    rig.disk.set_modified(path, 12345)
    rig.rewrite(0, lambda at: at == 0)
    assert rig.disk.modified_ms(path) == 12345
