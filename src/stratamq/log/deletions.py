"""Offsets that were deleted one by one: a small append-only file beside the segments.

They are the user's decision, not an index: nothing could rebuild them, so they live apart from the
indexes and are synced before `add` returns. A frame is

    CRC32C of the rest: u32 | count: u32 | offsets: count * u64        (big-endian)

and a torn frame at the end is cut when the file is opened: its `add` had not returned. A copy of
the file is kept then, since damage may look the same. A damaged frame before others is reported and
stepped over: frames begin at multiples of eight, and each has its checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from stratamq.log import names
from stratamq.log.disk import Disk, read_all, replace_file
from stratamq.model.types import Offset
from stratamq.wire.crc import crc32c

FRAME = struct.Struct(">II")
OFFSET_BYTES = 8
FRAME_OFFSETS = 512
"""Offsets in one frame when the file is written again: damage costs one frame."""


class Deletions:
    """After `add` the offsets are deleted for ever, also over a power cut, until `forget`."""

    __slots__ = ("_disk", "_path", "_size", "damage", "offsets")

    def __init__(self, disk: Disk, path: Path, *, fresh: bool = False) -> None:
        """With `fresh` there is no file to look for."""
        self._disk, self._path = disk, path
        data = read_all(disk, path) if not fresh and disk.exists(path) else b""
        frames = decode(data)
        self.offsets, self._size = frames.offsets, frames.end
        self.damage = [f"{path}: damaged at byte {position}" for position in frames.damaged]
        if self._size < len(data):
            self._cut(data)

    def _cut(self, data: bytes) -> None:
        """What follows the last whole frame is torn, or damaged: which of the two is not known,
        so a copy of all is stored."""
        copy = self._path.with_name(self._path.name + names.DAMAGED)
        replace_file(self._disk, copy, data)
        self.damage.append(f"{self._path}: cut what cannot be read from byte {self._size} on")
        file = self._disk.open(self._path)
        file.truncate(self._size)
        file.sync()

    def add(self, offsets: Iterable[Offset]) -> None:
        new = sorted(set(offsets) - self.offsets)
        if not new:
            return
        frame = encode(new)
        file = self._disk.open(self._path, create=True)
        file.write([frame], self._size)
        file.sync()
        if not self._size:
            self._disk.sync_folder(self._path.parent)
        self._size += len(frame)
        self.offsets.update(new)

    def forget(self, gone: Callable[[Offset], bool]) -> None:
        """Drop marks whose records are physically gone."""
        kept = {offset for offset in self.offsets if not gone(offset)}
        if len(kept) == len(self.offsets):
            return
        left = sorted(kept)
        data = b"".join(
            encode(left[at : at + FRAME_OFFSETS]) for at in range(0, len(left), FRAME_OFFSETS)
        )
        replace_file(self._disk, self._path, data)
        self.offsets, self._size = kept, len(data)


def encode(offsets: list[Offset]) -> bytes:
    body = struct.pack(f">{len(offsets)}Q", *offsets)
    count = struct.pack(">I", len(offsets))
    return struct.pack(">I", crc32c(count + body)) + count + body


class Frames(NamedTuple):
    """What a file holds: the offsets of all whole frames, where the last of them ends, and where
    damage between them begins."""

    offsets: set[Offset]
    end: int
    damaged: list[int]


def decode(data: bytes) -> Frames:
    frames = Frames(set(), 0, [])
    position = 0
    while position + FRAME.size <= len(data):
        end = _end_of_frame(data, position)
        if end is None:
            position += OFFSET_BYTES
            continue
        if position > frames.end:
            frames.damaged.append(frames.end)
        count = (end - position - FRAME.size) // OFFSET_BYTES
        frames.offsets.update(struct.unpack_from(f">{count}Q", data, position + FRAME.size))
        frames, position = frames._replace(end=end), end
    return frames


def _end_of_frame(data: bytes, position: int) -> int | None:
    """Where the frame at `position` ends, if there is a whole one."""
    crc, count = FRAME.unpack_from(data, position)
    end = position + FRAME.size + count * OFFSET_BYTES
    if not count or end > len(data) or crc32c(data[position + 4 : end]) != crc:
        return None
    return int(end)
