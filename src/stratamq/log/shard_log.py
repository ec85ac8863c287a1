"""The log of one shard in segment files: the `ShardStore` of EngineSegment.

`open` recovers whatever an unclean stop left (`stratamq.log.recovery`) and finds the segments:
sealed ones, and one active at the end. `append` writes to the active segment, rolling first where a
batch does not fit. `sync` makes it durable. `stage_index` gives the index rows of what was
appended; the caller writes them after the sync, for many shards at once. Then the batch can be
acknowledged. Reading (`stratamq.log.segment_list`) needs no lock.

Order on disk, so that a crash at any step leaves a whole log:

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

from collections.abc import Iterable, Iterator, Sequence, Set
from functools import partial
from pathlib import Path

from stratamq.log import epochs as epoch_history
from stratamq.log import names
from stratamq.log.active_segment import ActiveSegment
from stratamq.log.contract import (
    EpochStart,
    PlacedBatch,
    Rewriter,
    SegmentInfo,
    Step,
    below,
)
from stratamq.log.deletions import Deletions
from stratamq.log.disk import NO_ROOM, Disk, File
from stratamq.log.epochs import EpochCheckpoint
from stratamq.log.file_list import FileList
from stratamq.log.guard import WriteGuard
from stratamq.log.index import IndexStore, ShardIndex
from stratamq.log.kv import KVBatch
from stratamq.log.recovery import recover
from stratamq.log.rewriting import SegmentRewrite
from stratamq.log.sealed_segment import SealedSegment
from stratamq.log.segment_list import SegmentList, offsets_by_key, offsets_by_tag
from stratamq.log.segment_recovery import Indexing
from stratamq.log.segment_writer import SegmentWriter
from stratamq.log.shard_copy import ShardCopy
from stratamq.log.sidecar import SPAN_MAX
from stratamq.log.snapshots import FileSnapshots
from stratamq.log.start_offsets import StartOffsets
from stratamq.model.damage import report_damage
from stratamq.model.errors import OffsetOutOfRange, OutOfResources, ShardPoisoned
from stratamq.model.settings.topic import Flush
from stratamq.model.topic import TopicConfig
from stratamq.model.types import (
    EARLIEST,
    NO_EPOCH,
    NO_TIMESTAMP,
    LeaderEpoch,
    Offset,
    ShardName,
    TimestampMs,
)
from stratamq.wire.kafka.records.layout import LENGTH_END


class FileShardLog:
    """See ShardStore for the contract, and the orders above."""

    __slots__ = (
        "_deletions",
        "_disk",
        "_epochs",
        "_files",
        "_folder",
        "_guard",
        "_index",
        "_indexes",
        "_indexing",
        "_segment_bytes",
        "_segment_ms",
        "_segments",
        "_starts",
        "_writer",
        "config",
        "damage",
        "name",
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
        first_leader_implied: bool = False,
    ) -> None:
        """With `follows` it takes a leader's batches, which may have gaps between them. With
        `fresh` the folder is new and empty, as the index is, and the caller makes its names
        durable. `first_leader_implied`: see `stratamq.log.epochs`."""
        self._disk, self._folder, self._indexes = disk, folder, indexes
        self.name = name
        self.configure(config)
        self._index: ShardIndex = indexes.shard(name)
        self._guard = guard = WriteGuard(name)
        self._indexing = Indexing(
            config.flag("index.key"), config.flag("index.tag"), decompressed_max
        )
        with guard.disk_errors():
            present = frozenset(() if fresh else disk.names(folder))
            self._files = files = FileList(disk, folder, fresh=names.FILE_LIST not in present)
            found = recover(
                disk,
                folder,
                present,
                self._index,
                self._indexing,
                files,
                gaps=follows or config.compacts,
                syncs=config.flush is Flush.SYNC,
                fresh=fresh,
                first_leader_implied=first_leader_implied,
            )
            self._deletions = Deletions(
                disk, folder / names.DELETIONS, fresh=names.DELETIONS not in present
            )
            self._deletions.forget(lambda at: at >= found.active.end or at < found.start)
            self.snapshots = FileSnapshots(disk, folder, present)
        self.damage = found.damage + self._deletions.damage
        for text in self._deletions.damage:
            report_damage(text)
        self._epochs = EpochCheckpoint(
            disk, folder, found.epochs, files, implied=first_leader_implied
        )
        self._starts = starts = StartOffsets(disk, folder, files, found.start, found.offloaded)
        self._segments = segments = SegmentList(name, starts, found.sealed, found.active)
        self._writer = SegmentWriter(
            disk, folder, guard, self._index, self._indexing, files, starts, segments
        )

    def configure(self, config: TopicConfig) -> None:
        """Take a config, or a changed one. Two numbers of it are asked for with every batch."""
        self.config = config
        self._segment_bytes = config.number("segment.bytes")
        self._segment_ms = config.number("segment.ms")

    # -- reading -------------------------------------------------------------------------------

    @property
    def start_offset(self) -> Offset:
        return self._starts.start

    @property
    def local_start(self) -> Offset:
        return max(self._starts.start, self._starts.offloaded)

    @property
    def end_offset(self) -> Offset:
        return self._segments.all[-1].end

    @property
    def lasting_end(self) -> Offset:
        return self.end_offset

    def active_bytes(self, offset: Offset) -> int | None:
        active = self._segments.all[-1]
        return active.bytes_from(offset) if offset >= active.base else None

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        return self._segments.read(offset, max_bytes, end)

    def read_at_once(
        self, offset: Offset, max_bytes: int, end: Offset
    ) -> tuple[bytes, Offset] | None:
        """Consumers that keep up read the end of the active segment, which is in memory."""
        active = self._segments.all[-1]
        return active.read_at_once(offset, max_bytes, end) if offset >= active.base else None

    def offsets_by_key(self, key: bytes, end: Offset) -> Iterator[Offset] | None:
        if not self._indexing.keys:
            return None
        return offsets_by_key(self._index, self._segments.all, key, self._starts.start, end)

    def offsets_by_tag(self, tag: bytes, start: Offset, end: Offset) -> Iterator[Offset] | None:
        if not self._indexing.tags:
            return None
        begin = max(start, self._starts.start)
        return offsets_by_tag(self._index, self._segments.all, tag, begin, end)

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        return self._segments.floor_by_timestamp(timestamp)

    def deleted(self) -> Set[Offset]:
        return self._deletions.offsets

    def epochs(self) -> tuple[EpochStart, ...]:
        return self._epochs.history

    def segments(self) -> tuple[SegmentInfo, ...]:
        return self._segments.infos()

    def files_of(self, base_offset: Offset) -> tuple[Path, ...]:
        return self._segments.files_of(base_offset)

    def copy_to(self, folder: Path, end: Offset) -> ShardCopy:
        """A copy of the shard for a backup, whose log ends at `end`."""
        return ShardCopy(self._disk, self._folder, self._segments, folder, end)

    # -- writing -------------------------------------------------------------------------------

    def append(
        self, batches: Sequence[PlacedBatch], *, durable: bool = False, whole: bool = False
    ) -> None:
        """See ShardStore; with `durable`, `sync` is done as well, in the same call to the disk
        where possible. With `whole` they are a segment that was sealed elsewhere, and stay one."""
        if not self._guard.ready:
            self._check_writable()
        active, epochs = self._segments.active, self._epochs
        size, end, history = active.size, active.end, epochs.history
        assert batches[0].header.base_offset >= end, "offsets never go back"
        added, youngest, newest, offsets = 0, NO_TIMESTAMP, NO_EPOCH, 0
        for header, _, _ in batches:
            added += header.batch_length + LENGTH_END
            offsets += header.last_offset_delta + 1
            if header.max_timestamp > youngest:
                youngest = header.max_timestamp
            if header.leader_epoch > newest:
                newest = header.leader_epoch
        try:
            if end + offsets <= header.base_offset + header.last_offset_delta and active.whole:
                self._writer.expect_gaps()
            if newest > epochs.newest or epochs.saved is not history:
                self._save_epochs(batches)
            first = active.state.first_timestamp
            if (
                0 < size <= self._segment_bytes - added
                and not active.damaged
                and (first < 0 or youngest - first <= self._segment_ms)
                and header.base_offset + header.last_offset_delta - active.base <= SPAN_MAX
            ):  # as nearly always: all fit, so none is looked at alone
                active.append(batches, durable=durable)
            else:
                self._writer.append(batches, self.config, whole=whole)
        except OSError as error:
            failure = self._guard.failure(error)
            if isinstance(failure, OutOfResources):
                self._take_back(active, size, end, history)
            raise failure from error
        except OutOfResources:
            self._take_back(active, size, end, history)
            raise
        active = self._segments.active
        if durable and active.state.synced_position < active.size:
            self.sync()

    def _take_back(
        self, active: ActiveSegment, size: int, end: Offset, history: epoch_history.History
    ) -> None:
        """Law 7: the store is as it was before an append that failed. The file of epochs may keep
        one too many: it is written before the next batch, and recovery cuts what begins at the
        end."""
        self._writer.undo(active, size, end)
        self._epochs.set(history)

    def _save_epochs(self, batches: Sequence[PlacedBatch]) -> None:
        """Durable before the first batch of a new epoch is written."""
        self._epochs.save(self._with_epochs(batches))

    def _with_epochs(self, batches: Sequence[PlacedBatch]) -> epoch_history.History:
        history = self._epochs.history
        for header, _, _ in batches:
            history = epoch_history.extended(history, header.leader_epoch, header.base_offset)
        return history

    def unsaved_epochs(self, batches: Sequence[PlacedBatch]) -> epoch_history.Unsaved | None:
        """What `append` would save before these batches, for a caller that saves those of many
        shards together. None where there is nothing to save, or where `append` has to see first
        whether the shard can be written to."""
        epochs = self._epochs
        if epochs.saved is epochs.history and batches[-1].header.leader_epoch <= epochs.newest:
            return None  # as nearly always
        history = self._with_epochs(batches)
        if not self._guard.ready or epochs.needs_no_file(history):
            return None
        return epochs, history

    def takes_at_once(
        self, size_bytes: int, max_timestamp: TimestampMs, epoch: LeaderEpoch
    ) -> bool:
        """Unless a segment must be rolled or a new leader noted, appending is one write."""
        active = self._segments.active
        first = active.state.first_timestamp
        return (
            self._guard.ready
            and not active.damaged
            and 0 < active.size <= self._segment_bytes - size_bytes
            and active.is_at_hand()
            and epoch <= self._epochs.newest
            and (first < 0 or max_timestamp - first <= self._segment_ms)
        )

    def sync(self) -> None:
        self._check_writable()
        self._writer.sync()

    def unsynced(self) -> File | None:
        """The file that `sync` would sync, for a caller that syncs files of many shards together
        and then calls `end_sync`. None where everything is synced, or where a sync would
        prove nothing since one has failed before. It is open since `append`."""
        if self._guard.poisoned is not None:
            return None
        try:
            return self._segments.active.unsynced()
        except OSError as error:
            raise self._guard.sync_failure(error) from error

    def end_sync(self, error: OSError | None) -> None:
        """The file that `unsynced` returned was synced, or that failed: ShardPoisoned."""
        try:
            if error is not None:
                raise error
            self._segments.active.note_synced()
        except OSError as failure:
            raise self._guard.sync_failure(failure) from failure

    def stage_index(self, rows: KVBatch, *, durable: bool = True) -> bool:
        """Index rows for what was appended since the last call; whether there are any. Write them
        after `sync`.

        How far the index reaches is among them only if something else is, or if the data is
        `durable`: recovery must know what was synced, and otherwise it only looks at a few records
        more.
        """
        return self._segments.active.stage(rows, state_alone=durable)

    def flush_index(self) -> None:
        self._writer.flush_index()

    def roll(self, at: Offset | None = None) -> None:
        """See ShardStore; the new segment may begin further on, after a gap that no batch would
        show after a restart."""
        self._check_writable()
        with self._guard.disk_errors():
            self._writer.roll(at if at is not None and at > self.end_offset else None)

    def note_epochs(self, history: Sequence[EpochStart]) -> None:
        self._check_writable()
        with self._guard.disk_errors():
            self._epochs.save(epoch_history.with_all(self._epochs.history, history))

    def delete(self, offsets: Iterable[Offset]) -> None:
        self._check_writable()
        with self._guard.disk_errors():
            self._deletions.add(offsets)
            if self._deletions.offsets:
                self._files.note_beside(names.DELETIONS)

    def poison(self, reason: str) -> ShardPoisoned:
        """Refuse every write from now on; the error to raise."""
        return self._guard.poison(reason)

    def names_are_durable(self) -> None:
        """The caller has synced the names in the folder."""
        self._guard.ready = True

    def _check_writable(self) -> None:
        if not self._guard.ready:
            self._guard.check(self._disk, self._folder, self._files)

    # -- changing the past ---------------------------------------------------------------------

    def truncate(self, end: Offset) -> None:
        self._check_writable()
        if end >= self.end_offset:
            return
        starts, segments = self._starts, self._segments
        end = max(end, starts.start)
        if end < starts.offloaded:
            raise OffsetOutOfRange(self.name, end, starts.offloaded, self.end_offset)
        with self._guard.or_poison():
            if end < segments.all[0].base:
                self._writer.begin_at(end, starts.start)  # what was below was compacted away
            else:
                self._writer.cut(end)
            if self.end_offset < starts.start:
                self._writer.begin_at(starts.start, starts.start)  # what is left was trimmed
            end = self.end_offset
            self._deletions.forget(lambda offset: offset >= end)
            self._epochs.save(epoch_history.cut_end(self._epochs.history, end))

    def trim(self, start: Offset) -> None:
        self._check_writable()
        assert start <= self.end_offset, "a trim cannot go past the end"
        if start <= self._starts.start:
            return
        with self._guard.disk_errors():
            if start == self.end_offset:
                self._writer.roll()
            due = [segment for segment in self._segments.all[:-1] if segment.end <= start]
            try:
                self._starts.save_start(start)
            except OSError as error:
                if error.errno not in NO_ROOM or not due:
                    raise
                self._writer.drop(due)  # a full disk gets space this way and no other
                self._starts.save_start(start)
            else:
                self._writer.drop(due)
            self._epochs.save(epoch_history.cut_start(self._epochs.history, start))
            self._deletions.forget(lambda offset: offset < start)

    def offload(self, end: Offset) -> None:
        self._check_writable()
        segments = self._segments.all
        count = below(segments, end)
        if count:
            with self._guard.disk_errors():
                self._epochs.keep()
                self._starts.save_start(self._starts.start)  # the first segment will not say it
                self._starts.save_offloaded(segments[count].base)
                self._writer.drop(segments[:count])

    def restart(self, start: Offset) -> None:
        self._check_writable()
        with self._guard.or_poison():
            if self._starts.offloaded > start:
                self._starts.save_start(self.local_start)  # or a crash would leave a hole below it
                self._starts.save_offloaded(EARLIEST)
            self._writer.begin_at(start, start)
            self._deletions.forget(lambda _: True)
            self._epochs.save(())

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
        old = self._segments.sealed_at(base_offset)
        if not isinstance(old, SealedSegment):
            return []
        with self._guard.disk_errors():
            try:
                prepared = SegmentRewrite.prepare(old, rewriter, self._indexing)
            except OSError:
                if old in self._segments.all:
                    raise
                return []  # its file was removed meanwhile
        swap = partial(self._finish_rewrite, prepared, marks)
        return [swap, *(partial(self._remove_stale, prepared, rows) for rows in prepared.stale)]

    def _finish_rewrite(self, prepared: SegmentRewrite, marks: Set[Offset]) -> None:
        self._check_writable()
        old = prepared.old
        with self._guard.disk_errors():
            if old not in self._segments.all:
                prepared.abandon()
                return
            end = min(found.base for found in self._segments.all if found.base > old.base)
            if prepared.changed:
                if not prepared.size_bytes:
                    self._epochs.keep()
                self._writer.put_in_force(prepared)
            self._deletions.forget(lambda at: at in marks and old.base <= at < end)

    def _remove_stale(self, prepared: SegmentRewrite, rows: KVBatch) -> None:
        """Remove rows of records that compaction dropped, unless the segment was cut since: other
        records may have their offsets by now."""
        if prepared.new in self._segments.all:
            self._writer.write_rows(rows)

    # -- end -----------------------------------------------------------------------------------

    def close(self) -> None:
        if self._guard.poisoned is None:
            self.sync()
            self.flush_index()

    def destroy(self) -> None:
        """The folder's new name is the decision; the rest is done now, or by the next start after a
        crash. May be repeated after a failure."""
        with self._guard.disk_errors():
            delete_folder(self._disk, self._folder, self.name, self._indexes)
        self._guard.poison("it was deleted")


def delete_folder(disk: Disk, folder: Path, name: ShardName, indexes: IndexStore) -> None:
    """Both phases of `destroy`, whatever the folder holds. May be repeated. The rows go after the
    files: they may need their space, and those that are left go at the next start."""
    gone = folder.with_name(folder.name + names.GONE)
    if disk.exists(folder):
        disk.rename(folder, gone)
    disk.sync_folder(gone.parent)
    disk.remove_folder(gone)
    disk.sync_folder(gone.parent)
    indexes.drop(name)
