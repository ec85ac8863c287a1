"""A store that fails or lies: segments stay here until it is sure that they are there."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from stratamq.model.shard import shard_name
from stratamq.model.types import TopicId
from stratamq.tiering.mover.contract import MoverLimits
from stratamq.tiering.stores.options import StoreOptions
from tests.tiering.mover.rig import QUICK, SHARD, TIERED, Rig, Rows
from tests.tiering.stores.proxy import Fault, Message, Proxy, proxy_to
from tests.waiting import let_run

OTHER = TopicId("e" * 32)
PATIENT = MoverLimits(interval_ms=10, orphan_grace_ms=3_600_000, backoff_ms=1, backoff_ms_max=2)


def is_put(request: Message) -> bool:
    return request.method in ("PUT", "POST")


def is_get(request: Message) -> bool:
    return request.method == "GET" and ".parquet" in request.target


@pytest.fixture
async def lines(s3_options: StoreOptions, tmp_path: Path) -> AsyncIterator[tuple[Rig, Proxy]]:
    """A node whose store is behind the proxy. Objects that failed must go without the search for
    orphans, which has to wait for an hour."""
    async with proxy_to(s3_options.s3_endpoint) as (proxy, address):
        limits = replace(
            s3_options.limits, timeout_ms=700, attempts_max=2, backoff_ms=1, retry_ms_max=3_000
        )
        options = replace(s3_options, s3_endpoint=address, limits=limits)
        async with Rig(tmp_path / "node", options, limits=PATIENT) as rig:
            await rig.create()
            yield rig, proxy
            proxy.end()


async def unharmed(rig: Rig, rows: Rows) -> None:
    """Nothing has moved, and everything is here."""
    assert rig.files() == ()
    assert await rig.read_rows(SHARD, rig.engine.local_start(SHARD)) == rows
    assert await rig.all_rows() == rows


@pytest.mark.parametrize(
    ("fault", "only"),
    [
        (Fault.SILENCE, is_put),
        (Fault.ERROR_500, is_put),
        (Fault.BUSY_503, is_put),
        (Fault.WRONG_REQUEST, is_put),
        (Fault.SILENCE, is_get),
        (Fault.ERROR_500, is_get),
        (Fault.TRUNCATE, is_get),
        (Fault.WRONG_ANSWER, is_get),
    ],
)
async def test_a_store_that_fails(lines: tuple[Rig, Proxy], fault: Fault, only: object) -> None:
    rig, proxy = lines
    rows = await rig.fill(30)
    proxy.spoil(only=only, ever=fault)  # type: ignore[arg-type]
    done = await rig.mover.run_once()
    assert (done.failures, done.segments, done.freed_bytes) == (1, 0, 0)
    assert proxy.met
    await unharmed(rig, rows)
    status = rig.mover.status()
    assert (status.troubled, status.totals.failures) == (1, 1)
    assert status.totals.last_error
    assert status.waiting_segments > 0
    proxy.spoil()
    await let_run(0.005)  # the pause after a failure
    await rig.mover.run_once()
    assert await rig.all_rows() == rows
    assert len(rig.engine.segments(SHARD)) == 1
    named = {one.key for file in rig.files() for one in file.objects}
    assert await rig.objects() == named, "what failed was removed, without the search for orphans"
    assert rig.mover.status().troubled == 0


async def test_lost_answers_do_not_double_anything(lines: tuple[Rig, Proxy]) -> None:
    rig, proxy = lines
    rows = await rig.fill(30)
    proxy.spoil([Fault.LOSE_ANSWER], only=is_put)
    done = await rig.mover.run_once()
    assert done.failures == 0
    assert await rig.all_rows() == rows
    assert len(await rig.objects()) == len(rig.files()) == done.segments


async def test_said_once_for_each_reason(
    lines: tuple[Rig, Proxy], caplog: pytest.LogCaptureFixture
) -> None:
    rig, proxy = lines
    caplog.set_level(logging.INFO, "stratamq.tiering.mover")
    await rig.fill(30)
    for _ in range(3):
        proxy.spoil(only=is_put, ever=Fault.ERROR_500)
        assert (await rig.mover.run_once()).failures == 1
        await let_run(0.005)
    warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "orders" in warnings[0].getMessage()
    proxy.spoil(only=is_get, ever=Fault.WRONG_ANSWER)
    await rig.mover.run_once()
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 2
    proxy.spoil()
    await let_run(0.005)
    await rig.mover.run_once()
    assert any("works again" in one.getMessage() for one in caplog.records)


async def test_a_shard_that_failed_waits(s3_options: StoreOptions, tmp_path: Path) -> None:
    options = replace(s3_options, s3_endpoint="http://127.0.0.1:1")
    limits = replace(PATIENT, backoff_ms=600_000, backoff_ms_max=600_000)
    async with Rig(tmp_path / "node", options, limits=limits) as rig:
        await rig.create()
        await rig.fill(30)
        assert (await rig.mover.run_once()).failures == 1
        assert (await rig.mover.run_once()).failures == 0
        assert rig.mover.status().troubled == 1


async def test_a_store_that_is_down_is_not_asked_by_every_shard(
    s3_options: StoreOptions, tmp_path: Path
) -> None:
    options = replace(s3_options, s3_endpoint="http://127.0.0.1:1")
    async with Rig(tmp_path / "node", options, limits=PATIENT) as rig:
        await rig.create(partitions=6)
        for partition in range(6):
            await rig.fill(20, shard=shard_name(rig.topics[0].topic_id, partition))
        assert (await rig.mover.run_once()).failures == 3


async def test_damage_is_not_moved_and_holds_nobody_else_up(
    directory_options: StoreOptions, tmp_path: Path
) -> None:
    async with Rig(tmp_path / "node", directory_options) as rig:
        await rig.create()
        await rig.create(name="other", topic_id=OTHER)
        mine = await rig.fill(60)
        rows = await rig.fill(30, shard=shard_name(OTHER, 0))
        damaged = min((rig.folder / "data").rglob(f"*{SHARD}*/*.log"))
        data = bytearray(damaged.read_bytes())
        data[200] ^= 1
        damaged.write_bytes(data)
        done = await rig.mover.run_once()
        assert done.failures == 1
        local = [one for one in rig.engine.segments(SHARD) if not one.active]
        assert [one.base_offset for one in rig.files()] == [one.base_offset for one in local[1:]]
        assert damaged.exists()
        assert rig.engine.local_start(SHARD) == 0, "nothing goes from here"
        assert await rig.all_rows(shard_name(OTHER, 0)) == rows
        assert rig.files(shard_name(OTHER, 0))
        assert "CRC" in rig.mover.status().totals.last_error
        data[200] ^= 1
        damaged.write_bytes(data)
        await let_run(0.005)  # the pause after a failure
        assert (await rig.mover.run_once()).failures == 0
        assert len(rig.engine.segments(SHARD)) == 1
        assert await rig.all_rows() == mine


async def test_the_speed_is_limited(directory_options: StoreOptions, tmp_path: Path) -> None:
    rate = 12_000
    limits = replace(QUICK, bytes_per_second=rate)
    async with Rig(tmp_path / "node", directory_options, limits=limits) as rig:
        await rig.create({**TIERED, "tier.format": "log"})
        await rig.fill(25)
        await rig.mover.run_once()  # the converter is up
        before = len(rig.files())
        await rig.fill(70, seed=1)
        began = time.monotonic()
        await rig.mover.run_once()
        took_s = time.monotonic() - began
        stored = [one.size for file in rig.files()[before:] for one in file.objects]
        assert len(stored) > 6
        assert took_s >= (sum(stored) - max(stored)) / rate


async def test_what_a_dead_process_left_is_removed(
    directory_options: StoreOptions, tmp_path: Path
) -> None:
    rig = Rig(tmp_path / "node", directory_options)
    left = rig.folder / "tiering" / "moving" / "some-shard" / "file.parquet"
    others = rig.folder / "tiering" / "others"
    left.parent.mkdir(parents=True)
    for path in (left, others):
        path.write_bytes(b"half a file")
    async with rig:
        assert not left.exists()
        assert others.exists()
