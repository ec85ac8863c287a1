"""The doctor finds what is wrong, and touches nothing."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import stratamq
from stratamq.cli import doctor_machine as doctor
from stratamq.cli.java import java_major, parse_java_version
from stratamq.log.kv import RocksKV
from stratamq.model.config import NodeConfig, load
from stratamq.model.findings import CheckResult


def config(folder: Path, **flags: object) -> NodeConfig:
    return load(flags={"data.dir": str(folder), **flags})


def test_a_folder_that_is_not_there_yet_may_be_made(tmp_path: Path) -> None:
    finding = doctor.check_data_dir(config(tmp_path / "a" / "b"))
    assert finding.result is CheckResult.OK
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_folder_s_place_is_a_fail(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    assert doctor.check_data_dir(config(tmp_path / "data")).result is CheckResult.FAIL
    assert doctor.check_data_dir(config(tmp_path / "data" / "deeper")).result is CheckResult.FAIL


def test_a_folder_that_cannot_be_written_is_a_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "fsync", refuse)
    finding = doctor.check_data_dir(config(tmp_path))
    assert finding.result is CheckResult.FAIL
    assert "Read-only" in finding.text


def test_a_folder_that_others_may_read_is_a_warning(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert doctor.check_permissions(config(tmp_path)).result is CheckResult.OK
    assert doctor.check_permissions(config(tmp_path / "new")).result is CheckResult.OK
    tmp_path.chmod(0o750)
    finding = doctor.check_permissions(config(tmp_path))
    assert finding.result is CheckResult.WARN
    assert f"chmod -R go-rwx {tmp_path}" in finding.text
    (tmp_path / "sasl.secret").touch(0o644)
    assert "others may read sasl.secret" in doctor.check_permissions(config(tmp_path)).text


def test_a_running_node_is_seen(tmp_path: Path) -> None:
    assert doctor.check_lock(config(tmp_path)).result is CheckResult.OK
    with (tmp_path / "LOCK").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running = doctor.check_lock(config(tmp_path))
        assert running.result is CheckResult.OK
        assert "a node is running" in running.text
    assert "no other node" in doctor.check_lock(config(tmp_path)).text


@pytest.mark.parametrize(
    ("free", "verdict"),
    [(1 << 40, CheckResult.OK), (1 << 30, CheckResult.WARN), (1 << 20, CheckResult.FAIL)],
)
def test_free_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, verdict: CheckResult
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert doctor.check_free_space(config(tmp_path / "not" / "yet")).result is verdict


@pytest.mark.parametrize(
    ("hard", "verdict"),
    [(resource.RLIM_INFINITY, CheckResult.OK), (1 << 20, CheckResult.OK), (1024, CheckResult.WARN)],
)
def test_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hard: int, verdict: CheckResult
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, hard))
    assert doctor.check_open_files(config(tmp_path)).result is verdict


def test_a_clock_that_went_back_is_a_warning(tmp_path: Path) -> None:
    assert doctor.check_clock(config(tmp_path)).result is CheckResult.OK
    tomorrow = time.time() + 86_400
    (tmp_path / "meta").mkdir()
    os.utime(tmp_path / "meta", (tomorrow, tomorrow))
    assert doctor.check_clock(config(tmp_path)).result is CheckResult.WARN


def test_a_clock_before_our_time_is_a_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert doctor.check_clock(config(tmp_path)).result is CheckResult.FAIL


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("no such thing", None),
    ],
)
def test_java_versions(text: str, major: int | None) -> None:
    assert parse_java_version(text) == major


@pytest.mark.parametrize(
    ("major", "verdict"), [(None, CheckResult.WARN), (11, CheckResult.WARN), (17, CheckResult.OK)]
)
def test_java_is_only_ever_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, major: int | None, verdict: CheckResult
) -> None:
    monkeypatch.setattr(doctor, "java_major", lambda: major)
    assert doctor.check_java(config(tmp_path)).result is verdict


def test_java_that_cannot_run_is_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("not a program")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_major() is None


def test_stored_data_that_is_whole(tmp_path: Path) -> None:
    assert doctor.check_damage(config(tmp_path)).result is CheckResult.OK


def test_a_shard_without_its_spec_and_what_a_node_has_found(tmp_path: Path) -> None:
    shard = tmp_path / "segments" / "0123456789abcdef0123456789abcdef_0"
    shard.mkdir(parents=True)
    (shard / "00000000000000000000.log").write_bytes(b"records")
    (tmp_path / "damage.jsonl").write_text('{"at": "now", "found": "a finding"}\nnot json\n')
    finding = doctor.check_damage(config(tmp_path))
    assert finding.result is CheckResult.FAIL
    assert "2 found" in finding.text
    assert "a finding" in finding.text
    assert str(shard / "shard.json") in finding.text
    assert (shard / "00000000000000000000.log").read_bytes() == b"records"


DATABASES = ["meta", "rocksdb", "index", "memory/index", "offsets"]


def halved_log(path: Path) -> None:
    log = next(path.glob("*.log"))
    os.truncate(log, log.stat().st_size // 2)


def pipe(path: Path) -> None:
    (path / "CURRENT").unlink()
    os.mkfifo(path / "CURRENT")


def without_current(path: Path) -> None:
    (path / "CURRENT").unlink()


def plain_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("")


def dead_link(path: Path) -> None:
    shutil.rmtree(path)
    path.symlink_to("nowhere")


@pytest.mark.parametrize("harm", [halved_log, pipe, without_current, plain_file, dead_link])
@pytest.mark.parametrize("name", DATABASES)
def test_a_damaged_database(tmp_path: Path, name: str, harm: Callable[[Path], None]) -> None:
    path = tmp_path / "data" / name
    kv = RocksKV(tmp_path / "running")
    for number in range(20):
        rows = kv.batch()
        rows.put(b"%d" % number, bytes(100))
        kv.write(rows, sync=True)
    shutil.copytree(tmp_path / "running", path)
    assert doctor.check_damage(config(tmp_path / "data")).result is CheckResult.OK
    harm(path)
    finding = doctor.check_damage(config(tmp_path / "data"))
    assert finding.result is CheckResult.FAIL
    assert name in finding.text
    assert doctor.check_clock(config(tmp_path / "data")).result is CheckResult.OK
    kv.close()


@pytest.mark.parametrize("name", ["segments", "memory"])
def test_a_folder_of_shards_that_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to("nowhere")
    assert f"{name} is not a folder" in doctor.check_damage(config(tmp_path)).text


async def test_a_running_node_without_damage_is_well(tmp_path: Path) -> None:
    async with stratamq.aopen(tmp_path) as node:
        for storage in ("segment", "rocksdb", "memory"):
            topic = await node.create_topic(storage, storage=storage)
            await topic.produce("one")
        assert "is running" in doctor.check_lock(config(tmp_path)).text
        assert doctor.check_damage(config(tmp_path)).text == "none known"
