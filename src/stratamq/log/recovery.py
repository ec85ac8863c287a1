"""Opening a shard after any stop, clean or not.

The log is the truth; the index tells how far it was known to be good. What is found decides:

| found                                                 | done                                   |
|-------------------------------------------------------|----------------------------------------|
| index reaches the end of the file                     | nothing: the stop was clean            |
| intact batches behind the indexed ones                | indexed                                |
| nothing intact up to the end                          | torn tail: copied aside, then cut      |
| damage with intact batches behind it                  | corruption: reported, reads refuse it  |
| index speaks of offsets the log does not have         | those rows are taken back              |
| index has no state, or one of a segment that is gone  | rebuilt from the log                   |
| sealed segment without sidecars                       | sidecars rebuilt from the log          |
| leader epochs missing, or not to be read              | rebuilt from the log, reported         |
| start offset that does not match its checksum         | the first segment's, reported; where   |
|                                                       | segments were offloaded, the first     |
|                                                       | leader epoch's, so that none is lost   |
| local start that does not match its checksum          | the first segment's, reported          |
| segments below the local start                        | removed: their offloading goes on      |
| `.cleaned` and `.tmp` files                           | removed: they never came into force    |
| start offset or local start past the end              | the log goes on there                  |
| a segment that the file list names and that is gone   | its offsets are lost: reported, reads  |
|                                                       | refuse them, none is given out again   |
| an active segment shorter than what was synced of it  | the same for what its end lacks        |
| a sealed segment shorter than it was                  | reported, reads refuse what it lacks   |
| a file that the file list does not name               | the next segment if it goes on where   |
|                                                       | the log ends; else set aside as        |
|                                                       | `.stray`, reported; with records above |
|                                                       | the end, the shard is not opened       |
| a file list that is damaged                           | written again from the files, reported |
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import field
from itertools import pairwise
from pathlib import Path

from stratamq.log import checkpoint, epochs, names
from stratamq.log.contract import PlacedBatch
from stratamq.log.disk import Disk, read_all, replace_file
from stratamq.log.file_list import Comparison, FileList
from stratamq.log.index import IndexState, ShardIndex
from stratamq.log.scan import Damage, Intact, Stretch, scan
from stratamq.log.segment import SPAN_MAX, ActiveSegment, LostSegment, SealedSegment, Segment
from stratamq.log.truncation import plan_cut
from stratamq.model.damage import report_damage
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import InvalidInput, StorageError
from stratamq.model.types import EARLIEST, NO_EPOCH, Offset, Position
from stratamq.wire.kafka.records import (
    EMPTY_SCAN,
    HEADER_BYTES,
    BatchScan,
    place_batch,
    read_header,
    scan_batch,
)

logger = logging.getLogger(__name__)

ROWS_BYTES_MAX = 8 << 20
"""Log bytes whose index rows are written at once while rebuilding."""

TORN_CHUNK_BYTES = 4 << 20
TORN_COPIES_MAX = 3


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


@dataclass(slots=True)
class Recovered:
    """A shard that is ready."""

    sealed: list[SealedSegment | LostSegment]
    active: ActiveSegment
    start: Offset
    epochs: epochs.History
    offloaded: Offset = EARLIEST
    damage: list[str] = field(default_factory=list)


def recover(
    disk: Disk,
    folder: Path,
    index: ShardIndex,
    indexing: Indexing,
    files: FileList,
    *,
    gaps: bool,
    syncs: bool = False,
    fresh: bool = False,
) -> Recovered:
    """Everything in the table above. May itself be cut off by a crash and repeated.

    `gaps`: whether the batches of an active segment may leave gaps between them. `syncs`: whether
    every offset that was given out is in the index. `fresh`: the folder is new, so there is nothing
    to find and nothing of it that has to be durable yet.
    """
    if fresh:
        active = ActiveSegment(disk, folder, index, EARLIEST)
        disk.open(active.path, create=True)
        rows = index.kv.batch()
        active.stage(rows)
        index.kv.write(rows)
        return Recovered([], active, EARLIEST, ())
    return _Recovery(disk, folder, index, indexing, files, gaps, syncs).run()


class _Recovery:
    def __init__(
        self,
        disk: Disk,
        folder: Path,
        index: ShardIndex,
        indexing: Indexing,
        files: FileList,
        gaps: bool,
        syncs: bool,
    ) -> None:
        self.disk, self.folder, self.index, self.indexing = disk, folder, index, indexing
        self.files, self.gaps, self.syncs = files, gaps, syncs
        self.damage: list[str] = []
        self.loaded: epochs.History | None = None
        self.history: epochs.History = ()

    def run(self) -> Recovered:
        sizes = self._sweep()
        self.loaded = self._load_epochs(sorted(sizes))
        known = sorted({*sizes, *self.files.segments} - self.files.removed)
        start = self._start_offset(known)
        offloaded = self._local_start(known, start)
        begin = max(start, offloaded)
        found = self._match_list(sizes, begin)
        bases = self._without_offloaded(found.present, offloaded)
        self.history = self._epochs_of_log(bases) if self.loaded is None else self.loaded
        state = self.index.state()
        lost = self._lost(found.missing, bases, state)
        sealed, active = self._open_segments(bases, lost, begin, state)
        if self.files.cutting is not None:
            sealed, active = self._finish_cut(sealed, active)
        if begin > active.end:
            sealed, active = self._continue_at(begin, [*sealed, active])
        history = self._history_within(start, active.end)
        if history != self.loaded:
            replace_file(self.disk, self.folder / names.EPOCHS, epochs.encode(history))
        return Recovered(sealed, active, start, history, offloaded, self.damage)

    def _open_segments(
        self,
        bases: list[Offset],
        lost: Mapping[Offset, Offset],
        begin: Offset,
        state: IndexState | None,
    ) -> tuple[list[SealedSegment | LostSegment], ActiveSegment]:
        """Each reaches to where the next one begins. The newest is active, unless it is lost: then
        a new one begins after it."""
        sealed: list[SealedSegment | LostSegment] = []
        for base, end in pairwise(sorted([*bases, *lost])):
            sealed.append(self._gone(base, end) if base in lost else self._sealed(base, end, state))
        newest = max([*bases, *lost], default=None)
        if newest is None:
            return sealed, self._first(begin)
        if newest in lost:
            sealed.append(self._gone(newest, lost[newest]))
            return sealed, self._next(lost[newest])
        active = self._active(newest, state)
        end = self._synced_end(newest, state, active.size)
        return (sealed, active) if end <= active.end else self._skip_lost_end(sealed, active, end)

    def _history_within(self, start: Offset, end: Offset) -> epochs.History:
        """Without epochs whose first batch is not there. A log that was trimmed to its end still
        knows its last one."""
        kept = epochs.cut_end(self.history, max(end, Offset(start + 1)))
        return epochs.cut_start(kept, start)

    # -- files ---------------------------------------------------------------------------------

    def _sweep(self) -> dict[Offset, int]:
        """Remove what never came into force; the sizes of the log files that are there."""
        sizes: dict[Offset, int] = {}
        torn: list[str] = []
        for name in self.disk.names(self.folder):
            base = names.base_of_log(name)
            if base is not None:
                sizes[base] = self.disk.size(self.folder / name)
            elif name.endswith((names.CLEANED, names.TEMPORARY)):
                self.disk.unlink(self.folder / name)
            elif names.TORN in name:
                torn.append(name)
        for name in sorted(torn, key=names.torn_at)[:-TORN_COPIES_MAX]:
            self.disk.unlink(self.folder / name)
        return sizes

    def _match_list(self, sizes: Mapping[Offset, int], begin: Offset) -> Comparison:
        """Make folder and list agree: finish removals, list what is not listed, set strays aside,
        and report what is missing."""
        files = self.files
        self.damage += files.damage
        if names.DELETIONS in files.beside and not self.disk.exists(self.folder / names.DELETIONS):
            self._report(
                f"{self.folder / names.DELETIONS}: missing; deleted records that were not compacted"
                " yet can be read again"
            )
        found = files.compare(sizes, begin)
        if found.doubtful:
            aside = self._judge(found.doubtful, sizes, begin)
            sizes = {base: size for base, size in sizes.items() if base not in aside}
            found = files.compare(sizes, begin)
        for base in found.left:
            self._unlink_trio(base)
        if found.left:
            self.disk.sync_folder(self.folder)
        if not files.complete:
            logger.warning("%s: the list of its files is written again", self.folder)
            files.segments |= dict.fromkeys(found.unlisted, ())
            files.write_again(keep_damaged=bool(files.damage))
        elif found.unlisted or found.passed:
            files.note(
                [f"removed {base}" for base in found.passed]
                + [f"segment {base}" for base in found.unlisted]
            )
        if files.is_long:
            files.write_again()
        return found

    def _judge(
        self, doubtful: list[Offset], sizes: Mapping[Offset, int], begin: Offset
    ) -> set[Offset]:
        """Files that the list does not name. One that goes on where the log ends is taken into the
        list; one that holds nothing above the end is set aside, and returned. Anything else may
        hold records whose offsets would be given out again: the shard is not opened."""
        aside: set[Offset] = set()
        for base in doubtful:
            named = sorted(each for each in self.files.segments if each in sizes)
            below = [each for each in named if each < base]
            reached = max([begin, *below[-1:], *map(self._end_of_file, below[-1:])])
            end = self._end_of_file(base)
            path = self.folder / names.segment_file(base, names.LOG)
            if base == reached or (self.gaps and reached < base < end):
                self.files.note([f"segment {base}"])
            elif end <= max([reached, *named[-1:], *map(self._end_of_file, named[-1:])]):
                self._report(f"{path}: this shard has no such segment; set aside as {names.STRAY}")
                self.disk.rename(path, path.with_name(path.name + names.STRAY))
                self.disk.sync_folder(self.folder)
                aside.add(base)
            else:
                raise StorageError(
                    f"{path}: the list of files does not name it, and it does not go on where the"
                    f" log ends ({reached}): bring back what is missing, or move it away"
                )
        return aside

    def _end_of_file(self, base: Offset) -> Offset:
        """Where the last intact batch of a log file ends; EARLIEST where it has none."""
        state = self.index.state()
        if state is not None and state.segment == base and state.indexed_end > base:
            return state.indexed_end
        segment = SealedSegment(self.disk, self.folder, self.index, base, Offset(base + SPAN_MAX))
        return max((found.header.next_offset for found in segment.batches()), default=EARLIEST)

    def _lost(
        self, missing: list[Offset], bases: list[Offset], state: IndexState | None
    ) -> dict[Offset, Offset]:
        """Where offsets are lost, and where each such run ends. A file that was brought back is not
        lost any more."""
        known = {start: end for start, end in self.files.lost.items() if start not in bases}
        unknown = [base for base in missing if base not in known]
        for base in unknown:
            later = [each for each in (*bases, *missing, *known) if each > base]
            known[base] = min(later) if later else self._end_of_newest(base, state)
        self.files.note(f"lost {base} {known[base]}" for base in unknown)
        for base, end in known.items():
            path = self.folder / names.segment_file(base, names.LOG)
            self._report(f"{path}: missing; offsets {base} to {end - 1} are lost")
        return known

    def _end_of_newest(self, base: Offset, state: IndexState | None) -> Offset:
        """An end above every offset that a lost newest segment may have given out: what the index
        knows, or the most that a segment can span."""
        if self.syncs and state is not None and state.segment == base:
            return max(state.synced_end, state.indexed_end)
        return Offset(base + SPAN_MAX + 1)

    def _synced_end(self, base: Offset, state: IndexState | None, size: int) -> Offset:
        """Where the segment must end at least: it was synced so far, and no truncation was under
        way that could have cut it."""
        if state is None or state.segment != base or state.synced_position <= size:
            return base
        return base if self.files.cutting is not None else state.synced_end

    def _skip_lost_end(
        self, sealed: list[SealedSegment | LostSegment], active: ActiveSegment, end: Offset
    ) -> tuple[list[SealedSegment | LostSegment], ActiveSegment]:
        """The file is shorter than what was synced of it. What it still has is sealed; new records
        come after what is lost."""
        self._report(f"{active.path}: cut short; offsets {active.end} to {end - 1} are lost")
        lines = [f"lost {active.end} {end}"]
        if active.size:
            sealed.append(active.seal())
            lines.append(f"sealed {active.base} {active.size}")
        else:
            self.disk.unlink(active.path)
        self.files.note(lines)
        sealed.append(self._gone(active.end, end))
        return sealed, self._next(end)

    def _finish_cut(
        self, sealed: list[SealedSegment | LostSegment], active: ActiveSegment
    ) -> tuple[list[SealedSegment | LostSegment], ActiveSegment]:
        """A truncation may have ended in a gap that compaction left: then only the index knows the
        end of the log, until a segment begins there."""
        points = self.index.offset_points(active.base)
        last = max(active.batches(points[-1].position if points else 0), default=None)
        reached = active.base if last is None else last.header.next_offset
        lines = [f"cut {self.files.cutting}"]
        if reached < active.end:
            sealed = [*sealed, active.seal()]
            lines.append(f"sealed {active.base} {active.size}")
            active = self._next(active.end)
        self.files.note(lines)
        return sealed, active

    def _gone(self, base: Offset, end: Offset) -> LostSegment:
        return LostSegment(self.disk, self.folder, self.index, base, end)

    def _next(self, base: Offset) -> ActiveSegment:
        """A new segment, after offsets that are lost."""
        active = ActiveSegment.create(self.disk, self.folder, self.index, base)
        self.files.note([f"segment {base}"])
        rows = self.index.kv.batch()
        active.stage(rows)
        self.index.kv.write(rows, sync=True)
        return active

    def _unlink_trio(self, base: Offset) -> None:
        for suffix in (names.OFFSET_INDEX, names.TIME_INDEX, names.LOG):
            self.disk.unlink(self.folder / names.segment_file(base, suffix))

    def _start_offset(self, bases: list[Offset]) -> Offset:
        """Where its file says; without one, where the segments begin."""
        path = self.folder / names.START_OFFSET
        try:
            known = self._checkpoint(path)
        except StorageError as error:
            if self.disk.exists(self.folder / names.LOCAL_START):
                self._report(f"{path}: {error}; the log begins with its first leader epoch")
                return self.loaded[0].start_offset if self.loaded else EARLIEST
            self._report(f"{path}: {error}; the log begins with its first segment")
            known = None
        if known is not None:
            return known
        return bases[0] if bases else EARLIEST

    def _local_start(self, bases: list[Offset], start: Offset) -> Offset:
        """Below it nothing is kept here."""
        path = self.folder / names.LOCAL_START
        try:
            return self._checkpoint(path) or EARLIEST
        except StorageError as error:
            self._report(f"{path}: {error}; what is kept here begins with the first segment")
            return max(bases[0], start) if bases else start

    def _checkpoint(self, path: Path) -> Offset | None:
        if self.disk.exists(path):
            return checkpoint.decode(read_all(self.disk, path))
        if path.name in self.files.beside:
            raise StorageError("missing")
        return None

    def _without_offloaded(self, bases: list[Offset], offloaded: Offset) -> list[Offset]:
        """Finish what a crash cut off, from the oldest on."""
        gone = [base for base in bases[:-1] if base < offloaded]
        if not gone:
            return bases
        rows = self.index.kv.batch()
        self.files.note(f"removed {base}" for base in gone)
        for base in gone:
            self._unlink_trio(base)
            self.index.drop_segment(rows, base)
        self.disk.sync_folder(self.folder)
        self.index.kv.write(rows)
        return bases[len(gone) :]

    def _load_epochs(self, bases: list[Offset]) -> epochs.History | None:
        """None when it must be rebuilt from the log."""
        path = self.folder / names.EPOCHS
        if not self.disk.exists(path):
            if not any(map(self._begins_with_epoch, bases)):
                return ()
            self._report(f"{path}: missing; rebuilt from the log")
            return None
        try:
            return epochs.decode(read_all(self.disk, path))
        except StorageError as error:
            self._report(f"{path}: {error}; rebuilt from the log")
            return None

    def _begins_with_epoch(self, base: Offset) -> bool:
        file = self.disk.open(self.folder / names.segment_file(base, names.LOG))
        try:
            return read_header(file.read(HEADER_BYTES, 0)).leader_epoch > NO_EPOCH
        except InvalidInput:
            return False

    def _epochs_of_log(self, bases: list[Offset]) -> epochs.History:
        history: epochs.History = ()
        for base in bases:
            end = Offset(base + SPAN_MAX)
            segment = SealedSegment(self.disk, self.folder, self.index, base, end)
            for _, header, _ in segment.batches():
                history = epochs.extended(history, header.leader_epoch, Offset(header.base_offset))
        return history

    # -- segments ------------------------------------------------------------------------------

    def _first(self, start: Offset) -> ActiveSegment:
        """A log without segments. Whatever the index says is about others, which may have had the
        same names."""
        active = ActiveSegment(self.disk, self.folder, self.index, start)
        rows = self.index.kv.batch()
        self.index.drop_segments_from(rows, EARLIEST)
        active.stage(rows)
        self.index.kv.write(rows, sync=True)  # first: it may know another segment of this name
        active.make_file()
        if start != EARLIEST or self.files.segments.keys() != {EARLIEST}:
            self.files.note([f"segment {start}"])
        return active

    def _sealed(self, base: Offset, end: Offset, state: IndexState | None) -> SealedSegment:
        segment = SealedSegment(self.disk, self.folder, self.index, base, end)
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

    def _active(self, base: Offset, state: IndexState | None) -> ActiveSegment:
        path = self.folder / names.segment_file(base, names.LOG)
        size = self.disk.open(path).size()
        if state is None or state.segment != base or state.synced_position > size:
            state = self._forget_from(base)
        segment = ActiveSegment.at(self.disk, self.folder, self.index, state, size)
        segment.end = state.synced_end
        for suffix in (names.OFFSET_INDEX, names.TIME_INDEX):
            self.disk.unlink(self.folder / names.segment_file(base, suffix))
        return self._scan_active(segment)

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

    def _scan_active(self, segment: ActiveSegment) -> ActiveSegment:
        """Verify what was not synced, index what was not indexed, cut what is torn."""
        state = segment.state
        indexed, synced = state.indexed_position, state.synced_position
        last_known, damaged = state.indexed_end, False
        rows, size = self.index.kv.batch(), 0
        limit = Offset(segment.base + SPAN_MAX)
        stretch = Stretch(segment.file(), segment.size, limit, self.gaps, torn=True)
        for found in scan(stretch, synced, segment.end):
            if isinstance(found, Damage):
                if found.end is None:
                    self._cut_tail(segment, found.position)
                    break
                self._report_damage(segment, found)
                damaged = True
                continue
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
            self._index_anew(segment)
        if segment.size > segment.state.synced_position:
            segment.write_again()
        if segment.end < last_known or segment.size < indexed:
            return self._take_back(segment)
        return self._settled(segment)

    def _index_anew(self, segment: ActiveSegment) -> None:
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

    def _continue_at(
        self, start: Offset, lost: Iterable[Segment]
    ) -> tuple[list[SealedSegment | LostSegment], ActiveSegment]:
        """A trim was durable and the records it was about were not."""
        gone = [segment.base for segment in lost]
        self.files.note(f"removed {base}" for base in gone)
        for base in gone:
            self._unlink_trio(base)
        return [], self._first(start)

    # -- small things --------------------------------------------------------------------------

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
        known = [entry.epoch for entry in self.loaded or () if entry.start_offset <= last]
        if not known or header.leader_epoch in (known[-1], NO_EPOCH):
            return found
        header, parts = place_batch(header, found.data, header.base_offset, known[-1])
        segment.file().write(parts, found.position)
        return Intact(found.position, header, b"".join(parts))

    def _report_damage(self, segment: Segment, damage: Damage) -> None:
        until = "the end" if damage.end is None else f"byte {damage.end}"
        self._report(f"{segment.path}: damaged from byte {damage.position} to {until}")

    def _report(self, text: str) -> None:
        report_damage(text)
        self.damage.append(text)
