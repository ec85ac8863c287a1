"""Copying a shard's folder for a backup while the shard is written to.

The copy holds the log as it was when it ended at a given offset, and opens like a folder after a
crash. `take` is called by the shard's writer, again and again, and is short: it links segments that
are full, opens what has to be copied and reads the small files. After each call, `write` copies
without holding up the writer.

| file                                   | in the copy                                            |
|----------------------------------------|--------------------------------------------------------|
| a sealed segment that ends by the end  | a link, with its sidecars: a rewrite gives its name to |
|                                        | a new file. A copy where the file system cannot link   |
| the segment that holds the end         | a copy of its batches below the end, without sidecars  |
| segments above the end                 | no: the file list says that they were removed          |
| `file-list`                            | as it is after the last segment was taken, with that   |
| producers' snapshots above the end     | no                                                     |
| the other small files                  | as they are: recovery drops what they say of offsets   |
|                                        | that the log does not have                             |
| what never came into force, torn tails | no                                                     |

Segments that are removed or rewritten between two calls do no harm: the file list says so, and
recovery does the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from stratamq.log import names, reader
from stratamq.log.checked_lines import encode_lines
from stratamq.log.disk import PRIVATE_FILE, PRIVATE_FOLDER, Disk, Readable, read_all
from stratamq.log.file_list import AND
from stratamq.log.segment import LostSegment, Segment
from stratamq.log.segment_list import SegmentList
from stratamq.log.sidecar import SIDECARS
from stratamq.model.types import Offset

SEGMENTS_AT_ONCE = 16
"""Taken by one call: the shard's producers wait meanwhile."""

CHUNK_BYTES = 1 << 20
SYNC_BYTES = 16 << 20
"""Synced after so many bytes: one long sync at the end would hold up those of the node's logs."""

SMALL_FILES = (names.SPEC, names.EPOCHS, names.DELETIONS, names.START_OFFSET, names.LOCAL_START)

OnBytes = Callable[[int], None]
"""Called with the number of bytes that were copied. It may raise, to end the copying."""


def copy_bytes(source: Readable, size: int, target: Path, on_bytes: OnBytes) -> None:
    """The first `size` bytes of a file as a new one, synced."""
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    with os.fdopen(fd, "wb", buffering=0) as file:
        unsynced = position = 0
        while position < size:
            chunk = source.read(min(CHUNK_BYTES, size - position), position)
            if not chunk:
                raise OSError(f"{target}: its source ends at byte {position}, not {size}")
            position += file.write(chunk)
            unsynced += len(chunk)
            on_bytes(len(chunk))
            if unsynced >= SYNC_BYTES:
                os.fdatasync(fd)
                unsynced = 0
        os.fdatasync(fd)


class Part(NamedTuple):
    """So many bytes of an open file are to be copied to a file of this name. A segment without
    timestamps is as old as its file."""

    name: str
    file: Readable
    size: int
    modified_ms: int


class ShardCopy:
    """See the module. `is_whole` once nothing is left to take."""

    def __init__(
        self, disk: Disk, folder: Path, segments: SegmentList, target: Path, end: Offset
    ) -> None:
        self._disk, self._folder, self._segments = disk, folder, segments
        self.target, self._end = target, end
        self._taken: set[Offset] = set()
        self._parts: list[Part] = []
        self._small: dict[str, bytes] = {}
        self.is_whole = False

    def take(self) -> None:
        """Errors are OSError and StorageError."""
        self.target.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        wanted = [one for one in self._segments.all if one.base <= self._end]
        left = [one for one in wanted if one.base not in self._taken]
        for segment in left[:SEGMENTS_AT_ONCE]:
            self._taken.add(segment.base)
            if isinstance(segment, LostSegment):
                continue
            if self._is_cut(segment):
                self._copy_later(segment.path, self._position_of_end(segment))
            else:
                for path in (segment.path, *map(segment.sidecar, SIDECARS)):
                    self._link(path)
        if len(left) <= SEGMENTS_AT_ONCE:
            self._take_small_files()
            self.is_whole = True

    def _is_cut(self, segment: Segment) -> bool:
        """Whether the segment is active in the copy."""
        return segment is self._segments.active or segment.end > self._end

    def _position_of_end(self, segment: Segment) -> int:
        if segment.end <= self._end:
            return segment.size
        position = reader.locate(segment.view(segment.size), self._end)
        return segment.size if position is None else position

    def _link(self, path: Path) -> None:
        try:
            self._disk.link(path, self.target / path.name)
        except FileNotFoundError:
            return  # a sidecar: it is rebuilt
        except OSError:  # another file system, or one that cannot
            self._copy_later(path, self._disk.size(path))

    def _copy_later(self, path: Path, size: int) -> None:
        file, modified_ms = self._disk.open(path), self._disk.modified_ms(path)
        self._parts.append(Part(path.name, file, size, modified_ms))

    def _take_small_files(self) -> None:
        for name in self._disk.names(self._folder):
            snapshot = names.offset_of_snapshot(name)
            if name in SMALL_FILES or (snapshot is not None and snapshot <= self._end):
                with suppress(FileNotFoundError):
                    self._small[name] = read_all(self._disk, self._folder / name)
        if self._disk.exists(self._folder / names.FILE_LIST):
            data = read_all(self._disk, self._folder / names.FILE_LIST)
            self._small[names.FILE_LIST] = data + self._changes_of_list()

    def _changes_of_list(self) -> bytes:
        """What the copy's list says besides: segments above the end were removed, and the one that
        holds the end is not sealed."""
        lines = [f"removed {one.base}" for one in self._segments.all if one.base > self._end]
        lines += [
            f"segment {one.base}"
            for one in self._segments.all[:-1]
            if one.base <= self._end < one.end
        ]
        return encode_lines([AND.join(lines)]) if lines else b""

    def write(self, on_bytes: OnBytes) -> None:
        parts, self._parts = self._parts, []
        for name, file, size, modified_ms in parts:
            copy_bytes(file, size, self.target / name, on_bytes)
            os.utime(self.target / name, ns=(modified_ms * 1_000_000,) * 2)
        small, self._small = self._small, {}
        for name, data in small.items():
            path = self.target / name
            path.touch(PRIVATE_FILE)
            path.write_bytes(data)
            on_bytes(len(data))
