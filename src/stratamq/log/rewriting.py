"""Replacing a sealed segment by a smaller one, in one step that a crash cannot halve.

`Rewrite.prepare` writes the new log and its sidecars beside the old ones, under names that no
reader looks at and recovery removes; whatever fails there changes nothing. `Rewrite.put_in_force`
renames them. A crash before the log's rename leaves the old log, after it the new one; recovery
makes missing sidecars anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stratamq.log import names, sidecar
from stratamq.log.contract import Rewriter
from stratamq.log.disk import File, write_new
from stratamq.log.scan import Damage, Intact, Stretch, scan
from stratamq.log.segment import SIDECARS, SealedSegment, collect_points
from stratamq.model.errors import CorruptRecord

BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What is left of a segment, ready to take its place."""

    old: SealedSegment
    changed: bool
    size_bytes: int

    @classmethod
    def prepare(cls, old: SealedSegment, rewriter: Rewriter) -> Rewrite:
        file = old.disk.open(_cleaned(old.path), create=True)
        file.truncate(0)
        changed = _write_rewritten(old, rewriter, file)
        prepared = cls(old, changed, file.size())
        if prepared.changed and prepared.size_bytes:
            file.sync()
            prepared._write_sidecars(file)
        else:
            old.disk.unlink(_cleaned(old.path))
        return prepared

    def _write_sidecars(self, file: File) -> None:
        base = self.old.base
        found = scan(Stretch(file, self.size_bytes, self.old.end), 0, base)
        offsets, times = collect_points(one for one in found if isinstance(one, Intact))
        for suffix, data in (
            (names.OFFSET_INDEX, sidecar.encode_offset_points(base, offsets)),
            (names.TIME_INDEX, sidecar.encode_time_points(base, times)),
        ):
            write_new(self.old.disk, _cleaned(self.old.sidecar(suffix)), data)

    def put_in_force(self) -> SealedSegment:
        """Readers that hold the old segment keep its content; the new one is returned."""
        old = self.old
        old.pin()
        old.unlink_sidecars()  # first, and for good: they must never point into the new log
        old.disk.sync_folder(old.folder)
        for path in (old.path, *map(old.sidecar, SIDECARS)):
            old.disk.rename(_cleaned(path), path)
        old.disk.sync_folder(old.folder)
        return SealedSegment(old.disk, old.folder, old.index, old.base, old.end)


def _cleaned(path: Path) -> Path:
    return path.with_name(path.name + names.CLEANED)


def _write_rewritten(old: SealedSegment, rewriter: Rewriter, file: File) -> bool:
    """Write the new content; whether it differs from the old."""
    pending: list[bytes] = []
    size = written = 0
    changed = False
    for found in old.scan():
        if isinstance(found, Damage):
            raise _refusal(old, found)
        data = rewriter(found.header, memoryview(found.data))
        changed = changed or data is None or data != found.data
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
