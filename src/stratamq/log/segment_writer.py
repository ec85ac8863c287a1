"""Changing the segments of a shard: adding, cutting, dropping and replacing them.

Each change touches files, the file list and index rows, in an order that leaves a whole log after a
crash at any step: see the table in `stratamq.log.shard_log`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from stratamq.log.active_segment import ActiveSegment
from stratamq.log.contract import PlacedBatch, must_roll
from stratamq.log.disk import NO_ROOM, OUT_OF_DESCRIPTORS, Disk
from stratamq.log.file_list import FileList, added
from stratamq.log.guard import WriteGuard
from stratamq.log.index import ShardIndex
from stratamq.log.kv import KVBatch
from stratamq.log.rewriting import SegmentRewrite
from stratamq.log.sealed_segment import SealedSegment
from stratamq.log.segment import LostSegment, Segment
from stratamq.log.segment_list import SegmentList
from stratamq.log.segment_recovery import Indexing
from stratamq.log.sidecar import SPAN_MAX
from stratamq.log.start_offsets import StartOffsets
from stratamq.log.truncation import plan_cut
from stratamq.model.topic import TopicConfig
from stratamq.model.types import EARLIEST, Offset


class SegmentWriter:
    """Used by the shard's one writer. Errors of the disk are OSError; where a step cannot be taken
    back, they are ShardPoisoned."""

    __slots__ = (
        "_disk",
        "_files",
        "_folder",
        "_guard",
        "_index",
        "_indexing",
        "_segments",
        "_starts",
    )

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        guard: WriteGuard,
        index: ShardIndex,
        indexing: Indexing,
        files: FileList,
        starts: StartOffsets,
        segments: SegmentList,
    ) -> None:
        self._disk, self._folder, self._guard = disk, folder, guard
        self._index, self._indexing = index, indexing
        self._files, self._starts, self._segments = files, starts, segments

    # -- adding --------------------------------------------------------------------------------

    def append(self, batches: Sequence[PlacedBatch], config: TopicConfig, *, whole: bool) -> None:
        """Write batches that may not all fit the active segment: one write per segment that they
        land in. With `whole` they stay one segment, whatever their size. Nothing is added to a file
        with damage in it: an operator may put a whole copy in its place."""
        if self._segments.active.damaged:
            self.roll()
        run: list[PlacedBatch] = []
        active = self._segments.active
        size, first, end = active.size, active.state.first_timestamp, active.end
        for batch in batches:
            header = batch.header
            full = not whole and must_roll(
                size, first, header.size_bytes, header.max_timestamp, config
            )
            far = header.last_offset - self._segments.active.base > SPAN_MAX
            if full or far:
                if run:
                    self._segments.active.append(run)
                    run = []
                self.roll(header.base_offset if far else None)
                size, end = 0, self._segments.active.base
            if header.base_offset != end and self._segments.active.whole:
                self.expect_gaps()
            if not size:
                first = header.max_timestamp
            run.append(batch)
            size, end = size + header.size_bytes, header.next_offset
        self._segments.active.append(run)

    def sync(self) -> None:
        try:
            self._segments.active.sync()
        except OSError as error:
            raise self._guard.sync_failure(error) from error

    def flush_index(self) -> None:
        rows = self._index.kv.batch()
        self._segments.active.stage(rows)
        self.write_rows(rows)

    def write_rows(self, rows: KVBatch, *, sync: bool = False) -> None:
        """Rows that were staged and not written would be missing for ever."""
        with self._guard.or_poison():
            self._index.kv.write(rows, sync=sync)

    def roll(self, base: Offset | None = None) -> None:
        """Seal the active segment and begin a new one, at `base` where a gap is too large for one
        segment to span. An empty segment stays."""
        old = self._segments.active
        if not old.size and base is None:
            return
        self.sync()
        self.flush_index()
        sealed = old.seal()
        base = old.end if base is None else base
        new = ActiveSegment.create(self._disk, self._folder, self._index, base)
        try:
            self._files.note([f"sealed {old.base} {sealed.size}", *added(base)])
        except OSError as error:
            if error.errno in NO_ROOM | OUT_OF_DESCRIPTORS:
                self._disk.unlink(new.path)  # the old segment goes on, past the base of this one
            raise
        self._segments.replace((*self._segments.all[:-1], sealed), new)
        rows = self._index.kv.batch()
        self._index.drop_points(rows, old.base)
        new.stage(rows)
        self.write_rows(rows)

    def undo(self, active: ActiveSegment, size: int, end: Offset) -> None:
        """Take back an append that failed, to `size` and `end` of the segment that was active."""
        now = self._segments.active
        with self._guard.or_poison():
            indexed = now.state.indexed_end > end
            if active is now and not indexed:
                active.undo(size, end)
            elif now.base == end and not indexed:  # a new segment, where the old one ended
                now.undo(0, end)
            else:
                self.cut(end)

    def expect_gaps(self) -> None:
        """A batch comes that does not go on where the one before it ends, as on a replica of a
        compacted log."""
        active = self._segments.active
        self._files.note([f"gaps {active.base}"])
        active.whole = False

    # -- cutting -------------------------------------------------------------------------------

    def cut(self, end: Offset) -> None:
        """Remove everything from `end` on. The segment that holds `end` becomes the active one."""
        self.flush_index()  # the cut segment counts as indexed, so what it keeps must be
        number = self._segments.position(end)
        before, target = self._segments.all[:number], self._segments.all[number]
        newer = self._segments.all[number + 1 :]
        if isinstance(target, LostSegment):  # nothing of it is here to be kept
            self._cut_at_lost(before, [target, *newer])
            return
        removed = [f"segment {target.base}", *(f"removed {segment.base}" for segment in newer)]
        noted = self._note_if_possible([f"cutting {end}", *removed])
        cut = plan_cut(target, end, self._indexing.scan)
        self._segments.replace(before, cut.active)
        rows = self._index.kv.batch()
        self._unlink(reversed(newer), rows)
        self._disk.sync_folder(self._folder)
        cut.carry_out()
        self.write_rows(rows, sync=True)
        if cut.in_gap:  # only the name of a segment says where the log ends
            self.roll(cut.active.end)
        self._files.note([*(() if noted else removed), f"cut {end}"])

    def _cut_at_lost(self, before: Sequence[Segment], gone: Sequence[Segment]) -> None:
        """Go on where a run of lost offsets begins: the leader sends them again."""
        base = gone[0].base
        self._files.note(f"removed {segment.base}" for segment in gone)
        rows = self._index.kv.batch()
        self._unlink(reversed(gone), rows)
        active = ActiveSegment(self._disk, self._folder, self._index, base)
        self._segments.replace(before, active)
        active.stage(rows)
        self.write_rows(rows, sync=True)
        active.make_file()
        self._files.note(added(base))

    def begin_at(self, end: Offset, start: Offset) -> None:
        """Leave one empty segment, at `end`, and nothing else."""
        gone = self._segments.all
        active = ActiveSegment(self._disk, self._folder, self._index, end)
        self._segments.replace((), active)
        self._files.note(f"removed {segment.base}" for segment in gone)
        for segment in reversed(gone):
            segment.unlink()
        self._starts.save_start(start)
        rows = self._index.kv.batch()
        self._index.drop_segments_from(rows, EARLIEST)
        active.stage(rows)
        self.write_rows(rows, sync=True)  # before the file: the index may know another of this name
        active.make_file()
        self._files.note(added(end))

    # -- dropping and replacing ----------------------------------------------------------------

    def drop(self, segments: Iterable[Segment]) -> None:
        """Remove sealed segments, oldest first, so that a crash leaves one contiguous log."""
        gone = list(segments)
        removed = [f"removed {segment.base}" for segment in gone]
        noted = self._note_if_possible(removed)
        rows = self._index.kv.batch()
        sealed = [found for found in self._segments.all[:-1] if found not in gone]
        self._segments.replace(sealed, self._segments.active)
        self._unlink(gone, rows)
        self._disk.sync_folder(self._folder)
        if not noted:
            self._files.note(removed)
        self.write_rows(rows)

    def put_in_force(self, prepared: SegmentRewrite) -> None:
        """Let a rewritten segment take the place of the old one, or drop one that became empty."""
        old = prepared.old
        self._settle_index()
        if not prepared.size_bytes:
            if old is self._segments.all[0]:
                self._starts.save_start(self._starts.start)  # its base will no longer say it
            self.drop([old])
            return
        gaps = [f"gaps {old.base}"] if old.base in self._files.whole else []
        try:
            old.pin()  # takes descriptors: what fails here has changed nothing yet
            self._files.note([f"sealed {old.base} {prepared.size_bytes}", *gaps])
        except OSError:
            old.unpin()
            prepared.abandon()  # a full disk needs its space
            raise
        with self._guard.or_poison():
            new: SealedSegment = prepared.put_in_force()
        sealed = [new if found is old else found for found in self._segments.all[:-1]]
        self._segments.replace(sealed, self._segments.active)
        prepared.new = new

    def _settle_index(self) -> None:
        """A power cut may take the index back to when a sealed segment was active, and positions in
        it would be wrong once it is rewritten. So the index must know better, durably."""
        rows = self._index.kv.batch()
        self._index.put_state(rows, self._segments.active.state)
        self.write_rows(rows, sync=True)

    def _unlink(self, segments: Iterable[Segment], rows: KVBatch) -> None:
        for segment in segments:
            segment.unlink()
            self._index.drop_segment(rows, segment.base)

    def _note_if_possible(self, lines: list[str]) -> bool:
        """A full disk has no space for the note until the files are gone. A crash in between then
        looks as if they were lost."""
        try:
            self._files.note(lines)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            return False
        return True
