"""Reading batches out of a segment file: locate, read whole ones, and step over damage.

A batch is *intact* when its header is plausible, its bytes are all there and its CRC fits.
Everything that leaves this module is intact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from stratamq.log.disk import File
from stratamq.model.errors import CorruptRecord, InvalidInput
from stratamq.model.types import Offset, Position
from stratamq.wire.kafka.records import BatchHeader, find_batch, read_header, walk

WINDOW_BYTES = 128 << 10
"""Read at once while looking for an offset: about one stretch between two index points."""

SCAN_BYTES = 4 << 20
"""Read at once while scanning a whole segment."""

HEADER_BYTES = 61
CRC_AT = 17
CRC_FROM = 21
MAGIC_AT = 16
MAGIC = b"\x02"


class Intact(NamedTuple):
    """One whole batch of a scan."""

    position: Position
    header: BatchHeader
    data: bytes


class Damage(NamedTuple):
    """A stretch that is not made of intact batches. `end` is None when nothing intact follows."""

    position: Position
    end: Position | None


def locate(file: File, size: int, position: int, offset: Offset) -> int | None:
    """Position of the first batch that ends at or after `offset`; None when the file has none.

    `position` must be the start of a batch. Where the way is blocked by damage, the answer is the
    damage: the caller that reads there reports it.
    """
    while position < size:
        chunk = file.read(min(WINDOW_BYTES, size - position), position)
        found = find_batch(chunk, offset)
        if found >= 0:
            return position + found
        hop = _end_of_spans(chunk) or _size_of_large(chunk, size - position, offset)
        if not hop:
            return position
        position += hop
    return None


def _end_of_spans(chunk: bytes) -> int:
    spans = walk(chunk)
    return spans[-1].position + spans[-1].size if spans else 0


def _size_of_large(chunk: bytes, room: int, offset: Offset) -> int:
    """Size of a batch that does not fit the window and ends before `offset`; 0 if it is not
    that."""
    try:
        header = read_header(chunk)
    except InvalidInput:
        return 0
    return header.size_bytes if header.size_bytes <= room and header.last_offset < offset else 0


def read_intact(file: File, size: int, position: int, max_bytes: int, end: Offset) -> bytes:
    """Intact batches from `position` on: as many as fit `max_bytes`, at least one, all below `end`.

    Empty when the first batch reaches past `end`; None of the promises hold for a damaged first
    batch: that raises InvalidInput, for the caller to explain.
    """
    room = size - position
    chunk = file.read(min(max(max_bytes, HEADER_BYTES), room), position)
    header = read_header(chunk)
    if header.last_offset >= end:
        return b""
    if header.size_bytes > len(chunk):
        chunk = file.read(min(header.size_bytes, room), position)
    return chunk[: _intact_bytes(chunk, max_bytes, end)]


def _intact_bytes(chunk: bytes, max_bytes: int, end: Offset) -> int:
    view = memoryview(chunk)
    stop = 0
    for position, size, _, last_offset, _ in walk(chunk):
        after = position + size
        if last_offset >= end or (after > max_bytes and stop):
            break
        if not crc_fits(view[position:after]):
            break
        stop = after
    if not stop:
        raise InvalidInput("its checksum does not fit")
    return stop


def crc_fits(batch: memoryview) -> bool:
    return crc32c(batch[CRC_FROM:]) == int.from_bytes(batch[CRC_AT:CRC_FROM], "big")


def scan(file: File, size: int, position: int, expected: Offset) -> Iterator[Intact | Damage]:
    """Everything from `position` to `size`, in order, intact batches and the damage between
    them."""
    while position < size:
        chunk = file.read(min(SCAN_BYTES, size - position), position)
        used = 0
        for batch in _intact_of(chunk, position, expected):
            used = batch.position + batch.header.size_bytes - position
            expected = Offset(batch.header.next_offset)
            yield batch
        position += used
        if not used:
            large = _large_batch(file, size, position, expected)
            if large is None:
                resume = next_intact(file, size, position, expected)
                yield Damage(Position(position), resume)
                if resume is None:
                    return
                position = resume
            else:
                yield large
                position += large.header.size_bytes
                expected = Offset(large.header.next_offset)


def _intact_of(chunk: bytes, start: int, expected: Offset) -> Iterator[Intact]:
    view = memoryview(chunk)
    for position, size, base_offset, last_offset, _ in walk(chunk):
        if base_offset < expected or not crc_fits(view[position : position + size]):
            return
        expected = Offset(last_offset + 1)
        data = chunk[position : position + size]
        yield Intact(Position(start + position), read_header(data), data)


def _large_batch(file: File, size: int, position: int, expected: Offset) -> Intact | None:
    """The batch at `position` if it is intact, however large."""
    try:
        header = read_header(file.read(HEADER_BYTES, position))
    except InvalidInput:
        return None
    if header.base_offset < expected or header.size_bytes > size - position:
        return None
    data = file.read(header.size_bytes, position)
    if len(data) < header.size_bytes or not crc_fits(memoryview(data)):
        return None
    return Intact(Position(position), header, data)


def next_intact(file: File, size: int, position: int, expected: Offset) -> Position | None:
    """Where the next intact batch begins after the damage at `position`.

    Usually the damaged batch's own length still leads there. If not, every magic byte is a
    candidate.
    """
    try:
        hop = position + read_header(file.read(HEADER_BYTES, position)).size_bytes
    except InvalidInput:
        hop = size
    if hop < size and _large_batch(file, size, hop, expected) is not None:
        return Position(hop)
    return _search(file, size, position + 1, expected)


def _search(file: File, size: int, position: int, expected: Offset) -> Position | None:
    while position + HEADER_BYTES <= size:
        chunk = file.read(min(SCAN_BYTES, size - position), position)
        at = chunk.find(MAGIC, MAGIC_AT)
        while at >= 0:
            candidate = position + at - MAGIC_AT
            if _large_batch(file, size, candidate, expected) is not None:
                return Position(candidate)
            at = chunk.find(MAGIC, at + 1)
        position += max(len(chunk) - MAGIC_AT, 1)
    return None


def explain(
    file: File, path: str, size: int, position: int, offset: Offset, end: Offset, reason: str
) -> CorruptRecord:
    """The error for damage at `position`: which offsets cannot be read, and where reading may go
    on."""
    resume = next_intact(file, size, position, offset)
    next_offset = end
    if resume is not None:
        next_offset = Offset(read_header(file.read(HEADER_BYTES, resume)).base_offset)
    return CorruptRecord(path, position, offset, max(next_offset, offset + 1), reason)
