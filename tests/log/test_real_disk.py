"""The real file system: bounded open files, whatever threads do; whole writes; and its twin, which
must not be kinder or stricter where no trouble was asked for."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stratamq.log import disk as disk_module
from stratamq.log.disk import (
    IOV_MAX,
    Disk,
    RealDisk,
    RealFile,
    read_all,
    replace_file,
    write_new,
)
from tests.log.support import NOW, batches_from, commit, open_log, read_log
from tests.twins.disk import SimDisk
from tests.twins.kv import SimKV


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{number:03}" for number in range(60)]
    for path in paths:
        path.write_bytes(path.name.encode() * 100)
    return paths


# -- open files ----------------------------------------------------------------------------------


def test_open_files_are_bounded(files: list[Path]) -> None:
    disk, before = RealDisk(open_files_max=8), open_descriptors()
    for path in files:
        assert disk.open(path).read(3, 0) == path.name.encode()
    assert open_descriptors() - before == 8


def test_maps_are_bounded_with_them(files: list[Path]) -> None:
    """A map keeps a descriptor for as long as it lives."""
    disk, before = RealDisk(open_files_max=8), open_descriptors()
    for path in files:
        assert bytes(disk.map(path)[:3]) == path.name.encode()
        disk.open(path)
    assert open_descriptors() - before == 8


def test_the_files_used_last_stay_open(files: list[Path]) -> None:
    disk = RealDisk(open_files_max=4)
    kept = disk.open(files[0])
    for path in files[1:]:
        disk.open(path)
        assert disk.open(files[0]) is kept


def test_a_file_that_is_held_outlives_its_place_in_the_cache(files: list[Path]) -> None:
    disk = RealDisk(open_files_max=2)
    held, mapped = disk.open(files[0]), disk.map(files[0])
    for path in files[1:]:
        disk.open(path)
    assert held.read(3, 0) == bytes(mapped[:3]) == b"000"


def test_an_unlinked_file_gives_its_space_back(files: list[Path]) -> None:
    disk, before = RealDisk(), open_descriptors()
    disk.open(files[0])
    disk.map(files[0])
    disk.unlink(files[0])
    assert open_descriptors() == before


def test_a_renamed_file_is_found_under_its_new_name_alone(files: list[Path]) -> None:
    disk = RealDisk()
    for path in files[:2]:
        disk.open(path)
        disk.map(path)
    disk.rename(files[0], files[1])
    assert read_all(disk, files[1])[:3] == bytes(disk.map(files[1])[:3]) == b"000"
    with pytest.raises(FileNotFoundError):
        disk.open(files[0])


def test_a_renamed_folder_takes_its_open_files_along(tmp_path: Path) -> None:
    disk, before = RealDisk(), open_descriptors()
    disk.make_folder(tmp_path / "a")
    write_new(disk, tmp_path / "a" / "file", b"data")
    disk.rename(tmp_path / "a", tmp_path / "b")
    assert open_descriptors() == before
    assert read_all(disk, tmp_path / "b" / "file") == b"data"
    with pytest.raises(FileNotFoundError):
        disk.open(tmp_path / "a" / "file")
    disk.remove_folder(tmp_path / "b")
    disk.remove_folder(tmp_path / "b")
    assert open_descriptors() == before


def run_threads(works: list[Callable[[], None]]) -> None:
    """All at once; the first failure of any of them is raised."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Threads change places as often as they can."""
    import sys

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switching")
def test_eviction_under_many_readers(files: list[Path]) -> None:
    disk, before = RealDisk(open_files_max=5), open_descriptors()

    def work(seed: int) -> Callable[[], None]:
        def read() -> None:
            rng = Random(seed)
            for _ in range(1500):
                path = rng.choice(files)
                file = disk.open(path) if rng.random() < 0.7 else None
                data = file.read(3, 30) if file else bytes(disk.map(path)[30:33])
                assert data == path.name.encode()

        return read

    run_threads([work(seed) for seed in range(4)])
    assert open_descriptors() - before <= 5


@pytest.mark.usefixtures("eager_switching")
def test_nobody_reads_a_replaced_file_once_the_rename_returned(tmp_path: Path) -> None:
    """A reader that opens a file while it is being replaced must not leave the old one in the
    cache."""
    disk, path = RealDisk(), tmp_path / "file"
    replace_file(disk, path, b"%08d" % 0)
    done = threading.Event()
    newest = 0

    def read() -> None:
        while not done.is_set():
            least = newest
            assert int(read_all(disk, path)) >= least
            assert int(bytes(disk.map(path))) >= least

    def write() -> None:
        nonlocal newest
        try:
            for number in range(1, 400):
                write_new(disk, tmp_path / "new", b"%08d" % number)
                disk.rename(tmp_path / "new", path)
                newest = number
        finally:
            done.set()

    run_threads([read, read, read, write])
    assert int(read_all(disk, path)) == 399


# -- writing -------------------------------------------------------------------------------------


