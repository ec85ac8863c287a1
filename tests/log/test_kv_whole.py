"""A store that lost writes or files is refused as it is; one that could not be opened again is
opened by the next use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from stratamq.log import kv as kv_module
from stratamq.log.kv import KVStore, RocksKV, make_writable, sync_all
from stratamq.model.errors import Closed, DiskFull, KVDamaged, StorageError

KILLED = """
import os, signal, sys
from pathlib import Path
from stratamq.log.kv import RocksKV

kv = RocksKV(Path(sys.argv[1]), sys.argv[2])
for number in range(50):
    rows = kv.batch()
    rows.put(b"%02d" % number, bytes(500))
    kv.write(rows, sync=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

FAMILIES = pytest.mark.parametrize("family", ["default", "rows"])


def killed(path: Path, family: str = "default") -> None:
    """What a killed process has left, with all its writes in the write-ahead log."""
    subprocess.run([sys.executable, "-c", KILLED, path, family], check=False)


def count(kv: KVStore) -> int:
    return len(list(kv.scan(b"", b"\xff")))


def content(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != "LOCK"}


def put(kv: KVStore, key: bytes) -> None:
    rows = kv.batch()
    rows.put(key, b"")
    kv.write(rows, sync=True)


def halve(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def cut_last(file: Path) -> None:
    """As if the last write had been torn, which it was not: it was synced."""
    os.truncate(file, file.stat().st_size - 1)


def empty(file: Path) -> None:
    os.truncate(file, 0)


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@FAMILIES
@pytest.mark.parametrize("harm", [Path.unlink, empty, halve, cut_last, flip])
def test_a_lost_write_is_refused_and_its_file_can_be_brought_back(
    tmp_path: Path, harm: Callable[[Path], None], family: str
) -> None:
    killed(tmp_path / "kv", family)
    whole = content(tmp_path / "kv")
    log = next(tmp_path.glob("kv/*.log"))
    harm(log)
    left = content(tmp_path / "kv")
    with pytest.raises(KVDamaged):
        RocksKV(tmp_path / "kv", family)
    assert content(tmp_path / "kv") == left, "nothing changed"
    log.write_bytes(whole[log.name])
    kv = RocksKV(tmp_path / "kv", family)
    assert count(kv) == 50
    kv.close()


def test_without_its_note_a_shorter_store_is_opened(tmp_path: Path) -> None:
    """An operator without a copy can take what is left."""
    killed(tmp_path / "kv")
    halve(next(tmp_path.glob("kv/*.log")))
    (tmp_path / "kv" / "synced-writes").unlink()
    kv = RocksKV(tmp_path / "kv")
    assert 0 < count(kv) < 50
    kv.close()


@pytest.mark.parametrize("harm", [empty, halve, flip])
def test_a_damaged_note_is_written_again(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    killed(tmp_path / "kv")
    harm(tmp_path / "kv" / "synced-writes")
    for _ in range(2):
        kv = RocksKV(tmp_path / "kv")
        assert count(kv) == 50
        kv.close()
    (tmp_path / "kv" / "CURRENT").unlink()
    for file in [*tmp_path.glob("kv/*-0*"), *tmp_path.glob("kv/0*"), tmp_path / "kv" / "IDENTITY"]:
        file.unlink()
    with pytest.raises(KVDamaged, match="synced-writes is there"):
        RocksKV(tmp_path / "kv")


def test_a_row_that_cannot_be_read_is_found_before_anything_is_written(tmp_path: Path) -> None:
    kv = RocksKV(tmp_path / "kv")
    for number in range(50):
        put(kv, b"%02d" % number)
    kv.close()
    RocksKV(tmp_path / "kv").close()  # writes the log into a table
    flip_first_block(next(tmp_path.glob("kv/*.sst")))
    left = content(tmp_path / "kv")
    with pytest.raises(KVDamaged):
        RocksKV(tmp_path / "kv", check_rows=True)
    assert content(tmp_path / "kv") == left


def flip_first_block(table: Path) -> None:
    data = bytearray(table.read_bytes())
    data[10] ^= 1
    table.write_bytes(data)


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*", "*.log", "synced-writes", "LOG"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    killed(tmp_path / "kv")
    file = next((tmp_path / "kv").glob(name))
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(KVDamaged, match="is not a regular file"):
        RocksKV(tmp_path / "kv")


def test_a_file_or_a_dead_link_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(KVDamaged):
            RocksKV(tmp_path / name)


class Thief:
    """Opens the database of another store in the moment in which that is closed, and with it takes
    away the lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: Rdict | None = None
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        self._db = self._db or Rdict(str(self._path), Options(raw_mode=True))

    def give_back(self) -> None:
        assert self._db is not None
        self._db.close()


@pytest.mark.parametrize("use", [lambda kv: put(kv, b"c"), make_writable, sync_all])
def test_a_store_that_could_not_be_opened_again_is_readable_and_then_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[KVStore], object]
) -> None:
    monkeypatch.setattr(kv_module, "REOPEN_PAUSE_S", 0)
    thief = Thief(tmp_path)
    kv = RocksKV(tmp_path, close_unused=thief)
    put(kv, b"a")
    for _ in range(2):
        with pytest.raises(StorageError):
            kv.reopen()
        assert count(kv) == 1
        assert kv.get(b"a") == b""
    assert not kv.write_at_once(kv.batch())
    thief.give_back()
    use(kv)
    put(kv, b"b")
    assert kv.get(b"a") == kv.get(b"b") == b""
    kv.close()
    with pytest.raises(Closed):
        kv.reopen()


def test_on_a_full_disk_a_store_is_not_closed_to_be_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither writing nor reading might be possible afterwards: opening takes room."""
    monkeypatch.setattr(kv_module, "REOPEN_PAUSE_S", 0)
    kv = RocksKV(tmp_path)
    put(kv, b"a")
    before = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}
    monkeypatch.setattr(kv_module, "free_bytes", lambda path: 4096)
    for _ in range(2):
        with pytest.raises(DiskFull):
            kv.reopen()
        assert kv.get(b"a") == b""
    assert {path.name: path.stat().st_ino for path in tmp_path.iterdir()} == before
    monkeypatch.undo()
    make_writable(kv)
    put(kv, b"b")
    assert kv.get(b"a") == kv.get(b"b") == b""
    kv.close()


def test_writers_of_a_store_that_cannot_be_opened_do_not_each_try_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kv_module, "REOPEN_PAUSE_S", 1000)
    thief = Thief(tmp_path)
    kv = RocksKV(tmp_path, close_unused=thief)
    with pytest.raises(StorageError):
        kv.reopen()
    for _ in range(3):
        with pytest.raises(StorageError, match="lock"):
            put(kv, b"a")
    assert thief.calls == 1
    thief.give_back()
    make_writable(kv)  # by housekeeping
    put(kv, b"a")
    kv.close()


def test_a_store_whose_files_are_gone_does_not_begin_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kv_module, "REOPEN_PAUSE_S", 0)
    kv = RocksKV(tmp_path / "kv", close_unused=lambda: (tmp_path / "kv").rename(tmp_path / "away"))
    put(kv, b"a")
    with pytest.raises(KVDamaged):
        kv.reopen()
    assert not (tmp_path / "kv").exists()
    (tmp_path / "away").rename(tmp_path / "kv")
    kv._close_unused = lambda: None
    assert kv.get(b"a") == b"", "a read opens it as well"
    put(kv, b"b")
    kv.close()


