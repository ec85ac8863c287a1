"""A table of producers as bytes, and which of its snapshots are kept. See
docs/formats/producer-state.md.

A snapshot is never the truth, only a shorter way to it: one that does not match its checksum is
passed over, and without any the table is read out of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error

from stratamq.engine.producers.rules import Producer, StoredBatch
from stratamq.engine.producers.table import ProducerTable
from stratamq.engine.producers.transactions import AbortedIndex, AbortedRow, Transactions, Unstable
from stratamq.model.types import NO_OFFSET, Offset, TimestampMs
from stratamq.wire.crc import crc32c

MAGIC = b"SPS1"
HEAD = Struct(">4sqIII")
PRODUCER = Struct(">qhiqqqB")
BATCH = Struct(">iiqqq")
UNSTABLE = Struct(">qqq")
ABORTED = Struct(">qqqq")
CRC = Struct(">I")

assert MAGIC[-1:] == b"1", "another layout needs another number here"


def encode(table: ProducerTable, offset: Offset) -> bytes:
    """The table as it is when the log ends at `offset`."""
    producers, transactions = table.producers(), table.transactions
    unstable, aborted = transactions.unstable, list(transactions.aborted)
    parts = [HEAD.pack(MAGIC, offset, len(producers), len(unstable), len(aborted))]
    for producer in producers:
        parts.append(_encode_producer(producer))
        parts += [BATCH.pack(*batch) for batch in producer.batches]
    parts += [UNSTABLE.pack(one[0], one[1], _or_none(one[2])) for one in unstable]
    parts += [ABORTED.pack(*row) for row in aborted]
    data = b"".join(parts)
    return data + CRC.pack(crc32c(data))


def _encode_producer(producer: Producer) -> bytes:
    return PRODUCER.pack(
        producer.producer_id,
        producer.epoch,
        producer.coordinator_epoch,
        _or_none(producer.transaction_start),
        producer.last_timestamp,
        producer.seen_ms,
        len(producer.batches),
    )


def decode(data: bytes, offset: Offset) -> ProducerTable | None:
    """None for anything that is not a whole snapshot of this offset."""
    body, crc = data[: -CRC.size], data[-CRC.size :]
    if len(crc) < CRC.size or CRC.pack(crc32c(body)) != crc:
        return None
    try:
        return _Reader(body).table(offset)
    except error:
        return None  # it was whole when it was written, by a version that writes another format


class _Reader:
    """Takes one structure after the other out of a snapshot."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def _take(self, layout: Struct) -> tuple[int, ...]:
        taken = layout.unpack_from(self._data, self._position)
        self._position += layout.size
        return taken

    def table(self, offset: Offset) -> ProducerTable | None:
        magic, at, producers, unstable, aborted = HEAD.unpack_from(self._data)
        self._position = HEAD.size
        if magic != MAGIC or at != offset:
            return None
        known = [self._producer() for _ in range(producers)]
        undecided = [self._unstable() for _ in range(unstable)]
        rows = [AbortedRow(*map(Offset, self._take(ABORTED))) for _ in range(aborted)]
        return ProducerTable(known, Transactions(undecided, AbortedIndex(rows)))

    def _producer(self) -> Producer:
        producer_id, epoch, coordinator, start, stamp, seen, count = self._take(PRODUCER)
        batches = tuple(self._batch() for _ in range(count))
        begun = None if start < 0 else Offset(start)
        return Producer(
            producer_id, epoch, batches, coordinator, begun, TimestampMs(stamp), TimestampMs(seen)
        )

    def _batch(self) -> StoredBatch:
        first, last, base, end, stamp = self._take(BATCH)
        return StoredBatch(first, last, Offset(base), Offset(end), TimestampMs(stamp))

    def _unstable(self) -> Unstable:
        first, producer_id, marker = self._take(UNSTABLE)
        return Unstable(Offset(first), producer_id, None if marker < 0 else Offset(marker))


def _or_none(offset: Offset | None) -> int:
    return NO_OFFSET if offset is None else offset


def superfluous(offsets: Sequence[Offset], end: Offset) -> list[Offset]:
    """Snapshots that may go. The further back, the fewer are kept: one for each power of four of
    the distance from the end. So a truncation reads a few times as much as it cuts off."""
    oldest: dict[int, Offset] = {}
    gone: list[Offset] = []
    for offset in sorted(offsets, reverse=True):
        if offset > end:
            gone.append(offset)
            continue
        distance = ((end - offset).bit_length() + 1) // 2
        if distance in oldest:
            gone.append(oldest[distance])
        oldest[distance] = offset
    return gone
