"""Bytes on their way into a store, from memory or from a file, checked while they are read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stratamq.model.errors import CorruptObject, InvalidInput, StorageError
from stratamq.tiering.background import make_way
from stratamq.tiering.stores.attempts import Deadline
from stratamq.tiering.stores.contract import Pace
from stratamq.tiering.stores.sums import Sums
from stratamq.wire.crc import crc32c

PIECE_BYTES = 1 << 18

Content = bytes | Path


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadSource:
    """A run of bytes of an object, for one attempt. A file that is no longer what it was when it
    was summed is refused: the object would not fit its sums."""

    content: Content
    sums: Sums
    start: int
    stop: int
    deadline: Deadline
    pace: Pace | None = None

    def __len__(self) -> int:
        return self.stop - self.start

    def read(self) -> bytes:
        """Read all of it into memory, for parts. `start` and `stop` are block boundaries."""
        self._wait(len(self))
        data = self._bytes(self.start, self.stop)
        try:
            self.sums.check("file", self.start, data)
        except CorruptObject:
            raise self._changed() from None
        return data

    def pieces(self) -> Iterator[bytes]:
        """The whole object, a little at a time."""
        assert (self.start, self.stop) == (0, self.sums.size), "only the whole has one checksum"
        whole = 0
        for at in range(0, self.stop, PIECE_BYTES):
            piece = self._bytes(at, min(at + PIECE_BYTES, self.stop))
            self._wait(len(piece))
            self.deadline.check()
            whole = crc32c(piece, whole)
            yield piece
            make_way()
        if whole != self.sums.crc32c:
            raise self._changed()

    def _bytes(self, start: int, stop: int) -> bytes:
        if isinstance(self.content, bytes):
            return self.content[start:stop]
        data = read_slice(self.content, start, stop)
        if len(data) != stop - start:
            raise self._changed()
        return data

    def _wait(self, size: int) -> None:
        if self.pace:
            began = time.monotonic()
            self.pace(size)
            self.deadline.extend(time.monotonic() - began)

    def _changed(self) -> InvalidInput:
        return InvalidInput(f"{self.content!s:.200} changed while it was stored")


def read_slice(path: Path, start: int, stop: int) -> bytes:
    """Read a range of a local file, fewer bytes at its end. Its errors are not the store's."""
    try:
        with path.open("rb", buffering=0) as file:
            return read_range(file.fileno(), start, stop)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from None


def read_range(file: int, start: int, stop: int) -> bytes:
    """Read a range of an open file, fewer bytes at its end. Megabytes are not copied once more: a
    copy holds the GIL, which requests of clients need."""
    data = os.pread(file, stop - start, start)
    while len(data) < stop - start:
        more = os.pread(file, stop - start - len(data), start + len(data))
        if not more:
            break
        data += more
    return data
