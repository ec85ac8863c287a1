"""A `meta/` that is older than the shards beside it, or has lost its end, is noticed."""

from __future__ import annotations

import logging
import os
import re
import shutil
from pathlib import Path

import pytest

import stratamq
from stratamq.log.checked_lines import encode_lines
from stratamq.meta.transactions import TakeProducerIds
from stratamq.model.errors import StorageError
from stratamq.node.data_dir import read_damage
from stratamq.node.layout import REVISION_FILE
from tests.waiting import until

Lines = pytest.LogCaptureFixture


async def filled(folder: Path, copy: Path) -> None:
    """A topic of each storage, `copy` taken of `meta/` after the first."""
    async with stratamq.aopen(folder) as node:
        await (await node.create_topic("early", storage="segment")).produce("v")
    shutil.copytree(folder / "meta", copy)
    async with stratamq.aopen(folder) as node:
        for storage in ("segment", "rocksdb", "memory"):
            config = {"memory.persist": True} if storage == "memory" else {}
            topic = await node.create_topic(f"late-{storage}", storage=storage, config=config)
            for number in range(5):
                await topic.produce(str(number))


async def test_an_older_copy_is_refused_until_the_operator_accepts_it(
    tmp_path: Path, caplog: Lines
) -> None:
    folder, copy, newer = tmp_path / "data", tmp_path / "copy", tmp_path / "newer"
    await filled(folder, copy)
    (folder / "meta").rename(newer)
    shutil.copytree(copy, folder / "meta")
    for _ in range(2):  # a refused start changes nothing
        with pytest.raises(StorageError, match="is older than it was") as refused:
            await stratamq.aopen(folder)
    text = str(refused.value)
    assert str(folder / "meta") in text
    assert f"remove {folder / REVISION_FILE}" in text
    at, noted = map(int, re.findall(r"revision (\d+) and", text))
    assert 0 < at < noted
    shutil.rmtree(folder / "meta")
    shutil.copytree(newer, folder / "meta")
    async with stratamq.aopen(folder) as node:
        topics = {topic.name for topic in await node.topics()}
        assert topics == {"early", "late-segment", "late-rocksdb", "late-memory"}
    shutil.rmtree(folder / "meta")
    shutil.copytree(copy, folder / "meta")
    (folder / REVISION_FILE).unlink()
    with caplog.at_level(logging.ERROR, "stratamq.damage"):
        async with stratamq.aopen(folder) as node:
            assert {topic.name for topic in await node.topics()} == {"early"}
    assert f"{folder / REVISION_FILE} was missing or damaged" in caplog.text
    assert (folder / REVISION_FILE).exists()


async def test_shards_that_the_metadata_does_not_know_are_reported_and_kept(
    tmp_path: Path, caplog: Lines
) -> None:
    folder, copy = tmp_path / "data", tmp_path / "copy"
    await filled(folder, copy)
    shutil.rmtree(folder / "meta")
    shutil.copytree(copy, folder / "meta")
    (folder / REVISION_FILE).unlink()
    files = {path for path in folder.glob("**/segments/*/*") if path.is_file()}
    with caplog.at_level(logging.ERROR, "stratamq.damage"):
        async with stratamq.aopen(folder, housekeeping_interval_ms=10) as node:
            await node.core.housekeeper.run_once()
    lines = [line for line in caplog.messages if "the metadata knows no such shard" in line]
    places = sorted(re.split(r"[/,]", line.removeprefix(f"{folder}/"))[0] for line in lines)
    assert places == ["memory", "rocksdb", "segments"]
    assert files <= set(folder.glob("**/segments/*/*"))
    found = read_damage(folder)
    assert set(lines) <= set(found), "for `stratamq doctor`"


async def test_a_log_of_the_metadata_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    running = tmp_path / "running"
    async with stratamq.aopen(running) as node:
        for number in range(5):
            await node.create_topic(str(number))
        await until(lambda: (running / REVISION_FILE).exists())
        killed = tmp_path / "killed"
        shutil.copytree(running / "meta", killed / "meta")
    shutil.copy(running / REVISION_FILE, killed / REVISION_FILE)
    (wal,) = (killed / "meta").glob("*.log")
    os.truncate(wal, wal.stat().st_size // 2)
    with pytest.raises(StorageError, match="had been synced"):
        await stratamq.aopen(killed)
    (killed / "meta" / "synced-writes").unlink()
    with pytest.raises(StorageError, match="is older than it was"):
        await stratamq.aopen(killed)


async def test_group_offsets_alone_are_no_reason_to_refuse(tmp_path: Path) -> None:
    folder, copy = tmp_path / "data", tmp_path / "copy"
    async with stratamq.aopen(folder) as node:
        await (await node.create_topic("t")).produce("v")
    shutil.copytree(folder / "meta", copy)
    async with stratamq.aopen(folder) as node:
        await (await node.topic("t")).commit("group", 0, 1)
    shutil.rmtree(folder / "meta")
    shutil.copytree(copy, folder / "meta")
    async with stratamq.aopen(folder) as node:
        assert [topic.name for topic in await node.topics()] == ["t"]


async def test_producer_ids_that_would_be_given_out_again_are_a_reason(tmp_path: Path) -> None:
    folder, copy = tmp_path / "data", tmp_path / "copy"
    async with stratamq.aopen(folder) as node:
        await node.create_topic("t")
    shutil.copytree(folder / "meta", copy)
    async with stratamq.aopen(folder) as node:
        await node.core.meta.submit(TakeProducerIds(first_id=0, count=1000))
    shutil.rmtree(folder / "meta")
    shutil.copytree(copy, folder / "meta")
    with pytest.raises(StorageError, match="producer id 1000 were stored"):
        await stratamq.aopen(folder)


async def test_what_a_crash_left_unnoted_is_noted_at_the_next_start(tmp_path: Path) -> None:
    folder, copy = tmp_path / "data", tmp_path / "copy"
    await filled(folder, copy)
    newest = (folder / REVISION_FILE).read_bytes()
    (folder / REVISION_FILE).write_bytes(encode_lines(["revision 1 producer-id 0"]))
    async with stratamq.aopen(folder):
        await until(lambda: (folder / REVISION_FILE).read_bytes() == newest)


@pytest.mark.parametrize("content", [b"", b"\xff\x00garbage", b"00000000 revision 9\n"])
async def test_a_damaged_note_is_reported_and_written_again(
    tmp_path: Path, content: bytes, caplog: Lines
) -> None:
    async with stratamq.aopen(tmp_path) as node:
        await node.create_topic("t")
    good = (tmp_path / REVISION_FILE).read_bytes()
    (tmp_path / REVISION_FILE).write_bytes(content)
    with caplog.at_level(logging.ERROR, "stratamq.damage"):
        async with stratamq.aopen(tmp_path):
            pass
    assert f"{tmp_path / REVISION_FILE} was missing or damaged" in caplog.text
    assert (tmp_path / f"{REVISION_FILE}.damaged").read_bytes() == content
    assert (tmp_path / REVISION_FILE).read_bytes() == good


async def test_a_new_folder_has_lost_nothing(tmp_path: Path, caplog: Lines) -> None:
    with caplog.at_level(logging.ERROR, "stratamq.damage"):
        for _ in range(2):
            async with stratamq.aopen(tmp_path):
                pass
    assert not caplog.messages
