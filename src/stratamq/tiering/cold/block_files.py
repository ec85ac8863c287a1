"""Blocks of objects as files on the local disk, within a limit. docs/formats/cold-cache.md.

Objects never change and their names are never used again, so a block that is right stays right: the
cache survives restarts, and with it what its blocks cost to fetch. Nothing is synced; a block that
a crash tore does not match its checksum, and is then as good as not there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from stratamq.log.disk import PRIVATE_FOLDER
from stratamq.wire.crc import crc32c

log = logging.getLogger(__name__)

MAGIC = b"SCB1"
HEAD = Struct("<4sI")
"""magic, CRC32C of the object's key, the block's number and its bytes (little-endian)."""

DIGEST_BYTES = 16
TEMPORARY = "tmp-"
REST_S = 60.0
"""How long nothing is written after the disk refused: asking it each time would only slow reads."""


class BlockName(NamedTuple):
    key: str
    number: int

    @property
    def file_name(self) -> str:
        digest = blake2b(self.key.encode(), digest_size=DIGEST_BYTES).hexdigest()
        return f"{digest}.{self.number}"

    def sum_of(self, data: bytes | memoryview) -> int:
        return crc32c(data, crc32c(f"{self.key}\0{self.number}\0".encode()))


class BlockFiles:
    """May be called from any thread. No call raises because of the disk: a cache that does not
    work is slow, nothing else. Recency is known since the start; before that, by age."""

    def __init__(
        self, folder: Path, bytes_max: int, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder, self._bytes_max, self._now = folder, bytes_max, now
        self._lock = threading.Lock()
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0
        self._rest_until = 0.0
        self._take_over()

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def is_writing(self) -> bool:
        """Whether a block that is put now would be stored."""
        return self._bytes_max > 0 and self._now() >= self._rest_until

    def has(self, name: BlockName) -> bool:
        return name.file_name in self._sizes

    def get(self, name: BlockName) -> memoryview | None:
        """Return the block, if it is here and right. One that is missing or damaged is dropped."""
        file_name = name.file_name
        with self._lock:
            if file_name not in self._sizes:
                return None
            self._sizes.move_to_end(file_name)
        with contextlib.suppress(OSError):
            data = (self._folder / file_name).read_bytes()
            block = memoryview(data)[HEAD.size :]
            if len(data) >= HEAD.size and HEAD.unpack_from(data) == (MAGIC, name.sum_of(block)):
                return block
            log.warning("block %d of %s is damaged in the cache: dropped", name.number, name.key)
        self.drop(name)
        return None

    def put(self, name: BlockName, data: memoryview) -> None:
        size = HEAD.size + len(data)
        if not self.is_writing() or size > self._bytes_max or self.has(name):
            return
        self._make_room(size)
        try:
            temporary = self._write(name, data)
            with self._lock:
                temporary.rename(self._folder / name.file_name)
                self._bytes -= self._sizes.pop(name.file_name, 0)
                self._sizes[name.file_name] = size
            self._make_room(0)  # blocks that are written at the same time do not see each other
        except OSError as error:
            self._rest_until = self._now() + REST_S
            log.warning("the cache of history takes nothing for %g s: %s", REST_S, error)
            with self._lock:
                self._bytes -= size

    def drop(self, name: BlockName) -> None:
        with self._lock:
            if (size := self._sizes.pop(name.file_name, None)) is not None:
                self._bytes -= size
                self._remove(name.file_name)

    def _make_room(self, size: int) -> None:
        """Set the bytes aside; the oldest go for it. Files come and go under the lock, so that what
        is known of them is true."""
        with self._lock:
            self._bytes += size
            while self._bytes > self._bytes_max and self._sizes:
                name, freed = self._sizes.popitem(last=False)
                self._bytes -= freed
                self._remove(name)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._folder / name).unlink()

    def _write(self, name: BlockName, data: memoryview) -> Path:
        """Write a block under a temporary name. It is renamed when it is whole: a process that is
        killed leaves no half block."""
        temporary = self._folder / f"{TEMPORARY}{secrets.token_hex(8)}"
        try:
            with temporary.open("xb", buffering=0) as file:
                descriptor = file.fileno()
                head = HEAD.pack(MAGIC, name.sum_of(data))
                written = os.writev(descriptor, [head, data])
                rest = (
                    memoryview(head + bytes(data))[written:]
                    if written < len(head) + len(data)
                    else memoryview(b"")
                )
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
        except OSError:
            self._remove(temporary.name)
            raise
        return temporary

    def _take_over(self) -> None:
        """What an earlier process left: whole blocks stay, the oldest as far as there is room."""
        try:
            self._folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
            found = [(entry.stat(), entry.name) for entry in os.scandir(self._folder)]
        except OSError as error:
            log.warning("the cache of history cannot be used: %s", error)
            self._bytes_max = 0
            return
        whole = [(stat, name) for stat, name in found if not name.startswith(TEMPORARY)]
        for stat, name in sorted(whole, key=lambda one: one[0].st_mtime_ns):
            self._sizes[name] = stat.st_size
            self._bytes += stat.st_size
        for _, name in found:
            if name.startswith(TEMPORARY):
                self._remove(name)
        self._make_room(0)
