"""What a writing task does: rows into batches, batches into one transaction that it leaves open.

Rows stay columns from Spark to the node: Python makes no step for each of them. Partitions of keys
are chosen as Kafka's own clients choose them, with the hash of `wire.kafka.partitioner`, for all
keys of a length at once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stratamq.client import BlockingClient, TopicPartition, Transaction
from stratamq.lake.parquet.arrays import rows_of
from stratamq.model.errors import InvalidRecord
from stratamq.spark.sink.rows import by_topic, records_of
from stratamq.wire.kafka.records import Packed

_SEED = 0x9747B28C
_M = np.uint32(0x5BD1E995)
_WORD_BYTES = 4

Numbers = NDArray[np.int64]


def partitions_of(keys: pa.Array, count: int) -> Numbers:
    """The partition of each key out of `count`. What stands for a null says nothing."""
    places = offsets_of(keys)
    lengths = np.diff(places)
    data = _numbers(keys.buffers()[2], np.uint8)
    hashes = np.zeros(len(keys), np.uint32)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        hashes[rows] = _hashes(data[places[rows, None] + np.arange(length)])
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % count


def offsets_of(array: pa.Array) -> NDArray[np.int32]:
    """Return where each value of an array begins, and where the last one ends."""
    places = _numbers(array.buffers()[1], np.int32)
    return places[array.offset : array.offset + len(array) + 1]


def _numbers(buffer: pa.Buffer | None, kind: type[Any]) -> NDArray[Any]:
    return np.frombuffer(b"" if buffer is None else buffer, kind)


def _hashes(keys: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """MurmurHash2 of keys of one length, each a row of bytes."""
    count, length = keys.shape
    padded = np.zeros((count, -(-length // _WORD_BYTES) * _WORD_BYTES), np.uint8)
    padded[:, :length] = keys
    words = padded.view("<u4").astype(np.uint32)
    whole = length // _WORD_BYTES
    found = np.full(count, (_SEED ^ length) & 0xFFFFFFFF, np.uint32)
    for column in words.T[:whole]:
        mixed = column * _M
        found = (found * _M) ^ ((mixed ^ mixed >> np.uint32(24)) * _M)
    if length % _WORD_BYTES:
        found = (found ^ words[:, whole]) * _M
    found = (found ^ found >> np.uint32(13)) * _M
    return found ^ found >> np.uint32(15)


BATCH_BYTES = 512 << 10
"""Half of what a topic takes by default."""

BATCH_RECORDS = 10_000
RECORD_BYTES = 20
"""Lengths and deltas, about."""

HEADER_BYTES = 4
UNDER_WAY_MAX = 8


@dataclass(slots=True)
class _Pile:
    """What waits for its batch to be full."""

    pieces: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0


class TransactionWriter:
    """Writes rows into a transaction: all that were added are in it when `flush` returns."""

    def __init__(self, client: BlockingClient, transaction: Transaction) -> None:
        self._client, self._transaction = client, transaction
        self._piles: dict[TopicPartition, _Pile] = {}
        self._counts: dict[str, int] = {}
        self.topics: dict[str, bytes] = {}
        """By name, with the ids they had before anything was written to them."""
        self._keyless_bytes: dict[str, int] = {}
        self._under_way: deque[Future[int]] = deque()
        self.rows = 0

    @property
    def transaction(self) -> Transaction:
        return self._transaction

    def add(self, batch: pa.RecordBatch, topic: str | None) -> None:
        """Rows as Spark hands them over; `topic` if all go there."""
        for name, rows in by_topic(batch, topic):
            records = records_of(rows)
            sizes = sizes_of(records)
            for partition, chosen in _apart(self._partitions(name, rows, records, sizes)):
                self._pile(TopicPartition(name, partition), records, chosen, sizes[chosen])
        self.rows += batch.num_rows

    def flush(self) -> None:
        for place in list(self._piles):
            self._send(place)
        while self._under_way:
            self._under_way.popleft().result()

    def _pile(
        self, place: TopicPartition, records: pa.RecordBatch, chosen: Numbers, sizes: Numbers
    ) -> None:
        """Put the chosen rows on the pile of the place, and send it as often as it is full."""
        ends = np.cumsum(sizes)
        start = 0
        while start < len(chosen):
            pile = self._piles.setdefault(place, _Pile())
            before = int(ends[start - 1]) if start else 0
            full = int(np.searchsorted(ends, before + BATCH_BYTES - pile.size_bytes)) + 1
            stop = min(full, start + BATCH_RECORDS - pile.rows, len(chosen))
            pile.pieces.append(records.take(pa.array(chosen[start:stop])))
            pile.rows += stop - start
            pile.size_bytes += int(ends[stop - 1]) - before
            if pile.size_bytes >= BATCH_BYTES or pile.rows >= BATCH_RECORDS:
                self._send(place)
            start = stop

    def _send(self, place: TopicPartition) -> None:
        packed = pack(self._piles.pop(place).pieces, now_ms=time.time_ns() // 1_000_000)
        if len(self._under_way) >= UNDER_WAY_MAX:
            self._under_way.popleft().result()
        self._under_way.append(self._client.start(self._transaction.send(place, packed)))

    # -- where rows go -------------------------------------------------------------------------

    def _partitions(
        self, topic: str, rows: pa.RecordBatch, records: pa.RecordBatch, sizes: Numbers
    ) -> Numbers:
        """Choose the partition of each row: the one it names, else that of its key, else any."""
        count = self._counts.get(topic) or self._count(topic)
        keys = records.column("key")
        found = partitions_of(keys, count)
        if keys.null_count:
            keyless = _mask(keys.is_null())
            found[keyless] = self._any_partitions(topic, sizes[keyless], count)
        if "partition" in rows.schema.names:
            named = rows.column("partition").cast(pa.int64())
            chosen = _mask(named.is_valid())
            found[chosen] = named.drop_null().to_numpy()
            wrong = found[(found < 0) | (found >= count)]
            if len(wrong):
                raise InvalidRecord(f"{topic!r} has {count} partitions, not {wrong[0]}")
        return found

    def _any_partitions(self, topic: str, sizes: Numbers, count: int) -> Numbers:
        """Choose the same partition for a while, so that batches get full. Tasks begin at different
        partitions: their producer ids are as good as chance."""
        before = self._keyless_bytes.get(topic, 0)
        ends = before + np.cumsum(sizes)
        self._keyless_bytes[topic] = int(ends[-1])
        turns = self._transaction.handle.producer_id + (ends - sizes) // BATCH_BYTES
        found: Numbers = turns % count
        return found

    def _count(self, topic: str) -> int:
        asked = self._client.asyncio.describe_topics([topic], create=True)
        described = self._client.call(asked)[topic]
        self.topics[topic] = described.topic_id
        count = self._counts[topic] = len(described.partitions)
        return count


def sizes_of(records: pa.RecordBatch) -> Numbers:
    """About how many bytes each record takes."""
    sizes = np.full(records.num_rows, RECORD_BYTES, np.int64)
    for name in ("key", "value"):
        sizes += np.diff(offsets_of(records.column(name)))
    headers = records.column("headers")
    if len(headers.values):
        pairs = headers.values
        within = sum(np.diff(offsets_of(pairs.field(i))).astype(np.int64) for i in range(2))
        ends = np.concatenate(([0], np.cumsum(within + HEADER_BYTES)))
        sizes += np.diff(ends[offsets_of(headers)])
    return sizes


def pack(pieces: Sequence[pa.RecordBatch], *, now_ms: int) -> Packed:
    """The records of all pieces, in order, as a batch holds them."""
    records = pa.Table.from_batches(pieces).combine_chunks()
    count = records.num_rows
    columns = {
        "offset": pa.array(np.arange(count)),
        "timestamp": pa.array(np.zeros(count, np.int64)),
        "producer_timestamp": pa.nulls(count, pa.int64()),
        **{name: records.column(name) for name in records.column_names},
    }
    body = rows_of(pa.table(columns)).records(0, count, 0, 0, b"")
    return Packed(body, count, now_ms, now_ms, count - 1)


def _apart(partitions: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Each partition there is, and which rows are in it, in order."""
    order = np.argsort(partitions, kind="stable")
    numbers, firsts = np.unique(partitions[order], return_index=True)
    for number, rows in zip(numbers, np.split(order, firsts[1:]), strict=True):
        yield int(number), rows


def _mask(array: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    mask: np.ndarray[tuple[int], np.dtype[np.bool_]] = array.to_numpy(zero_copy_only=False)
    return mask
