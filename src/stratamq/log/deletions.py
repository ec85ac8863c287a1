"""Offsets that were deleted one by one: a small append-only file beside the segments.

They are the user's decision, not an index: nothing could rebuild them, so they live apart from the
indexes and are synced before `add` returns. A frame is

    CRC32C of the rest: u32 | count: u32 | offsets: count * u64        (big-endian)

and a torn frame at the end is cut when the file is opened: its `add` had not returned.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Set
from pathlib import Path

from crc32c import crc32c

from stratamq.log.disk import Disk, read_all, replace_file
from stratamq.model.types import Offset

FRAME = struct.Struct(">II")
OFFSET_BYTES = 8


class Deletions:
    """After `add` the offsets are deleted for ever, also over a power cut, until `forget`."""

    __slots__ = ("_disk", "_offsets", "_path", "_size")

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk, self._path = disk, path
        data = read_all(disk, path) if disk.exists(path) else b""
        self._offsets, self._size = decode(data)
        if self._size < len(data):
            file = disk.open(path)
            file.truncate(self._size)
            file.sync()

    @property
    def offsets(self) -> Set[Offset]:
        return self._offsets

    def add(self, offsets: Iterable[Offset]) -> None:
        new = sorted(set(offsets) - self._offsets)
        if not new:
            return
        frame = encode(new)
        file = self._disk.open(self._path, create=True)
        file.write([frame], self._size)
        file.sync()
        if not self._size:
            self._disk.sync_folder(self._path.parent)
        self._size += len(frame)
        self._offsets.update(new)

    def forget(self, gone: Callable[[Offset], bool]) -> None:
        """Drop marks whose records are physically gone."""
        kept = {offset for offset in self._offsets if not gone(offset)}
        if len(kept) == len(self._offsets):
            return
        data = encode(sorted(kept)) if kept else b""
        replace_file(self._disk, self._path, data)
        self._offsets, self._size = kept, len(data)


def encode(offsets: list[Offset]) -> bytes:
    body = struct.pack(f">{len(offsets)}Q", *offsets)
    count = struct.pack(">I", len(offsets))
    return struct.pack(">I", crc32c(count + body)) + count + body


def decode(data: bytes) -> tuple[set[Offset], int]:
    """The offsets of all whole frames, and where the last whole frame ends."""
    offsets: set[Offset] = set()
    position = 0
    while position + FRAME.size <= len(data):
        crc, count = FRAME.unpack_from(data, position)
        end = position + FRAME.size + count * OFFSET_BYTES
        if end > len(data) or crc32c(data[position + 4 : end]) != crc:
            break
        offsets.update(struct.unpack_from(f">{count}Q", data, position + FRAME.size))
        position = end
    return offsets, position
