"""Reading from an offset on: as records, or as the batches that hold them. Pure, over any
ShardStore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stratamq.engine.contract import OffsetStrategy, ReadLimit
from stratamq.engine.view import CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, View
from stratamq.model.errors import CorruptRecord, InvalidInput
from stratamq.model.record import Record
from stratamq.model.types import NO_EPOCH, LeaderEpoch, Offset, TimestampMs
from stratamq.wire.kafka.records import (
    BatchHeader,
    decode_batch,
    decode_some,
    drop_records,
    encode_skip,
    iter_batches,
    read_header,
    walk,
)
from stratamq.wire.kafka.records.control import SPAN_MAX

HIDDEN_BYTES_MAX = 8 << 20
"""How much deleted or expired data one fetch looks through. When the limit is reached, the answer
is a mark that takes the client so far, and its next fetch goes on there."""

YOUNGEST_STEP_MS = 1000
"""How far back the second look for the youngest record goes; each one after it goes further."""


class Collector:
    """Takes records until a limit is met. The first is taken however large it is."""

    __slots__ = ("_bytes_left", "_records_left", "full", "records")

    def __init__(self, limit: ReadLimit) -> None:
        self.records: list[Record] = []
        self._records_left, self._bytes_left = limit
        self.full = limit.records_max <= 0

    @property
    def wanted(self) -> int:
        """How many records may still come."""
        return self._records_left

    def take(self, records: list[Record]) -> None:
        for record in records:
            size = record_bytes(record)
            if self.full or (self.records and size > self._bytes_left):
                self.full = True
                return
            self.records.append(record)
            self._bytes_left -= size
            self._records_left -= 1
            self.full = self._records_left <= 0


def record_bytes(record: Record) -> int:
    """What a record weighs against a limit: everything its writer gave."""
    value, key, headers, tags, _, _ = record
    size = (len(value) if value else 0) + (len(key) if key else 0)
    for name, content in headers:
        size += len(name) + (len(content) if content else 0)
    for tag in tags:
        size += len(tag)
    return size


def by_offset(view: View, offset: Offset, limit: ReadLimit) -> list[Record]:
    """Records from `offset` on. Damage ends the answer; when it would be empty, it is the
    answer."""
    view.check(offset)
    found = Collector(limit)
    chunk_bytes = min(max(limit.bytes_max, CHUNK_BYTES_MIN), CHUNK_BYTES_MAX)
    if limit.records_max < 100:
        chunk_bytes = CHUNK_BYTES_MIN
    try:
        for header, data in view.batches(offset, chunk_bytes):
            for records in _decoded(view, header, data, offset, found):
                found.take(view.visible(records, offset))
            if found.full:
                break
    except CorruptRecord:
        if not found.records:
            raise
    return found.records


def _decoded(
    view: View, header: BatchHeader, data: memoryview, offset: Offset, found: Collector
) -> Iterator[list[Record]]:
    """The batch's records from `offset` on, in windows about as large as what is still wanted:
    nobody should decode ten thousand records to get one. Windows double, so that a batch of deleted
    records is not walked once for each of them."""
    position = max(offset, header.base_offset)
    window = found.wanted
    while position < header.next_offset and not found.full:
        if window * 2 >= header.next_offset - position:
            records = decode_batch(header, data, view.decompressed_max)
            yield records if position == header.base_offset else _from(records, position)
            return
        yield decode_some(header, data, range(position, position + window), view.decompressed_max)
        position = Offset(position + window)
        window *= 2


def _from(records: list[Record], offset: Offset) -> list[Record]:
    return [record for record in records if record.offset >= offset]


class Batches(NamedTuple):
    """What a fetch found. The last batch of `data` ends at `next_offset`."""

    data: bytes
    next_offset: Offset
    skips: bool = False
    """Whether a mark at the end leads over deleted or expired records."""


def fetch(view: View, offset: Offset, bytes_max: int) -> Batches:
    """Whole batches as they are stored, except that those with deleted or expired records come
    without them.

    Clients go on after the last batch of an answer. So where nothing is left of the last ones, and
    where compaction removed them, a mark in the answer covers their offsets: without it a client
    would never reach the end of a log whose newest records are gone. Damage after such records is
    for the fetch that begins there.
    """
    view.check(offset)
    asked, epoch, looked_bytes = offset, NO_EPOCH, 0
    while offset < view.end and looked_bytes < HIDDEN_BYTES_MAX:
        try:
            data = view.store.read(offset, bytes_max, view.end)
        except CorruptRecord:
            if offset == asked:
                raise
            break
        if not data:
            offset = _behind_gap(view, offset)
            break
        last = walk(data)[-1]
        offset, looked_bytes = Offset(last.last_offset + 1), looked_bytes + len(data)
        if not view.hides():
            return Batches(data, offset)
        epoch = read_header(data, last.position).leader_epoch
        if shown := without_hidden(view, data):
            return _led_on(shown, offset, epoch, bytes_max)
    if offset == asked:
        return Batches(b"", offset)
    offset = min(offset, Offset(asked + SPAN_MAX))
    return Batches(encode_skip(asked, Offset(offset - 1), epoch), offset, skips=True)


def _led_on(data: bytes, offset: Offset, epoch: LeaderEpoch, bytes_max: int) -> Batches:
    """Batches of which the last ones below `offset` may have been left out. A mark that would be
    too much for the limit is left to the next fetch."""
    end = Offset(walk(data)[-1].last_offset + 1)
    if end == offset:
        return Batches(data, offset)
    mark = encode_skip(end, Offset(offset - 1), epoch)
    if len(data) + len(mark) > bytes_max:
        return Batches(data, end)
    return Batches(data + mark, offset, skips=True)


def fetch_at_once(view: View, offset: Offset, bytes_max: int) -> Batches | None:
    """The same without waiting, for consumers that keep up; None where it is not that simple."""
    if not view.start <= offset < view.end or view.hides():
        return None
    found = view.store.read_at_once(offset, bytes_max, view.end)
    return None if found is None else Batches(*found)


def _behind_gap(view: View, offset: Offset) -> Offset:
    """Nothing to read below the end: compaction took it, so go on at the end; or a batch that
    reaches past the end begins before it, so stay."""
    data = view.store.read(offset, 1, view.store.end_offset)
    if data and read_header(data).base_offset < view.end:
        return offset
    return view.end


def without_hidden(view: View, data: bytes) -> bytes:
    """The batches without what consumers must not see. Control batches and what cannot be decoded
    stay as they are."""
    kept: list[bytes | memoryview] = []
    for header, batch in iter_batches(data):
        hidden = [] if header.is_control else hidden_in(view, header, batch)
        left = drop_records(header, batch, hidden, view.decompressed_max) if hidden else batch
        if left is not None:
            kept.append(left)
    return b"".join(kept)


def hidden_in(view: View, header: BatchHeader, batch: memoryview) -> list[int]:
    """Offsets of the batch's deleted and expired records."""
    hidden = view.deleted_in(header)
    if expiry := view.expiry:
        try:
            records = decode_batch(header, batch, view.decompressed_max)
        except InvalidInput:
            return []
        hidden += [record.offset for record in records if expiry(record)]
    return hidden


