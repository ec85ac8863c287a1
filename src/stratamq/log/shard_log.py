"""The log of one shard in segment files: the `ShardStore` of EngineSegment.

`open` recovers whatever an unclean stop left (`stratamq.log.recovery`) and finds the segments:
sealed ones, and one active at the end. `append` writes to the active segment, rolling
first where a batch does not fit. `sync` makes it durable. `stage_index` hands out the index rows of
what was appended; the caller writes them after the sync, for many shards at once. Then the batch
can be acknowledged. Reading (`stratamq.log.shard_reads`) needs no lock.

Order on disk, so that every crash leaves one story to tell:

| step     | order                                                                                |
|----------|--------------------------------------------------------------------------------------|
| append   | new leader epoch, data, sync, index rows                                             |
| roll     | data synced, index rows, sidecars, new segment file, file list, old points dropped   |
| truncate | file list, newer segments, index rows, the file cut, file list, deletion marks,      |
|          | epochs                                                                               |
| trim     | start offset, file list, then segments from the oldest on                            |
| offload  | start offset, local start, file list, then segments from the oldest on               |
| rewrite  | new files synced, index synced, file list, old sidecars removed, renames, deletion   |
|          | marks, rows                                                                          |

The file list (`stratamq.log.file_list`) says which segments there must be.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence, Set
from functools import partial
from pathlib import Path

from stratamq.log import epochs as epoch_history
from stratamq.log import names
from stratamq.log.beside import Beside
from stratamq.log.contract import PlacedBatch, Rewriter, Step, below
from stratamq.log.deletions import Deletions
from stratamq.log.disk import OUT_OF_DESCRIPTORS, Disk, storage_error
from stratamq.log.file_list import FileList
from stratamq.log.guard import NO_ROOM
from stratamq.log.index import IndexStore, ShardIndex
from stratamq.log.indexed import by_base
from stratamq.log.kv import KVBatch
from stratamq.log.recovery import Indexing, recover
from stratamq.log.rewriting import Rewrite
from stratamq.log.roll import must_roll
from stratamq.log.scan import LENGTH_END
from stratamq.log.segment import SPAN_MAX, ActiveSegment, LostSegment, SealedSegment, Segment
from stratamq.log.snapshots import FileSnapshots
from stratamq.log.truncation import plan_cut
from stratamq.model.damage import report_damage
from stratamq.model.errors import OffsetOutOfRange, OutOfResources
from stratamq.model.topic import Flush, TopicConfig
from stratamq.model.types import EARLIEST, NO_EPOCH, LeaderEpoch, Offset, ShardName, TimestampMs


class FileShardLog(Beside):
    """See ShardStore for the contract, and the story above."""

    __slots__ = (
        "_active",
        "_indexes",
        "_indexing",
        "damage",
        "snapshots",
    )

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        name: ShardName,
        indexes: IndexStore,
        config: TopicConfig,
        decompressed_max: int,
        *,
        fresh: bool = False,
        follows: bool = False,
    ) -> None:
        """With `follows` it takes a leader's batches, which may have gaps between them. With
        `fresh` the folder is new and empty, as the index is, and its names will be made durable by
        whoever made it."""
        self._disk, self._folder, self._indexes = disk, folder, indexes
        self.name, self.config = name, config
        self._index: ShardIndex = indexes.shard(name)
        self._poison: str | None = None
        self._names_settled = False
        self._indexing = indexing = Indexing(
            config.flag("index.key"), config.flag("index.tag"), decompressed_max
        )
        gaps = follows or config.compacts
        with self._disk_errors():
            self._files = FileList(disk, folder)
            found = recover(
                disk,
                folder,
                self._index,
                indexing,
                self._files,
                gaps=gaps,
                syncs=config.flush is Flush.SYNC,
                fresh=fresh,
            )
            self._deletions = Deletions(disk, folder / names.DELETIONS)
            self._deletions.forget(lambda at: at >= found.active.end or at < found.start)
            self.snapshots = FileSnapshots(disk, folder)
        self._active: ActiveSegment = found.active
        self._segments: tuple[Segment, ...] = (*found.sealed, found.active)
        self.damage = found.damage + self._deletions.damage
        for text in self._deletions.damage:
            report_damage(text)
        self._start, self._offloaded = found.start, found.offloaded
        self._epochs = self._epochs_saved = found.epochs

    # -- writing -------------------------------------------------------------------------------

    def append(
        self, batches: Sequence[PlacedBatch], *, durable: bool = False, whole: bool = False
    ) -> None:
        """See ShardStore; with `durable`, `sync` is done as well, in the same call to the disk
        where possible. With `whole` they are a segment that was sealed elsewhere, and stay one."""
        self._check_writable()
        assert batches[0].header.base_offset >= self.end_offset, "offsets never go back"
        before = self._active, self._active.size, self._active.end, self._epochs
        try:
            with self._disk_errors():
                self._note_epochs(batches)
                self._write_runs(batches, durable, whole)
        except OutOfResources:
            self._undo(*before)
            raise
        if durable:
            self.sync()

    def _write_runs(self, batches: Sequence[PlacedBatch], durable: bool, whole: bool) -> None:
        """One write per segment that the batches land in."""
        if self._fit(batches):
            self._active.append(batches, durable=durable)
            return
        run: list[PlacedBatch] = []
        size, first = self._active.size, self._active.state.first_timestamp
        for batch in batches:
            header = batch.header
            full = not whole and must_roll(
                size, first, header.size_bytes, header.max_timestamp, self.config
            )
            far = header.last_offset - self._active.base > SPAN_MAX
            if full or far:
                if run:
                    self._active.append(run)
                    run = []
                self._roll(header.base_offset if far else None)
                size = 0
            if not size:
                first = header.max_timestamp
            run.append(batch)
            size += header.size_bytes
        self._active.append(run)

    def _fit(self, batches: Sequence[PlacedBatch]) -> bool:
        """Whether all surely go into the active segment, as nearly always: then none is looked at
        alone."""
        active = self._active
        headers = [batch.header for batch in batches]
        added = sum([header.batch_length for header in headers]) + LENGTH_END * len(headers)
        youngest = max([header.max_timestamp for header in headers])
        return (
            active.size > 0
            and batches[-1].header.last_offset - active.base <= SPAN_MAX
            and not must_roll(
                active.size, active.state.first_timestamp, added, youngest, self.config
            )
        )

    def sync(self) -> None:
        self._check_writable()
        try:
            self._active.sync()
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:  # the file was not opened, let alone synced
                raise storage_error(self.name, error) from error
            raise self.poison(f"fsync failed: {error}") from error

    def stage_index(self, rows: KVBatch, *, durable: bool = True) -> None:
        """Index rows for what was appended since the last call. Write them after `sync`.

        How far the index reaches is among them only if something else is, or if the data is
        `durable`: recovery must know what was synced, and otherwise it only looks at a few records
        more.
        """
        self._active.stage(rows, state_alone=durable)

    def takes_at_once(
        self, size_bytes: int, max_timestamp: TimestampMs, epoch: LeaderEpoch
    ) -> bool:
        """Unless a segment must be rolled or a new leader noted, appending is one write."""
        active, epochs = self._active, self._epochs
        return (
            self._names_settled
            and active.size > 0
            and epoch <= (epochs[-1].epoch if epochs else NO_EPOCH)
            and not must_roll(
                active.size, active.state.first_timestamp, size_bytes, max_timestamp, self.config
            )
        )

    def flush_index(self) -> None:
        rows = self._index.kv.batch()
        self.stage_index(rows)
        self._write_rows(rows)

    def _write_rows(self, rows: KVBatch, *, sync: bool = False) -> None:
        """Rows that were staged and not written would be missing for ever."""
        with self._or_poison():
            self._index.kv.write(rows, sync=sync)

    def roll(self, at: Offset | None = None) -> None:
        """See ShardStore; the new segment may begin further on, behind a gap that no batch would
        tell of after a restart."""
        self._check_writable()
        with self._disk_errors():
            self._roll(at if at is not None and at > self.end_offset else None)

    def _roll(self, base: Offset | None = None) -> None:
        """Begin a new segment, at `base` where a gap is too large for one segment to span."""
        old = self._active
        if not old.size and base is None:
            return
        self.sync()
        self.flush_index()
        sealed = old.seal()
        base = old.end if base is None else base
        new = ActiveSegment.create(self._disk, self._folder, self._index, base)
        try:
            self._files.note([f"sealed {old.base} {sealed.size}", f"segment {base}"])
        except OSError as error:
            if error.errno in NO_ROOM | OUT_OF_DESCRIPTORS:
                self._disk.unlink(new.path)  # the old segment goes on, past where this one begins
            raise
        self._segments = (*self._segments[:-1], sealed, new)
        self._active = new
        rows = self._index.kv.batch()
        self._index.drop_points(rows, old.base)
        new.stage(rows)
        self._write_rows(rows)

    def _undo(
        self, active: ActiveSegment, size: int, end: Offset, epochs: epoch_history.History
    ) -> None:
        """Law 7: after OutOfResources the store is as it was. The file of epochs may keep one too
        many: it is written before the next batch, and recovery cuts what begins at the end."""
        with self._or_poison():
            indexed = self._active.state.indexed_end > end
            if active is self._active and not indexed:
                active.undo(size, end)
            elif self._active.base == end and not indexed:  # a new segment, where the old one ended
                self._active.undo(0, end)
            else:
                self._cut(end)
        self._epochs = epochs

    # -- changing the past ---------------------------------------------------------------------

    def truncate(self, end: Offset) -> None:
        self._check_writable()
        if end < self.end_offset:
            end = max(end, self._start)
            if end < self._offloaded:
                raise OffsetOutOfRange(self.name, end, self._offloaded, self.end_offset)
            with self._or_poison():
                if end < self._segments[0].base:
                    self._begin_anew(end)  # what was below was compacted away
                else:
                    self._cut(end)
                if self.end_offset < self._start:
                    self._begin_anew(self._start)  # what is left was trimmed
                end = self.end_offset
                self._deletions.forget(lambda offset: offset >= end)
                self._save_epochs(epoch_history.cut_end(self._epochs, end))

    def _cut(self, end: Offset) -> None:
        self.flush_index()  # the cut segment counts as indexed, so what it keeps must be
        kept = max(bisect_right(self._segments, end, key=by_base) - 1, 0)
        target, newer = self._segments[kept], self._segments[kept + 1 :]
        if isinstance(target, LostSegment):  # nothing of it is here to be kept
            self._cut_at_lost(kept)
            return
        removed = [f"segment {target.base}", *(f"removed {segment.base}" for segment in newer)]
        noted = self._note_if_possible([f"cutting {end}", *removed])
        cut = plan_cut(target, end, self._indexing.scan)
        active = cut.active
        self._segments = (*self._segments[:kept], active)
        self._active = active
        rows = self._index.kv.batch()
        for segment in reversed(newer):
            _unlink(segment)
            self._index.drop_segment(rows, segment.base)
        self._disk.sync_folder(self._folder)
        cut.carry_out()
        self._write_rows(rows, sync=True)
        if cut.in_gap:  # only the name of a segment tells where the log ends
            self._roll(active.end)
        self._files.note([*(() if noted else removed), f"cut {end}"])

    def _cut_at_lost(self, first: int) -> None:
        """Go on where a run of lost offsets begins: they come from the leader again."""
        gone, base = self._segments[first:], self._segments[first].base
        self._files.note(f"removed {segment.base}" for segment in gone)
        rows = self._index.kv.batch()
        for segment in reversed(gone):
            _unlink(segment)
            self._index.drop_segment(rows, segment.base)
        self._active = ActiveSegment(self._disk, self._folder, self._index, base)
        self._segments = (*self._segments[:first], self._active)
        self._active.stage(rows)
        self._write_rows(rows, sync=True)
        self._active.make_file()
        self._files.note([f"segment {base}"])

    def trim(self, start: Offset) -> None:
        self._check_writable()
        assert start <= self.end_offset, "a trim cannot go past the end"
        if start <= self._start:
            return
        with self._disk_errors():
            if start == self.end_offset:
                self._roll()
            due = [segment for segment in self._segments[:-1] if segment.end <= start]
            try:
                self._save_start(start)
            except OSError as error:
                if error.errno not in NO_ROOM or not due:
                    raise
                self._drop(due)  # a full disk gets room this way and no other
                self._save_start(start)
            else:
                self._drop(due)
            self._save_epochs(epoch_history.cut_start(self._epochs, start))
            self._deletions.forget(lambda offset: offset < start)

    def offload(self, end: Offset) -> None:
        self._check_writable()
        count = below(self._segments, end)
        if count:
            with self._disk_errors():
                self._save_start(self._start)  # the first segment will no longer tell
                self._save_local_start(self._segments[count].base)
                self._drop(self._segments[:count])

    def restart(self, start: Offset) -> None:
        self._check_writable()
        with self._or_poison():
            if self._offloaded > start:
                self._save_start(self.local_start)  # or a crash would leave a hole below it
                self._save_local_start(EARLIEST)
            self._begin_anew(start, start)
            self._deletions.forget(lambda _: True)
            self._save_epochs(())

    def _begin_anew(self, end: Offset, start: Offset | None = None) -> None:
        """One empty segment, at `end`, and nothing else."""
        gone = self._segments
        self._active = ActiveSegment(self._disk, self._folder, self._index, end)
        self._segments = (self._active,)
        self._files.note(f"removed {segment.base}" for segment in gone)
        for segment in reversed(gone):
            _unlink(segment)
        self._save_start(self._start if start is None else start)
        rows = self._index.kv.batch()
        self._index.drop_segments_from(rows, EARLIEST)
        self._active.stage(rows)
        self._write_rows(
            rows, sync=True
        )  # before there is a file: it may know another of this name
        self._active.make_file()
        self._files.note([f"segment {end}"])

    def rewrite(
        self, base_offset: Offset, rewriter: Rewriter, marks: Set[Offset] | None = None
    ) -> None:
        self._check_writable()
        forgotten = frozenset(self.deleted()) if marks is None else marks
        for step in self.prepare_rewrite(base_offset, rewriter, forgotten):
            step()

    def prepare_rewrite(
        self, base_offset: Offset, rewriter: Rewriter, marks: Set[Offset]
    ) -> Sequence[Step]:
        old = next((found for found in self._segments[:-1] if found.base == base_offset), None)
        if not isinstance(old, SealedSegment):
            return []
        with self._disk_errors():
            try:
                prepared = Rewrite.prepare(old, rewriter, self._indexing)
            except OSError:
                if old in self._segments:
                    raise
                return []  # its file went away meanwhile
        swap = partial(self._put_in_force, prepared, marks)
        return [swap, *(partial(self._take_back, prepared, rows) for rows in prepared.stale)]

    def _put_in_force(self, prepared: Rewrite, marks: Set[Offset]) -> None:
        self._check_writable()
        old = prepared.old
        with self._disk_errors():
            if old not in self._segments:
                prepared.abandon()
                return
            end = min(found.base for found in self._segments if found.base > old.base)
            if prepared.changed:
                self._replace(prepared)
            self._deletions.forget(lambda at: at in marks and old.base <= at < end)

    def _take_back(self, prepared: Rewrite, rows: KVBatch) -> None:
        """Rows of what is gone, unless the segment was cut since: others may be at their
        offsets."""
        if prepared.new in self._segments:
            self._write_rows(rows)

    def _replace(self, prepared: Rewrite) -> None:
        old = prepared.old
        self._settle_index()
        if not prepared.size_bytes:
            if old is self._segments[0]:
                self._save_start(self._start)  # its base will no longer tell
            self._drop([old])
            return
        self._files.note([f"sealed {old.base} {prepared.size_bytes}"])
        with self._or_poison():
            prepared.new = new = prepared.put_in_force()
        self._segments = tuple(new if found is old else found for found in self._segments)

    def _settle_index(self) -> None:
        """A power cut may take the index back to when a sealed segment was active, and positions in
        it would be wrong once it is rewritten. So the index must know better, durably."""
        rows = self._index.kv.batch()
        self._index.put_state(rows, self._active.state)
        self._write_rows(rows, sync=True)

    def _drop(self, segments: Iterable[Segment]) -> None:
        """Oldest first, so that a crash leaves one contiguous log."""
        gone = list(segments)
        removed = [f"removed {segment.base}" for segment in gone]
        noted = self._note_if_possible(removed)
        rows = self._index.kv.batch()
        self._segments = tuple(found for found in self._segments if found not in gone)
        for segment in gone:
            _unlink(segment)
            self._index.drop_segment(rows, segment.base)
        self._disk.sync_folder(self._folder)
        if not noted:
            self._files.note(removed)
        self._write_rows(rows)

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

    # -- end -----------------------------------------------------------------------------------

    def close(self) -> None:
        if self._poison is None:
            self.sync()
            self.flush_index()

    def destroy(self) -> None:
        """The folder's new name is the decision; `finish_destroy` does the rest, now or after a
        crash. May be repeated after a failure."""
        with self._disk_errors():
            delete_folder(self._disk, self._folder, self.name, self._indexes)
        self._poison = "it was deleted"


def _unlink(segment: Segment) -> None:
    if isinstance(segment, SealedSegment):
        segment.unlink()
    else:
        segment.disk.unlink(segment.path)


def delete_folder(disk: Disk, folder: Path, name: ShardName, indexes: IndexStore) -> None:
    """Both phases of `destroy`, whatever the folder holds. May be repeated."""
    gone = folder.with_name(folder.name + names.GONE)
    if disk.exists(folder):
        disk.rename(folder, gone)
    disk.sync_folder(gone.parent)
    finish_destroy(disk, gone, name, indexes)


def finish_destroy(disk: Disk, gone: Path, name: ShardName, indexes: IndexStore) -> None:
    """The second phase of `destroy`; may be repeated."""
    indexes.drop(name)
    disk.remove_folder(gone)
    disk.sync_folder(gone.parent)
