"""What is deleted leaves the files, by real Spark on a real node, and nobody sees a difference but
who looks into the files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stratamq.spark.jobs import (
    Outcome,
    apply_deletes,
    compact_files,
    convert_backlog,
    partitioned_copy,
)
from stratamq.spark.jobs.plan import FileRewrite, with_deletions
from stratamq.spark.jobs.running import _run
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake
from tests.spark_union.deleting import DeletingNode, deleting_node
from tests.spark_union.moved import SETTINGS, SOON_S, MovedTopic, moved
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.needs("java"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(600),
]
NewTopic = Callable[[str], MovedTopic]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeletingNode]:
    with deleting_node(tmp_path_factory.mktemp("deleting"), **SETTINGS) as node:
        yield node


@pytest.fixture
def topic(spark: SparkSession, node: DeletingNode) -> Iterator[NewTopic]:
    with ExitStack() as topics:

        def made(tier_format: str) -> MovedTopic:
            name = f"deleting-{next(_numbers)}"
            return topics.enter_context(moved(spark, node, name, tier_format))

        yield made


@pytest.mark.parametrize("tier_format", ["parquet", "both", "log"])
def test_what_is_deleted_is_gone(topic: NewTopic, tier_format: str) -> None:
    one = topic(tier_format)
    before = one.told().files
    assert len(before) > 3
    first, second, third = before[:3]
    all_rows = dict(one.rows)
    one.trim((first.base_offset + first.end_offset) // 2)
    one.delete(*one.within(second)[:3], one.within(third)[-1])
    gone = {value for offset, value in all_rows.items() if offset not in one.rows}
    one.check()
    assert gone <= one.stored(), "hidden, and still there"

    done = one.run(apply_deletes)
    assert (done.replaced, done.made, done.overtaken) == (3, 3, 0)
    one.check()
    formats = {(file.parquet_key is None, file.log_key is None) for file in one.told().files}
    assert formats == {(tier_format == "log", tier_format == "parquet")}, "as it was kept before"
    wait_until(lambda: not gone & one.stored(), "what was replaced is deleted", SOON_S)
    if tier_format != "log":
        cold_end = one.told().files[-1].end_offset
        live = {offset: value for offset, value in one.rows.items() if offset < cold_end}
        wait_until(lambda: one.iceberg() == live, "just the rows that count", SOON_S)

    files = one.told().files
    assert one.run(apply_deletes) == Outcome(), "it is done"
    assert one.told().files == files
    one.delete(one.within(third)[0])
    assert one.run(apply_deletes).made == 1
    one.check()


@pytest.mark.parametrize("is_past", [False, True])
def test_the_start_moves_on_while_a_job_runs(topic: NewTopic, is_past: bool) -> None:
    """Into the file that is being made anew, or past it."""
    one = topic("parquet")
    _, second, *_ = one.told().files
    one.delete(one.within(second)[0])

    def planned(lake: DescribedLake) -> list[FileRewrite]:
        wanted = with_deletions(lake)
        one.trim(second.end_offset + 3 if is_past else second.end_offset - 3)
        return wanted

    done = _run(one.spark, one.name, planned, servers=one.node.address)
    assert done.made + done.overtaken == 1
    one.check()
    one.run(apply_deletes)
    one.check()
    assert one.run(apply_deletes) == Outcome()


def test_raw_segments_stay_so_when_they_are_put_together(topic: NewTopic) -> None:
    one = topic("both")
    assert one.run(compact_files).made == 1
    (only,) = one.told().files
    assert only.parquet_key
    assert only.log_key
    one.check()


def test_a_whole_file_may_be_deleted(topic: NewTopic) -> None:
    one = topic("parquet")
    _, second, *_ = one.told().files
    one.delete(*one.within(second))
    assert one.run(apply_deletes).made == 1
    one.check()
    assert one.run(compact_files).made == 1
    one.check()
    assert one.run(apply_deletes) == Outcome()


@pytest.mark.parametrize("tier_format", ["parquet", "log"])
def test_two_at_once_do_the_work_of_one(topic: NewTopic, tier_format: str) -> None:
    one = topic(tier_format)
    files = one.told().files
    one.delete(*(one.within(file)[0] for file in files))
    jobs = {apply_deletes: len(files)}
    jobs |= {compact_files: 1} if tier_format == "parquet" else {convert_backlog: len(files)}
    for job, count in jobs.items():
        with ThreadPoolExecutor(2) as threads:
            done = list(threads.map(one.run, [job] * 2))
        assert sum(outcome.made for outcome in done) == count, done
        one.check()
    spans = [(file.base_offset, file.end_offset) for file in one.told().files]
    assert spans
    assert [one for one in itertools.pairwise(spans) if one[0][1] != one[1][0]] == []


def test_two_copies_at_once(topic: NewTopic, tmp_path: Path) -> None:
    one, target = topic("parquet"), tmp_path / "copies" / "table"

    def copy(_: int) -> None:
        servers = one.node.address
        partitioned_copy(one.spark, one.name, str(target), ["partition"], servers=servers)

    def copied() -> int:
        return one.spark.read.parquet(str(target)).count()

    copy(0)
    assert copied() == len(one.rows)
    one.delete(*list(one.rows)[:40])
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(copy, range(2)))
    assert copied() == len(one.rows)
    assert [path.name for path in target.parent.iterdir()] == ["table"]


def test_a_copy_that_fails_leaves_what_was_there(topic: NewTopic, tmp_path: Path) -> None:
    one, target = topic("parquet"), tmp_path / "copies" / "table"
    servers = one.node.address
    partitioned_copy(one.spark, one.name, str(target), ["partition"], servers=servers)
    with pytest.raises(Exception, match="no_such_column"):
        partitioned_copy(one.spark, one.name, str(target), ["no_such_column"], servers=servers)
    assert one.spark.read.parquet(str(target)).count() == len(one.rows)
    assert [path.name for path in target.parent.iterdir()] == ["table"]
