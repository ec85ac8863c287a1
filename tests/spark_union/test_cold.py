"""The cold side by itself: files of our own making, read by Spark's Parquet reader."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stratamq.lake.declared import columns_of, columns_text, declared
from stratamq.lake.parquet.values import value_columns
from stratamq.lake.parquet.writing import FileLayout, write_file
from stratamq.model.errors import InvalidConfig
from stratamq.model.record import Record
from stratamq.model.transaction import AbortedTxn
from stratamq.model.types import Offset, TimestampMs
from stratamq.spark.union.cold import IN_LIST_MAX
from stratamq.spark.union.reading import frame
from stratamq.spark.union.snapshot import snapshot_of
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake, LakeFile, LakePartition
from stratamq.wire.kafka.records import check_batch, encode_batch, place_batch

pytestmark = [pytest.mark.needs("java"), pytest.mark.xdist_group("spark")]

SCHEMA = """{"type": "record", "name": "order", "fields": [
    {"name": "id", "type": "long"}, {"name": "amount", "type": "double"}%s]}"""
WIDER = ', {"name": "city", "type": ["null", "string"]}'
T0 = 1_767_225_600_000


def orders(base: int, count: int) -> list[Record]:
    return [
        Record(
            value=json.dumps({"id": base + at, "amount": (base + at) / 2}).encode(),
            key=f"k{(base + at) % 3}".encode(),
            headers=((b"h\xff", None),),
            tags=(b"t",),
            timestamp=TimestampMs(T0 + base + at),
        )
        for at in range(count)
    ]


class Store:
    """A folder with files, and what a node would say of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts: dict[int, list[LakeFile]] = {}

    def add(
        self,
        partition: int,
        batches: Sequence[bytes],
        base: int,
        end: int,
        schema: str = "",
        aborted: Sequence[AbortedTxn] = (),
    ) -> None:
        key = f"orders.id/data/partition={partition}/{base}-{end}.parquet"
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        values = value_columns("json", schema) if schema else None
        layout = FileLayout(partition=partition, values=values, aborted=aborted)
        with path.open("wb") as sink:
            made = write_file(batches, sink, layout)
        found = LakeFile(
            base_offset=base,
            end_offset=end,
            final=True,
            parquet_key=key,
            parquet_size=made.size_bytes,
            rows=made.rows,
            min_timestamp=made.min_timestamp,
            max_timestamp=made.max_timestamp,
            log_bytes=made.size_bytes,
            columns=columns_text(columns_of(declared("json", schema))) if schema else "",
        )
        self.parts.setdefault(partition, []).append(found)

    def lake(
        self, schema: str = "", starts: dict[int, int] | None = None, **deleted: Sequence[int]
    ) -> DescribedLake:
        return DescribedLake(
            name="orders",
            store_url=self.folder.as_uri(),
            value_format="json" if schema else "none",
            value_schema=schema,
            partitions=[
                LakePartition(
                    partition_index=index,
                    start_offset=(starts or {}).get(index, 0),
                    local_start_offset=files[-1].end_offset,
                    high_watermark=files[-1].end_offset,
                    last_stable_offset=files[-1].end_offset,
                    deleted=deleted.get(f"p{index}", ()),
                    files=files,
                )
                for index, files in self.parts.items()
            ],
        )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "a {store} of 100%")


def batch(base: int, count: int, **more: Any) -> bytes:
    return encode_batch(orders(base, count), now_ms=T0, base_offset=base, **more)


def read(
    spark: SparkSession, lake: DescribedLake, as_of_ms: int | None = None, typed: str = "flat"
):
    return frame(spark, snapshot_of(lake, as_of_ms), {}, {}, typed)  # type: ignore[arg-type]


def test_rows_have_everything_a_message_has(spark: SparkSession, store: Store) -> None:
    store.add(1, [batch(0, 2)], 0, 2)
    rows = read(spark, store.lake()).orderBy("offset").collect()
    assert rows[1].asDict(recursive=True) == {
        "key": b"k1",
        "value": b'{"id": 1, "amount": 0.5}',
        "topic": "orders",
        "partition": 1,
        "offset": 1,
        "timestamp": datetime(2026, 1, 1, 0, 0, 0, 1000, UTC).astimezone().replace(tzinfo=None),
        "timestampType": 0,
        "headers": [{"key": "h�", "value": None}, {"key": "tag", "value": b"t"}],
        "tags": [b"t"],
    }


def stamped_at(append_time_ms: int, one: bytes) -> bytes:
    """As the node writes it with LogAppendTime."""
    header = check_batch(one, 1 << 20)
    base, epoch = header.base_offset, header.leader_epoch
    return b"".join(place_batch(header, one, base, epoch, append_time_ms)[1])


