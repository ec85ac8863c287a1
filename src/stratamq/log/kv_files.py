"""The files of a RocksDB, as they are checked before it is opened for writing.

RocksDB takes the part of a database that it finds for the whole. Without CURRENT, with a MANIFEST
that was cut at a record's end, or with a write-ahead log that is lost or cut, it opens an older
database, writes that down and removes the files of the rest. Two notes beside its files say what
has been there:

| file            | content                                                                  |
|-----------------|--------------------------------------------------------------------------|
| `manifest-size` | `MANIFEST-000005 1234`: that file has at least so many bytes              |
| `synced-writes` | number of the last write that was synced (20 digits), CRC-32 (8, hex)    |

Without a note, nothing is compared.
"""

from __future__ import annotations

import os
import re
import shutil
import zlib
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from stratamq.log.disk import PRIVATE_FOLDER, RealDisk, replace_file
from stratamq.model.damage import report_damage
from stratamq.model.errors import KVDamaged

MANIFEST_NOTE = "manifest-size"
SYNCED_NOTE = "synced-writes"
_MANIFEST_LINE = re.compile(r"(MANIFEST-\d+) (\d+)\n")
_SYNCED_LINE = re.compile(rb"(\d{20}) ([0-9a-f]{8})\n")

DATABASE_FILES = re.compile(r"(MANIFEST-|IDENTITY|OPTIONS-|CURRENT).*|\d+\.(sst|log)")
"""Names of what a RocksDB cannot be without: its tables end with `.sst`, its write-ahead logs with
`.log`."""

OTHER_FILES = re.compile(r"(IDENTITY|OPTIONS-|CURRENT).*|\d+\.log|rocksdict-config\.json")
"""What is copied with the tables and the MANIFEST."""

TABLE_END = bytes.fromhex("f7cff485b741e288")
"""The last bytes of a table. RocksDB writes them when it has nothing more to write."""

COPY_ATTEMPTS_MAX = 50
"""Of a database whose tables change all the time."""


def check_files(path: Path) -> None:
    """Raise KVDamaged unless the names and sizes are those of a whole database, or of none yet."""
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        raise KVDamaged(f"{path} is not a folder")
    found = sorted(file.name for file in path.iterdir())
    for file in (path / name for name in found):
        # Opening a pipe would wait for ever. A running database removes files meanwhile.
        if not file.is_file() and not file.is_dir() and os.path.lexists(file):
            raise KVDamaged(f"{file} is not a regular file")
    files = [name for name in found if DATABASE_FILES.fullmatch(name)]
    if "CURRENT" not in files:
        left = files or [name for name in found if name == SYNCED_NOTE and read_synced(path)]
        if left:
            raise KVDamaged(f"{path}: CURRENT is missing, but {left[0]} is there")
        return
    noted = path / MANIFEST_NOTE
    if not noted.exists():
        return
    if not any(name.endswith(".log") for name in files):
        raise KVDamaged(f"{path}: the write-ahead log is missing")
    if note := _MANIFEST_LINE.fullmatch(noted.read_text(errors="replace")):
        manifest, size = path / note[1], int(note[2])
        if manifest.exists() and manifest.stat().st_size < size:
            raise KVDamaged(f"{manifest} is shorter than it was ({size} bytes)")


def note_manifest(path: Path) -> None:
    """The MANIFEST is only ever appended to: the size that is noted here is its least."""
    manifest = (path / "CURRENT").read_text().strip()
    size = (path / manifest).stat().st_size
    replace_file(RealDisk(), path / MANIFEST_NOTE, f"{manifest} {size}\n".encode())


def read_synced(path: Path) -> int:
    """The number of the last write that was synced; 0 where that is not known."""
    try:
        line = (path / SYNCED_NOTE).read_bytes()
    except FileNotFoundError:
        return 0
    note = _SYNCED_LINE.fullmatch(line)
    if note is None or zlib.crc32(note[1]) != int(note[2], 16):
        report_damage(f"{path / SYNCED_NOTE}: damaged; writes that were lost cannot be noticed")
        return 0
    return int(note[1])


def copy_live(source: Path, target: Path, live_tables: Callable[[], Collection[str]]) -> bool:
    """Copy a database that is open and written to into a new folder, with links to its tables.
    `live_tables` returns the names of those that RocksDB reads from: they are finished.

    RocksDB changes which tables and write-ahead logs count by appending to its MANIFEST, and
    removes files only after that. So a copy is whole if the MANIFEST was the same before and after
    it; what the write-ahead log got meanwhile does no harm, and neither do tables that do not count
    yet or any more. Until then it is tried again, with few new tables to link each time. False when
    that does not end.
    """
    target.mkdir(PRIVATE_FOLDER)
    for _ in range(COPY_ATTEMPTS_MAX):
        with suppress(FileNotFoundError):  # removed meanwhile
            _copy_tables(source, target, live_tables())
            before = _manifest(source)
            _copy_tables(source, target, live_tables())
            _copy_others(source, target, *before)
            if _manifest(source) == before:
                return True
    return False


def _manifest(path: Path) -> tuple[str, int]:
    name = (path / "CURRENT").read_text().strip()
    return name, (path / name).stat().st_size


def _copy_tables(source: Path, target: Path, live: Collection[str]) -> None:
    """Only a live table is linked: RocksDB may still be writing to any other, and a link would grow
    with it. The MANIFEST may name one that is not live yet, so those that look finished are copied,
    and copied again if they have grown since."""
    for path in source.glob("*.sst"):
        copy = target / path.name
        if path.name in live:
            if not copy.exists() and not _link(path, copy):
                shutil.copyfile(path, copy)
        elif _ends_like_a_table(path) and not _has_size_of(copy, path):
            shutil.copyfile(path, copy)


def _link(source: Path, target: Path) -> bool:
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one that cannot
        return False
    return True


def _ends_like_a_table(path: Path) -> bool:
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        return os.pread(file.fileno(), len(TABLE_END), max(0, size - len(TABLE_END))) == TABLE_END


def _has_size_of(copy: Path, path: Path) -> bool:
    return copy.exists() and copy.stat().st_size == path.stat().st_size


def _copy_others(source: Path, target: Path, manifest: str, size: int) -> None:
    for path in target.iterdir():
        if path.suffix != ".sst":
            path.unlink()
    with (source / manifest).open("rb") as file:
        (target / manifest).write_bytes(file.read(size))
    for path in source.iterdir():
        if OTHER_FILES.fullmatch(path.name):
            shutil.copyfile(path, target / path.name)


class SyncedWrites:
    """Notes the number of each write that was synced.

    The note is overwritten in place after the sync, and is not synced itself: it survives a crash
    of the process. After a power cut it may be an older one, which is as true. The database, once
    it is opened again, has at least that many writes, or it has lost some.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._fd, self._number = path / SYNCED_NOTE, -1, 0

    def open(self, number: int) -> None:
        """All of `number` writes are synced. Where no note can be made, the last one stays."""
        self.close()
        with suppress(OSError):
            if not self._path.exists():
                replace_file(RealDisk(), self._path, _synced_line(number))
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
            os.ftruncate(self._fd, len(_synced_line(number)))
            self._number = -1
            self.note(number)

    def note(self, number: int) -> None:
        if number > self._number and self._fd >= 0:
            self._number = number
            with suppress(OSError):
                os.pwrite(self._fd, _synced_line(number), 0)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _synced_line(number: int) -> bytes:
    digits = b"%020d" % number
    return b"%s %08x\n" % (digits, zlib.crc32(digits))
