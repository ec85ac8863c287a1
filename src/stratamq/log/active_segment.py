"""The segment at the end of a log, to which its one writer appends."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from stratamq.log import sidecar
from stratamq.log.contract import PlacedBatch, SegmentInfo
from stratamq.log.disk import Buffer, Disk, File
from stratamq.log.index import IndexState, ShardIndex
from stratamq.log.kv import KVBatch
from stratamq.log.scan import SCAN_BYTES
from stratamq.log.sealed_segment import SealedSegment
from stratamq.log.segment import HINTS_MAX, Segment
from stratamq.log.sidecar import OffsetPoint, TimePoint
from stratamq.model.errors import CorruptRecord
from stratamq.model.types import NO_TIMESTAMP, Offset, Position, TimestampMs
from stratamq.wire.kafka.records.layout import LENGTH_END


class ActiveSegment(Segment):
    """After `append` the bytes may be lost in a power cut; after `sync` they may not.

    `stage` gives the index rows of what was appended since the last `stage`; the caller writes
    them. Until then look-ups by key and tag do not find the new records; reading by offset does.
    """

    __slots__ = ("_held", "_staged", "damaged", "state")

    def __init__(self, disk: Disk, folder: Path, index: ShardIndex, base: Offset) -> None:
        super().__init__(disk, folder, index, base)
        self.state = IndexState.new(base)
        self._staged: list[PlacedBatch] = []
        self._held: File | None = None
        self.damaged = False
        """Whether recovery or a reader has found damage: then the next append rolls."""

    @classmethod
    def create(cls, disk: Disk, folder: Path, index: ShardIndex, base: Offset) -> ActiveSegment:
        """A new, empty file whose name is durable."""
        segment = cls(disk, folder, index, base)
        try:
            segment.make_file()
        except OSError:
            disk.unlink(segment.path)  # the segment before it goes on, past this one's base
            raise
        return segment

    @classmethod
    def at(
        cls, disk: Disk, folder: Path, index: ShardIndex, state: IndexState, size: int
    ) -> ActiveSegment:
        """An existing file; `state` says how much of it is indexed."""
        segment = cls(disk, folder, index, state.segment)
        segment.state = state
        segment.size = size
        segment.end = state.indexed_end
        return segment

    def make_file(self) -> None:
        self.whole = True
        self.disk.open(self.path, create=True).truncate(0)
        self.disk.sync_folder(self.folder)

    def append(self, batches: Sequence[PlacedBatch], *, durable: bool = False) -> None:
        """One write for all. On OSError readers still see the file as long as before.
        With `durable` it is synced as well, where nothing older waits for that."""
        size, state = self.size, self.state
        hints = self._hints
        hints[self.end] = size  # consumers at the end read on from here
        if len(hints) > HINTS_MAX:
            oldest, *_ = hints
            hints.pop(oldest, None)
        written: list[Buffer] = []
        for _, parts, _ in batches:
            written += parts
        file = self._held
        if file is None:
            file = self._held = self.disk.open(self.path)
        durable = durable and state.synced_position == size
        file.write(written, size, durable=durable)
        self._staged.extend(batches)
        last = batches[-1].header
        self.end = Offset(last.base_offset + last.last_offset_delta + 1)
        if not size:
            state.first_timestamp = batches[0].header.max_timestamp
        self.size = size + sum(map(len, written))
        if durable:
            self.note_synced()

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        try:
            return super().read(offset, max_bytes, end)
        except CorruptRecord:
            self.damaged = True
            raise

    def undo(self, size: int, end: Offset) -> None:
        """Take back an append that failed. A file that is not held was not written to."""
        if self._held is not None:
            self._held.truncate(size)
        self.size, self.end = size, end
        if not size:
            self.state.first_timestamp = NO_TIMESTAMP
        self._staged = [batch for batch in self._staged if batch.header.base_offset < end]

    def write_again(self) -> None:
        """Write every byte again that is not known to be synced. After an fsync that failed, the
        kernel takes these bytes for written, and a sync alone would do nothing."""
        file, position = self._hold(), int(self.state.synced_position)
        while position < self.size:
            chunk = file.read(min(SCAN_BYTES, self.size - position), position)
            file.write([chunk], position)
            position += len(chunk)

    def sync(self) -> None:
        file = self.unsynced()
        if file is not None:
            file.sync()
        self.note_synced()

    def unsynced(self) -> File | None:
        """The file, if it has bytes that are not synced. The caller syncs it, and calls
        `note_synced` if that went well."""
        return self._hold() if self.state.synced_position < self.size else None

    def note_synced(self) -> None:
        """OSError where the file was removed from outside: what was synced into it is as good as
        lost, and must not be acknowledged."""
        if self._held is not None and not self._held.has_name():
            raise FileNotFoundError(errno.ENOENT, "removed while it was written", str(self.path))
        self.state.synced_position, self.state.synced_end = Position(self.size), self.end
        self._held = None

    def stage(self, rows: KVBatch, *, state_alone: bool = True) -> bool:
        """Rows for everything appended since, points and state included; the state not where it
        would be `state_alone` and that is not wanted. Whether there are any."""
        some = state_alone
        if self._staged:
            staged, self._staged = self._staged, []
            some |= self._put_rows(rows, staged)
        if some:
            rows.put(self.index.state_key, self.state.encode())
        return some

    def reindex(self, rows: KVBatch, batch: PlacedBatch, position: Position) -> None:
        """Rows of a batch that recovery found at `position`, after everything indexed so far."""
        if not self.state.indexed_position:
            self.state.first_timestamp = batch.header.max_timestamp
        self.state.indexed_position = position
        self._put_rows(rows, [batch])

    def _put_rows(self, rows: KVBatch, batches: list[PlacedBatch]) -> bool:
        """Rows of keys and tags, and a point per POINT_EVERY_RECORDS records, at batch boundaries,
        as Kafka places them. Whether there are any."""
        state, some, has_entries = self.state, False, False
        position, since = int(state.indexed_position), state.records_since_point
        for header, _, scan in batches:
            if scan.keys or scan.tags:
                has_entries = True
            if header.max_timestamp > state.max_timestamp:
                state.max_timestamp = header.max_timestamp
                state.max_timestamp_offset = Offset(header.base_offset + header.last_offset_delta)
            if since >= sidecar.POINT_EVERY_RECORDS:
                self._put_points(rows, OffsetPoint(header.last_offset, Position(position)))
                since, some = 0, True
            since += header.record_count
            position += header.batch_length + LENGTH_END
        state.indexed_position, state.records_since_point = Position(position), since
        state.indexed_end = Offset(header.base_offset + header.last_offset_delta + 1)
        if has_entries:
            self.index.put_records(rows, self.base, batches)
        return some or has_entries

    def _put_points(self, rows: KVBatch, point: OffsetPoint) -> None:
        state = self.state
        self.index.put_offset_point(rows, self.base, point)
        if state.max_timestamp >= 0:
            time = TimePoint(state.max_timestamp, state.max_timestamp_offset)
            self.index.put_time_point(rows, self.base, time)

    def seal(self) -> SealedSegment:
        """Write the sidecars of a segment that is synced and indexed. The caller drops the points
        from the store afterwards."""
        offsets, times = self.points()
        sidecar.append_time(
            times, TimePoint(self.state.max_timestamp, self.state.max_timestamp_offset)
        )
        sidecar.write_sidecars(self.disk, self.folder, self.base, offsets, times)
        sealed = SealedSegment(self.disk, self.folder, self.index, self.base, self.end)
        sealed.whole = self.whole
        sealed.known = self.info()._replace(active=False)
        return sealed

    def is_at_hand(self) -> bool:
        """Whether the file is open, so that a write to it does not wait for the disk."""
        return self._held is not None or self.disk.at_hand(self.path) is not None

    def floor(self, offset: Offset) -> OffsetPoint | None:
        return self.index.floor_offset(self.base, offset)

    def points(self) -> tuple[list[OffsetPoint], list[TimePoint]]:
        return self.index.offset_points(self.base), self.index.time_points(self.base)

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        return self.index.floor_time(self.base, timestamp)

    def info(self) -> SegmentInfo:
        first, youngest = self.state.first_timestamp, self.state.max_timestamp
        written_ms = self.written_ms(youngest)
        return SegmentInfo(self.base, self.end, self.size, first, youngest, True, written_ms)

    def _hold(self) -> File:
        """The file, held until the next sync: a descriptor that is opened later might not get the
        error of a write that failed before. How many may be held at once, and why none is closed
        before: `stratamq.engine.segment.unsynced_files`."""
        if self._held is None:
            self._held = self.disk.open(self.path)
        return self._held
