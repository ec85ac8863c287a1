"""What is deleted leaves the files, by real Spark on a real node, and nobody sees a difference but
who looks into the files."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import stratamq.spark
from stratamq.client import BlockingClient, TopicPartition, options_of, visible_batches
from stratamq.model.record import Record
from stratamq.spark.jobs import (
    Outcome,
    apply_deletes,
    compact_files,
    convert_backlog,
    partitioned_copy,
)
from stratamq.wire.kafka.protocol.messages.lake import LakeFile, LakePartition
from stratamq.wire.kafka.records import decode_batch, iter_batches, walk
from tests.lake.tables.readers import users_table
from tests.spark_union.deleting import DeletingNode, deleting_node

pytestmark = [
    pytest.mark.needs("java"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(600),
]
SETTINGS = {
    "topic.flush": "os",
    "tier.interval.ms": "30",
    "tier.orphan.grace.ms": "5000",  # longer than it takes to commit what was stored
}
SOON_S = 60
BATCHES, PER_BATCH = 10, 25

Rows = dict[int, bytes]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeletingNode]:
    with deleting_node(tmp_path_factory.mktemp("deleting"), **SETTINGS) as node:
        yield node


def soon(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


@dataclass
class Topic:
    """A topic of one partition, most of which has moved, and every way to read it."""

    spark: SparkSession
    node: DeletingNode
    client: BlockingClient
    name: str
    rows: Rows

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.name, 0)

    def told(self) -> LakePartition:
        return self.client.call(self.client.asyncio.describe_lake(self.name)).partitions[0]

    def within(self, file: LakeFile) -> list[int]:
        """Offsets of it that count."""
        return [at for at in range(file.base_offset, file.end_offset) if at in self.rows]

    def has_moved(self) -> bool:
        """All that was sealed, and for a while nothing else."""
        before = self.told()
        time.sleep(1)
        now = self.told()
        return now.local_start_offset > 200 and now.files == before.files and not now.moving

    def delete(self, *offsets: int) -> None:
        for offset in offsets:
            assert self.node.delete(self.name, 0, offset)
            del self.rows[offset]

    def trim(self, start: int) -> None:
        self.client.call(self.client.asyncio.delete_records(self.place, start))
        self.rows = {offset: value for offset, value in self.rows.items() if offset >= start}

    def run(self, job: Callable[..., Outcome]) -> Outcome:
        return job(self.spark, self.name, servers=self.node.address)

    # -- who reads it ------------------------------------------------------------------------------

    def fetched(self) -> Rows:
        found: Rows = {}
        offset, end = self.told().start_offset, self.told().last_stable_offset
        while offset < end:
            answer = self.client.call(self.client.asyncio.fetch(self.place, offset, committed=True))
            if not answer.data:
                break  # what is left was deleted
            for header, batch in visible_batches(answer.data, answer.aborted):
                records = decode_batch(header, batch)
                found |= {one.offset: one.value or b"" for one in records if one.offset >= offset}
            offset = walk(answer.data)[-1].last_offset + 1
        return found

    def united(self) -> Rows:
        rows = stratamq.spark.topic(self.spark, self.name, servers=self.node.address)
        return {row.offset: bytes(row.value) for row in rows.select("offset", "value").collect()}

    def iceberg(self) -> Rows:
        with users_table(self.node.data / "lake" / "catalog.sqlite", self.name) as table:
            rows = table.scan("aborted = false", selected_fields=("offset", "value")).to_arrow()
        return dict(zip(*rows.select(["offset", "value"]).to_pydict().values(), strict=True))

    def check(self) -> None:
        assert self.fetched() == self.rows
        assert self.united() == self.rows

    def stored(self) -> set[bytes]:
        """The values of all objects that the store has of it, whoever names them."""
        url = self.client.call(self.client.asyncio.describe_lake(self.name)).store_url
        found: set[bytes] = set()
        for path in Path(url.removeprefix("file://")).glob(f"{self.name}.*/**/*"):
            try:
                if path.suffix == ".parquet":
                    found |= set(pq.read_table(path, columns=["value"])["value"].to_pylist())
                elif path.suffix == ".log":
                    found |= set(raw_values(path.read_bytes()))
            except FileNotFoundError:
                pass  # it has just been deleted
        return found


def raw_values(data: bytes) -> Iterator[bytes]:
    for header, batch in iter_batches(data):
        if not header.is_control:
            yield from (record.value or b"" for record in decode_batch(header, batch))


@pytest.fixture
def topic(spark: SparkSession, node: DeletingNode) -> Iterator[Callable[[str], Topic]]:
    with BlockingClient(options_of(node.address, {})) as client:

        def made(tier_format: str) -> Topic:
            name = f"deleting-{next(_numbers)}"
            configs = {
                "segment.bytes": "4000",
                "local.retention.bytes": "1",
                "tier.format": tier_format,
            }
            client.call(client.asyncio.create_topic(name, 1, configs=configs))
            one = Topic(spark, node, client, name, {})
            fill(one)
            soon(one.has_moved, "nothing moved")
            return one

        yield made


def fill(topic: Topic) -> None:
    """With values that nobody else has, and a transaction that does not count."""
    client = topic.client
    sender = client.call(client.asyncio.sender())
    for number in range(BATCHES):
        some = [Record(value=secrets.token_bytes(90)) for _ in range(PER_BATCH)]
        base = client.call(sender.send(topic.place, some))
        topic.rows |= {base + at: one.value or b"" for at, one in enumerate(some)}
        if number == 2:
            aborted = client.call(client.asyncio.begin(f"{topic.name}-abort"))
            client.call(aborted.send(topic.place, [Record(value=b"aborted")] * PER_BATCH))
            client.call(aborted.end(commit=False))


@pytest.mark.parametrize("tier_format", ["parquet", "both", "log"])
def test_what_is_deleted_is_gone(topic: Callable[[str], Topic], tier_format: str) -> None:
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
    soon(lambda: not gone & one.stored(), "what was replaced is deleted")
    if tier_format != "log":
        cold_end = one.told().files[-1].end_offset
        live = {offset: value for offset, value in one.rows.items() if offset < cold_end}
        soon(lambda: one.iceberg() == live, "the table has just the rows that count")

    files = one.told().files
    assert one.run(apply_deletes) == Outcome(), "it is done"
    assert one.told().files == files
    one.delete(one.within(third)[0])
    assert one.run(apply_deletes).made == 1
    one.check()


def test_a_whole_file_may_be_deleted(topic: Callable[[str], Topic]) -> None:
    one = topic("parquet")
    _, second, *_ = one.told().files
    one.delete(*one.within(second))
    assert one.run(apply_deletes).made == 1
    one.check()
    assert one.run(compact_files).made == 1
    one.check()
    assert one.run(apply_deletes) == Outcome()


@pytest.mark.parametrize("tier_format", ["parquet", "log"])
def test_two_at_once_do_the_work_of_one(topic: Callable[[str], Topic], tier_format: str) -> None:
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
    assert all(end == base for (_, end), (base, _) in itertools.pairwise(spans))


def test_two_copies_at_once(topic: Callable[[str], Topic], tmp_path: Path) -> None:
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


def test_a_copy_that_fails_leaves_what_was_there(
    topic: Callable[[str], Topic], tmp_path: Path
) -> None:
    one, target = topic("parquet"), tmp_path / "copies" / "table"
    servers = one.node.address
    partitioned_copy(one.spark, one.name, str(target), ["partition"], servers=servers)
    with pytest.raises(Exception, match="no_such_column"):
        partitioned_copy(one.spark, one.name, str(target), ["no_such_column"], servers=servers)
    assert one.spark.read.parquet(str(target)).count() == len(one.rows)
    assert [path.name for path in target.parent.iterdir()] == ["table"]
