"""Where a log begins, and where the part of it begins that is stored here: a small file for each.

    1042 5e8a5a86

is the number and the CRC32C of its digits. Without the checksum a flipped bit could put the start
above every record, and a log whose start lies past its end is taken for one that was trimmed.
"""

from __future__ import annotations

from pathlib import Path

from stratamq.log import names
from stratamq.log.disk import Disk, replace_file
from stratamq.log.file_list import FileList
from stratamq.model.errors import StorageError
from stratamq.model.types import Offset
from stratamq.wire.crc import crc32c


class StartOffsets:
    """`start` is the first offset that may be read. Everything below `offloaded` was offloaded to
    object storage, or trimmed. Both are durable when their `save` returns."""

    __slots__ = ("_disk", "_files", "_folder", "offloaded", "start")

    def __init__(
        self, disk: Disk, folder: Path, files: FileList, start: Offset, offloaded: Offset
    ) -> None:
        self._disk, self._folder, self._files = disk, folder, files
        self.start, self.offloaded = start, offloaded

    def save_start(self, start: Offset) -> None:
        replace_file(self._disk, self._folder / names.START_OFFSET, encode(start))
        self._files.note_beside(names.START_OFFSET)
        self.start = start

    def save_offloaded(self, offset: Offset) -> None:
        replace_file(self._disk, self._folder / names.LOCAL_START, encode(offset))
        self._files.note_beside(names.LOCAL_START)
        self.offloaded = offset


def encode(start: Offset) -> bytes:
    digits = str(start)
    return f"{digits} {crc32c(digits.encode()):08x}\n".encode()


def decode(data: bytes) -> Offset:
    digits, _, _ = data.partition(b" ")
    if not digits.isdigit() or data != encode(Offset(int(digits))):
        raise StorageError("the start offset does not match its checksum")
    return Offset(int(digits))
