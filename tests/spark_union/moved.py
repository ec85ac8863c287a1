"""Topics that have moved to object storage, most of them, and every way to read them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import stratamq.spark
from stratamq.client import BlockingClient, TopicPartition, options_of, visible_batches
from stratamq.model.record import Record
from stratamq.spark.jobs import Outcome
from stratamq.wire.kafka.protocol.messages.lake import LakeFile, LakePartition
from stratamq.wire.kafka.records import decode_batch, iter_batches, walk
from tests.lake.tables.readers import users_table
from tests.spark_union.deleting import DeletingNode
from tests.waiting import let_run_here, wait_until

SETTINGS = {
    "topic.flush": "os",
    "tier.interval.ms": "30",
    "tier.orphan.grace.ms": "5000",  # longer than it takes to commit what was stored
}
SOON_S = 240
BATCHES, PER_BATCH = 10, 25

Rows = dict[int, bytes]


@dataclass
class MovedTopic:
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
        let_run_here(1)
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
            for header, batch in visible_batches(answer.data, answer.aborted):
                records = decode_batch(header, batch)
                found |= {one.offset: one.value or b"" for one in records if one.offset >= offset}
            if batches := walk(answer.data):  # none: object storage has not answered yet
                offset = batches[-1].last_offset + 1
        return found

    def united(self) -> Rows:
        rows = stratamq.spark.topic(self.spark, self.name, servers=self.node.address)
        return {row.offset: bytes(row.value) for row in rows.select("offset", "value").collect()}

    def iceberg(self) -> Rows | None:
        """None while the table names what is gone: it is written a moment after files change."""
        try:
            return self._iceberg()
        except FileNotFoundError:
            return None

    def _iceberg(self) -> Rows:
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


@contextmanager
def moved(
    spark: SparkSession, node: DeletingNode, name: str, tier_format: str
) -> Iterator[MovedTopic]:
    configs = {
        "segment.bytes": "4000",
        "local.retention.bytes": "1",
        "tier.format": tier_format,
    }
    with BlockingClient(options_of(node.address, {})) as client:
        client.call(client.asyncio.create_topic(name, 1, configs=configs))
        topic = MovedTopic(spark, node, client, name, {})
        fill(topic)
        wait_until(topic.has_moved, "it moves", SOON_S)
        yield topic


def fill(topic: MovedTopic) -> None:
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
