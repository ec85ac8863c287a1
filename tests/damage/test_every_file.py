"""Every kind of file that a node keeps, lost or spoilt in every way: the node starts, topics that
are not concerned serve, nothing wrong is read, no offset is given out twice, nothing is destroyed.

`docs/damage.md` says for each kind what happens and what to do.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import stratamq
from stratamq.model.errors import OffsetOutOfRange, StrataError
from stratamq.node.data_dir import read_damage
from tests.waiting import every

RECORDS = 60
VALUES = [f"value {number}" for number in range(RECORDS)]
TRIMMED, DELETED = 2, 25

STORAGES = {
    "segment": {"segment.bytes": 1024, "flush": "sync"},
    "memory": {"segment.bytes": 1024, "memory.persist": True},
    "rocksdb": {"flush": "sync"},
}


@asynccontextmanager
async def node(folder: Path) -> AsyncIterator[Any]:
    async with stratamq.aopen(folder) as opened:
        yield opened


async def fill(folder: Path, storage: str) -> None:
    """Two topics of this storage, and one of each of the others."""
    async with node(folder) as opened:
        for name in ("bad", "good"):
            topic = await opened.create_topic(name, storage=storage, config=STORAGES[storage])
            for value in VALUES:
                await topic.produce(value, key="key")
            await topic.trim(TRIMMED)
            await topic.delete_by_offset(DELETED)
        for other in STORAGES.keys() - {storage}:
            topic = await opened.create_topic(other, storage=other, config=STORAGES[other])
            await topic.produce("only", key="key")


def lost(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def halved(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[len(content) // 2] ^= 0x10
        path.write_bytes(content)


def garbled(path: Path) -> None:
    path.write_bytes(b"\xff\x00garbage" * 40)


HARMS = [lost, emptied, halved, flipped, garbled]
Harm = Callable[[Path], None]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A filled folder for each storage, made once."""
    import asyncio

    made: dict[str, Path] = {}
    for storage in STORAGES:
        made[storage] = tmp_path_factory.mktemp(storage) / "data"
        asyncio.run(fill(made[storage], storage))
    return made


def shard_of(folder: Path, topic: str) -> Path:
    """The folder of one of the two full topics."""
    roots = [folder / "segments", folder / "memory" / "segments"]
    found = [path for root in roots if root.exists() for path in sorted(root.iterdir())]
    full = [path for path in found if len(list(path.glob("*.log"))) > 3]
    assert len(full) == 2
    return full[0] if topic == "first" else full[1]


KINDS = {
    "spec": "shard.json",
    "file list": "file-list",
    "oldest log": "*.log",
    "middle log": "*.log",
    "newest log": "*.log",
    "offset sidecar": "*.index",
    "time sidecar": "*.timeindex",
    "epochs": "leader-epoch-checkpoint",
    "start offset": "start-offset",
    "deletions": "deletions",
    "producers": "*.producers",
}


