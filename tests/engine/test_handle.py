"""Handles of shards that have followers: a producer waits for the acks it asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stratamq.engine.commit import Replicas, answer
from stratamq.engine.contract import Acks, AppendResult
from stratamq.engine.handle import Local, Remote, append_batch
from stratamq.engine.segment.engine import EngineSegment
from stratamq.model.errors import NotLeader, ShardNotFound
from stratamq.model.types import LeaderEpoch, NodeId, Offset
from stratamq.wire.kafka.records import encode_batch
from tests.engine.support import NOW, S, batch, record, spec
from tests.waiting import let_run

FOLLOWER = NodeId(2)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[EngineSegment]:
    one = EngineSegment(tmp_path)
    await one.open()
    await one.create_shard(spec(S, replicated=True))
    yield one
    await one.close()


def lead(engine: EngineSegment) -> None:
    followers = frozenset([FOLLOWER])
    answer(engine._shard(S).commits.lead(Replicas(followers, followers)))


def copied(engine: EngineSegment, end: int) -> None:
    answer(engine._shard(S).commits.copied(FOLLOWER, Offset(end)))


@pytest.mark.parametrize("acks", [None, Acks.ALL, Acks.QUORUM])
async def test_a_producer_waits_for_the_followers(engine: EngineSegment, acks: Acks | None) -> None:
    lead(engine)
    shard = engine.handle(S, Local(LeaderEpoch(0)))
    waiting = asyncio.create_task(append_batch(shard, batch(record(b"a")), acks))
    await let_run(0.05)
    assert not waiting.done()
    assert shard.offsets().high_watermark == 0
    copied(engine, 1)
    assert (await waiting).base_offset == 0
    assert shard.offsets().high_watermark == 1


async def test_one_that_asks_for_the_leader_does_not(engine: EngineSegment) -> None:
    lead(engine)
    shard = engine.handle(S, Local(LeaderEpoch(0)))
    assert (await append_batch(shard, batch(record(b"a")), Acks.LEADER)).base_offset == 0
    assert shard.offsets().high_watermark == 0


async def test_a_repeated_batch_waits_like_the_first(engine: EngineSegment) -> None:
    lead(engine)
    shard = engine.handle(S, Local(LeaderEpoch(0)))
    sent = encode_batch(
        [record(b"a")], now_ms=NOW, producer_id=7, producer_epoch=0, base_sequence=0
    )
    both = [asyncio.create_task(append_batch(shard, sent, Acks.ALL)) for _ in range(2)]
    await let_run(0.05)
    assert not any(one.done() for one in both)
    copied(engine, 1)
    assert [(await one).base_offset for one in both] == [0, 0]


async def test_truncation_answers_those_who_wait(engine: EngineSegment) -> None:
    lead(engine)
    shard = engine.handle(S, Local(LeaderEpoch(0)))
    waiting = asyncio.create_task(append_batch(shard, batch(record(b"a")), Acks.ALL))
    await let_run(0.05)
    await engine.truncate(S, Offset(0))
    with pytest.raises(NotLeader):
        await waiting


async def test_records_wait_as_batches_do(engine: EngineSegment) -> None:
    lead(engine)
    waiting = asyncio.create_task(engine.batch_write(S, [record(b"a"), record(b"b")], Acks.ALL))
    await let_run(0.05)
    assert not waiting.done()
    copied(engine, 2)
    assert await waiting == range(2)


async def test_where_another_node_leads_nothing_is_appended(engine: EngineSegment) -> None:
    shard = engine.handle(S, Remote(FOLLOWER))
    answers: list[AppendResult | BaseException] = []
    with pytest.raises(NotLeader):
        shard.append(batch(record(b"a")), Acks.ALL, answers.append)
    assert not answers


async def test_a_handle_ends_with_its_shard(engine: EngineSegment) -> None:
    shard = engine.handle(S, Local())
    await engine.delete_shard(S)
    for call in (shard.offsets, shard.last_stable, shard.local_start):
        with pytest.raises(ShardNotFound):
            call()
    with pytest.raises(ShardNotFound):
        shard.append(batch(record(b"a")), None, lambda _: None)
    with pytest.raises(ShardNotFound):
        await shard.fetch(Offset(0), 1000)
