"""`df.write.format("stratamq")` and `df.writeStream.format("stratamq")`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from stratamq.client import ClientOptions
from stratamq.model.errors import InvalidConfig, StrataError
from stratamq.spark.failures import Losses, plain, plainly
from stratamq.spark.options import (
    COMMON,
    WRITING,
    check_names,
    choice,
    client_options,
    flag,
    number,
)
from stratamq.spark.reading import shared_client
from stratamq.spark.sink import epochs
from stratamq.spark.sink.epochs import Part
from stratamq.spark.sink.records import TransactionWriter
from stratamq.spark.sink.rows import check_schema
from stratamq.wire.kafka.records import Compression

if TYPE_CHECKING:
    import pyarrow as pa


PREFIX = "stratamq-spark"
QUERY_ID, EPOCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""What Spark gives the tasks of a streaming query. The id lies in the checkpoint, so that it is the
same after a restart."""

TIMEOUT_MS = 600_000
"""How long a transaction may stay open: as long as the slowest task of an epoch takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    client: ClientOptions
    topic: str | None
    prefix: str = PREFIX
    timeout_ms: int = TIMEOUT_MS
    compression: Compression = Compression.NONE
    losses: Losses


def write_options(options: Mapping[str, str]) -> WriteOptions:
    check_names(options, (*COMMON, *WRITING), "a write")
    codecs = {codec.name.lower(): codec for codec in Compression}
    return WriteOptions(
        client=client_options(options),
        topic=options.get("topic"),
        prefix=options.get("transactionalidprefix", PREFIX),
        timeout_ms=number(options, "transactionTimeoutMs") or TIMEOUT_MS,
        compression=codecs[choice(options, "compression", "none", codecs)],
        losses=Losses(fatal=flag(options, "failOnDataLoss", True)),
    )


def ensure_topic(options: WriteOptions) -> None:
    """Make the topic if it is not there, on the driver: what is wrong with it is then one sentence.
    The same failure of a task comes with all that Spark knows of its job."""
    if options.topic is not None:
        client = shared_client(options.client)
        client.call(client.asyncio.describe_topics([options.topic], create=True))


@dataclass
class TaskWritten(WriterCommitMessage):
    """What a task reports to the driver. `query` is None when it had no rows to write."""

    query: str | None = None
    part: Part | None = None
    rows: int = 0
    was_decided: bool = False


class BatchWriter(DataSourceArrowWriter):
    """Writes a batch: all its tasks under one name that no other write has."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._options = write_options(options)
        check_schema(schema, self._options.topic)
        if overwrite:
            raise InvalidConfig("a topic can only be appended to: use mode('append')")
        ensure_topic(self._options)
        self._name = f"{self._options.prefix}-{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        return write_task(self._options, self._name, None, iterator)

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        client = shared_client(self._options.client)
        parts = parts_of(messages)
        client.call(epochs.commit_all(client.asyncio, parts))
        client.call(epochs.fence_losers(client.asyncio, self._name, parts))

    @plainly
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        client = shared_client(self._options.client)
        client.call(epochs.abort(client.asyncio, parts_of(messages)))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes one epoch of a stream; what has to outlive it is in the messages and on the nodes."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = write_options(options)
        check_schema(schema, self._options.topic)
        ensure_topic(self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        context = TaskContext.get()
        assert context is not None, "Spark calls this in a task"
        query, epoch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(EPOCH)
        assert query is not None, "a streaming query has an id"
        assert epoch is not None, "and its tasks an epoch"
        return write_task(self._options, f"{self._options.prefix}-{query}", int(epoch), iterator)

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        client = shared_client(self._options.client)
        written = [one for one in messages if isinstance(one, TaskWritten)]
        parts, losses = parts_of(messages), self._options.losses
        for query in {one.query for one in written if one.query}:
            if parts:
                client.call(epochs.decide(client.asyncio, query, batchId, parts, losses))
                client.call(epochs.fence_losers(client.asyncio, query, parts))
            else:
                client.call(epochs.finish(client.asyncio, query, batchId, losses))

    @plainly
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        client = shared_client(self._options.client)
        client.call(epochs.abort(client.asyncio, parts_of(messages)))


def parts_of(messages: Sequence[WriterCommitMessage | None]) -> list[Part]:
    return [one.part for one in messages if isinstance(one, TaskWritten) and one.part is not None]


def write_task(
    options: WriteOptions, name: str, epoch: int | None, batches: Iterator[pa.RecordBatch]
) -> TaskWritten:
    """Write all rows in one transaction, and leave it open. Nothing at all if there are none."""
    try:
        return _write_task(options, name, epoch, batches)
    except StrataError as error:
        raise plain(error) from None


def _write_task(
    options: WriteOptions, name: str, epoch: int | None, batches: Iterator[pa.RecordBatch]
) -> TaskWritten:
    client = shared_client(options.client)
    writer: TransactionWriter | None = None
    context = TaskContext.get()
    assert context is not None, "Spark calls this in a task"
    task, attempt = context.partitionId(), context.attemptNumber()
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if writer is None:
                if epoch is not None and client.call(
                    epochs.is_decided(client.asyncio, name, epoch)
                ):
                    # Spark wants its rows to be taken.
                    for _ in batches:
                        pass
                    return TaskWritten(query=name, was_decided=True)
                beginning = client.asyncio.begin(
                    epochs.task_id(name, task, attempt),
                    timeout_ms=options.timeout_ms,
                    compression=options.compression,
                )
                writer = TransactionWriter(client, client.call(beginning))
            writer.add(batch, options.topic)
        if writer is None:
            return TaskWritten()
        writer.flush()
    except BaseException:
        if writer is not None:
            # The first failure is what counts; if this fails too, the transaction times out.
            ending = client.start(client.asyncio.end(writer.transaction.handle, commit=False))
            ending.exception(timeout=10)
        raise
    part = Part(writer.transaction.handle, task, attempt, writer.topics)
    return TaskWritten(query=name, part=part, rows=writer.rows)