def test_the_type_of_timestamps(spark: SparkSession, store: Store) -> None:
    """Where the producer's stamp is another, files tell; else the topic's setting does."""
    stamped = [stamped_at(T0, batch(at, 1)) for at in (0, 1)]
    store.add(0, [*stamped, batch(2, 1)], 0, 3)
    for now, types in ((False, [0, 1, 0]), (True, [1, 1, 1])):
        lake = replace(store.lake(), log_append_time=now)
        rows = read(spark, lake).orderBy("offset").select("timestampType").collect()
        assert [row.timestampType for row in rows] == types


def test_files_of_older_schemas_have_nulls(spark: SparkSession, store: Store) -> None:
    store.add(0, [batch(0, 2)], 0, 2)
    store.add(0, [batch(2, 2)], 2, 4, SCHEMA % "")
    store.add(0, [batch(4, 1)], 4, 5, SCHEMA % WIDER)
    rows = read(spark, store.lake(SCHEMA % WIDER)).orderBy("offset")
    assert [(row.id, row.amount, row.city) for row in rows.collect()] == [
        (None, None, None),
        (None, None, None),
        (2, 1.0, None),
        (3, 1.5, None),
        (4, 2.0, None),
    ]
    assert read(spark, store.lake(SCHEMA % ""), typed="struct").columns[-1] == "data"
    assert "id" not in read(spark, store.lake(SCHEMA % ""), typed="none").columns


def test_what_does_not_count_is_left_out(spark: SparkSession, store: Store) -> None:
    aborted = [AbortedTxn(7, Offset(2), Offset(5))]
    parts = batch(0, 2), batch(2, 3, producer_id=7, producer_epoch=0, transactional=True)
    store.add(0, [*parts, batch(6, 4)], 0, 10, aborted=aborted)
    store.add(1, [batch(0, 4)], 0, 4)
    lake = store.lake(starts={0: 1}, p0=(7, 8), p1=(0, 3))
    found = read(spark, lake).select("partition", "offset").orderBy("partition", "offset")
    assert [tuple(row) for row in found.collect()] == [(0, 1), (0, 6), (0, 9), (1, 1), (1, 2)]


def test_many_deletions_are_taken_out_too(spark: SparkSession, store: Store) -> None:
    count = IN_LIST_MAX * 2
    store.add(0, [batch(0, count)], 0, count)
    found = read(spark, store.lake(p0=[*range(0, count, 2), 1]))
    assert found.count() == count - IN_LIST_MAX - 1
    assert found.where("offset % 2 = 0 or offset = 1").count() == 0


def test_time_travel(spark: SparkSession, store: Store) -> None:
    store.add(0, [batch(0, 4)], 0, 4)
    store.add(0, [batch(4, 4)], 4, 8)
    assert read(spark, store.lake(), T0 + 5).count() == 6
    assert read(spark, store.lake(), T0 - 1).count() == 0


def test_an_empty_topic_has_its_columns(spark: SparkSession, store: Store) -> None:
    store.parts[0] = []
    lake = DescribedLake(
        name="orders", store_url="file:///x", value_format="json", value_schema=SCHEMA % ""
    )
    rows = read(spark, lake)
    assert rows.columns[-2:] == ["id", "amount"]
    assert rows.collect() == []


def test_a_query_reads_no_more_than_it_asks_for(spark: SparkSession, store: Store) -> None:
    """Columns and filters reach the Parquet reader."""
    store.add(0, [batch(0, 4)], 0, 4, SCHEMA % "")
    query = read(spark, store.lake(SCHEMA % "")).where("amount > 0.6 and key = 'k2'").select("id")
    assert [row.id for row in query.collect()] == [2]
    scan = query._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert scan.requiredSchema().simpleString() == (
        "struct<key:binary,aborted:boolean,data:struct<id:bigint,amount:double>>"
    )
    pushed = scan.dataFilters().mkString(" ")
    assert "data#" in pushed
    assert ".amount > 0.6" in pushed


def test_files_that_are_gone_are_one_sentence(spark: SparkSession, store: Store) -> None:
    store.add(0, [batch(0, 1)], 0, 1)
    (gone,) = store.folder.rglob("*.parquet")
    gone.unlink()
    with pytest.raises(Exception, match="are not there any more") as caught:
        read(spark, store.lake())
    assert "\n" not in str(caught.value)


def test_a_store_that_spark_cannot_reach_is_one_sentence(spark: SparkSession) -> None:
    """Without the jar, which is not among Spark's own."""
    found = LakeFile(
        base_offset=0,
        end_offset=1,
        final=True,
        parquet_key="k",
        rows=1,
        min_timestamp=0,
        max_timestamp=0,
        log_bytes=1,
    )
    part = LakePartition(
        partition_index=0, start_offset=0, last_stable_offset=1, files=[found], error_code=0
    )
    lake = DescribedLake(name="orders", store_url="s3://bucket/prefix", partitions=[part])
    with pytest.raises(InvalidConfig, match=r"without org\.apache\.hadoop:hadoop-aws"):
        read(spark, lake)
