"""Partitions that are read at the same time: the answer is that of one after the other."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from stratamq.broker.kafka.fetch import reading
from stratamq.broker.kafka.fetch.reading import READ_TOGETHER, fitting
from stratamq.engine.engine_shard import EngineShard
from stratamq.model.errors import StorageError
from stratamq.wire.kafka.protocol import ErrorCode
from tests.broker.data.conftest import Rig
from tests.broker.data.test_fetch import fetched, part, request, write
from tests.waiting import let_run

PARTITIONS = 12


@pytest.mark.parametrize(
    ("limits", "left", "count"),
    [
        ([10], 100, 1),
        ([10, 10, 10], 30, 3),
        ([10, 10, 10], 29, 2),
        ([50, 10], 40, 1),
        ([10, 10], 0, 1),
        ([10, 90, 1], 100, 2),
    ],
)
def test_no_more_than_fit_together(limits: list[int], left: int, count: int) -> None:
    assert fitting(limits, left) == count


def by_threads(monkeypatch: pytest.MonkeyPatch, fetch: Callable[..., Any]) -> None:
    """Nothing is in memory, and this is how a thread reads."""
    monkeypatch.setattr(EngineShard, "fetch_at_once", lambda *args, **more: None)
    monkeypatch.setattr(EngineShard, "fetch", fetch)


async def test_they_are_read_together(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.core.topics.create("t", partitions=PARTITIONS)
    for number in range(PARTITIONS):
        await write(rig, b"%d" % number, partition=number)
    under_way, most = 0, 0
    real = EngineShard.fetch

    async def counted(*arguments: Any) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await let_run(0.001)
        try:
            return await real(*arguments)
        finally:
            under_way -= 1

    by_threads(monkeypatch, counted)
    found = await fetched(rig, request(*(part(number) for number in range(PARTITIONS))))
    assert [(one.partition_index, bool(one.records)) for one in found] == [
        (number, True) for number in range(PARTITIONS)
    ]
    assert most == READ_TOGETHER


@pytest.mark.parametrize("seed", range(20))
async def test_as_if_one_after_the_other(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Whatever the sizes and limits; the reads end in any order."""
    chance = random.Random(seed)
    await rig.core.topics.create("t", partitions=PARTITIONS)
    for number in range(PARTITIONS):
        sizes = [chance.choice([10, 300, 3000]) for _ in range(chance.randrange(4))]
        await write(rig, *(bytes(size) for size in sizes), partition=number)
    real = EngineShard.fetch

    async def slow(*arguments: Any) -> Any:
        await let_run(chance.random() / 500)
        return await real(*arguments)

    by_threads(monkeypatch, slow)
    order = chance.sample(range(PARTITIONS), PARTITIONS)
    limit = chance.choice([100, 1000, 5000])
    parts = [part(number, bytes_max=limit) for number in order] + [part(0, offset=99)]
    asked = request(*parts, max_bytes=chance.choice([100, 2000, 8000, 1 << 20]))
    together = await fetched(rig, asked)
    monkeypatch.setattr(reading, "READ_TOGETHER", 1)
    assert together == await fetched(rig, asked)
    assert [one.partition_index for one in together] == [*order, 0]


async def test_one_that_fails_leaves_the_others_alone(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.core.topics.create("t", partitions=3)
    for number in range(3):
        await write(rig, b"v", partition=number)
    real = EngineShard.fetch

    async def broken(shard: EngineShard, *rest: Any) -> Any:
        if shard.name.endswith("_1"):
            raise StorageError("the disk said no")
        return await real(shard, *rest)

    by_threads(monkeypatch, broken)
    found = await fetched(rig, request(part(0), part(1), part(2)))
    assert [(ErrorCode(one.error_code), bool(one.records)) for one in found] == [
        (ErrorCode.NONE, True),
        (ErrorCode.KAFKA_STORAGE_ERROR, False),
        (ErrorCode.NONE, True),
    ]


async def test_a_follower_is_told_where_its_log_left_ours(rig: Rig) -> None:
    await rig.core.topics.create("t")
    await write(rig, b"a", b"b")
    (same,) = await fetched(rig, request(part(offset=2, last_fetched_epoch=0)))
    assert (same.error_code, same.diverging_epoch) == (0, None)
    (later,) = await fetched(rig, request(part(offset=2, last_fetched_epoch=5)))
    assert (later.diverging_epoch.epoch, later.diverging_epoch.end_offset) == (0, 2)
    assert (later.error_code, later.records) == (0, b"")
    (longer,) = await fetched(rig, request(part(offset=7, last_fetched_epoch=0)))
    assert (longer.diverging_epoch.epoch, longer.diverging_epoch.end_offset) == (0, 2)
