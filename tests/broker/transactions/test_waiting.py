"""A reader that finds nothing below the last stable offset waits for it to move."""

from __future__ import annotations

import asyncio

import pytest

from stratamq.broker.kafka.answer_budget import AnswerBudget
from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.fetch import Fetch
from stratamq.engine.engine_shard import EngineShard
from stratamq.model.types import Offset
from stratamq.wire.kafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from tests.broker.transactions.rig import TOPIC, ProducerIdAndEpoch, Rig, shown
from tests.waiting import let_run


async def test_it_is_woken_though_it_was_not_at_the_end(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last stable offset may lie inside a batch, as after a compaction."""
    plain = ProducerIdAndEpoch(-1, -1)
    await rig.produce(plain, b"a", b"b", sequence=-1, transactional=False, transactional_id=None)
    stable = Offset(1)
    position = EngineShard.position
    monkeypatch.setattr(
        EngineShard, "position", lambda shard: position(shard)._replace(last_stable=stable)
    )
    fetch = Fetch(rig.services, AnswerBudget(1 << 20))
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    asked = FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        isolation_level=1,
        topics=[FetchTopic(topic=TOPIC, partitions=[part])],
    )
    waiting = asyncio.create_task(fetch.fetch(asked, Caller(version=11)))
    await let_run()
    assert not waiting.done()
    stable = Offset(3)
    await rig.produce(plain, b"c", sequence=-1, transactional=False, transactional_id=None)
    told = await asyncio.wait_for(waiting, 10)
    assert shown(told.responses[0].partitions[0]) == [b"a", b"b", b"c"]