def test_more_buffers_than_the_kernel_takes_at_once(tmp_path: Path) -> None:
    file = RealDisk().open(tmp_path / "file", create=True)
    buffers = [b"%05d" % number for number in range(IOV_MAX * 2 + 17)]
    file.write([b"head", *buffers], 3)
    assert file.read(1 << 20, 0) == b"\0\0\0head" + b"".join(buffers)


@pytest.mark.parametrize("durable", [False, True])
def test_short_writes_are_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    """As on a nearly full disk, or with more than two gigabytes at once. Each part is as durable as
    was asked for."""
    real_pwritev = os.pwritev
    asked = set()

    def short_pwritev(fd: int, buffers: Any, position: int, flags: int) -> int:
        asked.add(flags)
        return real_pwritev(fd, [bytes(buffers[0])[:2]], position, flags)

    monkeypatch.setattr(os, "pwritev", short_pwritev)
    file = RealFile(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    buffers = [b"%03d" % number for number in range(IOV_MAX + 30)]
    file.write(buffers, 5, durable=durable)
    assert file.read(1 << 20, 5) == b"".join(buffers)
    assert asked == {os.RWF_DSYNC if durable else 0}


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL])
def test_a_system_that_does_not_know_the_flag_is_asked_to_write_and_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    real_pwritev, synced = os.pwritev, []

    def old_pwritev(fd: int, buffers: Any, position: int, flags: int = 0) -> int:
        if flags:
            raise OSError(code, os.strerror(code))
        return real_pwritev(fd, buffers, position)

    monkeypatch.setattr(os, "pwritev", old_pwritev)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    file = RealFile(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    file.write([b"a", b"b"], 0, durable=True)
    assert file.read(9, 0) == b"ab"
    assert len(synced) == 1


def test_a_durable_write_that_fails_otherwise_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> int:
        raise OSError(errno.EIO, "broken")

    file = RealFile(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    monkeypatch.setattr(os, "pwritev", broken)
    with pytest.raises(OSError, match="broken"):
        file.write([b"a"], 0, durable=True)


def test_a_durable_write_is_synced_where_the_system_cannot_do_both_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    monkeypatch.setattr(disk_module, "WRITE_DURABLY", 0)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    file = RealFile(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    file.write([b"plain"], 0)
    assert not synced
    file.write([b"durable"], 0, durable=True)
    assert len(synced) == 1


def test_a_log_of_many_segments_stays_within_its_open_files(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=6)
    log = open_log(disk, SimKV(), tmp_path / "shard")
    for number in range(30):
        commit(log, batches_from(number * 2, (1, 1)))
        log.roll()
    before = open_descriptors() - 6
    assert len(read_log(log).batches) == 60
    assert len(log.segments()) == 31
    assert log.floor_by_timestamp(NOW) == 0
    assert open_descriptors() - before <= 6


def test_an_empty_file_maps_to_nothing(tmp_path: Path) -> None:
    write_new(RealDisk(), tmp_path / "file", b"")
    assert len(RealDisk().map(tmp_path / "file")) == 0


def test_write_new_leaves_nothing_of_what_was_there(tmp_path: Path) -> None:
    disk = RealDisk()
    write_new(disk, tmp_path / "file", b"long content")
    write_new(disk, tmp_path / "file", b"short")
    assert read_all(disk, tmp_path / "file") == b"short"


# -- the twin ------------------------------------------------------------------------------------


def step(disk: Disk, root: Path, rng: Random) -> object:
    """One random call; its result, or the kind of error it raised."""
    names = [root / name for name in ("a", "b", "c", "sub/d", "sub/e")]
    path, other = rng.choice(names), rng.choice(names)
    size, position = rng.randrange(40), rng.randrange(60)
    calls: dict[str, Callable[[], object]] = {
        "create": lambda: disk.open(path, create=True).size(),
        "read": lambda: disk.open(path).read(size, position),
        "write": lambda: disk.open(path).write([bytes([size]) * size, b"x"], position),
        "truncate": lambda: disk.open(path).truncate(position),
        "sync": lambda: disk.open(path).sync(),
        "rename": lambda: disk.rename(path, other) if path != other else None,
        "unlink": lambda: disk.unlink(path),
        "mkdir": lambda: disk.make_folder(root / "sub"),
        "rmdir": lambda: disk.remove_folder(root / "sub"),
        "names": lambda: sorted(disk.names(root)),
        "exists": lambda: disk.exists(path),
        "sync folder": lambda: disk.sync_folder(path.parent),
    }
    kind = rng.choice(sorted(calls))
    try:
        return kind, calls[kind]()
    except OSError as error:
        return kind, error.errno


@pytest.mark.parametrize("seed", range(8))
def test_the_twin_answers_like_the_real_thing(tmp_path: Path, seed: int) -> None:
    real, sim = RealDisk(open_files_max=2), SimDisk()
    sim.make_folder(tmp_path)
    rng = Random(seed)
    for number in range(400):
        choice = rng.random()
        answers = [step(disk, tmp_path, Random(choice)) for disk in (real, sim)]
        assert answers[0] == answers[1], f"call {number}"
