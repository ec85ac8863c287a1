"""A topic whose seam moves, and a model of what a reader must see of it.

Segments are small and leave the local disk as soon as they are sealed; early files are written,
merged and replaced all the time, compaction runs, records are deleted, and jobs make files anew. A
`Seen` is a read that was cut at some moment and is carried out later: it must hold what was
committed at that moment, whatever became of the files since.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from stratamq.client import BlockingClient, TopicPartition, options_of
from stratamq.model.record import Record
from stratamq.spark.jobs import Outcome, apply_deletes, compact_files, convert_backlog
from stratamq.spark.union.reading import frame
from stratamq.spark.union.snapshot import Snapshot, snapshot_of
from tests.spark_union.deleting import DeletingNode
from tests.waiting import let_run_here, wait_until

SCHEMA = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'
SETTINGS = {
    "topic.flush": "os",
    "tier.interval.ms": "30",
    "lake.merge.files": "2",
    "lake.catalog.uri": "none",
}
FLAGS = tuple(
    part for name, value in SETTINGS.items() for part in (f"--{name.replace('.', '-')}", value)
)
CONFIGS = {
    "segment.bytes": "4000",
    "local.retention.bytes": "1",
    "lake.flush.interval.ms": "200",
    "lake.value.format": "json",
    "lake.value.schema": SCHEMA,
}
BUSY = {**SETTINGS, "housekeeping.interval.ms": "100"}
PARTITIONS = 2
JOBS: tuple[Callable[..., Outcome], ...] = (apply_deletes, apply_deletes, compact_files)


class Row(NamedTuple):
    partition: int
    offset: int
    id: int


@dataclass
class Seen:
    """A read, and what it must find. What is deleted later it may find or not."""

    cut: Snapshot
    rows: DataFrame
    expected: list[Row]
    deleted_before: int


@dataclass
class World:
    spark: SparkSession
    node: DeletingNode
    topic: str
    choice: random.Random
    logs: dict[int, list[Row]] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    deleted: list[Row] = field(default_factory=list)
    numbers: int = 0

    def create(self, **configs: str) -> None:
        self.tier_format = configs.get("tier.format", "parquet")
        self.client = BlockingClient(options_of(self.node.address, {}))
        create = self.client.asyncio.create_topic
        self.client.call(create(self.topic, PARTITIONS, configs={**CONFIGS, **configs}))
        self._sender = self.client.call(self.client.asyncio.sender())
        self._ends = 0
        self._background = ThreadPoolExecutor(1)
        self._job: Future[Outcome] | None = None
        self.done: list[Outcome] = []

    def close(self) -> None:
        self._background.shutdown()
        self.client.close()

    # -- what happens to the topic -----------------------------------------------------------------

    def write(self) -> None:
        partition, records = self._records()
        base = self.client.call(self._sender.send(TopicPartition(self.topic, partition), records))
        self._note(partition, base, records)

    def transact(self) -> None:
        """Two writes with others between them, committed or not."""
        self._ends += 1
        begin = self.client.asyncio.begin(f"{self.topic}-{self._ends}")
        transaction = self.client.call(begin)
        written = []
        for _ in range(2):
            partition, records = self._records()
            place = TopicPartition(self.topic, partition)
            written.append((partition, self.client.call(transaction.send(place, records)), records))
            self.write()
        commit = self.choice.random() < 0.5
        self.client.call(transaction.end(commit=commit))
        for partition, base, records in written if commit else ():
            self._note(partition, base, records)

    def flush(self) -> None:
        if self.tier_format != "log":
            self.client.call(self.client.asyncio.flush_lake(self.topic))

    def settle(self) -> None:
        let_run_here(self.choice.random() * 0.5)

    def delete(self) -> None:
        """A few records, wherever they are: often neighbours, sometimes whole batches."""
        rows = self.live()
        if rows:
            first = self.choice.randrange(len(rows))
            for row in rows[first : first + self.choice.choice([1, 1, 3, 40])]:
                assert self.node.delete(self.topic, row.partition, row.offset), row
                self.logs[row.partition].remove(row)
                self.deleted.append(row)

    def trim(self, reads: list[Seen]) -> None:
        """Not what a read under way has still to get from the node: that would be an error."""
        partition = self.choice.randrange(PARTITIONS)
        limits = [one.start for read in reads for one in read.cut.ranges if one[0] == partition]
        limits.append(max((row.offset for row in self.logs.get(partition, ())), default=0))
        start = self.choice.randint(0, max(min(limits), 0))
        if start > self.starts.get(partition, 0):
            admin = AdminClient({"bootstrap.servers": self.node.address})
            for done in admin.delete_records([Place(self.topic, partition, start)]).values():
                done.result(30)
            self.starts[partition] = start

    def work(self) -> None:
        """A job on history begins; the one before has ended."""
        self.settle_job()
        job = convert_backlog if self.choice.random() < 0.2 else self.choice.choice(JOBS)
        self._job = self._background.submit(job, self.spark, self.topic, servers=self.node.address)

    def settle_job(self) -> None:
        if self._job is not None:
            self.done.append(self._job.result(120))
            self._job = None

    # -- what readers do ---------------------------------------------------------------------------

    def live(self) -> list[Row]:
        """What is there now."""
        kept = (row for log in self.logs.values() for row in log)
        return sorted(row for row in kept if row.offset >= self.starts.get(row.partition, 0))

    def look(self) -> Seen:
        told = self.client.call(self.client.asyncio.describe_lake(self.topic))
        cut = snapshot_of(told)
        rows = frame(self.spark, cut, {"servers": self.node.address}, {}, "flat")
        return Seen(cut, rows, self.live(), len(self.deleted))

    def check(self, read: Seen) -> int:
        """How many files it went through."""
        rows = sorted(Row(*row) for row in read.rows.select("partition", "offset", "id").collect())
        may_miss = set(self.deleted[read.deleted_before :])
        missing = set(read.expected) - set(rows) - may_miss
        assert (sorted(missing), without(rows, read.expected)) == ([], [])
        return len(read.cut.files)

    def _records(self) -> tuple[int, list[Record]]:
        count = self.choice.randint(1, 60)
        ids = range(self.numbers, self.numbers + count)
        self.numbers += count
        values = [json.dumps({"id": one, "pad": "x" * 40}).encode() for one in ids]
        return self.choice.randrange(PARTITIONS), [Record(value=value) for value in values]

    def _note(self, partition: int, base: int, records: list[Record]) -> None:
        ids = [json.loads(record.value or b"")["id"] for record in records]
        rows = [Row(partition, base + at, one) for at, one in enumerate(ids)]
        self.logs.setdefault(partition, []).extend(rows)


def without(rows: list[Row], expected: list[Row]) -> list[Row]:
    """Rows that are not expected, or are there again."""
    left, extra = set(expected), []
    for row in rows:
        if row in left:
            left.remove(row)
        else:
            extra.append(row)
    return extra


class Following:
    """A streaming query over the topic, all the while."""

    def __init__(self, world: World) -> None:
        self._world, self._name = world, world.topic.replace("-", "_") + "_stream"
        reader = world.spark.readStream.format("stratamq").options(
            servers=world.node.address,
            topic=world.topic,
            startingOffsets="earliest",
            maxOffsetsPerTrigger="200",
        )
        rows = reader.load().selectExpr(
            "partition", "offset", "cast(get_json_object(cast(value as string), '$.id') as long)"
        )
        writer = rows.writeStream.format("memory").queryName(self._name)
        self._writer = writer.trigger(processingTime="500 milliseconds")
        self.query = self._writer.start()
        while not self._has_begun():
            self.query = self._writer.start()

    def _has_begun(self) -> bool:
        """Spark gives a worker ten seconds to start, which a busy machine may need."""
        wait_until(lambda: self.query.lastProgress or self.query.exception())
        error = self.query.exception()
        assert error is None or "failed to connect back" in str(error), error
        return error is None

    def catch_up(self) -> None:
        self.query.processAllAvailable()

    def check(self) -> None:
        """Each record once. What was deleted before it came there may be missing."""
        world = self._world
        rows = sorted(Row(*row) for row in world.spark.table(self._name).collect())
        kept = sorted(row for log in world.logs.values() for row in log)
        missing = set(kept) - set(rows)
        assert (sorted(missing), without(rows, [*kept, *world.deleted])) == ([], [])

    def stop(self) -> None:
        self.query.stop()
        self._world.spark.catalog.dropTempView(self._name)
