"""Reading a range of offsets in a task: fetches that run ahead of the decoding, and their rows.

The node and the task work at the same time.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from stratamq.client import BlockingClient, Client, ClientOptions, FetchLimits, visible_batches
from stratamq.client.fetching import Fetched
from stratamq.lake.parquet._columns import Columns
from stratamq.lake.parquet.arrays import take_arrays
from stratamq.model.errors import (
    CorruptBatch,
    OffsetOutOfRange,
    StrataError,
    TimedOut,
    TopicRecreated,
)
from stratamq.spark.columns import between, record_batch, timestamp_types
from stratamq.spark.failures import DataLoss, Losses, plain
from stratamq.spark.filters import Condition, passing
from stratamq.spark.lookups import bounds
from stratamq.spark.options import ReadOptions
from stratamq.spark.planning import OffsetRange
from stratamq.wire.kafka.records import DECOMPRESSED_MAX, BatchHeader, check_crc, walk
from stratamq.wire.kafka.records.decode import record_bytes

AHEAD_MAX = 3
"""Answers that wait to be decoded; then no more is asked for."""

WAIT_MS = 500
EMPTY_MAX = 120
"""Answers without a batch, one after the other: a minute of them. The node is waiting for object
storage, or has no memory to spare for an answer; where records are gone, its answers say so and
lead on. When the limit is reached, the task fails with TimedOut, and Spark tries it again."""

SPARE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetching:
    """What is asked for, and what about records that are gone."""

    wanted: OffsetRange
    bytes_max: int
    committed: bool
    losses: Losses


class Answer(NamedTuple):
    """Records below `offset` are not returned: another answer had them, or they were deleted."""

    offset: int
    fetched: Fetched


def answers(client: BlockingClient, asked: Fetching) -> Iterator[Answer]:
    """Yield answers until the range is covered. The next ones are fetched while one is used."""
    queue: asyncio.Queue[Answer | BaseException | None] = asyncio.Queue(AHEAD_MAX)
    filling = client.start(_fill(queue, client.asyncio, asked))
    try:
        while (found := client.call(queue.get())) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found
    finally:
        filling.cancel()


async def _fill(
    queue: asyncio.Queue[Answer | BaseException | None], client: Client, asked: Fetching
) -> None:
    try:
        async for answer in fetch_all(client, asked):
            await queue.put(answer)
    except Exception as error:  # raised where the answer is waited for
        await queue.put(error)
    else:
        await queue.put(None)


async def fetch_all(client: Client, asked: Fetching) -> AsyncIterator[Answer]:
    """Fetch answers until the range is covered, one after the other."""
    wanted = asked.wanted
    offset, empty = wanted.start, 0
    while offset < wanted.stop:
        try:
            bytes_max = asked.bytes_max
            if wanted.offset_bytes:  # about as much as the range has, and not what is after it
                about = int((wanted.stop - offset) * wanted.offset_bytes * 1.1) + SPARE_BYTES
                bytes_max = min(bytes_max, about)
            limits = FetchLimits(bytes_max=bytes_max, wait_ms_max=WAIT_MS)
            fetched = await client.fetch(
                wanted.place, offset, limits, committed=asked.committed, topic_id=wanted.topic_id
            )
        except TopicRecreated as error:
            asked.losses.accept(error, "reads the new one from its beginning, next time")
            return
        except OffsetOutOfRange:
            place = wanted.place
            starts, ends = await bounds(client, [place], asked.committed)
            if asked.losses.fatal or starts[place] <= offset:
                raise DataLoss(place, offset, starts[place], ends[place]) from None
            offset = min(starts[place], wanted.stop)
            continue
        spans = walk(fetched.data)
        after = max(offset, spans[-1].last_offset + 1) if spans else offset
        if after > offset:
            yield Answer(offset, fetched)
            offset, empty = after, 0
            continue
        empty += 1
        if empty > EMPTY_MAX:
            raise TimedOut(f"{wanted.place}: nothing came from {offset} to {wanted.stop - 1}")


LOG_APPEND_TIME, CREATE_TIME = 1, 0

_clients: dict[tuple[int, ClientOptions], BlockingClient] = {}


def shared_client(options: ClientOptions) -> BlockingClient:
    """Spark uses its Python workers again, so connections may stay for the next task."""
    key = (os.getpid(), options)  # a fork has no thread to run the loop of its parent's client
    if key not in _clients:
        _clients[key] = BlockingClient(options)
        # Spark's workers look for garbage after every task. What was imported is none, and going
        # through it takes 50 ms each time.
        if TaskContext.get() is not None:
            gc.freeze()
    return _clients[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Everything a task needs to know in addition to its range of offsets. Picklable."""

    client: ClientOptions
    schema: pa.Schema
    committed: bool
    losses: Losses
    fetch_bytes: int
    conditions: tuple[Condition, ...] = ()
    tag: bytes | None = None


def reading_of(
    options: ReadOptions, schema: pa.Schema, conditions: tuple[Condition, ...] = ()
) -> Reading:
    return Reading(
        client=options.client,
        schema=schema,
        committed=options.committed,
        losses=options.losses,
        fetch_bytes=options.fetch_bytes,
        conditions=conditions,
        tag=options.tag,
    )


def read(reading: Reading, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The rows of the range, in order."""
    try:
        yield from _batches(reading, wanted)
    except StrataError as error:
        raise plain(error) from None


def _batches(reading: Reading, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    asked = Fetching(
        wanted=wanted,
        bytes_max=reading.fetch_bytes,
        committed=reading.committed,
        losses=reading.losses,
    )
    for offset, fetched in answers(shared_client(reading.client), asked):
        arrays = between(_decoded(fetched, reading.committed), offset, wanted.stop)
        arrays = passing(arrays, reading.conditions, reading.tag)
        if len(arrays["offset"]):
            place = wanted.place
            yield record_batch(arrays, place.topic, place.partition, reading.schema)


def _decoded(fetched: Fetched, committed: bool) -> dict[str, pa.Array]:
    columns = Columns()
    types: list[tuple[int, int]] = []
    for header, batch in visible_batches(fetched.data, fetched.aborted if committed else ()):
        if not check_crc(batch, header):
            raise CorruptBatch(f"the batch at offset {header.base_offset} does not match its CRC")
        _add(columns, header, batch)
        kind = LOG_APPEND_TIME if header.uses_log_append_time else CREATE_TIME
        types.append((kind, header.record_count))
    arrays = take_arrays(columns)
    arrays["timestampType"] = timestamp_types(types or [(CREATE_TIME, 0)])
    return arrays


def _add(columns: Columns, header: BatchHeader, batch: memoryview) -> None:
    body = record_bytes(header, batch, DECOMPRESSED_MAX)
    columns.add(
        body.data,
        body.start,
        body.stop,
        header.record_count,
        header.last_offset_delta,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if header.uses_log_append_time else None,
    )
