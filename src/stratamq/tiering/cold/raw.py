"""Segments of history that were stored as they were: `tier.format=log`.

Reads are those of a local segment, over an object: found by its index, checked batch by batch.
There is no index of keys and tags, so look-ups by them walk all records of a file. That is right,
and slow: topics that need them are better stored as Parquet, or as both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

from stratamq.lake.parquet.sources import Span
from stratamq.log.reader import KnownBatch, SegmentView, locate, read_intact
from stratamq.log.sidecar import OffsetSidecar, TimeSidecar
from stratamq.meta.tier.files import TierFile, TierObject
from stratamq.model.errors import CorruptObject, CorruptRecord
from stratamq.model.types import Offset, TimestampMs
from stratamq.tiering.cold.ahead import Streams
from stratamq.tiering.cold.limits import ColdLimits
from stratamq.tiering.cold.objects import Objects, ObjectSource
from stratamq.tiering.cold.shared import Shared
from stratamq.wire.crc import crc32c
from stratamq.wire.kafka.records import (
    DECOMPRESSED_MAX,
    ENTRY_BYTES,
    BatchHeader,
    iter_batches,
    key_hash,
    scan_batch,
    walk,
)

T = TypeVar("T")
log = logging.getLogger(__name__)

SCAN_BYTES = 4 << 20
HINTS_MAX = 256
HASH_BYTES = 8


class RawFile:
    """A segment on the store, open. For several threads at once."""

    def __init__(self, objects: Objects, file: TierFile) -> None:
        self.file = file
        self.source = objects(log_of(file))
        self._offsets = OffsetSidecar(file.base_offset, _sidecar(objects, file.index))
        self._times = TimeSidecar(file.base_offset, _sidecar(objects, file.timeindex))
        self._hints: dict[int, int] = {}

    def read_from(self, offset: Offset, max_bytes: int, end: Offset) -> tuple[bytes, int]:
        """Read as ShardStore.read does; also return where in the file the answer ends."""
        view, hint = self._view(), self._hints.get(offset)
        known = None if hint is None else KnownBatch(hint, offset, proven=True)
        position = locate(view, offset, known)
        if position is None:
            return b"", 0
        data, next_offset = read_intact(view, position, max_bytes, end, offset)
        if not data:
            return b"", 0
        # Where some reader will go on, without a look into the index.
        hints = self._hints
        hints[next_offset] = position + len(data)
        if len(hints) > HINTS_MAX:
            with suppress(RuntimeError, StopIteration):  # another thread was faster
                hints.pop(next(iter(hints)), None)
        return data, position + len(data)

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        point = self._times.floor(timestamp)
        return point.offset if point is not None else self.file.base_offset

    def _view(self) -> SegmentView:
        size = self.source.size_bytes
        file = self.file
        return SegmentView(
            log_of(file).key,
            _Bytes(self.source),
            size,
            file.base_offset,
            file.end_offset,
            self._offsets.floor,
        )


class _Bytes:
    """A source, as the log reads files."""

    __slots__ = ("_source",)

    def __init__(self, source: ObjectSource) -> None:
        self._source = source

    def read(self, size: int, position: int) -> bytes:
        return self._source.read_at(position, min(size, self._source.size_bytes - position))


class RawReaders:
    """Reads of raw segments, by any number of threads."""

    def __init__(self, objects: Objects, limits: ColdLimits) -> None:
        self._objects, self._limits = objects, limits
        self._files: Shared[str, RawFile] = Shared(lambda _: 1, limits.files_max)
        self._streams: Streams[str, int] = Streams()

    def read(self, file: TierFile, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        data, position = self._tried(file, lambda found: found.read_from(offset, max_bytes, end))
        if not data:
            return data
        end_read = walk(data)[-1].last_offset + 1
        if self._streams.follow(file.shard, offset, end_read, position) is not None:
            self._open(file).source.expect(Span(position, self._limits.read_ahead_bytes))
        return data

    def offsets_by_key(self, file: TierFile, key: bytes, end: Offset) -> Iterator[Offset]:
        """Yield offsets newest first, and so after a walk over the whole file."""
        yield from reversed(list(self._scan(file, key, file.base_offset, end, tags=False)))

    def offsets_by_tag(
        self, file: TierFile, tag: bytes, start: Offset, end: Offset
    ) -> Iterator[Offset]:
        return self._scan(file, tag, start, end, tags=True)

    def floor_by_timestamp(self, file: TierFile, timestamp: TimestampMs) -> Offset:
        return self._tried(file, lambda found: found.floor_by_timestamp(timestamp))

    def clear(self) -> None:
        self._files.clear()

    def _scan(
        self, file: TierFile, wanted: bytes, start: Offset, end: Offset, *, tags: bool
    ) -> Iterator[Offset]:
        """Batch by batch, also one that reaches past the end."""
        hashed = key_hash(wanted).to_bytes(HASH_BYTES, "big")
        offset = max(start, file.base_offset)
        while offset < end and (data := self.read(file, offset, SCAN_BYTES, file.end_offset)):
            for header, batch in iter_batches(data):
                offset = header.next_offset
                if not header.is_control:
                    found = _hits(header, batch, hashed, tags=tags)
                    yield from (one for one in found if start <= one < end)

    def _tried(self, file: TierFile, work: Callable[[RawFile], T]) -> T:
        """Report a wrong byte only if it is still wrong after everything was fetched again."""
        try:
            return work(self._open(file))
        except (CorruptRecord, CorruptObject):
            self._files.drop(log_of(file).key)
            for target in (file.log, file.index, file.timeindex):
                if target is not None:
                    self._objects(target).forget()
        return work(self._open(file))

    def _open(self, file: TierFile) -> RawFile:
        return self._files.get(log_of(file).key, lambda: RawFile(self._objects, file))


def log_of(file: TierFile) -> TierObject:
    assert file.log, "asked for only where there is one"
    return file.log


def _sidecar(objects: Objects, target: TierObject | None) -> bytes:
    """An index, or nothing: then reads begin at the front of the file, which is slow and right."""
    if target is None or not target.size:
        return b""
    source = objects(target)
    for _ in range(2):
        data = source.read_at(0, target.size)
        if crc32c(data) == target.crc:
            return data
        source.forget()
    log.warning("%s does not match its checksum: read without it", target.key)
    return b""


def _hits(header: BatchHeader, batch: memoryview, hashed: bytes, *, tags: bool) -> list[Offset]:
    """Offsets of the batch's records whose key (or one of whose tags) has this hash."""
    scan = scan_batch(header, batch, keys=not tags, tags=tags, decompressed_max=DECOMPRESSED_MAX)
    packed = scan.tags if tags else scan.keys
    found: list[Offset] = []
    at = packed.find(hashed)
    while at >= 0:
        if at % ENTRY_BYTES == 0:
            delta = int.from_bytes(packed[at + HASH_BYTES : at + ENTRY_BYTES], "big")
            if not found or found[-1] != header.base_offset + delta:
                found.append(Offset(header.base_offset + delta))
        at = packed.find(hashed, at + 1)
    return found
