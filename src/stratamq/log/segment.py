"""What all segments of a shard share: a `.log` file, the offsets it spans, and reading it.

An `ActiveSegment` is written at its end by one writer; its index points are in the key-value store.
A `SealedSegment` never changes; its index points are its sidecar files. A `LostSegment` has no file
any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from stratamq.log import names, reader
from stratamq.log.contract import SegmentInfo
from stratamq.log.disk import Disk, File
from stratamq.log.index import ShardIndex
from stratamq.log.scan import Damage, Intact, begins_elsewhere, scan
from stratamq.log.sidecar import OffsetPoint, TimePoint
from stratamq.model.errors import CorruptRecord
from stratamq.model.types import NO_TIMESTAMP, Offset, Position, TimestampMs
from stratamq.wire.kafka.records import intact

AT_ONCE_BYTES = 64 << 10
"""The most that an event loop reads and checks by itself."""

HINTS_MAX = 8
"""Positions remembered per segment. When there are more, the oldest is forgotten."""


NOT_ITS_FILE = "it does not begin with the segment's first batch, and may be another's file"


class Segment(ABC):
    """What active and sealed segments share: where they are, what they span, and reading."""

    __slots__ = (
        "_begins_here",
        "_hints",
        "base",
        "cut_short",
        "disk",
        "end",
        "folder",
        "index",
        "path",
        "size",
        "whole",
    )

    def __init__(self, disk: Disk, folder: Path, index: ShardIndex, base: Offset) -> None:
        self.disk, self.folder, self.index, self.base = disk, folder, index, base
        self.path = folder / names.segment_file(base, names.LOG)
        self.size = 0
        self.end = base
        self.cut_short = False
        """Whether the file is shorter than it was: what its end lacks is damage, not a gap."""
        self.whole = False
        """Whether its offsets follow each other: then a gap is damage, too."""
        self._begins_here = False
        self._hints: dict[Offset, int] = {base: 0}

    @abstractmethod
    def floor(self, offset: Offset) -> OffsetPoint | None:
        """The last index point at or before `offset`."""

    @abstractmethod
    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        """An offset so that every record of the segment before it is older."""

    @abstractmethod
    def points(self) -> tuple[list[OffsetPoint], list[TimePoint]]:
        """The sparse indexes, whole."""

    @abstractmethod
    def info(self) -> SegmentInfo: ...

    def file(self) -> File:
        return self.disk.open(self.path)

    def unlink(self) -> None:
        """Remove the files, if they exist."""
        self.disk.unlink(self.path)

    def written_ms(self, max_timestamp: TimestampMs) -> TimestampMs:
        """When the file was last written, where the records do not say how old they are."""
        if max_timestamp >= 0 or not self.size:
            return NO_TIMESTAMP
        return TimestampMs(self.disk.modified_ms(self.path))

    def sidecar(self, suffix: str) -> Path:
        return self.folder / names.segment_file(self.base, suffix)

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        """Intact batches from the one holding `offset` on; see ShardStore.read."""
        offset, size = max(offset, self.base), self.size
        if not size:
            return b""  # its file may not be made yet
        view = self.view(size)
        if self.whole and not self._begins_here:
            self._check_beginning(view, offset)
        position = reader.locate(view, offset, self._hinted(offset))
        if position is None:
            return b""
        data, next_offset = reader.read_intact(view, position, max_bytes, end, offset)
        if data:
            self._remember(next_offset, position + len(data))
        return data

    def _check_beginning(self, view: reader.SegmentView, offset: Offset) -> None:
        """Refuse a file that does not begin with the segment's first batch: all of it may be
        another shard's. Once it does, that is known."""
        if begins_elsewhere(view.stretch(), self.base):
            raise CorruptRecord(str(self.path), 0, offset, max(self.end, offset + 1), NOT_ITS_FILE)
        self._begins_here = True

    def refusal(self, offset: Offset) -> CorruptRecord:
        """The error for reading, from `offset` on, what the end of the file lacks."""
        first = max(offset, self.base)
        end = max(self.end, first + 1)
        return CorruptRecord(str(self.path), self.size, first, end, "its bytes are gone")

    def read_at_once(
        self, offset: Offset, max_bytes: int, end: Offset
    ) -> tuple[bytes, Offset] | None:
        """A few batches from where a reader stopped before, without waiting for the disk, and the
        offset after them; None unless they are in memory and in order."""
        size, position = self.size, self._hints.get(offset)
        if position is None or not 0 < size - position <= AT_ONCE_BYTES:
            return None
        file = self.disk.at_hand(self.path)
        chunk = file.read_at_once(size - position, position) if file else None
        if chunk is None:
            return None
        good, next_offset = intact(chunk, offset, max_bytes, end, self.whole)
        if not good:
            return None
        self._remember(next_offset, position + good)
        return chunk[:good], next_offset

    def view(self, size: int) -> reader.SegmentView:
        """The segment as it is now. `size` is taken first: a writer raises the end before it."""
        return reader.SegmentView(
            str(self.path), self.file(), size, self.base, self.end, self.floor, self.whole
        )

    def scan(self, position: int = 0) -> Iterator[Intact | Damage]:
        return scan(self.view(self.size).stretch(), position, self.base)

    def batches(self, position: int = 0) -> Iterator[Intact]:
        return (found for found in self.scan(position) if isinstance(found, Intact))

    def bytes_from(self, offset: Offset) -> int:
        """The bytes from `offset` on; all of the file where no reader or writer stopped there."""
        return self.size - self._hints.get(offset, 0)

    def _hinted(self, offset: Offset) -> reader.KnownBatch | None:
        """A consumer that reads on where it stopped needs no look-up in the index."""
        position = self._hints.get(offset)
        return None if position is None else reader.KnownBatch(position, offset, proven=True)

    def _remember(self, offset: Offset, position: int) -> None:
        """Note where a reader will go on. Readers and the writer do this without a lock."""
        hints = self._hints
        hints[offset] = position
        if len(hints) > HINTS_MAX:
            oldest, *_ = hints  # one step, so that other threads may do the same
            hints.pop(oldest, None)


class LostSegment(Segment):
    """Offsets that were given out and whose bytes are gone. Reading them raises CorruptRecord, and
    no record ever gets one of them again."""

    __slots__ = ()

    def __init__(
        self, disk: Disk, folder: Path, index: ShardIndex, base: Offset, end: Offset
    ) -> None:
        super().__init__(disk, folder, index, base)
        self.end = end
        self.cut_short = True

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        raise self.refusal(offset)

    def floor(self, offset: Offset) -> OffsetPoint | None:
        return None

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        return self.base

    def points(self) -> tuple[list[OffsetPoint], list[TimePoint]]:
        return [], []

    def scan(self, position: int = 0) -> Iterator[Intact | Damage]:
        return iter([Damage(Position(0), None)])

    def info(self) -> SegmentInfo:
        """It has no age: retention removes it together with the segment after it."""
        return SegmentInfo(self.base, self.end, 0, NO_TIMESTAMP, NO_TIMESTAMP, active=False)
