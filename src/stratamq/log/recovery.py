"""Opening a shard after any stop, clean or not.

The log is the truth; the index says how far it was known to be good. What is found decides:

| found                                                 | done                                   |
|-------------------------------------------------------|----------------------------------------|
| index reaches the end of the file                     | nothing: the stop was clean            |
| intact batches after the indexed ones                 | indexed                                |
| nothing intact up to the end                          | torn tail: copied aside, then cut      |
| damage with intact batches after it                   | corruption: reported, reads refuse it; |
|                                                       | new records go to a new segment        |
| index speaks of offsets the log does not have         | those rows are taken back              |
| index has no state, or one of a segment that is gone  | rebuilt from the log                   |
| sealed segment without sidecars                       | sidecars rebuilt from the log          |
| leader epochs missing where there must be some, or    | rebuilt from the log, reported         |
| not to be read                                        |                                        |
| start offset that does not match its checksum         | the first segment's, reported; where   |
|                                                       | segments were offloaded, the first     |
|                                                       | leader epoch's, so that none is lost   |
| local start that does not match its checksum          | the first segment's, reported          |
| segments below the local start                        | removed: their offloading goes on      |
| `.cleaned` and `.tmp` files                           | removed: they never came into force    |
| start offset or local start past the end              | the log goes on there                  |
| a segment that the file list names and that is gone   | its offsets are lost: reported, reads  |
|                                                       | refuse them, none is given out again   |
| a segment that only the index names and that is gone  | the same from the end of the log on    |
| an active segment shorter than what was synced of it  | the same for what its end lacks        |
| a sealed segment shorter than it was                  | reported, reads refuse what it lacks   |
| missing offsets in a segment without gaps             | reported when they are found, reads    |
|                                                       | refuse them                            |
| another segment's file in the place of one            | the same for the whole file            |
| a file that the file list does not name               | the next segment if it goes on where   |
|                                                       | the log ends; else set aside as        |
|                                                       | `.stray`, reported; with records above |
|                                                       | the end, the shard is not opened       |
| a file list that is damaged                           | written again from the files, reported |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import field
from itertools import pairwise
from pathlib import Path

from stratamq.log import epochs, names
from stratamq.log.active_segment import ActiveSegment
from stratamq.log.disk import Disk, replace_file
from stratamq.log.file_list import FileList
from stratamq.log.folder_recovery import FolderRecovery
from stratamq.log.index import IndexState, ShardIndex
from stratamq.log.sealed_segment import SealedSegment
from stratamq.log.segment import NOT_ITS_FILE, LostSegment, Segment
from stratamq.log.segment_recovery import Indexing, SegmentRecovery
from stratamq.log.sidecar import SPAN_MAX
from stratamq.model.damage import report_damage
from stratamq.model.dataclass import dataclass
from stratamq.model.types import EARLIEST, Offset

Sealed = list[SealedSegment | LostSegment]


@dataclass(slots=True)
class Recovered:
    """A shard that is ready."""

    sealed: Sealed
    active: ActiveSegment
    start: Offset
    epochs: epochs.History
    offloaded: Offset = EARLIEST
    damage: list[str] = field(default_factory=list)


def recover(
    disk: Disk,
    folder: Path,
    present: Set[str],
    index: ShardIndex,
    indexing: Indexing,
    files: FileList,
    *,
    gaps: bool,
    syncs: bool = False,
    fresh: bool = False,
    first_leader_implied: bool = False,
) -> Recovered:
    """Everything in the table above. May itself be cut off by a crash and repeated.

    `present` are the names in the folder: it is listed once for all who look for a file.
    `gaps`: whether the batches of an active segment may leave gaps between them. `syncs`: whether
    every offset that was given out is in the index. `fresh`: the folder is new, so there is nothing
    to find and nothing of it that has to be durable yet. `first_leader_implied`: see `epochs`.
    """
    if fresh:
        active = ActiveSegment(disk, folder, index, EARLIEST)
        disk.open(active.path, create=True)
        active.whole = True
        if index.state() is None:
            rows = index.kv.batch()
            active.stage(rows)
            index.kv.write(rows)
        return Recovered([], active, EARLIEST, ())
    return _Recovery(
        disk, folder, present, index, indexing, files, gaps, syncs, first_leader_implied
    ).run()


class _Recovery:
    """Decides what the log is, from what folder and segments turn out to hold."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        present: Set[str],
        index: ShardIndex,
        indexing: Indexing,
        files: FileList,
        gaps: bool,
        syncs: bool,
        first_leader_implied: bool,
    ) -> None:
        self.disk, self.folder, self.index = disk, folder, index
        self.files, self.syncs = files, syncs
        self.present, self.first_leader_implied = present, first_leader_implied
        self.damage: list[str] = []
        self.found = FolderRecovery(disk, folder, present, index, files, self._report, gaps=gaps)
        self.segments = SegmentRecovery(
            disk, folder, present, index, indexing, files, self._report, gaps=gaps
        )

    def run(self) -> Recovered:
        sizes = self.found.sweep()
        saved = self.found.load_epochs(sorted(sizes), implied=self.first_leader_implied)
        known = sorted({*sizes, *self.files.segments} - self.files.removed)
        start = self.found.start_offset(known, saved)
        offloaded = self.found.local_start(known, start)
        begin = max(start, offloaded)
        self.damage += self.files.damage
        compared = self.found.match_list(sizes, begin)
        bases = self.found.finish_offload(compared.present, offloaded)
        self.segments.begin(saved, bases)
        state = self.index.state()
        lost = self._lost(compared.missing, bases, state)
        sealed, active = self._open_segments(bases, lost, begin, state)
        if self.files.cutting is not None:
            sealed, active = self._finish_cut(sealed, active)
        if begin > active.end:
            sealed, active = self._continue_at(begin, [*sealed, active])
        history = self._history_within(start, active.end)
        if history != saved:
            replace_file(self.disk, self.folder / names.EPOCHS, epochs.encode(history))
        if self.first_leader_implied and (history != saved or names.EPOCHS in self.present):
            self.files.note_beside(names.EPOCHS)  # a crash may have come before the note
        return Recovered(sealed, active, start, history, offloaded, self.damage)

    def _open_segments(
        self,
        bases: list[Offset],
        lost: Mapping[Offset, Offset],
        begin: Offset,
        state: IndexState | None,
    ) -> tuple[Sealed, ActiveSegment]:
        """Each reaches to where the next one begins. The newest is active, unless it is lost: then
        a new one begins after it."""
        sealed: Sealed = []
        for base, end in pairwise(sorted([*bases, *lost])):
            sealed.append(
                self.segments.lost(base, end)
                if base in lost
                else self.segments.sealed(base, end, state)
            )
        newest = max([*bases, *lost], default=None)
        if newest is None:
            return sealed, self.segments.first(begin)
        if newest in lost:
            sealed.append(self.segments.lost(newest, lost[newest]))
            return sealed, self.segments.next(lost[newest])
        end = self._end_of_newest(newest, state)
        # Where no offset of it was given out, what it holds is a write that was never synced.
        if end > newest and self.segments.is_foreign(newest, state):
            path = self.folder / names.segment_file(newest, names.LOG)
            self._report(f"{path}: {NOT_ITS_FILE}; offsets {newest} to {end - 1} are lost")
            sealed.append(self.segments.foreign(newest, end))
            return sealed, self.segments.next(end)
        known = self._known_end(newest, state)
        active = self.segments.active(newest, state)
        if known > active.end:
            return self._skip_lost(sealed, active, known)
        if active.damaged and active.size and self.files.cutting is None:
            return self._go_on_after(sealed, active)
        return sealed, active

    def _history_within(self, start: Offset, end: Offset) -> epochs.History:
        """Without epochs whose first batch is not there. A log that was trimmed to its end still
        knows its last one."""
        kept = epochs.cut_end(self.segments.history, max(end, Offset(start + 1)))
        return epochs.cut_start(kept, start)

    def _lost(
        self, missing: list[Offset], bases: list[Offset], state: IndexState | None
    ) -> dict[Offset, Offset]:
        """Where offsets are lost, and where each such run ends. A file that was brought back is not
        lost any more."""
        self._find_again(bases)
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

    def _find_again(self, bases: list[Offset]) -> None:
        """Forget lost ranges whose bytes are back: a whole copy of a file that was cut short."""
        for start, end in sorted(self.files.lost.items()):
            before = max((base for base in bases if base < start), default=None)
            if before is None or self.found.end_of_file(before) < end:
                continue
            size = self.disk.size(self.folder / names.segment_file(before, names.LOG))
            whole = [f"whole {before}"] if before in self.files.whole else []
            back = [f"lost {start} {start}", f"segment {before}", f"sealed {before} {size}"]
            self.files.note([*back, *whole])

    def _end_of_newest(self, base: Offset, state: IndexState | None) -> Offset:
        """An end above every offset that was given out, where the segment at `base` and all after
        it are lost: what the index knows, or the most that a segment can span."""
        if state is None or state.segment < base:
            return Offset(base + SPAN_MAX + 1)
        if not self.syncs:
            return Offset(state.segment + SPAN_MAX + 1)
        return max(state.synced_end, state.indexed_end)

    def _known_end(self, newest: Offset, state: IndexState | None) -> Offset:
        """Where the log must end at least, unless a truncation was under way. What the index calls
        synced was synced. And the name of a segment was durable before the index spoke of it: one
        that is newer than all files, and was not removed on purpose, is lost."""
        if state is None or state.segment < newest or self.files.cutting is not None:
            return newest
        if state.segment == newest:
            return state.synced_end
        return newest if state.segment in self.files.removed else self._end_of_newest(newest, state)

    def _skip_lost(
        self, sealed: Sealed, active: ActiveSegment, end: Offset
    ) -> tuple[Sealed, ActiveSegment]:
        """The newest file ends before what was given out: it is shorter than it was, or later
        segments are gone. What it still has is sealed; new records come after what is lost."""
        self._report(f"{active.path}: cut short; offsets {active.end} to {end - 1} are lost")
        lines = [f"lost {active.end} {end}"]
        if active.size:
            sealed.append(active.seal())
            lines.append(f"sealed {active.base} {active.size}")
        else:
            self.disk.unlink(active.path)
        self.files.note(lines)
        sealed.append(self.segments.lost(active.end, end))
        return sealed, self.segments.next(end)

    def _go_on_after(self, sealed: Sealed, active: ActiveSegment) -> tuple[Sealed, ActiveSegment]:
        """Nothing is added to a file with damage in it: an operator may bring back a whole copy."""
        sealed.append(active.seal())
        self.files.note([f"sealed {active.base} {active.size}"])
        return sealed, self.segments.next(active.end)

    def _finish_cut(self, sealed: Sealed, active: ActiveSegment) -> tuple[Sealed, ActiveSegment]:
        """A truncation may have ended in a gap that compaction left: then only the index knows the
        end of the log, until a segment begins there."""
        points = self.index.offset_points(active.base)
        last = max(active.batches(points[-1].position if points else 0), default=None)
        reached = active.base if last is None else last.header.next_offset
        lines = [f"cut {self.files.cutting}"]
        if reached < active.end:
            sealed = [*sealed, active.seal()]
            lines.append(f"sealed {active.base} {active.size}")
            active = self.segments.next(active.end)
        self.files.note(lines)
        return sealed, active

    def _continue_at(self, start: Offset, lost: Iterable[Segment]) -> tuple[Sealed, ActiveSegment]:
        """A trim was durable and the records it was about were not."""
        gone = [segment.base for segment in lost]
        self.files.note(f"removed {base}" for base in gone)
        for base in gone:
            self.found.unlink_segment(base)
        return [], self.segments.first(start)

    def _report(self, text: str) -> None:
        report_damage(text)
        self.damage.append(text)
