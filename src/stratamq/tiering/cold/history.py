"""A shard's past, as an engine reads it: `stratamq.engine.tiered.History` over files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from stratamq.log.contract import SegmentInfo
from stratamq.meta.tier.files import TierFile
from stratamq.model.errors import (
    CorruptObject,
    CorruptRecord,
    ObjectNotFound,
    OffsetOutOfRange,
    StorageError,
)
from stratamq.model.types import EARLIEST, NO_TIMESTAMP, Offset, ShardName, TimestampMs
from stratamq.tiering.cold.raw import RawReaders
from stratamq.tiering.cold.readers import ParquetReaders

T = TypeVar("T")

CHANGES_MAX = 100
"""A reader meets as many changes of the list of files at most."""


class ShardHistory:
    """The final files of one shard. They are a tuple that is replaced whole (`replace`), so readers
    need no lock: one that meets a file which has gone looks again.

    Where a file is there in both formats, batches come from the log, which is faster, and look-ups
    by key and tag from Parquet, which has indexes for them.
    """

    def __init__(self, shard: ShardName, parquet: ParquetReaders, raw: RawReaders) -> None:
        self._shard, self._parquet, self._raw = shard, parquet, raw
        self._files: tuple[TierFile, ...] = ()
        self._segments: tuple[SegmentInfo, ...] = ()
        self.shown_end = EARLIEST

    def replace(self, files: Iterable[TierFile]) -> None:
        """What object storage has of the shard now. Files that are not final are left out: the log
        has what they hold."""
        ordered = sorted(files, key=lambda file: file.base_offset)
        self._files = tuple(file for file in ordered if file.final)
        self._segments = tuple(
            SegmentInfo(
                file.base_offset,
                file.end_offset,
                file.log_bytes,
                file.min_timestamp,
                file.max_timestamp,
                active=False,
                written_ms=NO_TIMESTAMP if file.max_timestamp >= 0 else file.largest_timestamp,
            )
            for file in self._files
        )
        early = [file.end_offset for file in ordered if not file.final]
        self.shown_end = early[-1] if early else EARLIEST

    @property
    def files(self) -> tuple[TierFile, ...]:
        return self._files

    def segments(self) -> tuple[SegmentInfo, ...]:
        return self._segments

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        """Read as ShardStore.read does, within one file: an answer ends where its file does."""
        return self._steady(lambda files: self._read(files, offset, max_bytes, end), offset)

    def offsets_by_key(self, key: bytes, end: Offset) -> Iterator[Offset]:
        """Yield the offsets of a key, newest first. A file that is dropped meanwhile is skipped:
        its records lie below the start."""
        for file in reversed(self._files):
            if file.base_offset >= end:
                continue
            with suppress(_FileGone), self._reading(file, file.base_offset):
                if file.parquet is not None:
                    yield from map(Offset, self._parquet.offsets_by_key(file, key, end))
                else:
                    yield from self._raw.offsets_by_key(file, key, end)

    def offsets_by_tag(self, tag: bytes, start: Offset, end: Offset) -> Iterator[Offset]:
        for file in self._files:
            if file.end_offset <= start or file.base_offset >= end:
                continue
            with suppress(_FileGone), self._reading(file, file.base_offset):
                if file.parquet is not None:
                    yield from map(Offset, self._parquet.offsets_by_tag(file, tag, start, end))
                else:
                    yield from self._raw.offsets_by_tag(file, tag, start, end)

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset | None:
        def look(files: tuple[TierFile, ...]) -> Offset | None:
            for file in files:
                if file.max_timestamp >= timestamp:
                    with self._reading(file, file.base_offset):
                        if file.log is not None:
                            return self._raw.floor_by_timestamp(file, timestamp)
                        return Offset(self._parquet.floor_by_timestamp(file, timestamp))
            return None

        return self._steady(look)

    def _read(
        self, files: tuple[TierFile, ...], offset: Offset, max_bytes: int, end: Offset
    ) -> bytes:
        first = bisect_right(files, offset, key=lambda file: file.end_offset)
        for number in range(first, len(files)):
            file = files[number]
            if file.base_offset >= end:
                break
            after = files[number + 1] if number + 1 < len(files) else None
            with self._reading(file, offset):
                if file.log is not None:
                    data = self._raw.read(file, offset, max_bytes, end)
                else:
                    data = self._parquet.read(file, offset, max_bytes, end, after)
            if data:
                return data
        return b""

    @contextmanager
    def _reading(self, file: TierFile, offset: Offset) -> Iterator[None]:
        """What is wrong with an object is damage of the log. An object that is missing is damage
        too, unless its file has just gone."""
        try:
            yield
        except CorruptObject as error:
            raise _damage(file, offset, str(error)) from error
        except ObjectNotFound:
            if file in self._files:
                raise _damage(file, offset, "the object is missing") from None
            raise _FileGone from None

    def _steady(self, look: Callable[[tuple[TierFile, ...]], T], offset: Offset | None = None) -> T:
        """What `look` finds in files that do not go away meanwhile."""
        for _ in range(CHANGES_MAX):
            files = self._files
            try:
                return look(files)
            except _FileGone:
                left = self._files
            if offset is not None and (not left or offset < left[0].base_offset):
                start = left[0].base_offset if left else files[-1].end_offset
                raise OffsetOutOfRange(self._shard, offset, start, (left or files)[-1].end_offset)
        raise StorageError(f"{self._shard}: its files changed {CHANGES_MAX} times in a read")


class _FileGone(Exception):
    """A file was dropped while it was read."""


def _damage(file: TierFile, offset: Offset, reason: str) -> CorruptRecord:
    first = max(offset, file.base_offset)
    return CorruptRecord(file.objects[0].key, 0, first, file.end_offset, reason)
