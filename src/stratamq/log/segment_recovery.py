"""The segments of a shard after a stop: scanned, indexed, and cut where the last write is torn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from pathlib import Path

from stratamq.log import epochs, names
from stratamq.log.active_segment import ActiveSegment
from stratamq.log.contract import PlacedBatch
from stratamq.log.disk import Disk
from stratamq.log.file_list import FileList, added
from stratamq.log.index import IndexState, ShardIndex
from stratamq.log.scan import Damage, Intact, Stretch, begins_elsewhere, ends_at, scan
from stratamq.log.sealed_segment import SealedSegment
from stratamq.log.segment import LostSegment, Segment
from stratamq.log.sidecar import SIDECARS, SPAN_MAX, write_sidecars
from stratamq.log.truncation import plan_cut
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import InvalidInput
from stratamq.model.types import EARLIEST, NO_EPOCH, Offset, Position
from stratamq.wire.kafka.records import EMPTY_SCAN, BatchScan, place_batch, scan_batch

ROWS_BYTES_MAX = 8 << 20
"""Log bytes whose index rows are written at once while rebuilding."""

TORN_CHUNK_BYTES = 4 << 20
"""Bytes of a torn tail that are copied at once."""


@dataclass(frozen=True, slots=True)
class Indexing:
    """What is indexed of each record."""

    keys: bool
    tags: bool
    decompressed_max: int

    def scan(self, found: Intact) -> BatchScan:
        """A stored batch that does not decode has nothing to index; it was stored without being
        looked into, and readers will say what is wrong with it. Control batches have no keys."""
        if found.header.is_control or not (self.keys or self.tags):
            return EMPTY_SCAN
        try:
            return scan_batch(
                found.header,
                found.data,
                keys=self.keys,
                tags=self.tags,
                decompressed_max=self.decompressed_max,
                consecutive=False,
            )
        except InvalidInput:
            return EMPTY_SCAN


class SegmentRecovery:
    """Opens segments, and brings their index rows in line with what the files hold. Damage goes to
    `report`. `history` grows by the leader epochs that are found in scanned batches."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        present: Set[str],
        index: ShardIndex,
        indexing: Indexing,
        files: FileList,
        report: Callable[[str], None],
        *,
        gaps: bool,
    ) -> None:
        self.disk, self.folder, self.index, self.indexing = disk, folder, index, indexing
        self.present, self.files, self._report, self.gaps = present, files, report, gaps
        self.history: epochs.History = ()
        self._saved: epochs.History = ()

    def begin(self, saved: epochs.History | None, bases: Iterable[Offset]) -> None:
        """Take over the history that was saved; where there is none, read it from the log."""
        self._saved = saved or ()
        self.history = self._epochs_of_log(bases) if saved is None else saved

    def _epochs_of_log(self, bases: Iterable[Offset]) -> epochs.History:
        history: epochs.History = ()
        for base in bases:
            end = Offset(base + SPAN_MAX)
            segment = SealedSegment(self.disk, self.folder, self.index, base, end)
            for _, header, _ in segment.batches():
                history = epochs.extended(history, header.leader_epoch, Offset(header.base_offset))
        return history

    def first(self, start: Offset) -> ActiveSegment:
        """A log without segments. Whatever the index says is about others, which may have had the
        same names."""
        active = ActiveSegment(self.disk, self.folder, self.index, start)
        rows = self.index.kv.batch()
        self.index.drop_segments_from(rows, EARLIEST)
        active.stage(rows)
        self.index.kv.write(rows, sync=True)  # first: it may know another segment of this name
        active.make_file()
        if start != EARLIEST or self.files.segments.keys() != {EARLIEST}:
            self.files.note(added(start))
        return active

    def next(self, base: Offset) -> ActiveSegment:
        """A new segment, after offsets that are lost."""
        active = ActiveSegment.create(self.disk, self.folder, self.index, base)
        self.files.note(added(base))
        rows = self.index.kv.batch()
        active.stage(rows)
        self.index.kv.write(rows, sync=True)
        return active

    def lost(self, base: Offset, end: Offset) -> LostSegment:
        return LostSegment(self.disk, self.folder, self.index, base, end)

    def sealed(self, base: Offset, end: Offset, state: IndexState | None) -> SealedSegment:
        segment = SealedSegment(self.disk, self.folder, self.index, base, end)
        segment.whole = base in self.files.whole
        sizes = self.files.segments.get(base, ())
        if sizes and segment.size not in sizes:
            self._report(f"{segment.path}: {segment.size} bytes, where it had {sizes[-1]}")
            segment.cut_short = segment.size < min(sizes)
        elif len(sizes) > 1:
            self.files.note([f"segment {base}; sealed {base} {segment.size}"])
        if not segment.has_sidecars():
            segment.rebuild_sidecars()
        if state is None or base > state.segment:
            self._index_sealed(segment, 0)
        elif base == state.segment:
            self._index_sealed(segment, state.indexed_position)
        return segment

    def is_foreign(self, base: Offset, state: IndexState | None) -> bool:
        """Whether another segment's file stands in the place of this one. After a clean stop,
        nothing is read to find out: readers notice it."""
        file = self.disk.open(self.folder / names.segment_file(base, names.LOG))
        size = file.size()
        clean = state is not None and (state.segment, state.synced_position) == (base, size)
        if clean or base not in self.files.whole:
            return False
        return begins_elsewhere(Stretch(file, size, Offset(base + SPAN_MAX)), base)

    def foreign(self, base: Offset, end: Offset) -> SealedSegment:
        """Such a file stays as it is, and reads refuse it. Index points into it are worth
        nothing."""
        segment = SealedSegment(self.disk, self.folder, self.index, base, end)
        segment.whole = True
        write_sidecars(self.disk, self.folder, base, [], [])
        return segment

    def _index_sealed(self, segment: SealedSegment, position: int) -> None:
        """Key and tag rows from `position` on; offset and time have their sidecars."""
        rows, size = self.index.kv.batch(), 0
        for found in segment.scan(position):
            if isinstance(found, Damage):
                self._report_damage(segment, found)
                continue
            self._note_epoch(found)
            self.index.put_records(rows, segment.base, [self._placed(found)])
            size += len(found.data)
            if size >= ROWS_BYTES_MAX:
                self.index.kv.write(rows)
                rows, size = self.index.kv.batch(), 0
        self.index.drop_points(rows, segment.base)
        self.index.kv.write(rows)

    def active(self, base: Offset, state: IndexState | None) -> ActiveSegment:
        path = self.folder / names.segment_file(base, names.LOG)
        size = self.disk.open(path).size()
        shorter = state is not None and state.segment == base and state.synced_position > size
        if state is None or state.segment != base or shorter:
            state = self._forget_from(base)
        segment = ActiveSegment.at(self.disk, self.folder, self.index, state, size)
        segment.end = state.synced_end
        segment.whole = base in self.files.whole
        for name in [names.segment_file(base, suffix) for suffix in SIDECARS]:
            if name in self.present:
                self.disk.unlink(self.folder / name)
        # What is left of a file that was synced is no torn write: its batches are believed.
        return self._scan_active(segment, gaps=shorter or (self.gaps and not segment.whole))

    def _forget_from(self, base: Offset) -> IndexState:
        """The index knows nothing usable of this segment: drop what it says of it and of later
        ones. Synced, or a power cut could bring the old rows back after the file has grown over
        the positions they speak of."""
        rows = self.index.kv.batch()
        self.index.drop_segments_from(rows, base)
        state = IndexState.new(base)
        self.index.put_state(rows, state)
        self.index.kv.write(rows, sync=True)
        return state

    def _scan_active(self, segment: ActiveSegment, *, gaps: bool) -> ActiveSegment:
        """Verify what was not synced, index what was not indexed, cut what is torn."""
        state = segment.state
        indexed, synced = state.indexed_position, state.synced_position
        last_known, damaged = state.indexed_end, False
        rows, size = self.index.kv.batch(), 0
        limit = Offset(segment.base + SPAN_MAX)
        stretch = Stretch(segment.file(), segment.size, limit, gaps, torn=True)
        for found in scan(stretch, synced, segment.end):
            if isinstance(found, Damage):
                if found.end is None:
                    if not self._bears_out(segment, synced):
                        return self._scan_active(self._distrusted(segment), gaps=True)
                    self._cut_tail(segment, found.position)
                    break
                self._report_damage(segment, found)
                damaged = True
                continue
            base_offset = Offset(found.header.base_offset)
            if segment.whole and not damaged and base_offset > segment.end:
                self._report(
                    f"{segment.path}: offsets {segment.end} to {base_offset - 1} are missing"
                    f" before byte {found.position}"
                )
                damaged = True
            found = self._with_its_epoch(segment, found)
            self._note_epoch(found)
            segment.end = Offset(found.header.next_offset)
            if found.position >= indexed:
                segment.reindex(rows, self._placed(found), found.position)
                size += len(found.data)
            if size >= ROWS_BYTES_MAX:
                self.index.kv.write(rows)
                rows, size = self.index.kv.batch(), 0
        self.index.kv.write(rows)
        if damaged:
            self._index_again(segment)
            segment.damaged = True
        if segment.size > segment.state.synced_position:
            segment.write_again()
        if segment.end < last_known or segment.size < indexed:
            return self._take_back(segment)
        return self._settled(segment)

    def _bears_out(self, segment: ActiveSegment, synced: Position) -> bool:
        """Whether the file has at this position what the index says was synced up to there. Where
        something was put in before it, what lies after it is no torn tail."""
        if not synced:
            return True
        end = segment.state.synced_end
        point = self.index.floor_offset(segment.base, Offset(end - 1))
        stretch = Stretch(segment.file(), synced, Offset(segment.base + SPAN_MAX))
        begin = point.position if point is not None and point.position < synced else 0
        return ends_at(stretch, begin, end, gaps=not segment.whole)

    def _distrusted(self, segment: ActiveSegment) -> ActiveSegment:
        """The segment as if nothing of it were known, to be scanned from its beginning."""
        segment.state = self._forget_from(segment.base)
        segment.end = segment.base
        return segment

    def _index_again(self, segment: ActiveSegment) -> None:
        """Between damage a reader believes what the search for a torn tail does not. Whatever can
        be read must be found by key and time as well."""
        known = segment.state
        segment.state = state = self._forget_from(segment.base)
        state.synced_end, state.synced_position = known.synced_end, known.synced_position
        rows, size = self.index.kv.batch(), 0
        for found in segment.batches():
            found = self._with_its_epoch(segment, found)
            segment.reindex(rows, self._placed(found), found.position)
            size += len(found.data)
            if size >= ROWS_BYTES_MAX:
                self.index.kv.write(rows)
                rows, size = self.index.kv.batch(), 0
        self.index.put_state(rows, state)
        self.index.kv.write(rows)

    def _take_back(self, segment: ActiveSegment) -> ActiveSegment:
        """The index was ahead of the log."""
        cut = plan_cut(segment, segment.end)
        cut.carry_out()
        return cut.active

    def _settled(self, segment: ActiveSegment) -> ActiveSegment:
        """Whatever was found counts as synced from now on."""
        if segment.size > segment.state.synced_position:
            segment.sync()
            rows = self.index.kv.batch()
            segment.stage(rows)
            self.index.kv.write(rows)
        return segment

    def _cut_tail(self, segment: ActiveSegment, position: Position) -> None:
        """A write that was under way when the power went. Its bytes are kept aside."""
        file, size = segment.file(), segment.size - position
        copy = self.disk.open(self.folder / names.torn_file(segment.base, position), create=True)
        copy.truncate(0)
        for at in range(0, size, TORN_CHUNK_BYTES):
            copy.write([file.read(min(size - at, TORN_CHUNK_BYTES), position + at)], at)
        copy.sync()
        self.disk.sync_folder(self.folder)
        self._report(f"{segment.path}: cut a torn tail of {size} bytes at byte {position}")
        file.truncate(position)
        file.sync()
        segment.size = position

    def _placed(self, found: Intact) -> PlacedBatch:
        return PlacedBatch(found.header, (found.data,), self.indexing.scan(found))

    def _note_epoch(self, found: Intact) -> None:
        header = found.header
        self.history = epochs.extended(
            self.history, header.leader_epoch, Offset(header.base_offset)
        )

    def _with_its_epoch(self, segment: ActiveSegment, found: Intact) -> Intact:
        """A batch's CRC does not cover its leader epoch. But the history was durable before the
        batch was written: where they differ, the batch is set right."""
        header, last = found.header, found.header.last_offset
        known = [entry.epoch for entry in self._saved if entry.start_offset <= last]
        if not known or header.leader_epoch in (known[-1], NO_EPOCH):
            return found
        header, parts = place_batch(header, found.data, header.base_offset, known[-1])
        segment.file().write(parts, found.position)
        return Intact(found.position, header, b"".join(parts))

    def _report_damage(self, segment: Segment, damage: Damage) -> None:
        until = "the end" if damage.end is None else f"byte {damage.end}"
        self._report(f"{segment.path}: damaged from byte {damage.position} to {until}")
