"""The twin of the key-value store answers as RocksDB does, and loses only what it may."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import Options

from stratamq.log import kv as kv_module
from stratamq.log.kv import KVBatch, KVStore, RocksKV, after_prefix
from stratamq.model.errors import Closed, KVDamaged, StorageError
from tests.twins.kv import Loss, SimKV

KEYS = [b"", b"\x00", b"a", b"ab", b"b", b"b\xff", b"b\xff\xff", b"c", b"\xff"]


def fill(batch: KVBatch, rng: Random) -> None:
    for _ in range(rng.randrange(5)):
        kind, key, other = rng.random(), rng.choice(KEYS), rng.choice(KEYS)
        if kind < 0.6:
            batch.put(key, b"%d" % rng.randrange(100))
        elif kind < 0.8:
            batch.delete(key)
        elif key <= other:
            batch.delete_range(key, other)


def answers(kv: KVStore, begin: bytes, end: bytes) -> object:
    return (
        [kv.get(key) for key in KEYS],
        list(kv.scan(begin, end)),
        list(kv.scan_back(begin, end)),
    )


@pytest.mark.parametrize("family", ["default", "rows"])
def test_the_twin_answers_as_rocksdb_does(tmp_path: Path, family: str) -> None:
    rng = Random(3)
    real, twin = RocksKV(tmp_path, family), SimKV()
    for number in range(120):
        choice = rng.random()
        for kv in (real, twin):
            batch = kv.batch()
            fill(batch, Random(choice))
            kv.write(batch, sync=number % 10 == 0)
        begin, end = sorted((rng.choice(KEYS), rng.choice(KEYS)))
        assert answers(real, begin, end) == answers(twin, begin, end)
        if number % 40 == 39:
            real.close()
            real = RocksKV(tmp_path, family)
    real.close()
    for closed in (real, twin):
        closed.close()
        with pytest.raises(Closed):
            closed.get(b"a")


def test_a_scan_is_of_one_moment() -> None:
    kv = SimKV({b"a": b"1", b"b": b"2"})
    scan = kv.scan(b"", b"z")
    assert next(scan) == (b"a", b"1")
    batch = kv.batch()
    batch.delete(b"b")
    kv.write(batch)
    assert list(scan) == [(b"b", b"2")]


@given(st.lists(st.booleans(), max_size=12), st.integers(0, 1 << 30))
def test_a_power_cut_keeps_a_prefix_with_everything_synced(syncs: list[bool], seed: int) -> None:
    kv = SimKV()
    for number, sync in enumerate(syncs):
        batch = kv.batch()
        batch.put(b"%02d" % number, b"")
        kv.write(batch, sync=sync)
    synced = max((number + 1 for number, sync in enumerate(syncs) if sync), default=0)
    for loss, least, most in (
        (Loss.KILLED, len(syncs), len(syncs)),
        (Loss.NOTHING, len(syncs), len(syncs)),
        (Loss.SUFFIX, synced, len(syncs)),
        (Loss.UNSYNCED, synced, synced),
        (Loss.WIPED, 0, 0),
    ):
        found = sorted(kv.after_crash(loss, Random(seed)).rows())
        assert found == [b"%02d" % number for number in range(len(found))]
        assert least <= len(found) <= most


@given(st.binary(max_size=5), st.binary(max_size=3))
def test_after_prefix_is_behind_all_that_begin_with_it(prefix: bytes, rest: bytes) -> None:
    if prefix.rstrip(b"\xff"):
        end = after_prefix(prefix)
        assert prefix + rest < end
        assert not end.startswith(prefix)


SYNC_THAT_WAITS = """
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int fdatasync(int fd) {
    if (access(getenv("SLOW"), F_OK) != 0) return 0;
    close(open(getenv("BEGUN"), O_CREAT | O_WRONLY, 0600));
    while (access(getenv("GO_ON"), F_OK) != 0) usleep(1000);
    return 0;
}
"""

WRITER_AND_OTHERS = """
import os, signal, threading, time
from pathlib import Path
from stratamq.log.kv import RocksKV

signal.alarm(20)  # ends a process in which nothing moves any more
kv = RocksKV(Path(os.environ["STORE"]))
rows = kv.batch()
rows.put(b"key", b"value")
Path(os.environ["SLOW"]).touch()
writer = threading.Thread(target=kv.write, args=[rows], kwargs={"sync": True})
writer.start()
while not Path(os.environ["BEGUN"]).exists():
    time.sleep(0.001)
