"""Replacing a sealed segment by a smaller one, in one step that a crash cannot halve.

`Rewrite.prepare` writes the new log and its sidecars beside the old ones, under names that no
reader looks at and recovery removes. It takes long and needs no writer: whatever fails there
changes nothing. `Rewrite.put_in_force` renames them. A crash before the log's rename leaves the old
log, after it the new one; recovery writes missing sidecars again. Index rows of records that
compaction dropped are removed last: until then, and for good after a crash, each costs a look-up
one read.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import field
from itertools import count
from pathlib import Path

from stratamq.log import names, sidecar
from stratamq.log.contract import PlacedBatch, Rewriter
from stratamq.log.disk import File, write_new
from stratamq.log.index import ShardIndex
from stratamq.log.kv import KVBatch
from stratamq.log.scan import Damage, Intact, Stretch, scan
from stratamq.log.sealed_segment import SealedSegment
from stratamq.log.segment_recovery import Indexing
from stratamq.log.sidecar import SIDECARS, collect_points
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import CorruptRecord, StorageError
from stratamq.model.types import Offset, Position
from stratamq.wire.kafka.records import EMPTY_SCAN, read_header

BUFFER_BYTES = 1 << 20

ROWS_PER_WRITE = 1 << 15
ROWS_MAX = 1 << 21
"""Index rows that one rewrite takes back, at about 50 bytes of memory each. Above: they stay, and
cost reads, until their segment goes."""

_numbers = count()


class StaleRows:
    """Changes of the index that follow from dropping records, in writes of bounded size."""

    def __init__(self, index: ShardIndex, segment: Offset, indexing: Indexing) -> None:
        self._index, self._segment, self._indexing = index, segment, indexing
        self._rows, self._pending, self._all = index.kv.batch(), 0, 0
        self._full: list[KVBatch] = []

    def note(self, found: Intact, left: bytes | None) -> None:
        """A batch whose rest cannot be read keeps its rows: none may be missing."""
        if self._all >= ROWS_MAX:
            return
        old, new = self._placed(found), None
        if left is not None:
            new = self._placed(Intact(Position(0), read_header(left), left))
            if new.scan is EMPTY_SCAN:
                return
        self._index.replace_records(self._rows, self._segment, old, new)
        self._pending += found.header.record_count
        if self._pending >= ROWS_PER_WRITE:
            self._cut()

    def writes(self) -> list[KVBatch]:
        if self._pending:
            self._cut()
        return self._full

    def _cut(self) -> None:
        self._full.append(self._rows)
        self._all += self._pending
        self._rows, self._pending = self._index.kv.batch(), 0

    def _placed(self, found: Intact) -> PlacedBatch:
        return PlacedBatch(found.header, (found.data,), self._indexing.scan(found))


@dataclass(slots=True)
class SegmentRewrite:
    """What is left of a segment, ready to take its place. `new` is there once it has."""

    old: SealedSegment
    suffix: str
    changed: bool = False
    size_bytes: int = 0
    stale: list[KVBatch] = field(default_factory=list)
    new: SealedSegment | None = None

    @classmethod
    def prepare(cls, old: SealedSegment, rewriter: Rewriter, indexing: Indexing) -> SegmentRewrite:
        """Under a name of its own: two may be at it at once, and the first in force wins."""
        if old.cut_short:
            raise _refusal(old, Damage(Position(old.size), None))
        prepared = cls(old, f".{next(_numbers)}{names.CLEANED}")
        try:
            prepared._write(rewriter, indexing)
        except Exception:
            prepared.abandon()
            raise
        return prepared

    def abandon(self) -> None:
        for path in self._paths():
            self.old.disk.unlink(self._cleaned(path))

    def put_in_force(self) -> SealedSegment:
        """Readers that hold the old segment, which is pinned, keep its content; the new one is
        returned."""
        old = self.old
        old.unlink_sidecars()  # first, and for good: they must never point into the new log
        old.disk.sync_folder(old.folder)
        for path in self._paths():
            old.disk.rename(self._cleaned(path), path)
        old.disk.sync_folder(old.folder)
        new = SealedSegment(old.disk, old.folder, old.index, old.base, old.end)
        with suppress(OSError, StorageError):
            new.info()  # here, where waiting for the disk holds up no event loop
        return new

    def _write(self, rewriter: Rewriter, indexing: Indexing) -> None:
        old = self.old
        file = old.disk.open(self._cleaned(old.path), create=True)
        stale = StaleRows(old.index, old.base, indexing)
        self.changed = _write_rewritten(old, rewriter, file, stale)
        self.size_bytes = file.size()
        if self.changed and self.size_bytes:
            file.sync()
            old.disk.set_modified(self._cleaned(old.path), old.disk.modified_ms(old.path))
            self._write_sidecars(file)
            self.stale = stale.writes()
        else:
            self.abandon()

    def _write_sidecars(self, file: File) -> None:
        base = self.old.base
        found = scan(Stretch(file, self.size_bytes, self.old.end), 0, base)
        offsets, times = collect_points(one for one in found if isinstance(one, Intact))
        for suffix, data in (
            (names.OFFSET_INDEX, sidecar.encode_offset_points(base, offsets)),
            (names.TIME_INDEX, sidecar.encode_time_points(base, times)),
        ):
            write_new(self.old.disk, self._cleaned(self.old.sidecar(suffix)), data)

    def _paths(self) -> tuple[Path, ...]:
        return (self.old.path, *map(self.old.sidecar, SIDECARS))

    def _cleaned(self, path: Path) -> Path:
        return path.with_name(path.name + self.suffix)


def _write_rewritten(old: SealedSegment, rewriter: Rewriter, file: File, stale: StaleRows) -> bool:
    """Write the new content; whether it differs from the old."""
    pending: list[bytes] = []
    size = written = 0
    changed, expected = False, old.base
    for found in old.scan():
        if isinstance(found, Damage):
            raise _refusal(old, found)
        if old.whole and found.header.base_offset != expected:
            raise _refusal(old, Damage(found.position, None))
        expected = found.header.next_offset
        data = rewriter(found.header, memoryview(found.data))
        if data is None or data != found.data:
            changed = True
            stale.note(found, data)
        if data is not None:
            pending.append(data)
            size += len(data)
        if size >= BUFFER_BYTES:
            file.write(pending, written)
            pending, written, size = [], written + size, 0
    file.write(pending, written)
    return changed


def _refusal(old: SealedSegment, damage: Damage) -> CorruptRecord:
    """A damaged segment is evidence: it stays as it is until it is repaired."""
    return CorruptRecord(
        str(old.path), damage.position, old.base, old.end, "a damaged segment is not rewritten"
    )
