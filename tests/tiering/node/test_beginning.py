"""When a node begins to care about object storage: not before a topic asks for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stratamq.engine.contract import ReadLimit
from stratamq.model.config import load
from stratamq.model.errors import StoreUnavailable
from stratamq.model.record import Record
from stratamq.model.settings.topic import StorageType
from stratamq.model.types import Offset
from stratamq.node import tiering
from stratamq.node.core import NodeCore
from tests.waiting import let_run, until

SECONDS_MAX = 60.0
MOVING = {"segment.bytes": 1024, "local.retention.ms": 0, "flush": "os", "retention.ms": -1}


def node(folder: Path, **settings: str) -> NodeCore:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return NodeCore(load(None, {}, {"data.dir": str(folder), **named}))


@pytest.fixture
async def core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NodeCore]:
    monkeypatch.setattr(tiering, "LOOK_S", 0.01)
    one = node(tmp_path)
    await one.start()
    yield one
    await one.stop()


async def begun(core: NodeCore) -> None:
    await until(lambda: core.tiering._service is not None)


async def test_a_change_of_a_topic_is_enough(core: NodeCore) -> None:
    await core.topics.create("orders")
    await let_run(0.1)
    assert core.tiering._service is None
    await core.topics.alter_config("orders", {"local.retention.ms": 3_600_000})
    await begun(core)  # long before `tier.interval.ms` is over


async def test_a_flush_is_enough(core: NodeCore) -> None:
    topic = await core.topics.create("orders")
    await core.drivers.batch_write("orders", [Record(value=b"x")])
    assert await core.tiering.flush(topic) == (1, 1)
    assert core.tiering.table(topic) == "stratamq.orders"


def test_a_node_without_history_does_not_load_its_libraries(tmp_path: Path) -> None:
    program = f"""
import asyncio, sys
from stratamq.model.config import load
from stratamq.node.core import NodeCore
async def main():
    core = NodeCore(load(None, {{}}, {{"data.dir": {str(tmp_path)!r}}}))
    await core.start()
    await core.topics.create("orders")
    await core.stop()
asyncio.run(main())
loaded = [name for name in ("pyarrow", "pyiceberg", "botocore") if name in sys.modules]
sys.exit(f"loaded {{loaded}}" if loaded else 0)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=SECONDS_MAX)


async def test_history_that_cannot_be_reached_is_no_gap(tmp_path: Path) -> None:
    """The rest of the node is there; the service begins when the store is back."""
    core = node(tmp_path, tier_interval_ms="50")
    await core.start()
    await core.topics.create("orders", config=MOVING)
    for _ in range(20):
        await core.drivers.batch_write("orders", [Record(value=bytes(200))], partition=0)
    engine = core.engines[StorageType.SEGMENT]
    (shard,) = engine.list_shards()
    await until(lambda: engine.local_start(shard) >= 10)
    await core.stop()
    (tmp_path / "cold").rename(tmp_path / "away")
    core = node(tmp_path, tier_interval_ms="50")
    await core.start()
    start = Offset(0)
    with pytest.raises(StoreUnavailable):
        await core.drivers.read_by_offset("orders", 0, start)
    assert core.tiering.trouble
    (placed,) = await core.drivers.batch_write("orders", [Record(value=b"hot")], partition=0)
    hot = await core.drivers.read_by_offset("orders", 0, placed.offset, ReadLimit(1))
    assert [record.value for record in hot] == [b"hot"]
    assert not (tmp_path / "cold").exists()
    (tmp_path / "away").rename(tmp_path / "cold")
    await begun(core)
    assert len(await core.drivers.read_by_offset("orders", 0, start)) == 21
    await core.stop()
