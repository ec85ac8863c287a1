"""What a task does: fetch, decode, filter, hand over."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from stratamq.client import BlockingClient, ClientOptions, visible_batches
from stratamq.client.fetching import Fetched
from stratamq.lake.parquet._columns import Columns
from stratamq.lake.parquet.arrays import take_arrays
from stratamq.model.errors import CorruptBatch, StrataError
from stratamq.spark.columns import between, record_batch, timestamp_types
from stratamq.spark.failing import plain
from stratamq.spark.fetching import Fetching, answers
from stratamq.spark.filters import Condition, passing
from stratamq.spark.losses import Losses
from stratamq.spark.options import ReadOptions
from stratamq.spark.planning import OffsetRange
from stratamq.wire.kafka.records import DECOMPRESSED_MAX, BatchHeader, check_crc
from stratamq.wire.kafka.records.decode import record_bytes

LOG_APPEND_TIME, CREATE_TIME = 1, 0

_clients: dict[tuple[int, ClientOptions], BlockingClient] = {}


def shared_client(options: ClientOptions) -> BlockingClient:
    """Spark uses its Python workers again, so connections may stay for the next task."""
    key = (os.getpid(), options)  # a fork has no thread to run the loop of its parent's client
    if key not in _clients:
        _clients[key] = BlockingClient(options)
        _spare_garbage_collector()
    return _clients[key]


def _spare_garbage_collector() -> None:
    """Spark's workers look for garbage after every task. What was imported is none, and going
    through it takes 50 ms each time."""
    if TaskContext.get() is not None:
        gc.freeze()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Everything a task needs to know beside its range of offsets. Picklable."""

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
