"""Reading a shard in RocksDB: by offset, key, tag and time. See ShardStore.

No lock is needed: what is in memory is replaced whole, and every scan sees the rows of one moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stratamq.engine.rocksdb.rows import SegmentRow, ShardRows
from stratamq.log.contract import SegmentInfo, adjoining
from stratamq.log.index import ShardIndex
from stratamq.log.segment_list import offsets_by_key, offsets_by_tag
from stratamq.model.errors import CorruptRecord, InvalidInput
from stratamq.model.topic import TopicConfig
from stratamq.model.types import Offset, ShardName, TimestampMs
from stratamq.wire.kafka.records import check_crc, read_header


class RocksReads:
    """The reading half of RocksShardStore. It changes nothing."""

    __slots__ = ("_index", "_offloaded", "_rows", "_segments", "_start", "config", "name")

    name: ShardName
    config: TopicConfig
    _index: ShardIndex
    _rows: ShardRows
    """The batches, and the index as well."""
    _segments: tuple[SegmentRow, ...]
    _start: Offset
    _offloaded: Offset
    """Everything below it was offloaded, or trimmed."""

    @property
    def start_offset(self) -> Offset:
        return self._start

    @property
    def local_start(self) -> Offset:
        return max(self._start, self._offloaded)

    @property
    def end_offset(self) -> Offset:
        return self._segments[-1].end

    @property
    def lasting_end(self) -> Offset:
        return self.end_offset

    def active_bytes(self, offset: Offset) -> int | None:
        active = self._segments[-1]
        return active.size_bytes if offset >= active.base else None

    def offsets_by_key(self, key: bytes, end: Offset) -> Iterator[Offset] | None:
        if not self.config.flag("index.key"):
            return None
        return offsets_by_key(self._index, self._segments, key, self._start, end)

    def offsets_by_tag(self, tag: bytes, start: Offset, end: Offset) -> Iterator[Offset] | None:
        if not self.config.flag("index.tag"):
            return None
        begin = max(start, self._start)
        return offsets_by_tag(self._index, self._segments, tag, begin, end)

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        found: list[bytes] = []
        for last, data in self._rows.batches(offset, end):
            if found and len(data) > max_bytes:
                break
            if not _is_intact(data):
                if found:
                    break
                raise self._damage(offset, last)
            found.append(data)
            max_bytes -= len(data)
            if max_bytes <= 0:
                break
        return b"".join(found) if len(found) != 1 else found[0]

    def _damage(self, offset: Offset, last: Offset) -> CorruptRecord:
        where = f"{self.name} in RocksDB, row of offset {last}"
        return CorruptRecord(where, 0, offset, last + 1, "CRC does not match")

    def read_at_once(
        self, offset: Offset, max_bytes: int, end: Offset
    ) -> tuple[bytes, Offset] | None:
        return None

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        for segment in self._segments:
            if segment.max_timestamp >= timestamp:
                return max(self._rows.floor_time(segment.base, timestamp), self._start)
        return self.end_offset

    def segments(self) -> tuple[SegmentInfo, ...]:
        *sealed, active = self._segments
        infos = [segment.info(active=False) for segment in sealed]
        return adjoining([*infos, active.info(active=True)])

    def files_of(self, base_offset: Offset) -> tuple[Path, ...]:
        return ()


def _is_intact(data: bytes) -> bool:
    try:
        return check_crc(data, read_header(data))
    except InvalidInput:
        return False
