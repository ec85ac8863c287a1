"""What a consumer may see of a shard (without expired records), batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import NamedTuple

from stratamq.log.contract import Reads
from stratamq.model.errors import OffsetOutOfRange
from stratamq.model.record import TTL_HEADER, Record
from stratamq.model.topic import TopicConfig
from stratamq.model.types import Offset, ShardName
from stratamq.wire.kafka.records import BatchHeader, iter_batches, read_header

CHUNK_BYTES_MIN = 64 << 10
CHUNK_BYTES_MAX = 1 << 20

TTL_DIGITS_MAX = 15
"""Longer numbers are no milliseconds anybody meant, and parsing them would cost time."""


class Expiry(NamedTuple):
    """The rule of one topic at one moment. See the topic config `record.ttl.ms`."""

    default_ttl_ms: int
    now_ms: int

    def __call__(self, record: Record) -> bool:
        """Whether the record has expired."""
        if record.timestamp < 0:
            return False
        ttl_ms = self.default_ttl_ms or None
        if record.headers:
            ttl_ms = own_ttl_ms(record, ttl_ms)
        return ttl_ms is not None and self.now_ms - record.timestamp > ttl_ms


def expiry_of(config: TopicConfig, now_ms: int) -> Expiry | None:
    """None when nothing expires, so that readers need not look into records at all."""
    ttl_ms = config.number("record.ttl.ms")
    return Expiry(ttl_ms, now_ms) if ttl_ms >= 0 else None


def own_ttl_ms(record: Record, default: int | None) -> int | None:
    """The record's own time to live. A header that is no number is as good as none."""
    for name, value in record.headers:
        if name == TTL_HEADER and value and len(value) <= TTL_DIGITS_MAX and value.isdigit():
            return int(value)
    return default


class View(NamedTuple):
    """A shard at one moment: `start..end - 1`, without deleted and expired records.

    A batch that reaches past `end` is not seen at all until it is committed as a whole.
    """

    name: ShardName
    store: Reads
    start: Offset
    end: Offset
    expiry: Expiry | None
    decompressed_max: int

    def check(self, offset: Offset) -> None:
        if not self.start <= offset <= self.end:
            raise OffsetOutOfRange(self.name, offset, self.start, self.end)

    def until(self, end: Offset | None) -> View:
        """The view of a consumer that may see no more than what is below `end`."""
        return self if end is None or end >= self.end else self._replace(end=end)

    def visible(self, records: list[Record], floor: Offset) -> list[Record]:
        """Those at or after `floor` that were neither deleted nor have expired."""
        if records and records[0].offset < floor:
            records = [record for record in records if record.offset >= floor]
        if deleted := self.store.deleted():
            records = [record for record in records if record.offset not in deleted]
        if expiry := self.expiry:
            records = [record for record in records if not expiry(record)]
        return records

    def hides(self) -> bool:
        """Whether anything in a batch might not be visible."""
        return bool(self.expiry or self.store.deleted())

    def deleted_in(self, header: BatchHeader) -> list[int]:
        deleted: Set[Offset] = self.store.deleted()
        if not deleted:
            return []
        return [
            offset for offset in range(header.base_offset, header.next_offset) if offset in deleted
        ]

    def batches(
        self, offset: Offset, chunk_bytes: int = CHUNK_BYTES_MIN
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Data batches from the one that holds `offset` on. CorruptRecord where one is damaged."""
        while data := self.store.read(offset, chunk_bytes, self.end):
            for header, batch in iter_batches(data):
                offset = header.next_offset
                if not header.is_control:
                    yield header, batch
            chunk_bytes = min(chunk_bytes * 2, CHUNK_BYTES_MAX)

    def batch_at(self, offset: Offset) -> tuple[BatchHeader, bytes] | None:
        """The batch that holds `offset`; None when compaction took it or it is not committed."""
        data = self.store.read(offset, 1, self.end)
        if not data:
            return None
        header = read_header(data)
        return (header, data) if header.base_offset <= offset else None
