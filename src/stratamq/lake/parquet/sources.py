"""Where a cold file's bytes come from, and the window of them that Arrow sees.

Arrow never reads from the source itself. So what the source raises reaches the caller as it is,
what Arrow raises is damage, and the number of reads is ours to decide.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from stratamq.model.errors import CorruptObject


class Source(Protocol):
    """A file somewhere. Reads may come from any thread."""

    @property
    def size_bytes(self) -> int: ...

    def read_at(self, position: int, size: int) -> bytes:
        """Exactly these bytes, or an error."""

    def read_into(self, position: int, room: memoryview) -> None:
        """Read into memory that the caller has, as many bytes as fit."""


class Span(NamedTuple):
    """Bytes position..position+size-1 of a file."""

    position: int
    size: int


class BytesSource:
    """A file in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size_bytes(self) -> int:
        return len(self._data)

    def read_at(self, position: int, size: int) -> bytes:
        return self._data[position : position + size]

    def read_into(self, position: int, room: memoryview) -> None:
        room[:] = self.read_at(position, len(room))


class FileSource:
    """A file on this machine. Close it when done."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY)
        self._size = os.fstat(self._file).st_size

    @property
    def size_bytes(self) -> int:
        return self._size

    def read_at(self, position: int, size: int) -> bytes:
        return os.pread(self._file, size, position)

    def read_into(self, position: int, room: memoryview) -> None:
        if os.preadv(self._file, [room], position) != len(room):
            raise CorruptObject(f"the file ends before byte {position + len(room)}")

    def close(self) -> None:
        os.close(self._file)


class Window(io.RawIOBase):
    """A file of which only some pieces are there. Reading elsewhere finds the file cut off."""

    def __init__(self, size_bytes: int, pieces: Iterable[tuple[int, bytes]]) -> None:
        super().__init__()
        self._size = size_bytes
        self._pieces = [(position, memoryview(data)) for position, data in pieces]
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        stop = self._size if size < 0 else min(self._at + size, self._size)
        for position, data in self._pieces:
            if position <= self._at and stop <= position + len(data):
                found = bytes(data[self._at - position : stop - position])
                self._at = stop
                return found
        return b""
