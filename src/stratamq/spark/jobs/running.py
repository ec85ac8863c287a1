"""Jobs: planned on the driver, done by tasks, committed through the node as they come in."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from stratamq.client import BlockingClient, Client, options_of
from stratamq.client.failures import Refusal
from stratamq.model.types import TopicId
from stratamq.spark.jobs import plan
from stratamq.spark.jobs.plan import Rewrite
from stratamq.spark.jobs.task import Work, make_file
from stratamq.spark.union.reading import SERVERS, SERVERS_CONF, topic
from stratamq.tiering.keys import owner_mark
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.lake import CommitLakeTopic, DescribedLake, MadeFile

FILE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job did. `overtaken` files were of no use any more when they were ready."""

    replaced: int = 0
    made: int = 0
    rows: int = 0
    size_bytes: int = 0
    overtaken: int = 0


def convert_backlog(spark: SparkSession, name: str, **given: Any) -> Outcome:
    """Raw segments (`tier.format=log`) become Parquet files, and so rows of the topic's table."""
    return _run(spark, name, plan.backlog, **given)


def compact_files(
    spark: SparkSession, name: str, *, file_bytes: int = FILE_BYTES, **given: Any
) -> Outcome:
    """Small files become fewer, of at most `file_bytes`."""
    return _run(spark, name, lambda lake: plan.small_files(lake, file_bytes), **given)


def apply_deletes(spark: SparkSession, name: str, **given: Any) -> Outcome:
    """Files with deleted records are made anew without them."""
    return _run(spark, name, plan.with_deletions, **given)


def partitioned_copy(
    spark: SparkSession, name: str, target: str, by: Sequence[str], **given: Any
) -> None:
    """The topic at this moment as a table of its own at `target`, in folders by the columns `by`.

    A topic's own files lie in the order of its log, which readers of messages need; who queries by
    something else gets a copy. What was at `target` before is replaced.
    """
    topic(spark, name, **given).write.partitionBy(*by).mode("overwrite").parquet(target)


def _run(
    spark: SparkSession,
    name: str,
    planned: Callable[[DescribedLake], list[Rewrite]],
    *,
    servers: str | None = None,
    options: Mapping[str, str] | None = None,
    store: Mapping[str, str | bool] | None = None,
) -> Outcome:
    """`store` are fields of StoreOptions, where tasks reach the store in another way than nodes."""
    where = servers or spark.conf.get(SERVERS_CONF, None) or SERVERS
    with BlockingClient(options_of(where, options or {})) as client:
        lake, cluster_id = client.call(_told(client.asyncio, name))
        work = Work(
            client=client.asyncio.options,
            topic=name,
            topic_id=TopicId(bytes(lake.topic_id).hex()),
            owner=owner_mark(cluster_id),
            store_url=lake.store_url,
            store={**_address(lake), **(store or {})},
            value_format=lake.value_format,
            value_schema=lake.value_schema,
        )
        outcome = Outcome()
        wanted = planned(lake)
        for number, made in _made(spark, work, wanted):
            outcome = _committed(client, name, wanted[number], made, outcome)
        return outcome


def _address(lake: DescribedLake) -> dict[str, str | bool]:
    """Credentials are not among it: tasks find their own, by AWS's ways."""
    return {
        "s3_endpoint": lake.s3_endpoint,
        "s3_region": lake.s3_region,
        "s3_path_style": lake.s3_path_style,
    }


async def _told(client: Client, name: str) -> tuple[DescribedLake, str]:
    return await client.describe_lake(name), (await client.cluster()).cluster_id or ""


def _made(
    spark: SparkSession, work: Work, wanted: Sequence[Rewrite]
) -> Iterator[tuple[int, MadeFile]]:
    """A task for each, in any order."""
    if not wanted:
        return
    tasks = spark.range(0, len(wanted), 1, len(wanted))

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                made = pickle.dumps(make_file(work, wanted[number]))
                yield pa.RecordBatch.from_pydict({"id": [number], "made": [made]})

    for row in tasks.mapInArrow(each, "id long, made binary").toLocalIterator():
        yield row.id, pickle.loads(bytes(row.made))


def _committed(
    client: BlockingClient, name: str, wanted: Rewrite, made: MadeFile, so_far: Outcome
) -> Outcome:
    commit = CommitLakeTopic(
        name=name, partition_index=wanted.partition, replace=wanted.replaced, file=made
    )
    try:
        client.call(client.asyncio.commit_lake(commit))
    except Refusal as error:
        if error.code is not ErrorCode.INVALID_REQUEST:
            raise
        return replace(so_far, overtaken=so_far.overtaken + 1)
    return replace(
        so_far,
        replaced=so_far.replaced + len(wanted.replaced),
        made=so_far.made + 1,
        rows=so_far.rows + made.rows,
        size_bytes=so_far.size_bytes + made.size,
    )
