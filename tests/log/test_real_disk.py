"""The real file system: whole writes; and its twin, which must not be kinder or stricter where no
trouble was asked for. Its open files: `test_open_files.py`."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stratamq.log import disk as disk_module
from stratamq.log.disk import IOV_MAX, Disk, RealDisk, RealFile, read_all, write_new
from tests.twins.disk import SimDisk

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


# -- what is not a file --------------------------------------------------------------------------


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_only_regular_files_are_opened(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """Opening a pipe would wait for another process, for ever."""
    path, disk = tmp_path / "file", RealDisk()
    make(path)
    for use in (disk.open, disk.map, disk.size):
        with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
            use(path)
