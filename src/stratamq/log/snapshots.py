"""Snapshots of what a log says, at some of its offsets: the engine stores its producers in them.

A snapshot saves reading the log below its offset, and nothing else. So most are not synced: a
checksum inside shows what a power cut left of one. Once some of the log is offloaded they are
synced, since that part cannot be read here any more. No snapshot may outlive the log that it was
made of: it is removed before anything below it is cut, and the engine removes those above the end
of a log that it opens, before it writes there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from stratamq.log import names
from stratamq.log.disk import Disk, read_all
from stratamq.model.types import Offset


class Snapshots(Protocol):
    """Called by the shard's writer alone. StorageError or OSError where something fails."""

    def offsets(self) -> Sequence[Offset]:
        """Those there are, ascending."""

    def load(self, offset: Offset) -> bytes:
        """Empty when it cannot be read."""

    def save(self, offset: Offset, data: bytes, *, durable: bool = False) -> None:
        """With `durable` it survives a power cut."""

    def forget(self, offset: Offset) -> None: ...


class MemorySnapshots:
    """For logs in memory."""

    def __init__(self) -> None:
        self._kept: dict[Offset, bytes] = {}

    def offsets(self) -> Sequence[Offset]:
        return sorted(self._kept)

    def load(self, offset: Offset) -> bytes:
        return self._kept.get(offset, b"")

    def save(self, offset: Offset, data: bytes, *, durable: bool = False) -> None:
        self._kept[offset] = data

    def forget(self, offset: Offset) -> None:
        self._kept.pop(offset, None)


class FileSnapshots:
    """A file each, in the folder of the segments."""

    def __init__(self, disk: Disk, folder: Path, present: Iterable[str] | None = None) -> None:
        """`present` are the names in the folder, where the caller has listed them."""
        self._disk, self._folder = disk, folder
        found = map(names.offset_of_snapshot, disk.names(folder) if present is None else present)
        self._known = {offset for offset in found if offset is not None}

    def offsets(self) -> Sequence[Offset]:
        return sorted(self._known)

    def load(self, offset: Offset) -> bytes:
        with suppress(OSError):
            return read_all(self._disk, self._path(offset))
        return b""

    def save(self, offset: Offset, data: bytes, *, durable: bool = False) -> None:
        self._known.add(offset)
        file = self._disk.open(self._path(offset), create=True)
        file.truncate(0)
        file.write([data], 0)
        if durable:
            file.sync()
            self._disk.sync_folder(self._folder)

    def forget(self, offset: Offset) -> None:
        self._disk.unlink(self._path(offset))
        self._known.discard(offset)

    def _path(self, offset: Offset) -> Path:
        return self._folder / names.segment_file(offset, names.PRODUCERS)
