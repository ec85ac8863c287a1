"""Files that are lost or damaged under a running node."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest

import stratamq
from stratamq.model.errors import StorageError, StrataError
from stratamq.node.data_dir import read_damage

Lines = pytest.LogCaptureFixture


def only_shard(root: Path) -> Path:
    (found,) = (path for path in root.iterdir() if path.is_dir())
    return found


@pytest.mark.parametrize("storage", ["segment", "memory"])
async def test_a_shard_whose_folder_is_removed_takes_no_writes_until_it_is_back(
    tmp_path: Path, storage: str
) -> None:
    persist = {"memory.persist": True} if storage == "memory" else {}
    root = tmp_path / "data" / ("memory/segments" if storage == "memory" else "segments")
    async with stratamq.aopen(tmp_path / "data") as node:
        topic = await node.create_topic("t", storage=storage, config=persist)
        other = await node.create_topic("u", storage="rocksdb")
        await topic.produce("before")
        shard = only_shard(root)
        shutil.move(shard, tmp_path / "away")
        for _ in range(2):
            await node.core.housekeeper.run_once()
            with pytest.raises(StrataError, match=r"removed while it was open|is missing"):
                await topic.produce("lost with the process")
        await other.produce("fine")
        lines = [line for line in read_damage(tmp_path / "data") if shard.name in line]
        assert len(lines) == 1
        shutil.move(tmp_path / "away", shard)
        await node.core.housekeeper.run_once()
        assert await topic.produce("after")


@pytest.mark.parametrize("content", [None, b"", b"{}"])
async def test_a_shard_json_that_is_damaged_under_an_open_shard_is_written_again(
    tmp_path: Path, content: bytes | None
) -> None:
    async with stratamq.aopen(tmp_path) as node:
        topic = await node.create_topic("t", storage="segment", config={"retention.ms": 77})
        await topic.produce("v")
        path = only_shard(tmp_path / "segments") / "shard.json"
        good = path.read_bytes()
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        await node.core.recover()
        written, before = json.loads(path.read_bytes()), json.loads(good)
        # From when the shard is cannot be known any more: see docs/formats/segment-files.md.
        assert (written.pop("format"), before.pop("format")) == (2, 3)
        assert written.pop("checksum") != before.pop("checksum")
        assert written == before
        if content is not None:
            assert path.with_name("shard.json.damaged").read_bytes() == content
        await topic.produce("w")


async def test_a_failure_of_all_rounds_is_logged_once(
    tmp_path: Path, caplog: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stratamq.aopen(tmp_path) as node:
        await node.create_topic("t", storage="memory", partitions=3)
        driver = await node.core.drivers.driver("EngineMemory")
        failing = True

        async def fail(shard: str) -> int:
            if failing:
                raise StorageError("no space left")
            return 0

        monkeypatch.setattr(driver, "compact", fail)
        caplog.set_level(logging.ERROR, "stratamq.adapter.housekeeping")
        for _ in range(3):
            assert (await node.core.housekeeper.run_once()).failures == 3
        assert len(caplog.messages) == 1
        failing = False
        await node.core.housekeeper.run_once()
        failing = True
        await node.core.housekeeper.run_once()
        assert len(caplog.messages) == 2, "it is back"