SYNC_THAT_FAILS = """
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int fdatasync(int fd) {
    if (access(getenv("FULL"), F_OK) != 0) return 0;
    errno = ENOSPC;
    return -1;
}
"""

WRITER = """
import os
from pathlib import Path
from stratamq.log.kv import RocksKV
from stratamq.model.errors import StorageError

kv = RocksKV(Path(os.environ["STORE"]))
for name in ("first", "second", "third"):
    rows = kv.batch()
    rows.put(name.encode(), b"")
    try:
        kv.write(rows, sync=True)
        print(name, "written")
    except StorageError as error:
        print(name, type(error).__name__)
    Path(os.environ["FULL"]).touch()
kv.close()
"""


@pytest.mark.needs("gcc")
def test_a_write_that_was_not_synced_is_not_called_a_full_disk(tmp_path: Path) -> None:
    """DiskFull says that nothing of the write was stored. This one is there, and may be lost."""
    source, library = tmp_path / "sync.c", tmp_path / "sync.so"
    source.write_text(SYNC_THAT_FAILS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    names = {name: str(tmp_path / name.lower()) for name in ("FULL", "STORE")}
    done = subprocess.run(
        [sys.executable, "-c", WRITER],
        env={**os.environ, **names, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == ["first written", "second StorageError", "third DiskFull"]
