"""Replacing a sealed segment by a smaller one, in one step that a crash cannot halve."""

from __future__ import annotations

from stratamq.log import names, reader
from stratamq.log.contract import Rewriter
from stratamq.log.disk import File
from stratamq.log.segment import SealedSegment
from stratamq.model.errors import CorruptRecord

BUFFER_BYTES = 1 << 20


def rewrite_segment(old: SealedSegment, rewriter: Rewriter) -> SealedSegment | None:
    """What `rewriter` leaves of the segment: the old one if nothing changed, None if nothing is
    left.

    A crash before the rename leaves the old log (with or without sidecars), after it the new one;
    recovery makes missing sidecars anew.
    """
    cleaned = old.path.with_name(old.path.name + names.CLEANED)
    file = old.disk.open(cleaned, create=True)
    file.truncate(0)
    if not _write_rewritten(old, rewriter, file):
        old.disk.unlink(cleaned)
        return old
    if not file.size():
        old.disk.unlink(cleaned)
        return None
    file.sync()
    old.unlink_sidecars()
    old.disk.sync_folder(old.folder)
    old.disk.rename(cleaned, old.path)
    old.disk.sync_folder(old.folder)
    new = SealedSegment(old.disk, old.folder, old.index, old.base, old.end)
    new.rebuild_sidecars()
    return new


def _write_rewritten(old: SealedSegment, rewriter: Rewriter, file: File) -> bool:
    """Write the new content; whether it differs from the old."""
    pending: list[bytes] = []
    size = written = 0
    changed = False
    for found in old.scan():
        if isinstance(found, reader.Damage):
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


def _refusal(old: SealedSegment, damage: reader.Damage) -> CorruptRecord:
    """A damaged segment is evidence: it stays as it is until it is repaired."""
    return CorruptRecord(
        str(old.path), damage.position, old.base, old.end, "a damaged segment is not rewritten"
    )
