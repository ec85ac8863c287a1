"""Old snapshots go, with the metadata that only they had."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.lake.tables.snapshots import Past, SnapshotLimits, due
from stratamq.meta.tier.files import TierFile
from stratamq.tiering.tables.worker import StoreBlobs
from tests.lake.tables.conftest import OpenTables
from tests.lake.tables.files import make, wanted
from tests.lake.tables.readers import by_pyiceberg, users_table

snapshots = st.lists(
    st.builds(Past, st.integers(0, 50), st.integers(0, 1000)),
    max_size=12,
    unique_by=lambda one: one.snapshot_id,
)


@given(snapshots, st.sets(st.integers(0, 50)), st.integers(0, 1000), st.integers(0, 8), st.data())
def test_what_goes_is_old_or_too_much_and_has_no_name(
    past: list[Past], kept: set[int], now_ms: int, count_max: int, data: st.DataObject
) -> None:
    limits = SnapshotLimits(count_max=count_max, age_ms_max=data.draw(st.integers(0, 1000)))
    going = due(past, kept, now_ms, limits)
    assert not going & kept
    staying = [one for one in past if one.snapshot_id not in going | kept]
    assert len(staying) <= count_max
    assert all(now_ms - one.timestamp_ms <= limits.age_ms_max for one in staying)
    for one in past:
        if one.snapshot_id in going:
            newer = sum(other.timestamp_ms >= one.timestamp_ms for other in past) - 1
            assert newer >= count_max or now_ms - one.timestamp_ms > limits.age_ms_max


def metadata_files(blobs: StoreBlobs) -> set[str]:
    root = Path(blobs.url.removeprefix("file://"))
    return {path.name for path in root.glob("*/metadata/*")}


@pytest.mark.parametrize("replaced", [False, True])
def test_metadata_does_not_grow_with_time(
    open_tables: OpenTables, blobs: StoreBlobs, tmp_path: Path, replaced: bool
) -> None:
    tables = open_tables(limits=SnapshotLimits(count_max=3))
    files: list[TierFile] = []
    for number in range(40):
        if replaced:
            files = [make(blobs, 0, 0, number + 1)]
        else:
            files.append(make(blobs, 0, number, number + 1))
        tables.sync(wanted(files))
    with users_table(tmp_path / "lake" / "catalog.sqlite") as table:
        assert by_pyiceberg(table).rows == 40
        assert len(table.snapshots()) <= 4
        held = {
            manifest.manifest_path.rpartition("/")[2]
            for snapshot in table.snapshots()
            for manifest in snapshot.manifests(table.io)
        }
        lists = {one.manifest_list.rpartition("/")[2] for one in table.snapshots()}
    there = metadata_files(blobs)
    assert {name for name in there if name.endswith(".avro")} == held | lists
    assert len(there - held - lists) <= 22, "the metadata of some versions before"
    if replaced:
        assert len(held) < 12


def test_snapshots_go_by_age_when_nothing_else_happens(
    open_tables: OpenTables, blobs: StoreBlobs, tmp_path: Path
) -> None:
    later = [0]
    tables = open_tables(
        limits=SnapshotLimits(age_ms_max=60_000),
        now_ms=lambda: int(time.time() * 1000) + later[0],
    )
    files = [make(blobs, 0, number, number + 1) for number in range(3)]
    for count in (1, 2, 3):
        tables.sync(wanted(files[:count]))
    later[0] = 61_000
    assert tables.sync(wanted(files)).expired == 2
    assert tables.sync(wanted(files)).expired == 0
    with users_table(tmp_path / "lake" / "catalog.sqlite") as table:
        assert by_pyiceberg(table).rows == 3
        assert len(table.snapshots()) == 1


def test_a_snapshot_with_a_name_stays_readable(
    open_tables: OpenTables, blobs: StoreBlobs, tmp_path: Path
) -> None:
    tables = open_tables(limits=SnapshotLimits(count_max=1))
    tables.sync(wanted([make(blobs, 0, 0, 5)]))
    with users_table(tmp_path / "lake" / "catalog.sqlite") as table:
        first = table.current_snapshot()
        assert first is not None
        table.manage_snapshots().create_tag(first.snapshot_id, "audit").commit()
    for end in range(6, 10):
        tables.sync(wanted([make(blobs, 0, 0, end)]))
    with users_table(tmp_path / "lake" / "catalog.sqlite") as table:
        assert table.scan(snapshot_id=first.snapshot_id).to_arrow().num_rows == 5
        assert by_pyiceberg(table).rows == 9
