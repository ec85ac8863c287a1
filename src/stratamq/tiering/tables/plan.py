"""The open end of a table: which early files are written, and which of them become one. Pure.

Laws
----
1.  An early file lies within one segment, below the last stable offset, and overlaps no other.
2. After a flush everything that is decided and stored here is in a file.
3.  A merged file is at least twice as large as the largest it is made of, so that a record is
    written again a few times at most, however often a topic is flushed. Two exceptions, once each:
    a segment that is full gets one file, and there are never more than FORCED times as many as
    should be merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from stratamq.log.contract import SegmentInfo
from stratamq.meta.tier.files import TierFile
from stratamq.model.types import Offset
from stratamq.tiering.outdated import is_outdated

FORCED = 4


class EarlyFile(NamedTuple):
    """Give `base_offset..end_offset - 1` an early file, in place of those that begin at
    `replace`."""

    base_offset: Offset
    end_offset: Offset
    replace: tuple[Offset, ...] = ()


class Ends(NamedTuple):
    """What of a shard a table may show."""

    start: Offset
    stable: Offset
    """Where the first undecided or uncommitted record may be."""


def missing(
    segments: Sequence[SegmentInfo], files: Iterable[TierFile], ends: Ends
) -> list[EarlyFile]:
    """The files of a flush: what no file has yet, cut where segments end."""
    ordered = sorted(files, key=lambda file: file.base_offset)
    return [
        EarlyFile(first, end)
        for segment in segments
        for first, end in _gaps(
            max(segment.base_offset, ends.start), min(segment.end_offset, ends.stable), ordered
        )
    ]


def _gaps(first: Offset, end: Offset, files: Iterable[TierFile]) -> Iterator[tuple[Offset, Offset]]:
    for file in files:
        if first >= end:
            return
        if file.end_offset > first:
            if file.base_offset > first:
                yield first, min(file.base_offset, end)
            first = file.end_offset
    if first < end:
        yield first, end


def outdated(files: Iterable[TierFile], deleted: Sequence[Offset], ends: Ends) -> list[EarlyFile]:
    """Early files in which more is deleted by now than they were made without."""
    early = [file for file in files if not file.final and file.end_offset > ends.start]
    return [
        EarlyFile(file.base_offset, file.end_offset, (file.base_offset,))
        for file in early
        if is_outdated(file, deleted, ends.start)
    ]


def merges(
    segments: Sequence[SegmentInfo], files: Iterable[TierFile], ends: Ends, count: int
) -> list[EarlyFile]:
    """What becomes one: where a segment has `count` or more early files, or is full and has more
    than one."""
    early = [file for file in files if not file.final and file.end_offset > ends.start]
    found = (_merge(segment, _within(segment, early), ends, count) for segment in segments)
    return [one for one in found if one is not None]


def _within(segment: SegmentInfo, files: Iterable[TierFile]) -> list[TierFile]:
    """Return the segment's adjoining files, up to the first gap: a flush comes first, and closes
    it."""
    run: list[TierFile] = []
    for file in sorted(files, key=lambda file: file.base_offset):
        if file.base_offset < segment.base_offset or file.end_offset > segment.end_offset:
            continue
        if run and run[-1].end_offset != file.base_offset:
            break
        run.append(file)
    return run


def _merge(
    segment: SegmentInfo, files: Sequence[TierFile], ends: Ends, count: int
) -> EarlyFile | None:
    if len(files) < 2:
        return None
    full = not segment.active and segment.end_offset <= ends.stable
    if len(files) >= FORCED * count or (full and files[-1].end_offset == segment.end_offset):
        return _one(files)
    if len(files) < count:
        return None
    first, end = worthwhile([file.log_bytes for file in files])
    return _one(files[first:end]) if end - first > 1 else None


def _one(files: Sequence[TierFile]) -> EarlyFile:
    replaced = tuple(file.base_offset for file in files)
    return EarlyFile(files[0].base_offset, files[-1].end_offset, replaced)


def worthwhile(sizes: Sequence[int]) -> tuple[int, int]:
    """The longest run of which none is larger than all others together; (0, 0) without one."""
    best = (0, 0)
    for first in range(len(sizes)):
        total = largest = 0
        for end, size in enumerate(sizes[first:], first + 1):
            total, largest = total + size, max(largest, size)
            if end - first > max(1, best[1] - best[0]) and 2 * largest <= total:
                best = (first, end)
    return best
