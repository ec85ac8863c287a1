"""Reading batches out of a segment file: find the one that holds an offset, read whole ones.

Everything that leaves this module passed its CRC and stands where its neighbours say it belongs.
The way there is short when nothing is wrong: from the index point before the offset by the batches'
own lengths. When anything looks odd (a gap, a batch that overlaps the next, a point that is not
what the index says), the stretch is walked with care (`stratamq.log.scan`), and what cannot be read
is reported with file and position.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from stratamq.log.disk import Readable
from stratamq.log.scan import Damage, Stretch, crc_fits, scan
from stratamq.log.sidecar import OffsetPoint
from stratamq.model.errors import CorruptRecord, InvalidInput
from stratamq.model.types import Offset, Position
from stratamq.wire.kafka.records import (
    HEADER_BYTES,
    BatchHeader,
    BatchSpan,
    find_batch,
    intact,
    read_header,
    walk,
)

ANYWHERE = -1
"""For `intact`: the first batch may begin with any offset."""

WINDOW_BYTES = 128 << 10
"""Read at once while looking for an offset: about one stretch between two index points."""


class SegmentView(NamedTuple):
    """A segment's file at one moment. `floor` gives the index point at or before an offset. In one
    that is `whole`, offsets follow each other, and a gap is damage."""

    path: str
    file: Readable
    size: int
    base: Offset
    end: Offset
    floor: Callable[[Offset], OffsetPoint | None]
    whole: bool = False

    def stretch(self) -> Stretch:
        return Stretch(self.file, self.size, self.end)


class KnownBatch(NamedTuple):
    """Where a batch begins, and what is known of it: that it ends with `last_offset`, or that the
    one before it ended below `first_offset`, which is `proven` where that one was verified."""

    position: int
    first_offset: Offset | None = None
    last_offset: Offset | None = None
    proven: bool = False

    def fits(self, base_offset: int, last_offset: int) -> bool:
        return (self.first_offset is None or base_offset >= self.first_offset) and (
            self.last_offset is None or last_offset == self.last_offset
        )


def locate(view: SegmentView, offset: Offset, known: KnownBatch | None = None) -> Position | None:
    """Position of the batch that holds `offset`, or of the next there is; None when the file has
    none. CorruptRecord when the batch that held it is damaged."""
    position = _by_index(view, offset, known or _point_before(view, offset))
    return Position(position) if position is not None else _by_scan(view, offset)


def _point_before(view: SegmentView, offset: Offset) -> KnownBatch:
    point = view.floor(offset)
    if point is None:
        return KnownBatch(0, view.base, proven=True)
    return KnownBatch(point.position, last_offset=point.last_offset)


# -- the short way -------------------------------------------------------------------------------


def _by_index(view: SegmentView, offset: Offset, place: KnownBatch) -> int | None:
    """The position, if nothing on the way is odd."""
    here: KnownBatch | None = place
    while here is not None and here.position < view.size:
        left = view.size - here.position
        chunk = view.file.read(min(WINDOW_BYTES, left), here.position)
        found = find_batch(chunk, offset)
        if found < 0:
            spans = walk(chunk)
            large = None if spans else _large_header(chunk, left)
            if large is None or large.last_offset < offset:
                here = _after_window(here.position, spans, large)
                continue
            found = 0
        sure = _is_sure(view, chunk, here, found, offset)
        return here.position + found if sure else None
    return None


def _large_header(chunk: bytes, left: int) -> BatchHeader | None:
    """The header of a batch that is larger than the window."""
    try:
        header = read_header(chunk)
    except InvalidInput:
        return None
    return header if header.size_bytes <= left else None


def _after_window(
    position: int, spans: list[BatchSpan], large: BatchHeader | None
) -> KnownBatch | None:
    """Where to go on: after the batches of this window, or after one that is larger."""
    if large is not None:
        return KnownBatch(position + large.size_bytes, large.next_offset)
    if not spans:
        return None
    last = spans[-1]
    return KnownBatch(position + last.position + last.size, Offset(last.last_offset + 1))


def _is_sure(
    view: SegmentView, chunk: bytes, place: KnownBatch, found: int, offset: Offset
) -> bool:
    """Whether the batch found in the window at `place` is the one, judged by its
    neighbours."""
    header = read_header(chunk, found)
    following = _header_at(view, chunk, place.position, found + header.size_bytes)
    if header.last_offset >= view.end:
        return False
    if following is not None and following.base_offset <= header.last_offset:
        return False
    if found == 0:
        fits = place.fits(header.base_offset, header.last_offset)
        return fits and (header.base_offset <= offset or (place.proven and not view.whole))
    if header.base_offset <= offset:
        return find_batch(chunk, header.base_offset) == found
    return not view.whole and _in_order(chunk, found, place)


def _in_order(chunk: bytes, found: int, place: KnownBatch) -> bool:
    """A gap: was it always there, or does a batch on the way pretend to be elsewhere, or the one
    before it to be shorter?"""
    spans = walk(chunk)
    if not place.fits(spans[0].base_offset, spans[0].last_offset):
        return False
    for before, span in pairwise(spans):
        if span.base_offset <= before.last_offset:
            return False
        if span.position == found:
            return crc_fits(memoryview(chunk)[before.position : span.position])
    return False


def _header_at(view: SegmentView, chunk: bytes, start: int, at: int) -> BatchHeader | None:
    """The header at this position of the window or after it, if there is one."""
    if start + at + HEADER_BYTES > view.size:
        return None
    try:
        if at + HEADER_BYTES <= len(chunk):
            return read_header(chunk, at)
        return read_header(view.file.read(HEADER_BYTES, start + at))
    except InvalidInput:
        return None


# -- the careful way -----------------------------------------------------------------------------


def _by_scan(view: SegmentView, offset: Offset) -> Position | None:
    if offset >= view.end:
        return None
    damage: Damage | None = None
    for found in scan(view.stretch(), *_trusted_before(view, offset)):
        if isinstance(found, Damage):
            damage = found
        elif found.header.last_offset < offset:
            damage = None  # it ended before the offset
        elif damage is not None and found.header.base_offset > offset:
            raise _corrupt(view, damage.position, offset, found.header.base_offset, DAMAGED)
        elif view.whole and found.header.base_offset > offset:
            raise _corrupt(view, found.position, offset, found.header.base_offset, MISSING)
        else:
            return found.position
    if damage is not None:
        raise _corrupt(view, damage.position, offset, view.end, DAMAGED)
    return None


DAMAGED = "no intact batch that belongs there"
MISSING = "its bytes are gone"


def _trusted_before(view: SegmentView, offset: Offset) -> tuple[int, Offset]:
    """Where to begin, and with which offset: one index point earlier than needed, so that the batch
    in question has one before it as a witness; at the start if the log does not bear the index
    out."""
    point = view.floor(offset)
    earlier = view.floor(Offset(point.last_offset - 1)) if point is not None else None
    if earlier is not None:
        header = _header_at(view, b"", earlier.position, 0)
        if header is not None and header.last_offset == earlier.last_offset:
            return earlier.position, header.base_offset
    return 0, view.base


# -- whole batches -------------------------------------------------------------------------------


def read_intact(
    view: SegmentView, position: int, max_bytes: int, end: Offset, offset: Offset
) -> tuple[bytes, Offset]:
    """Intact batches from `position` on, and the offset after them: as many as fit `max_bytes`, at
    least one, all below `end`.

    Empty when the first batch reaches past `end`. CorruptRecord when it is damaged.
    """
    left = view.size - position
    chunk = view.file.read(min(max(max_bytes, HEADER_BYTES), left), position)
    header = read_header(chunk)
    if header.last_offset >= end:
        return b"", offset
    if header.size_bytes > len(chunk):
        chunk = view.file.read(min(header.size_bytes, left), position)
    # Where a gap is in doubt the answer ends before it, and the next read looks closer.
    good, next_offset = intact(chunk, ANYWHERE, max_bytes, end, view.whole)
    if not good:
        raise _crc_error(view, position, header, offset)
    return chunk[:good], next_offset


def _crc_error(
    view: SegmentView, position: int, header: BatchHeader, offset: Offset
) -> CorruptRecord:
    """The batch there is damaged; reading may go on at the next that is intact."""
    next_offset = view.end
    for found in scan(view.stretch(), position, min(header.base_offset, offset)):
        if not isinstance(found, Damage):
            next_offset = found.header.base_offset
            break
    return _corrupt(view, position, offset, next_offset, "its checksum does not fit")


def _corrupt(
    view: SegmentView, position: int, offset: Offset, next_offset: Offset, reason: str
) -> CorruptRecord:
    return CorruptRecord(view.path, position, offset, max(next_offset, offset + 1), reason)
