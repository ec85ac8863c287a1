"""A topic whose seam moves, and a model of what a reader must see of it.

Segments are small and leave the local disk as soon as they are sealed; early files are written,
merged and replaced all the time. A `Seen` is a read that was cut at some moment and is carried out
later: it must hold what was committed at that moment, whatever became of the files since.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from stratamq.client import BlockingClient, TopicPartition, options_of
from stratamq.model.record import Record
from stratamq.spark.union.reading import frame
from stratamq.spark.union.snapshot import Snapshot, snapshot_of

SCHEMA = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'
FLAGS = (
    *("--topic-flush", "os"),
    *("--tier-interval-ms", "30"),
    *("--lake-merge-files", "2"),
    *("--lake-catalog-uri", "none"),
)
CONFIGS = {
    "segment.bytes": "4000",
    "local.retention.bytes": "1",
    "lake.flush.interval.ms": "200",
    "lake.value.format": "json",
    "lake.value.schema": SCHEMA,
}
PARTITIONS = 2


class Row(NamedTuple):
    partition: int
    offset: int
    id: int


@dataclass
class Seen:
    """A read, and what it must find."""

    cut: Snapshot
    rows: DataFrame
    expected: list[Row]


@dataclass
class World:
    spark: SparkSession
    address: str
    topic: str
    choice: random.Random
    logs: dict[int, list[Row]] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    numbers: int = 0

    def __post_init__(self) -> None:
        self.client = BlockingClient(options_of(self.address, {}))
        self.client.call(self.client.asyncio.create_topic(self.topic, PARTITIONS, configs=CONFIGS))
        self._sender = self.client.call(self.client.asyncio.sender())
        self._ends = 0

    def close(self) -> None:
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
        self.client.call(self.client.asyncio.flush_lake(self.topic))

    def settle(self) -> None:
        time.sleep(self.choice.random() * 0.5)

    def trim(self, reads: list[Seen]) -> None:
        """Not what a read under way has still to get from the node: that would be an error."""
        partition = self.choice.randrange(PARTITIONS)
        limits = [one.start for read in reads for one in read.cut.ranges if one[0] == partition]
        limits.append(max((row.offset for row in self.logs.get(partition, ())), default=0))
        start = self.choice.randint(0, max(min(limits), 0))
        if start > self.starts.get(partition, 0):
            admin = AdminClient({"bootstrap.servers": self.address})
            for done in admin.delete_records([Place(self.topic, partition, start)]).values():
                done.result(30)
            self.starts[partition] = start

    # -- what readers do ---------------------------------------------------------------------------

    def look(self) -> Seen:
        told = self.client.call(self.client.asyncio.describe_lake(self.topic))
        cut = snapshot_of(told)
        rows = frame(self.spark, cut, {"servers": self.address}, {}, "flat")
        kept = [row for log in self.logs.values() for row in log]
        return Seen(cut, rows, sorted(r for r in kept if r.offset >= self.starts.get(r[0], 0)))

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


def found(read: Seen) -> list[Row]:
    return sorted(Row(*row) for row in read.rows.select("partition", "offset", "id").collect())
