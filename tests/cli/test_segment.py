"""`stratamq shard` and `stratamq segment` on real folders: of a running node, a stopped one, and
damaged ones. Whatever is in the files, they are read and never written."""

from __future__ import annotations

import fcntl
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stratamq.log.scan import Intact
from stratamq.log.stored import (
    SegmentDamage,
    StoredSegment,
    batches_of,
    stored_segments,
    summarize,
)
from tests.cli.tool import Tool, requires
from tests.clients.node import Node, running
from tests.waiting import every

SEGMENT_BYTES = 2000
RECORDS = 60
FLIPS = 1000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("node"), "--log-level", "warning") as node:
        tool = Tool({"STRATAMQ_SERVER": node.address})
        segments = ("-c", f"segment.bytes={SEGMENT_BYTES}", "-c", "remote.storage.enable=false")
        tool.ok("topic", "create", "orders", "-p", 1, *segments)
        for number in range(RECORDS):
            tool.ok("produce", "orders", "-K", ":", given=f"k{number % 3}:{number} {'x' * 90}\n")
        tool.ok("topic", "create", "rocks", "-c", "storage.type=EngineRocksDB")
        yield node


@pytest.fixture(scope="module")
def stopped(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder as the node had it: as after a crash."""
    copy = tmp_path_factory.mktemp("stopped") / "data"
    shutil.copytree(node.data, copy)
    return copy


@pytest.fixture(params=["running", "stopped"])
def folder(request: pytest.FixtureRequest, node: Node, stopped: Path) -> Path:
    return node.data if request.param == "running" else stopped


def logs(folder: Path) -> list[Path]:
    return sorted((folder / "segments").glob("*/*.log"))


def content(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file with its time and bytes: a look leaves no trace."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_shards_are_listed_by_topic(folder: Path) -> None:
    found = Tool().json("shard", "list", "--data-dir", folder)
    orders = next(one for one in found["shards"] if one["topic"] == "orders")
    shape = {"topic": str, "partition": int, "shard": str, "storage": str, "segments": int}
    requires(orders, {**shape, "local_bytes": int, "history_bytes": int})
    assert orders["storage"] == "EngineSegment"
    assert orders["segments"] > 2
    rocks = next(one for one in found["shards"] if one["topic"] == "rocks")
    assert (rocks["storage"], rocks["segments"]) == ("EngineRocksDB", None)
    assert "orders" in Tool().ok("shard", "list", "orders", "--data-dir", folder).output


def test_a_shard_is_described(folder: Path) -> None:
    words = ("shard", "describe", "orders", "--data-dir", folder)
    (shard,) = Tool().json(*words)["shards"]
    assert (shard["start"], shard["local_start"], shard["end"]) == (0, 0, RECORDS)
    assert (shard["leader"], shard["replicas"]) == (1, [1])
    assert (shard["deleted"], shard["damage"]) == (0, [])
    assert f"end: {RECORDS}" in Tool().ok(*words).output


def test_segments_are_listed(folder: Path) -> None:
    segments = Tool().json("segment", "list", "orders", "--data-dir", folder)["segments"]
    shape = {"topic": str, "partition": int, "shard": str, "state": str, "where": str}
    numbers = ("base_offset", "end_offset", "bytes", "batches", "records", "max_timestamp")
    requires(segments, [{**shape, **dict.fromkeys(numbers, int)}])
    assert [one["state"] for one in segments[:-1]] == ["sealed"] * (len(segments) - 1)
    assert segments[-1]["state"] == "active"
    assert {one["where"] for one in segments} == {"local"}
    bases, ends = [[one[name] for one in segments] for name in ("base_offset", "end_offset")]
    assert bases == [0, *ends[:-1]]
    assert ends[-1] == sum(one["records"] for one in segments) == RECORDS
    assert [one["bytes"] for one in segments] == [path.stat().st_size for path in logs(folder)]
    text = Tool().ok("segment", "list", "orders", "--data-dir", folder).output
    assert len(text.splitlines()) == len(segments) + 1


def test_batches_and_records_are_dumped(folder: Path) -> None:
    words = ("segment", "dump", "orders", "--data-dir", folder)
    lines = [json.loads(line) for line in Tool().ok(*words, "--json").output.splitlines()]
    assert [one["base_offset"] for one in lines] == list(range(RECORDS))
    whole = Tool().ok(*words, "--records", "--json").output.splitlines()
    records = [one for one in map(json.loads, whole) if one["kind"] == "record"]
    assert [(one["offset"], one["key"]) for one in records] == [
        (number, f"k{number % 3}") for number in range(RECORDS)
    ]
    some = Tool().ok(*words, "--offset", RECORDS - 2, "--records").output.splitlines()
    assert len(some) == 4
    assert "key 'k2' value '59 xxx" in some[-1]
    assert len(Tool().ok(*words, "--count", 3).output.splitlines()) == 3
    assert Tool().ok(*words, "--segment", 10**9).output == ""


def test_what_is_whole_is_verified(folder: Path) -> None:
    words = ("segment", "verify", "--data-dir", folder)
    found = Tool().json(*words)["shards"]
    orders = next(one for one in found if one["topic"] == "orders")
    assert (orders["records"], orders["batches"], orders["damage"]) == (RECORDS, RECORDS, [])
    assert "orders-0" in Tool().ok(*words).output


@pytest.mark.parametrize(
    "words", [("shard", "describe"), ("segment", "list"), ("segment", "verify")]
)
def test_a_look_changes_nothing(stopped: Path, words: tuple[str, str]) -> None:
    before = content(stopped)
    Tool().ok(*words, "--data-dir", stopped)
    assert content(stopped) == before


def test_a_folder_without_metadata_shows_shards_by_id(stopped: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(stopped, copy)
    (copy / "meta" / "CURRENT").write_bytes(b"?")
    done = Tool().run("segment", "verify", "--data-dir", copy)
    assert done.code == 0, done
    assert "the metadata cannot be read" in done.errors
    shard = logs(copy)[0].parent.name
    assert f"{shard}: " in done.output
    Tool().ok("segment", "list", shard, "--data-dir", copy)


def test_slips(stopped: Path, tmp_path: Path) -> None:
    tool = Tool()
    assert "'nothing'" in tool.fails(5, "segment", "list", "nothing", "--data-dir", stopped)
    assert "partition 7" in tool.fails(
        5, "segment", "list", "orders", "-p", 7, "--data-dir", stopped
    )
    assert "--data-dir" in tool.fails(5, "shard", "list", "--data-dir", tmp_path / "none")


# -- damage ----------------------------------------------------------------------------------------


@pytest.fixture
def hurt(stopped: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "hurt"
    shutil.copytree(stopped, copy)
    return copy


def verified(folder: Path) -> list[dict[str, Any]]:
    done = Tool().run("segment", "verify", "orders", "--data-dir", folder, "--json")
    (shard,) = done.json["shards"]
    assert (done.code == 1) == bool(shard["damage"]), done
    assert not shard["damage"] or done.errors.startswith("stratamq: damage /"), done.errors
    return list(shard["damage"])


def flips(path: Path, count: int) -> Iterator[bool]:
    """The file with one bit turned, so many times; whether anything in the file witnesses it. The
    leader epoch is under no CRC: leaders write it after the batch was checked."""
    dice, good = random.Random(12), path.read_bytes()
    for _ in range(count):
        at = dice.randrange(len(good))
        flipped = bytearray(good)
        flipped[at] ^= 1 << dice.randrange(8)
        path.write_bytes(flipped)
        yield not _in_leader_epoch(good, at)


def test_every_flipped_bit_of_a_log_is_found(hurt: Path) -> None:
    path = logs(hurt)[1]
    for is_witnessed in every(flips(path, FLIPS)):
        segment = stored_segments(path.parent)[1]
        damage = [one for one in batches_of(segment) if isinstance(one, SegmentDamage)]
        assert bool(damage) == is_witnessed
        assert summarize(segment).records <= RECORDS


def test_flipped_bits_crash_no_command(hurt: Path) -> None:
    words = ("orders", "--data-dir", hurt, "--json")
    for is_witnessed in every(flips(logs(hurt)[1], 10)):
        assert bool(verified(hurt)) == is_witnessed
        assert Tool().run("segment", "dump", "--records", *words).code == is_witnessed
        Tool().ok("segment", "list", *words)
        Tool().ok("shard", "describe", *words)


def _in_leader_epoch(log: bytes, at: int) -> bool:
    position = 0
    while position < len(log):
        size = int.from_bytes(log[position + 8 : position + 12], "big") + 12
        if at < position + size:
            return position + 12 <= at < position + 16
        position += size
    raise AssertionError("within the file")


def test_a_cut_file_a_missing_one_and_garbage(hurt: Path) -> None:
    first, second, *_ = logs(hurt)
    good = first.read_bytes()
    first.write_bytes(good[:-5])
    assert any("where it had" in one["text"] for one in verified(hurt))
    first.write_bytes(random.Random(3).randbytes(len(good)))
    assert verified(hurt)[0]["position"] == 0
    size = int.from_bytes(good[8:12], "big") + 12
    first.write_bytes(good[:size] + good[2 * size :])
    assert any(one["text"] == "offsets 1 to 1 are missing" for one in verified(hurt))
    first.write_bytes(good)
    second.unlink()
    assert any("missing" in one["text"] for one in verified(hurt))


@pytest.mark.parametrize("name", ["file-list", "shard.json", "deletions", "start-offset"])
def test_damaged_small_files_crash_nothing(hurt: Path, name: str) -> None:
    file = logs(hurt)[0].parent / name
    dice = random.Random(name)
    good = file.read_bytes() if file.exists() else b"0 00000000\n"
    for _ in range(8):
        flipped = bytearray(good)
        flipped[dice.randrange(len(good))] ^= 1 << dice.randrange(8)
        file.write_bytes(flipped)
        for words in (("shard", "describe"), ("segment", "list"), ("segment", "verify")):
            done = Tool().run(*words, "orders", "--data-dir", hurt)
            assert done.code in (0, 1), done


def test_verify_beside_a_writer_reports_no_damage(tmp_path: Path) -> None:
    with running(tmp_path, "--topic-flush", "os", "--log-level", "warning") as node:
        tool = Tool({"STRATAMQ_SERVER": node.address})
        tool.ok("topic", "create", "busy", "-p", 1, "-c", f"segment.bytes={SEGMENT_BYTES}")
        writer = tool.process("produce", "busy")
        assert writer.stdin
        for number in range(20):
            writer.stdin.write(b"%d %s\n" % (number, b"y" * 500) * 50)
            writer.stdin.flush()
            tool.ok("segment", "verify", "busy", "--data-dir", node.data)
            tool.ok("segment", "dump", "busy", "--data-dir", node.data, "--count", 5)
        writer.communicate(timeout=60)
        assert writer.returncode == 0


def test_a_write_that_is_under_way_is_no_damage(
    hurt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the newest segment is torn at the first look and written at the second."""
    newest = logs(hurt)[-1]
    good = newest.read_bytes()
    newest.write_bytes(good[:-5])

    def then_written(segment: StoredSegment) -> Iterator[Intact | SegmentDamage]:
        yield from batches_of(segment)
        if segment.active:
            newest.write_bytes(good)

    monkeypatch.setattr("stratamq.cli.segment.batches_of", then_written)
    with (hurt / "LOCK").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as a running node does
        assert verified(hurt) == []
    newest.write_bytes(good[:-5])
    assert len(verified(hurt)) == 1, "without a node nothing is under way"
