"""Where a union read takes each offset from: exactly one place, whatever files there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.model.errors import InvalidConfig
from stratamq.spark.union.chunks import TASK_BYTES, Chunks, runs
from stratamq.spark.union.snapshot import OFFSET_BYTES, Range, Since, Snapshot, snapshot_of
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake, LakeFile, LakePartition


def file(base: int, end: int, *, parquet: bool = True, **more: object) -> LakeFile:
    said = {
        "base_offset": base,
        "end_offset": end,
        "final": True,
        "parquet_key": f"orders.id/data/{base}-{end}" if parquet else None,
        "log_key": None if parquet else f"orders.id/log/{base}",
        "rows": end - base,
        "min_timestamp": base,
        "max_timestamp": end - 1,
        "log_bytes": 1,
        **more,
    }
    return LakeFile(**said)  # type: ignore[arg-type]


def part(index: int, start: int, end: int, *files: LakeFile, deleted: tuple[int, ...] = ()):
    return LakePartition(
        partition_index=index,
        start_offset=start,
        local_start_offset=start,
        high_watermark=end + 5,
        last_stable_offset=end,
        deleted=deleted,
        files=files,
    )


def lake(*parts: LakePartition, **more: str) -> DescribedLake:
    return DescribedLake(name="orders", store_url="file:///store", partitions=parts, **more)


@st.composite
def partitions(draw: st.DrawFn, index: int) -> LakePartition:
    """Files without overlaps, in random formats, before a random start and behind a random end."""
    borders = sorted(draw(st.sets(st.integers(0, 60), max_size=12)))
    pairs = list(pairwise(borders))
    files = [file(*pair, parquet=draw(st.booleans())) for pair in pairs if draw(st.booleans())]
    start = draw(st.integers(0, 60))
    end = draw(st.integers(start, 70))
    deleted = tuple(sorted(draw(st.sets(st.integers(0, 60), max_size=5))))
    return part(index, start, end, *draw(st.permutations(files)), deleted=deleted)


def seen(cut: Snapshot, told: LakePartition) -> Counter[int]:
    """How often a read of the cut meets each offset."""
    index = told.partition_index
    keys = {one.parquet_key for one in cut.files}
    counted: Counter[int] = Counter()
    for one in told.files:
        if one.parquet_key in keys:
            counted.update(range(one.base_offset, one.end_offset))
    low = cut.starts.get(index, 0)
    gone = set(cut.deleted.get(index, ()))
    counted = Counter({at: n for at, n in counted.items() if at >= low and at not in gone})
    chunks = Chunks(cut.ranges, size=7)
    for found in chunks.of(range(chunks.count)):
        if found.partition == index:
            counted.update(range(found.start, found.end))
    return counted


@given(st.data())
def test_every_offset_comes_from_one_place(data: st.DataObject) -> None:
    told = data.draw(partitions(0))
    cut = snapshot_of(lake(told))
    inside = range(told.start_offset, told.last_stable_offset)
    in_files = {
        offset
        for one in told.files
        if one.parquet_key and one.end_offset <= told.last_stable_offset
        for offset in range(one.base_offset, one.end_offset)
    }
    expected = set(inside) - (set(told.deleted) & in_files)
    assert seen(cut, told) == Counter(expected)


def test_a_partition_is_asked_for_only_if_it_is_read() -> None:
    cut = snapshot_of(
        lake(
            part(0, 0, 10, file(2, 4)),
            part(1, 0, 8, file(0, 8)),
            part(2, 5, 5, file(0, 5)),
            part(3, 1, 6),
        )
    )
    assert cut.ranges == (Range(0, 0, 2), Range(0, 4, 10), Range(3, 1, 6))


def test_chunks_that_are_neighbours_are_fetched_together() -> None:
    chunks = Chunks((Range(0, 0, 5), Range(0, 5, 6), Range(1, 6, 9), Range(1, 11, 12)), size=2)
    assert [[tuple(one) for one in run] for run in runs(chunks.of(range(1, chunks.count)))] == [
        [(0, 2, 4), (0, 4, 5), (0, 5, 6)],
        [(1, 6, 8), (1, 8, 9)],
        [(1, 11, 12)],
    ]


@given(st.integers(1, 1 << 40), st.integers(1, 1000), st.none() | st.integers(1, 20))
def test_tasks_are_bounded(offsets: int, ranges: int, tasks_min: int | None) -> None:
    chunks = Chunks(tuple(Range(at, 0, offsets) for at in range(ranges)))
    tasks = chunks.tasks(100.0, tasks_min)
    assert 1 <= tasks <= chunks.count
    assert tasks >= min(tasks_min or 1, chunks.count)
    assert chunks.count == tasks or offsets * ranges * 100 <= tasks * TASK_BYTES


def test_the_size_of_an_offset_is_that_on_the_nodes() -> None:
    told = part(0, 0, 30)
    assert snapshot_of(lake(told)).offset_bytes == OFFSET_BYTES
    assert snapshot_of(lake(replace(told, local_bytes=350))).offset_bytes == 10.0


def test_a_topic_that_is_cold_altogether_needs_no_node() -> None:
    assert snapshot_of(lake(part(0, 0, 8, file(0, 8)))).ranges == ()


def test_a_start_within_a_file_is_told() -> None:
    cut = snapshot_of(lake(part(0, 3, 8, file(0, 8)), part(1, 8, 9, file(0, 8))))
    assert cut.starts == {0: 3}
    assert [one.base_offset for one in cut.files] == [0]


def test_files_of_a_later_time_are_left_out() -> None:
    told = lake(part(0, 0, 30, file(0, 10), file(10, 20), file(20, 30, rows=0)))
    assert [one.base_offset for one in snapshot_of(told, 9).files] == [0]
    assert [one.base_offset for one in snapshot_of(told, 10).files] == [0, 10]
    assert snapshot_of(told, 9).ranges == (), "what is left out is not asked of the nodes instead"


def test_what_is_older_is_left_out() -> None:
    parts = [part(at, 0, 30, file(0, 10), file(10, 20)) for at in range(3)]
    cut = snapshot_of(lake(*parts), since=Since(15, {0: 15, 1: 22, 2: -1}))
    assert [one.base_offset for one in cut.files] == [10, 10, 10]
    assert cut.ranges == (Range(0, 20, 30), Range(1, 22, 30))
    assert cut.since_ms == 15


def test_columns_are_those_of_the_schema_and_of_all_files() -> None:
    schema = '{"type":"record","name":"r","fields":[{"name":"a","type":"long"}]}'
    older = '[["a","long"],["b","string"]]'
    told = lake(part(0, 0, 9, file(0, 4, columns=older)), value_format="json", value_schema=schema)
    assert [(one.name, one.kind) for one in snapshot_of(told).columns] == [
        ("a", "long"),
        ("b", "string"),
    ]


def test_columns_that_contradict_each_other_are_refused() -> None:
    files = file(0, 4, columns='[["a","long"]]'), file(4, 8, columns='[["a","string"]]')
    with pytest.raises(InvalidConfig, match="column a is long"):
        snapshot_of(lake(part(0, 0, 9, *files)))
