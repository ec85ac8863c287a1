"""The segments of a shard's folder, read from outside: without a node, or beside a running one.

Nothing here writes, takes a lock or trusts a byte: a damaged file is reported, whatever is in it.
Beside a running node a folder changes while it is read, so what looks like damage once may be a
write or a rewrite under way. It is damage when a second look finds it in the same place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from stratamq.log import names, start_offsets
from stratamq.log.disk import ReadOnlyDisk, RealFile, read_all
from stratamq.log.file_list import FileList
from stratamq.log.scan import Damage, Intact, Stretch, scan
from stratamq.model.errors import InvalidInput, StorageError
from stratamq.model.types import NO_TIMESTAMP, Offset, TimestampMs
from stratamq.wire.kafka.records import HEADER_BYTES, read_header


class StoredSegment(NamedTuple):
    """A `.log` file. All its offsets are at or above `base` and below `limit`; in one that is
    `whole`, they follow each other, and a gap is damage."""

    path: Path
    base: Offset
    limit: Offset
    size_bytes: int
    active: bool
    whole: bool


class SegmentDamage(NamedTuple):
    """What is wrong at a byte of a file, and the first offset that it may concern."""

    path: Path
    position: int
    offset: Offset
    text: str

    def as_json(self) -> dict[str, object]:
        return {
            "file": str(self.path),
            "position": self.position,
            "offset": self.offset,
            "text": self.text,
        }


class SegmentSummary(NamedTuple):
    """What the headers of a file's batches say. `end` is the offset after the last of them;
    `readable` when they lead to the end of the file."""

    batches: int
    records: int
    end: Offset
    max_timestamp: TimestampMs
    readable: bool


def stored_segments(folder: Path) -> list[StoredSegment]:
    """The segments that are there, oldest first. The newest is the active one."""
    sizes = _log_sizes(folder)
    bases = sorted(sizes)
    limits = dict(pairwise(bases))
    whole = FileList(ReadOnlyDisk(), folder).whole
    return [
        StoredSegment(
            path=folder / names.segment_file(base, names.LOG),
            base=base,
            limit=limits.get(base, Offset(names.OFFSET_MAX)),
            size_bytes=sizes[base],
            active=base == bases[-1],
            whole=base in whole,
        )
        for base in bases
    ]


def _log_sizes(folder: Path) -> dict[Offset, int]:
    """Of what can be looked at: a running node removes files."""
    found: dict[Offset, int] = {}
    for path in folder.iterdir():
        base = names.base_of_log(path.name)
        try:
            if base is not None:
                found[base] = path.stat().st_size
        except FileNotFoundError:
            continue
    return found


def stored_start(folder: Path, name: str) -> Offset | None:
    """The number in `start-offset` or `local-start-offset`: 0 without such a file, None when it
    cannot be read."""
    try:
        return start_offsets.decode(read_all(ReadOnlyDisk(), folder / name))
    except FileNotFoundError:
        return Offset(0)
    except (OSError, StorageError):
        return None


def summarize(segment: StoredSegment) -> SegmentSummary:
    """Hop from header to header. No CRC is checked, and no record is read."""
    file = RealFile(segment.path, os.O_RDONLY)
    size, position, end = file.size(), 0, segment.base
    batches, records, newest = 0, 0, NO_TIMESTAMP
    while position < size:
        try:
            header = read_header(file.read(HEADER_BYTES, position))
        except InvalidInput:
            break
        fits = end <= header.base_offset <= header.last_offset < segment.limit
        if not fits or not 0 <= header.record_count <= header.last_offset_delta + 1:
            break
        if header.size_bytes > size - position:
            break
        position, end = position + header.size_bytes, header.next_offset
        batches, records = batches + 1, records + header.record_count
        newest = max(newest, header.max_timestamp)
    return SegmentSummary(batches, records, end, newest, readable=position == size)


def batches_of(segment: StoredSegment) -> Iterator[Intact | SegmentDamage]:
    """Every batch whose CRC fits and which stands where its neighbours say it belongs, and the
    damage between them, in the order of the file."""
    file = RealFile(segment.path, os.O_RDONLY)
    stretch = Stretch(file, file.size(), segment.limit, gaps=not segment.whole)
    expected, is_reported = segment.base, False
    for found in scan(stretch, 0, segment.base):
        if isinstance(found, Damage):
            yield SegmentDamage(segment.path, found.position, expected, _extent(found, stretch))
            is_reported = True
            continue
        first = found.header.base_offset
        if segment.whole and first > expected and not is_reported:
            text = f"offsets {expected} to {first - 1} are missing"
            yield SegmentDamage(segment.path, found.position, expected, text)
        expected, is_reported = found.header.next_offset, False
        yield found


def _extent(damage: Damage, stretch: Stretch) -> str:
    if damage.end is None:
        return f"no batch can be read in the last {stretch.size - damage.position} bytes"
    return f"{damage.end - damage.position} bytes are no batches whose CRC and offsets fit"