def file_of(shard: Path, kind: str) -> Path:
    found = sorted(shard.glob(KINDS[kind]))
    assert found, f"there is no {kind}"
    if kind.endswith("log"):
        return found[{"oldest": 0, "middle": len(found) // 2, "newest": -1}[kind.split()[0]]]
    return found[0]


async def look(topic: Any) -> dict[int, str]:
    """What is read at each offset, asking for each in turn. A refusal is no answer; an answer for
    another offset than the one that was asked for is one that a consumer would take for it."""
    found: dict[int, str] = {}
    for offset in range(TRIMMED, RECORDS):
        try:
            messages = await topic.read(offset, limit=1)
        except StrataError:
            continue
        found[offset] = messages[0].text if messages else ""
        if messages and messages[0].offset != offset:
            found[offset] = f"offset {messages[0].offset}"
    return found


EXPECTED = {offset: VALUES[offset] for offset in range(TRIMMED, RECORDS)}
EXPECTED[DELETED] = f"offset {DELETED + 1}"


async def check_topics(folder: Path, harmed: str, *, marks_may_be_lost: bool = False) -> None:
    """`harmed` is the id of the topic whose shard was harmed, or empty."""
    async with node(folder) as opened:
        for topic in await opened.topics():
            if topic.name not in ("bad", "good"):
                assert [one.text for one in await topic.read(0)] == ["only"]
                continue
            if topic.info.topic_id != harmed:
                assert await look(topic) == EXPECTED
                assert (await topic.produce("more")).offset == RECORDS
                continue
            for offset, text in (await look(topic)).items():
                right = {EXPECTED[offset]}
                if marks_may_be_lost and offset == DELETED:
                    right.add(VALUES[DELETED])
                assert text in right, f"{offset} gives {text!r}"
            try:
                assert (await topic.produce("more")).offset >= RECORDS
            except OffsetOutOfRange:
                raise
            except StrataError:
                continue  # refused by name


def kept(shard: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in shard.glob("*.log")}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("storage", ["segment", "memory"])
async def test_a_file_of_a_shard(
    originals: dict[str, Path], tmp_path: Path, storage: str, kind: str, harm: Harm
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(originals[storage], folder)
    shard = shard_of(folder, "first")
    path = file_of(shard, kind)
    harm(path)
    before = kept(shard)
    harmed = shard.name.rpartition("_")[0]
    marks = kind in ("deletions", "file list")
    await check_topics(folder, harmed, marks_may_be_lost=marks)
    await check_topics_again(folder, harmed, marks)
    for name, content in every(before.items()):
        left = b"".join(found.read_bytes() for found in sorted(shard.glob(f"{name}*")))
        assert content[: len(content) // 2] in left, f"{name} was destroyed"


async def check_topics_again(folder: Path, harmed: str, marks: bool) -> None:
    """A second start finds the same; offsets of the first are not given out again."""
    async with node(folder) as opened:
        for topic in await opened.topics():
            if topic.name in ("bad", "good") and topic.info.topic_id != harmed:
                assert (await topic.produce("again")).offset == RECORDS + 1
            elif topic.name in ("bad", "good"):
                for offset, text in (await look(topic)).items():
                    assert text == EXPECTED[offset] or (marks and offset == DELETED)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("storage", ["segment", "memory"])
async def test_a_pipe_in_the_place_of_a_file_stalls_nothing(
    originals: dict[str, Path], tmp_path: Path, storage: str, kind: str
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(originals[storage], folder)
    shard = shard_of(folder, "first")
    path = file_of(shard, kind)
    path.unlink()
    os.mkfifo(path)
    await check_topics(folder, shard.name.rpartition("_")[0], marks_may_be_lost=True)


async def test_a_pipe_in_the_place_of_the_watermarks_stalls_nothing(
    originals: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(originals["segment"], folder)
    path = folder / "segments" / "high-watermarks"
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    await check_topics(folder, "")


INDEX_FILES = ["CURRENT", "MANIFEST-*", "*.sst", "OPTIONS-*", "IDENTITY", "*-size", "synced-writes"]


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("pattern", INDEX_FILES)
@pytest.mark.parametrize("storage", ["segment", "memory"])
async def test_a_file_of_the_index(
    originals: dict[str, Path], tmp_path: Path, storage: str, pattern: str, harm: Harm
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(originals[storage], folder)
    home = folder / "memory" if storage == "memory" else folder
    harm(next((home / "index").glob(pattern)))
    await check_topics(folder, "")


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("pattern", ["CURRENT", "MANIFEST-*", "*.sst"])
async def test_a_file_of_the_rocksdb_engine(
    originals: dict[str, Path], tmp_path: Path, pattern: str, harm: Harm
) -> None:
    """Its rows are the records: every topic in it may be refused, and no other."""
    folder = tmp_path / "data"
    shutil.copytree(originals["rocksdb"], folder)
    harm(next((folder / "rocksdb").glob(pattern)))
    tables = {path.name: path.read_bytes() for path in (folder / "rocksdb").glob("*.sst")}
    async with node(folder) as opened:
        for topic in every(await opened.topics()):
            if topic.name not in ("bad", "good"):
                assert [one.text for one in await topic.read(0)] == ["only"]
                continue
            for offset, text in (await look(topic)).items():
                assert text == EXPECTED[offset]
            try:
                placed = await topic.produce("more")
            except StrataError:
                continue  # refused by name
            assert placed.offset == RECORDS
    left = {path.name: path.read_bytes() for path in (folder / "rocksdb").glob("*.sst")}
    assert left.items() >= tables.items()


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("pattern", ["CURRENT", "MANIFEST-*", "*.sst"])
async def test_a_file_of_the_metadata(
    originals: dict[str, Path], tmp_path: Path, pattern: str, harm: Harm
) -> None:
    """Without its metadata a node does not start; it says why, and changes nothing."""
    folder = tmp_path / "data"
    shutil.copytree(originals["segment"], folder)
    harm(next((folder / "meta").glob(pattern)))
    before = {path: path.read_bytes() for path in folder.rglob("*.log") if path.is_file()}
    meta = content(folder / "meta")
    with pytest.raises(StrataError, match="meta"):
        async with node(folder):
            pass
    assert {path: path.read_bytes() for path in before} == before
    assert content(folder / "meta") == meta


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a killed node has left: the newest rows of its databases are in write-ahead logs."""
    home = tmp_path_factory.mktemp("killed")

    async def fill_and_copy() -> None:
        async with node(home / "running") as opened:
            topic = await opened.create_topic("rows", storage="rocksdb")
            for value in VALUES:
                await topic.produce(value)
            shutil.copytree(home / "running", home / "data")

    asyncio.run(fill_and_copy())
    return home / "data"


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


async def read_rows(folder: Path) -> list[str | None]:
    async with node(folder) as opened:
        return [one.text for one in await (await opened.topic("rows")).read(0)]


@pytest.mark.parametrize("harm", HARMS)
async def test_a_write_ahead_log_of_the_rocksdb_engine(
    killed: Path, tmp_path: Path, harm: Harm
) -> None:
    """Every row of it was acknowledged: the topics are refused until the file is back."""
    folder = tmp_path / "data"
    shutil.copytree(killed, folder)
    log = next((folder / "rocksdb").glob("*.log"))
    whole = log.read_bytes()
    harm(log)
    left = content(folder / "rocksdb")
    with pytest.raises(StrataError, match="rocksdb"):
        await read_rows(folder)
    assert content(folder / "rocksdb") == left
    assert any("rocksdb" in finding for finding in read_damage(folder))
    log.write_bytes(whole)
    assert await read_rows(folder) == VALUES


@pytest.mark.parametrize("harm", HARMS)
async def test_a_write_ahead_log_of_the_metadata(killed: Path, tmp_path: Path, harm: Harm) -> None:
    folder = tmp_path / "data"
    shutil.copytree(killed, folder)
    log = next((folder / "meta").glob("*.log"))
    whole = log.read_bytes()
    harm(log)
    left = content(folder / "meta")
    with pytest.raises(StrataError, match="meta"):
        await read_rows(folder)
    assert content(folder / "meta") == left
    log.write_bytes(whole)
    assert await read_rows(folder) == VALUES


async def test_an_index_that_is_no_folder_is_rebuilt(
    originals: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(originals["segment"], folder)
    for _ in range(2):
        shutil.rmtree(folder / "index")
        (folder / "index").write_text("mine")
        async with node(folder) as opened:
            assert {topic.name for topic in await opened.topics()} >= {"bad", "good"}
            assert await look(await opened.topic("bad")) == EXPECTED
        assert (folder / "index-damaged").read_text() == "mine"


async def test_metadata_that_is_gone_is_not_begun_again(
    originals: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(originals["segment"], folder)
    (folder / "meta").rename(tmp_path / "meta")
    with pytest.raises(StrataError, match="bring the metadata back"):
        async with node(folder):
            pass
    assert not (folder / "meta").exists(), "no other one is in its way"
    (tmp_path / "meta").rename(folder / "meta")
    await check_topics(folder, "")


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", ["LOCK", "cluster.id", "sasl.secret", "damage.jsonl"])
async def test_a_small_file_of_the_node(
    originals: dict[str, Path], tmp_path: Path, name: str, harm: Harm
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(originals["segment"], folder)
    if (folder / name).exists():
        harm(folder / name)
    await check_topics(folder, "")


async def test_strange_files_are_left_alone(originals: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(originals["segment"], folder)
    shard = shard_of(folder, "first")
    strangers = [
        folder / "notes.txt",
        folder / "segments" / "notes.txt",
        folder / "segments" / "lost+found" / "file",
        shard / "notes.txt",
        shard / "sub" / "file",
        shard / "00000000000000000007.index",
    ]
    for path in strangers:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    await check_topics(folder, "")
    assert all(path.read_text() == "mine" for path in strangers)


async def test_a_finding_is_logged_once_and_kept_for_the_doctor(
    originals: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(originals["segment"], folder)
    path = file_of(shard_of(folder, "first"), "middle log")
    flipped(path)
    async with node(folder) as opened:
        for topic in await opened.topics():
            if topic.name in ("bad", "good"):
                await look(topic)
                await look(topic)
    text = (folder / "damage.jsonl").read_text()
    lines = [json.loads(line)["found"] for line in text.splitlines()]
    assert len(lines) == 1
    assert str(path) in lines[0]
    assert [one.getMessage() for one in caplog.records if one.name == "stratamq.damage"] == lines