print("the others run while the disk syncs", flush=True)
Path(os.environ["GO_ON"]).touch()
writer.join()
kv.close()
"""


@pytest.mark.needs("gcc")
def test_a_sync_stops_no_other_thread(tmp_path: Path) -> None:
    """The disk answers when another thread of the process has said so: with the GIL held during
    the sync, that thread would never get there."""
    source, library = tmp_path / "sync.c", tmp_path / "sync.so"
    source.write_text(SYNC_THAT_WAITS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    names = {name: str(tmp_path / name.lower()) for name in ("BEGUN", "GO_ON", "SLOW", "STORE")}
    done = subprocess.run(
        [sys.executable, "-c", WRITER_AND_OTHERS],
        env={**os.environ, **names, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "the others run" in done.stdout


# -- damage --------------------------------------------------------------------------------------


def _filled(path: Path) -> None:
    kv = RocksKV(path)
    batch = kv.batch()
    for number in range(1000):
        batch.put(b"%d" % number, b"value")
    kv.write(batch)
    kv.close()


def _halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize("harm", [Path.unlink, _halve], ids=["lost", "halved"])
@pytest.mark.parametrize("pattern", ["CURRENT", "MANIFEST-*", "*.sst"])
def test_damaged_files_are_named_and_left(
    tmp_path: Path, pattern: str, harm: Callable[[Path], None]
) -> None:
    _filled(tmp_path / "kv")
    harm(next((tmp_path / "kv").glob(pattern)))
    tables = sorted((tmp_path / "kv").glob("*.sst"))
    with pytest.raises(KVDamaged):
        RocksKV(tmp_path / "kv")
    assert sorted((tmp_path / "kv").glob("*.sst")) == tables, "nothing was removed"


def test_a_manifest_cut_at_a_records_end_is_no_older_database(tmp_path: Path) -> None:
    """RocksDB itself opens such a database, without the tables that the rest spoke of, and removes
    them."""
    _filled(tmp_path / "kv")
    manifest = next((tmp_path / "kv").glob("MANIFEST-*"))
    whole = manifest.read_bytes()
    opened = []
    for size in range(len(whole) - 1, 0, -1):
        manifest.write_bytes(whole[:size])
        with pytest.raises(KVDamaged):
            opened.append(RocksKV(tmp_path / "kv"))
    manifest.write_bytes(whole)
    kv = RocksKV(tmp_path / "kv")
    assert len(list(kv.scan(b"", b"\xff"))) == 1000
    kv.close()


@pytest.mark.parametrize("look", [RocksKV.scan, RocksKV.scan_back])
def test_a_scan_that_cannot_begin_fails_as_one_of_ours(
    tmp_path: Path, look: Callable[[RocksKV, bytes, bytes], Iterator[tuple[bytes, bytes]]]
) -> None:
    """Another thread closes the database between the check and the scan."""
    _filled(tmp_path / "kv")
    kv = RocksKV(tmp_path / "kv")
    kv._db.close()
    with pytest.raises(StorageError):
        list(look(kv, b"", b"\xff"))
    kv._closed = True


# -- waiting -------------------------------------------------------------------------------------


def test_a_write_that_is_held_back_waits_without_the_gil(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rocksdict would wait with the GIL held, and the whole process with it."""
    ordinary, sleep, waits = kv_module._options, time.sleep, []

    def slow() -> Options:
        """Writers are much faster than the flush."""
        options = ordinary()
        options.set_write_buffer_size(64 << 10)
        options.set_ratelimiter(200_000, 10_000, 10)
        return options

    def noted(seconds: float) -> None:
        waits.append(seconds)
        sleep(seconds)

    monkeypatch.setattr(kv_module, "_options", slow)
    kv, written = RocksKV(tmp_path), 0
    while True:
        batch = kv.batch()
        batch.put(b"%06d" % written, bytes(20_000))
        if not kv.write_at_once(batch):
            break
        written += 1
    monkeypatch.setattr(time, "sleep", noted)
    kv.write(batch)
    assert waits
    assert len(list(kv.scan(b"0", b"9"))) == written + 1
    kv.close()
