"""The door to the ordered key-value store, RocksDB through `rocksdict`.

Keys and values are bytes, keys are ordered bytewise. A `KVBatch` is applied whole or not at all.
After `write(batch)` it survives a crash of the process; after `write(batch, sync=True)` a power cut
as well, together with everything written before it.

`tests/twins/kv.py` holds the twin that loses unsynced writes and fails on demand.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from rocksdict import (
    AccessType,
    Checkpoint,
    ColumnFamily,
    DBRecoveryMode,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from stratamq.log.disk import PRIVATE_FOLDER, RealDisk, storage_error
from stratamq.log.freeing import remove_tree
from stratamq.log.kv_files import (
    DATABASE_FILES,
    SyncedWrites,
    check_files,
    copy_live,
    note_manifest,
    read_synced,
)
from stratamq.model.errors import (
    Closed,
    DiskFull,
    KVDamaged,
    OutOfResources,
    StorageError,
    TimedOut,
    TooManyOpenFiles,
)

T = TypeVar("T")

REOPEN_ATTEMPTS_MAX = 50
REOPEN_WAIT_S = 0.02
STALL_WAIT_S = 0.005

NEW_FILES_BYTES = 128 << 10
REOPEN_PAUSE_S = 0.5
"""After a database could not be opened again, calls fail for so long without another attempt:
readers can use it meanwhile, and many writers on a full disk cost little."""

MEMTABLE_BYTES = 4 << 20
"""Small memtables stay in the CPU's cache: hashed keys go in almost twice as fast as at 64 MiB."""

OPENING_THREADS = 4
"""RocksDB would start sixteen to open its files, also where there are none yet."""


class KVBatch(Protocol):
    """Changes to be applied together, in order."""

    def __len__(self) -> int: ...

    def put(self, key: bytes, value: bytes) -> None: ...

    def put_all(self, rows: Iterable[tuple[bytes, bytes]]) -> None: ...

    def delete(self, key: bytes) -> None: ...

    def delete_range(self, begin: bytes, end: bytes) -> None:
        """Delete begin <= key < end."""


