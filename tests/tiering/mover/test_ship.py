"""Files into the store and back, at no more than the given speed."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from stratamq.meta.tier.files import TierObject
from stratamq.model.clock import ManualClock
from stratamq.model.errors import Closed, CorruptObject, ObjectExists, ObjectNotFound, StoreError
from stratamq.tiering.converter.requests import FileSums
from stratamq.tiering.mover.ship import Bandwidth, Flights, Shipper
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions
from stratamq.tiering.stores.store import Store
from tests.tiering.stores.proxy import Fault, Message, proxy_to
from tests.waiting import let_run

MIB = 1 << 20
DATA = os.urandom(3 * MIB + 11)
SUMS = FileSums(len(DATA), crc32c(DATA))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(DATA)
    return tmp_path / "file"


@pytest.fixture
async def store(directory_options: StoreOptions) -> AsyncIterator[Store]:
    opened = await open_store(directory_options)
    yield opened
    await opened.close()


async def test_there_and_back(store: Store, path: Path) -> None:
    shipper = Shipper(store, Bandwidth(0))
    sent: list[int] = []
    read: list[int] = []
    stored = await shipper.upload("a/b", path, SUMS, sent.append)
    assert stored == ("a/b", *SUMS)
    await shipper.verify(stored, read.append)
    await shipper.download(stored, path.with_suffix(".back"))
    assert path.with_suffix(".back").read_bytes() == DATA
    assert sum(sent) == sum(read) == len(DATA)
    with pytest.raises(ObjectExists):
        await shipper.upload("a/b", path, SUMS)
    await shipper.discard(["a/b", "never/there"])
    with pytest.raises(ObjectNotFound):
        await store.head("a/b")


@pytest.mark.parametrize("made", [SUMS._replace(crc=SUMS.crc ^ 1), SUMS._replace(size=5)])
async def test_a_file_that_changed_since_it_was_made(
    store: Store, path: Path, made: FileSums
) -> None:
    with pytest.raises(CorruptObject):
        await Shipper(store, Bandwidth(0)).upload("a", path, made)


@pytest.mark.parametrize("damage", [DATA[:-1], DATA + b"x", b"y" + DATA[1:]])
async def test_other_bytes_come_back(
    store: Store, path: Path, directory_options: StoreOptions, damage: bytes
) -> None:
    shipper = Shipper(store, Bandwidth(0))
    stored = await shipper.upload("a", path, SUMS)
    behind = Path(directory_options.url.removeprefix("file://")) / "a"
    behind.chmod(0o600)
    with behind.open("r+b") as file:
        file.truncate(0)
        file.write(damage)
    with pytest.raises(CorruptObject):
        await shipper.verify(stored)


async def test_an_honest_store_of_the_wrong_object(store: Store, tmp_path: Path) -> None:
    """Its sums fit its bytes, and they are not ours."""
    shipper = Shipper(store, Bandwidth(0))
    await store.put("a", b"y" + DATA[1:])
    with pytest.raises(CorruptObject, match="other bytes"):
        await shipper.verify(TierObject("a", *SUMS))
    with pytest.raises(CorruptObject, match="other bytes"):
        await shipper.download(TierObject("a", *SUMS), tmp_path / "a")


def is_get(request: Message) -> bool:
    return request.method == "GET" and "list-type" not in request.target


@pytest.mark.parametrize("fault", [Fault.WRONG_ANSWER, Fault.TRUNCATE, Fault.ERROR_500])
async def test_a_store_that_never_gives_back_what_it_got(
    s3_options: StoreOptions, path: Path, fault: Fault
) -> None:
    limits = replace(s3_options.limits, attempts_max=3)
    async with proxy_to(s3_options.s3_endpoint) as (proxy, address):
        store = await open_store(replace(s3_options, s3_endpoint=address, limits=limits))
        shipper = Shipper(store, Bandwidth(0))
        stored = await shipper.upload("a", path, SUMS)
        proxy.spoil(only=is_get, ever=fault)
        with pytest.raises(StoreError):
            await shipper.verify(stored)
        proxy.spoil([fault], only=is_get)
        await shipper.verify(stored)
        await store.close()


async def test_the_speed_is_shared(store: Store, path: Path) -> None:
    """Four uploads at 8 MiB/s together: 12 MiB take a second and a half, but for a piece each."""
    rate = 8 * MIB
    shipper = Shipper(store, Bandwidth(rate))
    began = time.monotonic()
    await asyncio.gather(*(shipper.upload(f"{n}", path, SUMS) for n in range(4)))
    took_s = time.monotonic() - began
    assert took_s >= (4 * len(DATA) - 4 * MIB) / rate


async def test_stopping_ends_what_waits(store: Store, path: Path) -> None:
    bandwidth = Bandwidth(1000)
    upload = asyncio.create_task(Shipper(store, bandwidth).upload("a", path, SUMS))
    await let_run()
    bandwidth.stop()
    with pytest.raises(Closed):
        async with asyncio.timeout(5):
            await upload
    with pytest.raises(ObjectNotFound):
        await store.head("a")


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(0, 3)), max_size=30), st.integers(1, 500))
def test_never_faster_than_allowed(pieces: list[tuple[int, float]], rate: int) -> None:
    now = 100.0
    bandwidth = Bandwidth(rate, lambda: now)
    sent: list[tuple[float, int]] = []
    for size, idle_s in pieces:
        now += idle_s
        now += bandwidth.delay_s(size)
        sent.append((now, size))
    for first in range(len(sent)):
        for last in range(first, len(sent)):
            between = sum(size for _, size in sent[first:last])
            assert between <= (sent[last][0] - sent[first][0]) * rate * (1 + 1e-9) + 1e-6


def test_many_threads_share_one_rate() -> None:
    bandwidth = Bandwidth(10_000)
    began = time.monotonic()

    def send() -> None:
        for _ in range(10):
            bandwidth.take(100)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - began >= (4 * 10 * 100 - 400) / 10_000


def test_what_is_on_its_way() -> None:
    clock = ManualClock(1000)
    flights = Flights(clock)
    assert flights.oldest_ms is None
    with flights.of(["a", "b"]):
        clock.advance(5)
        with flights.of(["c"]):
            assert "a" in flights
            assert "c" in flights
            assert flights.oldest_ms == 1000
        assert "c" not in flights
    assert "a" not in flights
