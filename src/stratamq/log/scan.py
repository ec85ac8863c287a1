"""Walking a segment file batch by batch, trusting nothing.

A batch is *intact* when its header is plausible, its bytes are all there and its CRC fits. The CRC
does not cover the base offset, so there the neighbours are the witnesses: a batch that continues
the one before it is believed; one that leaves a gap, as compaction does, is believed unless the
batch after it contradicts.

After damage the walk goes on where the damaged batch's own length leads. If that was damaged too,
every magic byte is a candidate; but a record may hold batches of its own, so a candidate counts
only if the damaged batch's CRC fits up to it, or if batches follow it to the end of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stratamq.log.disk import Readable
from stratamq.model.errors import InvalidInput
from stratamq.model.types import EARLIEST, Offset, Position
from stratamq.wire.crc import crc32c
from stratamq.wire.kafka.records import BatchHeader, read_header, walk
from stratamq.wire.kafka.records.layout import (
    BATCH_LENGTH_MIN,
    CHECKED_AT,
    CRC_AT,
    HEADER_BYTES,
    LAST_DELTA_AT,
    LENGTH_AT,
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
)

SCAN_BYTES = 4 << 20
"""Read at once while scanning a whole segment."""

MAGIC_BYTE = bytes([MAGIC])


class Intact(NamedTuple):
    """One whole batch of a scan."""

    position: Position
    header: BatchHeader
    data: bytes

    @property
    def end(self) -> int:
        return self.position + self.header.size_bytes


class Damage(NamedTuple):
    """A stretch that is not made of intact batches. `end` is None when nothing intact follows."""

    position: Position
    end: Position | None


class Stretch(NamedTuple):
    """A file and what is known of it. All offsets are below `limit`. Where `gaps` are not to be
    expected, one is believed only if batches that continue each other follow it. Where the file may
    end with a `torn` write, nothing inside such a write is taken for a batch."""

    file: Readable
    size: int
    limit: Offset
    gaps: bool = True
    torn: bool = False


def scan(stretch: Stretch, position: int, expected: Offset) -> Iterator[Intact | Damage]:
    """Everything from `position` to the end, in order: intact batches from `expected` on, and the
    damage between them."""
    while position < stretch.size:
        before = position
        for batch in _intact_run(stretch, position, expected):
            position, expected = batch.end, batch.header.next_offset
            yield batch
        if position > before:
            continue
        batch_here = _believed_at(stretch, position, expected)
        if batch_here is None:
            batch_here = _after_damage(stretch, position, expected)
            yield Damage(Position(position), batch_here.position if batch_here else None)
            if batch_here is None:
                return
        yield batch_here
        position, expected = batch_here.end, batch_here.header.next_offset


def _intact_run(stretch: Stretch, start: int, expected: Offset) -> Iterator[Intact]:
    """Intact batches at `start`, as many as one read brings."""
    chunk = stretch.file.read(min(SCAN_BYTES, stretch.size - start), start)
    view = memoryview(chunk)
    for position, size, base_offset, last_offset, _ in walk(chunk):
        if base_offset != expected or last_offset >= stretch.limit:
            return  # left to the closer look
        if not crc_fits(view[position : position + size]):
            return
        expected = Offset(last_offset + 1)
        data = chunk[position : position + size]
        yield Intact(Position(start + position), read_header(data), data)


def _believed_at(stretch: Stretch, position: int, expected: Offset) -> Intact | None:
    batch = intact_at(stretch, position)
    return batch if batch is not None and _is_believed(stretch, batch, expected) else None


def _is_believed(stretch: Stretch, batch: Intact, expected: Offset) -> bool:
    """Whether the batch is where it says, by what comes before it and after it."""
    if batch.header.base_offset < expected or batch.header.last_offset >= stretch.limit:
        return False
    while batch.header.base_offset != expected:
        following = intact_at(stretch, batch.end)
        if following is None:
            return stretch.gaps
        if following.header.base_offset <= batch.header.last_offset:
            # One of two that overlap is wrong: the one without which the others fit.
            least = expected + batch.header.last_offset_delta + 1
            return stretch.gaps and following.header.base_offset < least
        if stretch.gaps:
            return True
        batch, expected = following, batch.header.next_offset
    return True


def intact_at(stretch: Stretch, position: int) -> Intact | None:
    """The batch at `position` if its bytes are right, wherever it says it belongs."""
    file, left = stretch.file, stretch.size - position
    if left < HEADER_BYTES:
        return None
    try:
        header = read_header(file.read(HEADER_BYTES, position))
    except InvalidInput:
        return None
    size = header.size_bytes
    if header.last_offset_delta < 0 or size > left:
        return None
    if size > SCAN_BYTES and _crc_of(file, position + CHECKED_AT, position + size) != header.crc:
        return None  # a length that is damaged itself must not cost its size in memory
    data = file.read(size, position)
    if len(data) < size or not crc_fits(memoryview(data)):
        return None
    return Intact(Position(position), header, data)


def begins_elsewhere(stretch: Stretch, base: Offset) -> bool:
    """Whether the file of a segment without gaps begins with batches of another one. A first batch
    whose base offset alone is damaged is not continued by the second."""
    first = intact_at(stretch, 0)
    if first is None or first.header.base_offset == base:
        return False
    second = intact_at(stretch, first.end)
    return second is None or second.header.base_offset == first.header.next_offset


def ends_at(stretch: Stretch, position: int, end: Offset, *, gaps: bool) -> bool:
    """Whether batches in order lead from `position` to the end of the stretch, and to `end`."""
    reached = EARLIEST
    while position < stretch.size:
        batch = intact_at(stretch, position)
        if batch is None or batch.header.base_offset < reached:
            return False
        position, reached = batch.end, batch.header.next_offset
    return reached == end or (gaps and reached < end)


def crc_fits(batch: memoryview) -> bool:
    return crc32c(batch[CHECKED_AT:]) == int.from_bytes(batch[CRC_AT:CHECKED_AT], "big")


def _crc_of(file: Readable, position: int, end: int) -> int:
    crc = 0
    while position < end:
        chunk = file.read(min(SCAN_BYTES, end - position), position)
        if not chunk:
            break
        crc = crc32c(chunk, crc)
        position += len(chunk)
    return crc


# -- after damage --------------------------------------------------------------------------------


def _after_damage(stretch: Stretch, position: int, expected: Offset) -> Intact | None:
    """The next batch after the damaged one at `position`."""
    head = stretch.file.read(HEADER_BYTES, position)
    repeated = intact_at(stretch, position)
    if repeated is not None and repeated.header.base_offset < expected:
        following = _believed_at(stretch, repeated.end, expected)
        if following is not None:  # a batch stands there twice, and the log goes on after it
            return following
    length = int.from_bytes(head[LENGTH_AT:LENGTH_END], "big", signed=True)
    if length >= BATCH_LENGTH_MIN:
        batch = intact_at(stretch, position + LENGTH_END + length)
        if batch is not None and _follows(stretch, head, batch, expected):
            return batch
    return _search(stretch, position, head, expected)


def _follows(stretch: Stretch, head: bytes, batch: Intact, expected: Offset) -> bool:
    """Whether the batch fits after a damaged one with this header, which had a record at least."""
    if len(head) == HEADER_BYTES:
        delta = int.from_bytes(head[LAST_DELTA_AT : LAST_DELTA_AT + 4], "big", signed=True)
        if batch.header.base_offset == expected + delta + 1:
            return batch.header.last_offset < stretch.limit
    return _is_believed(stretch, batch, Offset(expected + 1))


def _search(stretch: Stretch, damaged: int, head: bytes, expected: Offset) -> Intact | None:
    crc = int.from_bytes(head[CRC_AT:CHECKED_AT], "big")
    torn = stretch.torn and _is_torn(head, stretch.size - damaged, expected)
    for position in _candidates(stretch, damaged + 1, expected):
        batch = intact_at(stretch, position)
        if batch is None or not _follows(stretch, head, batch, expected):
            continue
        if _crc_of(stretch.file, damaged + CHECKED_AT, position) == crc:
            return batch  # only the length was damaged
        if not torn and _leads_to_end(stretch, position):
            return batch
    return None


def _is_torn(head: bytes, left: int, expected: Offset) -> bool:
    """Whether this is the beginning of a batch that belongs here, and not all of it."""
    try:
        header = read_header(head)
    except InvalidInput:
        return False
    return header.base_offset == expected and header.size_bytes > left


def _candidates(stretch: Stretch, position: int, expected: Offset) -> Iterator[int]:
    """Positions where a magic byte is in its place and the base offset is possible."""
    while position + HEADER_BYTES <= stretch.size:
        chunk = stretch.file.read(min(SCAN_BYTES, stretch.size - position), position)
        at = chunk.find(MAGIC_BYTE, MAGIC_AT)
        while at >= 0:
            start = at - MAGIC_AT
            if expected < int.from_bytes(chunk[start : start + 8], "big") < stretch.limit:
                yield position + start
            at = chunk.find(MAGIC_BYTE, at + 1)
        position += max(len(chunk) - MAGIC_AT, 1)


def _leads_to_end(stretch: Stretch, position: int) -> bool:
    """Whether plausible batches follow each other from here to the end of the file."""
    while position < stretch.size:
        chunk = stretch.file.read(min(SCAN_BYTES, stretch.size - position), position)
        spans = walk(chunk)
        if spans:
            position += spans[-1].position + spans[-1].size
            continue
        try:
            position += read_header(chunk).size_bytes
        except InvalidInput:
            return False
    return position == stretch.size
