"""EngineSegment over an index store that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stratamq.engine.limits import EngineLimits
from stratamq.engine.segment.engine import EngineSegment
from stratamq.model.errors import ShardPoisoned, StorageError
from stratamq.model.types import Offset
from tests.engine.support import S, T, batch, read_all, record, spec, values
from tests.twins.kv import SimKV

LIMITS = EngineLimits(workers=2, reader_threads=1)


class Stuck:
    """As RocksDB after an I/O error: every write is refused until the store is opened anew."""

    def __init__(self, kv: SimKV) -> None:
        self.kv, self.refused, self.reopened = kv, False, 0
        kv.before_write, kv.on_reopen = self.before_write, self.on_reopen

    def before_write(self, sync: bool) -> None:
        if self.refused:
            raise StorageError("the index store failed: read only since an I/O error")

    def on_reopen(self) -> None:
        self.reopened += 1
        self.refused = False


@asynccontextmanager
async def engine_over(data_dir: Path, kv: SimKV) -> AsyncIterator[EngineSegment]:
    engine = EngineSegment(data_dir, limits=LIMITS, open_kv=lambda *_, **__: kv)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


async def test_an_index_that_refuses_writes_is_opened_anew(tmp_path: Path) -> None:
    stuck = Stuck(kv := SimKV())
    async with engine_over(tmp_path, kv) as engine:
        for shard in (S, T):
            await engine.create_shard(spec(shard, flush="sync"))
            await engine.write(shard, record(b"before", b"k"))
        stuck.refused = True
        with pytest.raises(ShardPoisoned, match="read only"):
            await engine.write(S, record(b"unanswered", b"k"))
        await engine.recover_shard(S)
        assert stuck.reopened == 1
        kept = values(await read_all(engine))
        assert kept[0] == b"before"
        assert await engine.write(S, record(b"after", b"k")) == len(kept)
        found = values(await engine.read_by_key(S, b"k", history=True))
        assert found == [b"after", *reversed(kept)]
        assert await engine.write(T, record(b"after", b"k")) == 1, "its neighbours as well"


async def test_an_index_that_takes_writes_is_left_alone(tmp_path: Path) -> None:
    stuck = Stuck(kv := SimKV())
    async with engine_over(tmp_path, kv) as engine:
        await engine.create_shard(spec())
        await engine.recover_shard(S)
        assert stuck.reopened == 0


async def test_an_index_that_stays_broken_leaves_the_shard_poisoned(tmp_path: Path) -> None:
    stuck = Stuck(kv := SimKV())
    async with engine_over(tmp_path, kv) as engine:
        await engine.create_shard(spec())
        stuck.refused, kv.on_reopen = True, lambda: None
        with pytest.raises(ShardPoisoned):
            await engine.write(S, record(b"v", b"k"))
        with pytest.raises(StorageError):
            await engine.recover_shard(S)
        with pytest.raises(ShardPoisoned):
            await engine.write(S, record(b"v", b"k"))
        stuck.refused = False
        await engine.recover_shard(S)
        assert await engine.write(S, record(b"v", b"k")) >= 0


async def test_a_gap_at_the_end_of_a_follower_survives_the_loss_of_its_index(
    tmp_path: Path,
) -> None:
    """Only the log can tell then, and a gap is no sign of damage in it."""
    for kv in (SimKV(), SimKV()):
        async with engine_over(tmp_path, kv) as engine:
            if not engine.list_shards():
                await engine.create_shard(spec(S, replicated=True, flush="sync"))
                await engine.append_replica(S, batch(b"0", base=0) + batch(b"7", base=7))
            assert engine.offsets(S).end == 8
            await engine.advance_high_watermark(S, Offset(8))
            assert values(await read_all(engine)) == [b"0", b"7"]