class KVStore(Protocol):
    """An ordered map of bytes. Safe to use from any thread."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with begin <= key < end, ascending, as they were when the scan began."""

    def scan_back(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with begin <= key < end, descending."""

    def batch(self) -> KVBatch: ...

    def write(self, batch: KVBatch, *, sync: bool = False) -> None:
        """May wait while the store catches up with earlier writes. Other threads go on."""

    def write_at_once(self, batch: KVBatch) -> bool:
        """As `write`, unless that would wait; whether it was written."""

    def copy_to(self, folder: Path) -> None:
        """The store as it is now, as a store of its own in a new folder, for a backup."""

    def reopen(self) -> None:
        """Open again what the disk holds. After a failed write nothing else helps."""

    def close(self) -> None: ...


class OpenKV(Protocol):
    """Opens the store in a folder; RocksKV says what the arguments mean."""

    def __call__(
        self,
        path: Path,
        family: str = "default",
        close_unused: Callable[[], object] = lambda: None,
        *,
        check_rows: bool = False,
    ) -> KVStore: ...


def after_prefix(prefix: bytes) -> bytes:
    """The first key behind all keys that start with `prefix`: the end of a prefix scan."""
    kept = prefix.rstrip(b"\xff")
    assert kept, "a prefix of nothing but 0xff has no end"
    return kept[:-1] + bytes((kept[-1] + 1,))


PROBE = b"\xff\xff\xff\xffC"
"""A row that says nothing. No shard has an id of that many ones."""


def sync_all(kv: KVStore) -> None:
    """A write that is synced, and with it all before it."""
    rows = kv.batch()
    rows.put(PROBE, b"")
    kv.write(rows, sync=True)


def make_writable(kv: KVStore) -> None:
    """Open the store again if it refuses writes, as RocksDB does for ever after an I/O error."""
    if not _is_writable(kv):
        kv.reopen()
        sync_all(kv)


def _is_writable(kv: KVStore) -> bool:
    """Apart, because an error that is being handled holds on to the store it came from."""
    try:
        sync_all(kv)
    except (StorageError, Closed):
        return False
    return True


def patiently(opening: Callable[[], T]) -> T:
    """Open a database that was just closed. Batches and scans of other threads hold it for a
    moment longer, and its lock with it."""
    for _ in range(REOPEN_ATTEMPTS_MAX):
        try:
            return opening()
        except (OutOfResources, KVDamaged):
            raise
        except StorageError as error:
            failed = error.with_traceback(None)
        time.sleep(REOPEN_WAIT_S)
    raise failed


class _End:
    """The end of a range that is deleted."""

    __slots__ = ("key",)

    def __init__(self, key: bytes) -> None:
        self.key = key


class _Batch:
    """Changes in order. RocksDB's own batch is made of them when they are written: it can be
    written only once, even if that fails, and keeps its database open."""

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        self._changes: list[tuple[bytes, bytes | _End | None]] = []

    def __len__(self) -> int:
        return len(self._changes)

    def put(self, key: bytes, value: bytes) -> None:
        self._changes.append((key, value))

    def put_all(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        self._changes.extend(rows)

    def delete(self, key: bytes) -> None:
        self._changes.append((key, None))

    def delete_range(self, begin: bytes, end: bytes) -> None:
        self._changes.append((begin, _End(end)))

    def made_for(self, family: ColumnFamily | None) -> WriteBatch:
        batch = WriteBatch(raw_mode=True)
        if family is not None:
            batch.set_default_column_family(family)
        put, delete = batch.put, batch.delete
        for key, value in self._changes:
            if type(value) is bytes:  # as a rule, and once per record: the quickest test
                put(key, value)
            elif value is None:
                delete(key)
            elif isinstance(value, _End):
                # The library's delete_range overlooks the default column family.
                batch.delete_range(key, value.key, family)
            else:
                raise TypeError(f"a value is bytes, not {type(value).__name__}")
        return batch


class RocksKV:
    """KVStore in one column family of a RocksDB.

    After a failed write RocksDB refuses every other one until it is opened again. This class does
    that itself, before the next write; where only descriptors were wanting, within the same one.
    While that does not succeed, the database is open for reading, or else each call tries again.
    On a full disk it is not tried: the database as it is serves reads, and one that was closed
    might not be opened even for them.
    """

    def __init__(
        self,
        path: Path,
        family: str = "default",
        close_unused: Callable[[], object] = lambda: None,
        *,
        check_rows: bool = False,
    ) -> None:
        """`close_unused` closes files of others that are open for later use only. With
        `check_rows`, every row is read before anything is written. KVDamaged when the files that
        are there are not whole; they are left as they are."""
        self._path, self._family, self._close_unused = path, family, close_unused
        self._check_rows = check_rows
        self._options = WriteOptions()
        # A writer that RocksDB slows down would wait with the GIL held, and every thread with it.
        self._options.no_slowdown = True
        self._refuses_writes = False  # until it is opened again
        self._scans: set[object] = set()  # those under way hold the database
        self._turns = [object()]  # the thread that takes it out opens the database again
        self._openings = 0
        self._failure: StorageError | None = None  # of the last attempt to open it again
        self._retry_at_s = 0.0
        self._closed = False
        self._is_open = False
        self.batch: Callable[[], KVBatch] = _Batch
        self._synced = SyncedWrites(path)
        self._open()

    def _open(self) -> None:
        path = self._path
        try:
            if self._openings and not (path / "CURRENT").exists():
                raise KVDamaged(f"{path / 'CURRENT'} is missing")
            check_database(path, rows=self._check_rows)
            path.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
            RealDisk().sync_folder(path.parent)
            self._use(_opened(path, self._family, AccessType.read_write()))
        except StorageError:
            raise
        except Exception as error:
            raise _translated(path, error) from error
        if self._closed:  # by another thread meanwhile
            self._release()
            raise Closed("the key-value store is closed")
        self._refuses_writes = False
        self._openings += 1
        # RocksDB has written all it found into tables, and synced them.
        self._synced.open(self._db.latest_sequence_number())
        with suppress(OSError):  # the database is whole without it
            note_manifest(path)

    def _use(self, db: Rdict) -> None:
        self._db = self._cf = db
        self._handle: ColumnFamily | None = None
        if self._family != "default":
            self._cf = db.get_column_family(self._family)
            self._handle = db.get_column_family_handle(self._family)
        self._is_open = True

    def get(self, key: bytes) -> bytes | None:
        self._check_open()
        try:
            value: bytes | None = self._cf.get(key)
        except Exception as error:
            raise _translated(self._path, error) from error
        return value

    def scan(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        scan = object()
        cursor = self._cursor(scan, end, lambda cursor: cursor.seek(begin))
        try:
            while cursor.valid():
                yield cursor.key(), cursor.value()
                cursor.next()
            failed = _failure_of(self._path, cursor)
        finally:
            del cursor  # a traceback would keep it, and the store could not be closed
            self._scans.discard(scan)
        if failed is not None:
            raise failed

    def scan_back(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        scan = object()
        cursor = self._cursor(scan, end, lambda cursor: cursor.seek_to_last())
        try:
            while cursor.valid() and (key := cursor.key()) >= begin:
                yield key, cursor.value()
                cursor.prev()
            failed = _failure_of(self._path, cursor)
        finally:
            del cursor
            self._scans.discard(scan)
        if failed is not None:
            raise failed

    def _cursor(self, scan: object, end: bytes, place: Callable[[RdictIter], None]) -> RdictIter:
        """One that stops at `end`, put into place, and counted until its scan is over."""
        self._check_open()
        options = ReadOptions()
        options.set_iterate_upper_bound(end)
        self._scans.add(scan)
        try:
            cursor = self._cf.iter(options)
            place(cursor)
        except Exception as error:
            self._scans.discard(scan)
            raise _translated(self._path, error) from error
        return cursor

    def write(self, batch: KVBatch, *, sync: bool = False) -> None:
        if self._refuses_writes:
            self._reopen_if_due()
        while isinstance(failure := self._try(batch, sync), _Stalled):
            time.sleep(STALL_WAIT_S)
        if isinstance(failure, TooManyOpenFiles):
            self._reopen_if_due()
            failure = self._try(batch, sync)
        if failure is not None:
            raise failure

    def write_at_once(self, batch: KVBatch) -> bool:
        if self._refuses_writes:
            return False
        failure = self._try(batch, sync=False)
        if isinstance(failure, (TooManyOpenFiles, _Stalled)):
            return False
        if failure is not None:
            raise failure
        return True

    def _try(self, batch: KVBatch, sync: bool) -> StorageError | None:
        """Write; what went wrong, if anything did. An error that is being handled would hold on to
        the database it came from, and keep it from being opened again."""
        assert isinstance(batch, _Batch), "a batch is written by the store that made it"
        if self._closed or not self._is_open:
            self._check_open()
        try:
            self._db.write(batch.made_for(self._handle), self._options)
        except Exception as error:
            failure = _translated(self._path, error)
            self._refuses_writes |= not isinstance(failure, _Stalled)
            return failure
        if not sync:
            return None
        try:
            number = self._db.latest_sequence_number()
            # Not by an option of the write: rocksdict holds the GIL for the whole of a write,
            # and would stop every other thread for as long as the disk takes.
            self._db.flush_wal(True)
        except Exception as error:
            # Never as DiskFull, which says that nothing was written.
            self._refuses_writes = True
            return StorageError(f"{self._path}: written, but not synced: {error}")
        self._synced.note(number)
        return None

    def copy_to(self, folder: Path) -> None:
        """Tables are linked where the file system can. RocksDB's own way is the second one only:
        rocksdict holds the GIL for all of it, tens of milliseconds with a sync."""
        self._check_open()
        try:
            if copy_live(self._path, folder, self._live_tables):
                return
        except OSError as error:
            raise storage_error(f"{folder}", error) from error
        remove_tree(folder)
        try:
            Checkpoint(self._db).create_checkpoint(str(folder))
        except Exception as error:
            raise _translated(folder, error) from error

    def _live_tables(self) -> set[str]:
        try:
            return {Path(table["name"]).name for table in self._db.live_files()}
        except Exception as error:
            raise _translated(self._path, error) from error

    def _reopen_if_due(self) -> None:
        if self._failure is not None and time.monotonic() < self._retry_at_s:
            raise type(self._failure)(str(self._failure))
        self.reopen()

    def reopen(self) -> None:
        """Threads that ask for it at the same time have it done once."""
        openings = self._openings
        turn = self._take_turn()
        try:
            if self._openings == openings:
                self._open_again()
        finally:
            self._turns.append(turn)

    def _take_turn(self) -> object:
        for _ in range(REOPEN_ATTEMPTS_MAX):
            with suppress(IndexError):
                return self._turns.pop()
            time.sleep(REOPEN_WAIT_S)
        raise StorageError(f"{self._path} is being opened again")

    def _open_again(self) -> None:
        """Where it cannot be opened for writing, on a full disk for example, reads go on."""
        if self._closed:
            raise Closed("the key-value store is closed")
        self._refuses_writes = True
        if self._is_open and not _has_room(self._path):
            self._failure = DiskFull(f"{self._path}: the disk is full")
            self._retry_at_s = time.monotonic() + REOPEN_PAUSE_S
            raise DiskFull(str(self._failure))
        with suppress(StorageError):
            self._release()
        self._close_unused()
        try:
            patiently(self._open)
        except StorageError as error:
            self._failure = type(error)(str(error))  # without the traceback
            if not isinstance(error, TooManyOpenFiles):  # descriptors come back at any moment
                self._retry_at_s = time.monotonic() + REOPEN_PAUSE_S
            if not isinstance(error, KVDamaged):
                with suppress(StorageError):
                    self._use(_opened(self._path, self._family, AccessType.read_only()))
            raise
        self._failure = None

    def close(self) -> None:
        """TimedOut when a scan goes on: until it ends, the database is open, and may write to its
        files. May be repeated."""
        self._closed = True
        self._release()
        for _ in range(REOPEN_ATTEMPTS_MAX):
            if not self._scans:
                return
            time.sleep(REOPEN_WAIT_S)
        raise TimedOut(f"{self._path}: a scan goes on, and keeps the database open")

    def _release(self) -> None:
        """In any case, also where the last writes cannot be flushed."""
        if not self._is_open:
            return
        self._is_open = False
        self._handle = None  # a living handle would keep the database locked
        self._synced.close()
        failure = _close(self._path, self._cf)
        if self._db is not self._cf:
            failure = _close(self._path, self._db) or failure
        if failure is not None:
            raise failure
        if not self._refuses_writes:
            with suppress(OSError):
                note_manifest(self._path)

    def _check_open(self) -> None:
        if not self._closed and not self._is_open:
            self._reopen_if_due()
        if self._closed:
            raise Closed("the key-value store is closed")


def free_bytes(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def _has_room(path: Path) -> bool:
    """Whether the database can be opened for writing: RocksDB turns its log into a table, and
    begins new files. Files that went meanwhile are for the opening to report."""
    try:
        wanted = NEW_FILES_BYTES + sum(file.stat().st_size for file in path.glob("*.log"))
        return free_bytes(path) >= wanted
    except OSError:
        return True


class _Stalled(StorageError):
    """RocksDB makes writers wait until it has flushed or compacted earlier writes."""


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_size(MEMTABLE_BYTES)
    options.set_max_write_buffer_number(8)
    options.set_allow_concurrent_memtable_write(False)  # each shard has one writer; no atomics
    options.set_level_zero_file_num_compaction_trigger(8)
    options.set_keep_log_file_num(2)
    options.set_max_file_opening_threads(OPENING_THREADS)
    # The default would drop every write after a damaged one without a word.
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    return options


def check_database(path: Path, *, rows: bool) -> None:
    """Raise KVDamaged where files, or writes that were synced, are missing, and with `rows` where a
    row cannot be read. Only reads: RocksDB writes nothing to a database that it opens so."""
    check_files(path)
    if not (path / "CURRENT").exists():
        return
    db = _opened(path, None, AccessType.read_only())
    try:
        found, synced = db.latest_sequence_number(), read_synced(path)
        failure = _unreadable_row(path, db) if rows else None
    finally:
        db.close()
    if found < synced:
        raise KVDamaged(f"{path}: {found} writes were found, and {synced} had been synced")
    if failure is not None:
        raise failure


def read_rows(path: Path) -> list[tuple[bytes, bytes]]:
    """All rows of a database that another process may be writing, as they are now. StorageError
    when it cannot be read, also because files went while it was opened.

    The Python binding writes a file of its own beside every database that it opens: it opens a
    folder of links to the files, so that theirs is not touched.
    """
    import tempfile  # a node does not wait for it

    check_files(path)
    if not (path / "CURRENT").exists():
        return []
    with tempfile.TemporaryDirectory(prefix="stratamq-") as links:
        for file in path.resolve().iterdir():
            if DATABASE_FILES.fullmatch(file.name):
                Path(links, file.name).symlink_to(file)
        return _rows_of(Path(links))


def _rows_of(path: Path) -> list[tuple[bytes, bytes]]:
    db = _opened(path, None, AccessType.read_only())
    rows: list[tuple[bytes, bytes]] = []
    try:
        cursor = db.iter()
        cursor.seek_to_first()
        while cursor.valid():
            rows.append((cursor.key(), cursor.value()))
            cursor.next()
        failure = _failure_of(path, cursor)
        del cursor  # it would hold on to the database
    finally:
        db.close()
    if failure is not None:
        raise failure
    return rows


def _unreadable_row(path: Path, db: Rdict) -> StorageError | None:
    cursor = db.iter()
    cursor.seek_to_first()
    while cursor.valid():
        cursor.next()
    return _failure_of(path, cursor)


def _opened(path: Path, family: str | None, access: AccessType) -> Rdict:
    """With all its column families, which RocksDB asks for, and with `family`."""
    try:
        known = Rdict.list_cf(str(path), _options()) if (path / "CURRENT").exists() else []
        families = {name: _options() for name in {*known, "default", family or "default"}}
        return Rdict(str(path), _options(), families, access)
    except Exception as error:
        raise _translated(path, error) from error


def _close(path: Path, part: Rdict) -> StorageError | None:
    """Apart, and with nothing raised: a traceback would hold on to the database."""
    try:
        part.close()
    except Exception as error:
        return _translated(path, error)
    return None


def _failure_of(path: Path, cursor: RdictIter) -> StorageError | None:
    """A cursor that meets damage stops as if it were at the end; only its status says so."""
    try:
        cursor.status()
    except Exception as error:
        return _translated(path, error)
    return None


def _translated(path: Path, error: Exception) -> StorageError:
    """RocksDB reports by text alone; this is the only place that reads it."""
    text = str(error)
    if text.startswith("Result incomplete"):
        return _Stalled(f"{path}: {text}")
    if "No space left" in text:
        return DiskFull(f"{path}: the disk is full: {text}")
    if "Too many open files" in text:
        return TooManyOpenFiles(f"{path}: a file could not be opened: {text}")
    if text.startswith("Corruption") or "No such file or directory" in text:
        return KVDamaged(f"{path}: damaged: {text}")
    return StorageError(f"{path}: {text}")
