"""A restore writes a whole backup into an empty folder, or nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from stratamq.model.errors import StorageError
from stratamq.node.backup import BackupRun
from stratamq.node.backup_folder import (
    MANIFEST_FILE,
    PARTIAL,
    BackupFile,
    Manifest,
    _checksum,
    check_all,
    read_manifest,
)
from stratamq.node.data_dir import DataDirLock
from stratamq.node.embedded import AsyncNode
from stratamq.node.restore import restore
from stratamq.wire.crc import crc32c
from tests.backup.embedded import SMALL, fill, ignore
from tests.waiting import every


@pytest.fixture
async def monday(tmp_path: Path) -> Path:
    async with AsyncNode(tmp_path / "data") as node:
        await fill(await node.create_topic("t", config=SMALL), 0, 50)
        await BackupRun(node.core, tmp_path / f"monday{PARTIAL}").make()
    return tmp_path / "monday"


def first_log(backup: Path) -> Path:
    return min(backup.rglob("*.log"), key=lambda path: path.name != "0" * 20 + ".log")


def flip(backup: Path) -> None:
    path = first_log(backup)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()  # it is a link: the node's own file stays as it is
    path.write_bytes(data)


def shorten(backup: Path) -> None:
    path = first_log(backup)
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-1])


def remove(backup: Path) -> None:
    first_log(backup).unlink()


def edit(backup: Path, **fields: Any) -> None:
    """A manifest that some release could have written."""
    path = backup / MANIFEST_FILE
    manifest = {**json.loads(path.read_bytes()), **fields}
    del manifest["checksum"]
    path.write_text(json.dumps({**manifest, "checksum": _checksum(manifest)}))


def damage_manifest(backup: Path) -> None:
    path = backup / MANIFEST_FILE
    path.write_bytes(path.read_bytes().replace(b'"shards": 1', b'"shards": 2'))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (flip, r"\.log does not match its checksum: it is damaged"),
        (shorten, r"\.log has \d+ bytes, and had \d+: it is damaged"),
        (remove, r"\.log: No such file or directory"),
        (damage_manifest, "damaged: it does not match its checksum"),
        (lambda one: (one / MANIFEST_FILE).write_bytes(b"{"), "is damaged: "),
        (lambda one: (one / MANIFEST_FILE).unlink(), "it is not a backup, or one that was cut off"),
        (lambda one: edit(one, format=2), "has format 2, and this release reads up to 1"),
        (lambda one: edit(one, folders=["../x"]), "outside of a data folder"),
        (lambda one: one.rename(one.with_name("elsewhere")), "there is no folder"),
    ],
)
def test_one_that_is_not_whole_is_refused(
    monday: Path, tmp_path: Path, harm: Callable[[Path], object], said: str
) -> None:
    harm(monday)
    with pytest.raises(StorageError, match=said):
        restore(monday, tmp_path / "restored", ignore)
    target = tmp_path / "restored"
    assert not target.exists() or not list(target.iterdir())
    with pytest.raises(StorageError, match=said):
        check_all(monday, read_manifest(monday), ignore)


def test_a_manifest_is_written_in_small_pieces() -> None:
    """One piece would hold up a node that has many files. Its checksum is that of one line."""
    files = [
        BackupFile(path=f"segments/{one}", size=one, crc32c="00000000", modified_ms=1)
        for one in range(100)
    ]
    manifest = Manifest(version="1", cluster_id="é", node_id=1, taken_ms=1, files=files)
    data = manifest.encode()
    assert len(data.splitlines()) > len(files)
    fields = asdict(manifest)
    sum_ = f"{crc32c(json.dumps(fields, sort_keys=True).encode()):08x}"
    assert json.loads(data) == {**fields, "checksum": sum_}


def test_only_an_empty_folder_is_written_to(monday: Path, tmp_path: Path) -> None:
    target = tmp_path / "restored"
    target.mkdir()
    (target / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match=r"is not empty: it holds 'notes\.txt'"):
        restore(monday, target, ignore)
    assert [path.name for path in target.iterdir()] == ["notes.txt"]
    (target / "notes.txt").rename(tmp_path / "notes.txt")
    restore(monday, target, ignore)
    assert (target / "meta").is_dir()


def test_what_a_restore_left_is_no_data_folder(monday: Path, tmp_path: Path) -> None:
    target = tmp_path / "restored"
    restore(monday, target, ignore)
    (target / "restoring").mkdir()
    with pytest.raises(StorageError, match="a restore that was not finished: empty the folder"):
        DataDirLock(target).acquire()


def test_files_are_for_their_owner_and_as_old_as_they_were(monday: Path, tmp_path: Path) -> None:
    old_ms = 1_700_000_000_000
    log = first_log(monday)
    os.utime(log, ns=(old_ms * 10**6,) * 2)
    files = json.loads((monday / MANIFEST_FILE).read_bytes())["files"]
    name = log.relative_to(monday / "data").as_posix()
    for file in every(one for one in files if one["path"] == name):
        file["modified_ms"] = old_ms
    edit(monday, files=files)
    restore(monday, tmp_path / "restored", ignore)
    assert (tmp_path / "restored" / name).stat().st_mtime_ns == old_ms * 10**6
    found = [path for path in (tmp_path / "restored").rglob("*") if path.parent.name != "meta"]
    for path in every([monday, *found]):  # in meta/, files are RocksDB's
        assert path.stat().st_mode & 0o077 == 0, path