def by_timestamp(view: View, timestamp: TimestampMs, strategy: OffsetStrategy) -> Offset:
    """The first visible record that is not older."""
    for record in _since(view, timestamp):
        return record.offset
    return view.start if strategy is OffsetStrategy.EARLIEST else view.end


def youngest(view: View, largest: TimestampMs) -> Record | None:
    """The visible record with the largest timestamp, the first of them if there are several; None
    where no timestamp is 0 or more.

    `largest` is what segments say. It may be that of a deleted record, or of a mark that ends a
    transaction, which is younger than all records: so the search goes back in time by longer and
    longer steps.
    """
    if largest < 0:
        return None
    first = next(_since(view, largest), None)
    step_ms = YOUNGEST_STEP_MS
    while first is None and largest > 0:
        largest = TimestampMs(max(largest - step_ms, 0))
        first = max(
            _since(view, largest), key=lambda one: (one.timestamp, -one.offset), default=None
        )
        step_ms *= 8
    return first


def _since(view: View, timestamp: TimestampMs) -> Iterator[Record]:
    """Visible records that are not older, oldest offset first. What is damaged is passed over."""
    offset = max(view.start, view.store.floor_by_timestamp(timestamp))
    while True:
        try:
            for header, data in view.batches(offset):
                offset = header.next_offset
                if header.max_timestamp >= timestamp:
                    records = decode_batch(header, data, view.decompressed_max)
                    for record in view.visible(records, view.start):
                        if record.timestamp >= timestamp:
                            yield record
            return
        except CorruptRecord as damage:
            offset = Offset(damage.next_offset)
