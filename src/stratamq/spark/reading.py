"""What a task does: fetch, decode, filter, hand over; the next fetch is under way meanwhile."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from stratamq.client import BlockingClient, ClientOptions, FetchLimits, visible_batches
from stratamq.client.fetching import Fetched
from stratamq.lake.parquet._columns import Columns
from stratamq.lake.parquet.arrays import take_arrays
from stratamq.model.errors import CorruptBatch, OffsetOutOfRange, StrataError, TimedOut
from stratamq.spark.columns import between, record_batch, timestamp_types
from stratamq.spark.failing import plain
from stratamq.spark.filters import Condition, passing
from stratamq.spark.looking import DataLoss, bounds
from stratamq.spark.options import ReadOptions
from stratamq.spark.planning import OffsetRange
from stratamq.wire.kafka.records import (
    DECOMPRESSED_MAX,
    BatchHeader,
    check_crc,
    walk,
)
from stratamq.wire.kafka.records.body import record_bytes

WAIT_MS = 500
EMPTY_MAX = 4
"""Answers without a batch, one after the other, until what was asked for counts as compacted away.
The node says each time that the log goes further, so it does not hide anything."""

SPARE_BYTES = 64 << 10
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
    fail_on_data_loss: bool
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
        fail_on_data_loss=options.fail_on_data_loss,
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
    for offset, fetched in _fetches(reading, wanted):
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


# -- fetching --------------------------------------------------------------------------------------


def _fetches(reading: Reading, wanted: OffsetRange) -> Iterator[tuple[int, Fetched]]:
    """Offsets that were asked for, and what came, until the range is covered.

    What lies before its offset in an answer is not to be shown: another answer had it, or it was
    deleted. While one answer is used, the next is on its way.
    """
    client = shared_client(reading.client)
    offset, empty = wanted.start, 0
    waiting = _ask(client, reading, wanted, offset)
    while waiting is not None:
        try:
            fetched = waiting.result()
        except OffsetOutOfRange:
            offset = _after_loss(client, reading, wanted, offset)
            waiting = _ask(client, reading, wanted, offset)
            continue
        after = _next_offset(fetched, offset)
        empty = 0 if after > offset else empty + 1
        if empty > EMPTY_MAX:
            _check_end(reading, wanted, offset, fetched)
            return
        asked, offset = offset, after
        waiting = _ask(client, reading, wanted, offset)
        if not empty:
            yield asked, fetched


def _ask(
    client: BlockingClient, reading: Reading, wanted: OffsetRange, offset: int
) -> Future[Fetched] | None:
    """None when nothing is left to be asked for."""
    if offset >= wanted.stop:
        return None
    about = int((wanted.stop - offset) * wanted.offset_bytes * 1.1) + SPARE_BYTES
    size = min(reading.fetch_bytes, about) if wanted.offset_bytes else reading.fetch_bytes
    limits = FetchLimits(bytes_max=size, wait_ms_max=WAIT_MS)
    fetch = client.asyncio.fetch(wanted.place, offset, limits, committed=reading.committed)
    return client.start(fetch)


def _next_offset(fetched: Fetched, offset: int) -> int:
    spans = walk(fetched.data)
    return max(offset, spans[-1].last_offset + 1) if spans else offset


def _after_loss(client: BlockingClient, reading: Reading, wanted: OffsetRange, offset: int) -> int:
    """Where to go on when the log no longer has the offset."""
    places = [wanted.place]
    starts, ends = client.call(bounds(client.asyncio, places, reading.committed))
    start, end = starts[wanted.place], ends[wanted.place]
    if reading.fail_on_data_loss or start <= offset:
        raise DataLoss(wanted.place, offset, start, end)
    return min(start, wanted.stop)


def _check_end(reading: Reading, wanted: OffsetRange, offset: int, fetched: Fetched) -> None:
    """Nothing came, time and again: fine if the node says that it has told all up to the end."""
    told = fetched.last_stable if reading.committed else fetched.high_watermark
    if told < wanted.stop:
        raise TimedOut(f"{wanted.place}: nothing came from offset {offset} to {wanted.stop - 1}")
