"""Batches that wait until their partition is added are not overtaken by those that come later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stratamq.broker.kafka.transactions.machine import ProducerIdAndEpoch
from stratamq.model.errors import Closed
from stratamq.model.record import Record
from stratamq.model.shard import shard_name
from stratamq.model.types import ShardName
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.records import BatchHeader, encode_batch, read_header
from tests.broker.transactions.rig import ID, TOPIC, Rig

AFTER = 50
"""Batches that still come once the partition is added."""


def header_of(who: ProducerIdAndEpoch) -> BatchHeader:
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


async def test_a_batch_that_comes_in_the_turn_in_which_the_partition_is_added(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = await rig.producer()
    header = header_of(who)
    shard = shard_name(rig.services.broker_cache.topic(TOPIC).topic_id, 0)
    admitted: list[int] = []
    real, sent = rig.coordinator.add, list[asyncio.Task[None]]()

    async def admit(number: int) -> None:
        await rig.transactions.verifier.admit(ID, shard, header, 12)
        admitted.append(number)

    async def add(*args: Any, **more: Any) -> None:
        await real(*args, **more)
        if len(sent) < 3:
            sent.append(asyncio.create_task(admit(len(sent) + 1)))  # it runs before those that wait

    monkeypatch.setattr(rig.coordinator, "add", add)
    await admit(0)
    for one in sent:  # which grows
        await one
    assert admitted == [0, 1, 2, 3]


async def test_partitions_of_one_request_are_added_by_one_write(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = await rig.producer()
    real, writes = rig.services.meta.submit, []

    async def submit(*commands: Any) -> int:
        writes.append(commands)
        return await real(*commands)

    monkeypatch.setattr(rig.services.meta, "submit", submit)
    answers = await asyncio.gather(
        *(rig.produce(who, b"a", partition=number, version=12) for number in range(3)),
        *(rig.produce(who, b"b", partition=number, version=12, sequence=1) for number in range(3)),
    )
    assert [one.error_code for one in answers] == [0] * 6
    assert len(writes) == 1
    assert (await rig.end(who, version=5)).error_code == 0
    for number in range(3):
        assert await rig.read(partition=number) == [b"a", b"b"]


async def test_a_producer_that_was_fenced_is_refused_with_all_its_batches(rig: Rig) -> None:
    who = await rig.producer()
    await rig.producer()
    answers = await asyncio.gather(
        *(rig.produce(who, b"a", partition=number, version=12) for number in range(3))
    )
    assert {one.error_code for one in answers} == {ErrorCode.INVALID_PRODUCER_EPOCH}


async def test_an_error_that_nobody_expects_is_answered_and_the_producer_can_go_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = await rig.producer()

    async def add(*args: Any, **more: Any) -> None:
        raise RuntimeError("nobody expects it")

    with monkeypatch.context() as broken:
        broken.setattr(rig.coordinator, "add", add)
        answers = await asyncio.gather(
            *(rig.produce(who, b"a", partition=number, version=12) for number in range(2))
        )
    assert {one.error_code for one in answers} == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert (await rig.produce(who, b"a", version=12)).error_code == 0


async def test_batches_that_wait_are_answered_when_the_work_for_them_is_cancelled(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = await rig.producer()
    header = header_of(who)
    shard = shard_name(rig.services.broker_cache.topic(TOPIC).topic_id, 0)
    begun = asyncio.Event()

    async def add(*args: Any, **more: Any) -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(rig.coordinator, "add", add)
    verifier = rig.transactions.verifier
    first = asyncio.create_task(verifier.admit(ID, shard, header, 12))
    await begun.wait()
    second = asyncio.create_task(verifier.admit(ID, shard, header, 12))
    await asyncio.sleep(0)
    for task in list(verifier._work):
        task.cancel()
    for one in (first, second):
        with pytest.raises(Closed):
            await one
