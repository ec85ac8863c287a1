"""Jobs: planned on the driver, and done by tasks, each of which has its file committed.

A driver that dies takes nothing with it that a task has finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, fields
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from stratamq.client import BlockingClient, Client, options_of
from stratamq.model.types import TopicId
from stratamq.spark.jobs import plan
from stratamq.spark.jobs.plan import FileRewrite
from stratamq.spark.jobs.task import Outcome, Work, do
from stratamq.spark.union.reading import SERVERS, SERVERS_CONF
from stratamq.tiering.keys import owner_mark
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake

FILE_BYTES = 256 << 20


def convert_backlog(spark: SparkSession, name: str, **given: Any) -> Outcome:
    """Raw segments (`tier.format=log`) become Parquet files, and so rows of the topic's table."""
    return _run(spark, name, plan.backlog, **given)


def compact_files(
    spark: SparkSession, name: str, *, file_bytes: int = FILE_BYTES, **given: Any
) -> Outcome:
    """Small files become fewer, of at most `file_bytes`."""
    return _run(spark, name, lambda lake: plan.small_files(lake, file_bytes), **given)


def apply_deletes(spark: SparkSession, name: str, **given: Any) -> Outcome:
    """Rewrite files with deleted records without them, also where DeleteRecords or retention
    has put the partition's start into a file. Raw segments too. What was replaced is deleted from
    the store after `tier.orphan.grace.ms`."""
    return _run(spark, name, plan.with_deletions, **given)


def _run(
    spark: SparkSession,
    name: str,
    planned: Callable[[DescribedLake], list[FileRewrite]],
    *,
    servers: str | None = None,
    options: Mapping[str, str] | None = None,
    store: Mapping[str, str | bool] | None = None,
) -> Outcome:
    """`store` are fields of StoreOptions, where tasks reach the store in another way than nodes."""
    where = servers or spark.conf.get(SERVERS_CONF, None) or SERVERS
    with BlockingClient(options_of(where, options or {})) as client:
        lake, cluster_id = client.call(_lake_and_cluster(client.asyncio, name))
        # Credentials are not among it: tasks find their own, by AWS's ways.
        work = Work(
            client=client.asyncio.options,
            topic=name,
            topic_id=TopicId(bytes(lake.topic_id).hex()),
            owner=owner_mark(cluster_id),
            store_url=lake.store_url,
            store={
                "s3_endpoint": lake.s3_endpoint,
                "s3_region": lake.s3_region,
                "s3_path_style": lake.s3_path_style,
                **(store or {}),
            },
            value_format=lake.value_format,
            value_schema=lake.value_schema,
        )
    outcomes = _done(spark, work, planned(lake))
    totals = zip(*(astuple(one) for one in outcomes), strict=True)
    return Outcome(*map(sum, totals))


async def _lake_and_cluster(client: Client, name: str) -> tuple[DescribedLake, str]:
    return await client.describe_lake(name), (await client.cluster()).cluster_id or ""


def _done(spark: SparkSession, work: Work, wanted: Sequence[FileRewrite]) -> list[Outcome]:
    """A task for each."""
    if not wanted:
        return []

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            done = [asdict(do(work, wanted[number])) for number in batch.column("id").to_pylist()]
            yield pa.RecordBatch.from_pylist(done)

    tasks = spark.range(0, len(wanted), 1, len(wanted))
    columns = ", ".join(f"{field.name} long" for field in fields(Outcome))
    return [Outcome(**row.asDict()) for row in tasks.mapInArrow(each, columns).collect()]
