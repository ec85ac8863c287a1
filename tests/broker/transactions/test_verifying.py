"""Batches that wait until their partition is added are not overtaken by those that come later."""

from __future__ import annotations

import asyncio

from stratamq.broker.kafka.transactions.machine import Producer
from stratamq.model.record import Record
from stratamq.model.shard import shard_name
from stratamq.model.types import ShardName
from stratamq.wire.kafka.records import BatchHeader, encode_batch, read_header
from tests.broker.transactions.rig import ID, TOPIC, Rig

AFTER = 50
"""Batches that still come once the partition is added."""


def header_of(who: Producer) -> BatchHeader:
    batch = encode_batch(
        [Record(value=b"a")],
        now_ms=0,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        base_sequence=0,
        transactional=True,
    )
    return read_header(batch)


def is_added(rig: Rig, shard: ShardName) -> bool:
    one = rig.coordinator.find(ID)
    return one is not None and shard in one.shards


async def test_one_batch_in_every_turn_of_the_loop(rig: Rig) -> None:
    who = await rig.producer()
    header = header_of(who)
    shard = shard_name(rig.services.broker_cache.topic(TOPIC).topic_id, 0)
    admitted: list[int] = []

    async def admit(number: int) -> None:
        await rig.transactions.verifier.admit(ID, shard, header, 12)
        admitted.append(number)

    sent: list[asyncio.Task[None]] = []
    left = AFTER
    while left:
        sent.append(asyncio.create_task(admit(len(sent))))
        await asyncio.sleep(0)
        left -= is_added(rig, shard)
    await asyncio.gather(*sent)
    assert admitted == list(range(len(sent)))
