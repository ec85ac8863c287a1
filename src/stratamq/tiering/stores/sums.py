"""Checksums of an object: one of the whole and one per block, so that ranges can be checked too.

They are stored with the object as one line of text (S3: user metadata, files: an extended
attribute), which must fit S3's 2 KB: hence at most 256 blocks, and larger blocks for larger
objects. The format is in docs/formats/object-sums.md.
"""

from __future__ import annotations

import base64
import binascii
import io
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stratamq.model.errors import CorruptObject, InvalidInput, StorageError
from stratamq.tiering.background import make_way
from stratamq.wire.crc import crc32c

VERSION = "1"
MIB = 1 << 20
BLOCKS_MAX = 256
BLOCK_BYTES_MIN = MIB
OBJECT_BYTES_MAX = 16 << 30
TEXT_BYTES_MAX = 1536

assert BLOCKS_MAX * 4 * 4 // 3 + 64 < TEXT_BYTES_MAX, "S3 keeps 2 KB of metadata in all"


@dataclass(frozen=True, slots=True)
class Sums:
    """CRC32C of an object of `size` bytes, and of each block of `block_bytes` (the last: fewer)."""

    size: int
    block_bytes: int
    crc32c: int
    blocks: tuple[int, ...]

    def widened(self, start: int, stop: int) -> tuple[int, int]:
        """Widen a range to whole blocks: less cannot be checked."""
        first = start - start % self.block_bytes
        last = -(-stop // self.block_bytes) * self.block_bytes
        return first, min(last, self.size)

    def check(self, key: str, start: int, data: bytes | memoryview) -> None:
        """CorruptObject unless `data`, which begins and ends with a block, is what was stored."""
        assert start % self.block_bytes == 0, "only whole blocks can be checked"
        view = memoryview(data)
        for at in range(0, len(view), self.block_bytes):
            block = (start + at) // self.block_bytes
            if crc32c(view[at : at + self.block_bytes]) != self.blocks[block]:
                raise CorruptObject(f"{key}: wrong bytes from {start + at} on")

    def encode(self) -> str:
        blocks = base64.b64encode(struct.pack(f"<{len(self.blocks)}I", *self.blocks)).decode()
        text = f"{VERSION}:{self.size}:{self.block_bytes}:{self.crc32c:08x}:{blocks}"
        return f"{text}:{crc32c(text.encode()):08x}"


def decode(key: str, text: str) -> Sums:
    """Return what `encode` wrote, or raise CorruptObject: the line ends with its own checksum."""
    body, _, own = text.rpartition(":")
    fields = body.split(":")
    if own != f"{crc32c(body.encode()):08x}" or len(fields) != 5 or fields[0] != VERSION:
        raise CorruptObject(f"{key}: its checksums cannot be read")
    try:
        packed = base64.b64decode(fields[4], validate=True)
        blocks = struct.unpack(f"<{len(packed) // 4}I", packed)
        return Sums(int(fields[1]), int(fields[2]), int(fields[3], 16), blocks)
    except (binascii.Error, struct.error, ValueError):
        raise CorruptObject(f"{key}: its checksums cannot be read") from None


def block_bytes_of(size: int) -> int:
    """The smallest power of two, of a mebibyte or more, that needs at most 256 blocks."""
    if size > OBJECT_BYTES_MAX:
        raise InvalidInput(f"an object of {size} bytes is over the limit of {OBJECT_BYTES_MAX}")
    needed = -(-size // BLOCKS_MAX)
    return max(BLOCK_BYTES_MIN, 1 << (needed - 1).bit_length() if needed else 0)


def sum_bytes(data: bytes) -> Sums:
    step = block_bytes_of(len(data))
    view = memoryview(data)
    blocks, whole = [], 0
    for at in range(0, len(data), step):
        block = view[at : at + step]
        blocks.append(crc32c(block))
        whole = crc32c(block, whole)
    return Sums(len(data), step, whole, tuple(blocks))


def sum_file(path: Path) -> Sums:
    """Sum a file, which is read once, a mebibyte at a time."""
    try:
        with path.open("rb", buffering=0) as file:
            return _sum_open(file, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from None


def _sum_open(file: io.FileIO, size: int) -> Sums:
    step = block_bytes_of(size)
    blocks, whole, done = [], 0, 0
    while done < size:
        block, end = 0, min(done + step, size)
        while done < end:
            piece = file.read(min(MIB, end - done))
            if not piece:
                raise InvalidInput(f"{file.name} became shorter while it was read")
            block, whole, done = crc32c(piece, block), crc32c(piece, whole), done + len(piece)
            make_way()
        blocks.append(block)
    return Sums(size, step, whole, tuple(blocks))


def windows(start: int, stop: int, sums: Sums | None, step: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of at most `step` bytes, or a block, from `start` to `stop`. They meet at
    block boundaries: no block is read twice."""
    step = max(step, sums.block_bytes) if sums else step
    while start < stop:
        end = min(start - start % step + step, stop)
        yield start, end
        start = end
