"""S3 behind a line that fails: nothing is lost, nothing doubled, and no wrong byte gets through."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from stratamq.model.errors import CorruptObject, ObjectExists, ObjectNotFound, StoreUnavailable
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreLimits, StoreOptions
from stratamq.tiering.stores.store import Store
from tests.tiering.stores.proxy import Fault, Message, Proxy, proxy_to

MIB = 1 << 20
DATA = os.urandom(3 * MIB + 17)
LARGE = os.urandom(MIB) * 12
QUICK = StoreLimits(
    part_bytes=5 * MIB, timeout_ms=20_000, attempts_max=4, backoff_ms=1, backoff_ms_max=5
)
SILENCE_MS = 700
IMPATIENT = replace(QUICK, timeout_ms=SILENCE_MS, attempts_max=6)
"""For tests of silence. A busy machine may be silent too, for an attempt or two."""
MOTO_TIME = b"2010-11-10T20:48:33.000Z"
"""When, according to moto, every upload was begun."""
PASSING = [
    Fault.REFUSE,
    Fault.LOSE_ANSWER,
    Fault.SILENCE,
    Fault.ERROR_500,
    Fault.BUSY_503,
]


def is_put(request: Message) -> bool:
    return request.method == "PUT"


def is_get(request: Message) -> bool:
    return request.method == "GET" and "list-type" not in request.target


def is_part(request: Message) -> bool:
    return "partNumber=" in request.target


def is_finish(request: Message) -> bool:
    return request.method == "POST" and "uploadId=" in request.target


@pytest.fixture
def fault() -> Fault | None:
    """For the tests that have no list of them."""
    return None


@pytest.fixture
async def lines(
    s3_options: StoreOptions, fault: Fault | None
) -> AsyncIterator[tuple[Store, Proxy]]:
    """A store that goes through the proxy, and the proxy."""
    limits = IMPATIENT if fault is Fault.SILENCE else QUICK
    async with proxy_to(s3_options.s3_endpoint) as (proxy, address):
        store = await open_store(replace(s3_options, s3_endpoint=address, limits=limits))
        yield store, proxy
        proxy.end()
        await store.close()


async def content(store: Store, key: str) -> bytes:
    return b"".join([piece async for piece in store.stream(key)])


@pytest.mark.parametrize("if_absent", [False, True])
@pytest.mark.parametrize("fault", [*PASSING, Fault.WRONG_REQUEST, Fault.WRONG_AND_LOST])
async def test_a_put_gets_through(
    lines: tuple[Store, Proxy], fault: Fault, if_absent: bool
) -> None:
    store, proxy = lines
    proxy.spoil([fault, fault], only=is_put)
    await store.put("k", DATA, if_absent=if_absent)
    assert proxy.met > 1
    proxy.spoil()
    assert await content(store, "k") == DATA
    assert [each.key async for each in store.list()] == ["k"]


async def test_if_absent_does_not_mistake_anothers_object_for_its_own(
    lines: tuple[Store, Proxy],
) -> None:
    store, proxy = lines
    await store.put("k", DATA)
    proxy.spoil([Fault.ERROR_500, Fault.LOSE_ANSWER], only=is_put)
    with pytest.raises(ObjectExists):
        await store.put("k", DATA, if_absent=True)  # the same bytes, put by somebody else


@pytest.mark.parametrize("fault", [*PASSING, Fault.WRONG_REQUEST])
async def test_parts_get_through(lines: tuple[Store, Proxy], fault: Fault, tmp_path: Path) -> None:
    store, proxy = lines
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    proxy.spoil([fault, fault], only=is_part)
    await store.put_file("k", path)
    assert proxy.met >= 5, "three parts, two of them twice"
    proxy.spoil()
    assert await content(store, "k") == LARGE
    assert await store.sweep(int(time.time() * 1000) + 100_000) == 0


@pytest.mark.parametrize("if_absent", [False, True])
@pytest.mark.parametrize("fault", [*PASSING, Fault.TRUNCATE])
async def test_an_upload_is_finished_once(
    lines: tuple[Store, Proxy], fault: Fault, if_absent: bool, tmp_path: Path
) -> None:
    store, proxy = lines
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    proxy.spoil([fault], only=is_finish)
    await store.put_file("k", path, if_absent=if_absent)
    proxy.spoil()
    assert await content(store, "k") == LARGE
    assert await store.sweep(int(time.time() * 1000) + 100_000) == 0


@pytest.mark.parametrize("fault", [*PASSING, Fault.TRUNCATE, Fault.WRONG_ANSWER])
async def test_a_read_gets_through(lines: tuple[Store, Proxy], fault: Fault) -> None:
    store, proxy = lines
    info = await store.put("k", DATA)
    proxy.spoil([fault, fault], only=is_get)
    assert await store.get_range("k", 5, 2 * MIB) == DATA[5 : 2 * MIB]
    proxy.spoil([fault], only=is_get)
    assert await store.get_range("k", MIB, MIB + 1, info=info) == DATA[MIB : MIB + 1]
    assert proxy.met >= 2


@pytest.mark.parametrize("fault", [*PASSING, Fault.TRUNCATE])
async def test_a_list_gets_through(lines: tuple[Store, Proxy], fault: Fault) -> None:
    store, proxy = lines
    for n in range(5):
        await store.put(f"a/{n}", b"")
    proxy.spoil([fault, fault])
    found, after, more = [], "", True
    while more:
        page = await store.list_page("a/", after=after, limit=2)
        found += [each.key for each in page.objects]
        after, more = found[-1], page.more
    assert found == [f"a/{n}" for n in range(5)]


@pytest.mark.parametrize("fault", PASSING)
async def test_a_delete_gets_through(lines: tuple[Store, Proxy], fault: Fault) -> None:
    store, proxy = lines
    await store.put("k", b"x")
    proxy.spoil([fault, fault])
    await store.delete("k")
    with pytest.raises(ObjectNotFound):
        await store.head("k")


@pytest.mark.parametrize("fault", [Fault.REFUSE, Fault.ERROR_500, Fault.BUSY_503])
async def test_a_store_that_stays_down_is_a_retriable_error(
    lines: tuple[Store, Proxy], fault: Fault, tmp_path: Path
) -> None:
    store, proxy = lines
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    await store.put("k", b"old")
    proxy.spoil(ever=fault)
    for call in (
        store.put("k", DATA),
        store.put_file("new", path),
        store.head("k"),
        store.get_range("k", 0, 1),
        store.list_page(),
        store.delete("gone"),
    ):
        before = proxy.met
        with pytest.raises(StoreUnavailable):
            await call
        assert proxy.met - before == QUICK.attempts_max
    proxy.spoil()
    assert [each.key async for each in store.list()] == ["k"]


@pytest.mark.parametrize("fault", [Fault.SILENCE])
async def test_a_store_that_stays_silent_is_a_retriable_error(
    lines: tuple[Store, Proxy], fault: Fault
) -> None:
    store, proxy = lines
    proxy.spoil(ever=fault)
    with pytest.raises(StoreUnavailable):
        await store.head("k")
    assert proxy.met == IMPATIENT.attempts_max


async def test_answers_that_stay_cut_off_are_a_retriable_error(lines: tuple[Store, Proxy]) -> None:
    store, proxy = lines
    info = await store.put("k", DATA)
    proxy.spoil(ever=Fault.TRUNCATE, only=is_get)
    with pytest.raises(StoreUnavailable):
        await store.get_range("k", 0, len(DATA), info=info)
    proxy.spoil(ever=Fault.TRUNCATE)
    with pytest.raises(StoreUnavailable):
        await store.list_page()


async def test_a_store_that_only_trickles_is_given_up(s3_options: StoreOptions) -> None:
    """No single wait is too long, and yet the whole would take minutes."""
    async with proxy_to(s3_options.s3_endpoint) as (proxy, address):
        limits = replace(QUICK, timeout_ms=SILENCE_MS, attempts_max=2)
        store = await open_store(replace(s3_options, s3_endpoint=address, limits=limits))
        await store.put("k", bytes(3000))
        proxy.spoil(ever=Fault.TRICKLE, only=is_get)
        with pytest.raises(StoreUnavailable):
            await store.get_range("k", 0, 3000)
        assert proxy.met == 2
        await store.close()


async def test_a_store_where_nobody_listens_may_be_up_later(s3_options: StoreOptions) -> None:
    store = await open_store(replace(s3_options, s3_endpoint="http://127.0.0.1:1", limits=QUICK))
    with pytest.raises(StoreUnavailable):
        await store.put("k", DATA)
    with pytest.raises(StoreUnavailable):
        await content(store, "k")
    await store.close()


async def test_wrong_bytes_that_stay_wrong_are_never_returned(lines: tuple[Store, Proxy]) -> None:
    store, proxy = lines
    info = await store.put("k", DATA)
    proxy.spoil(ever=Fault.WRONG_ANSWER, only=is_get)
    for start, stop in ((0, 10), (0, len(DATA)), (2 * MIB, 3 * MIB + 17)):
        with pytest.raises(CorruptObject):
            await store.get_range("k", start, stop, info=info)
    with pytest.raises(CorruptObject):
        await content(store, "k")


async def test_wrong_bytes_on_every_way_in_are_an_error(
    lines: tuple[Store, Proxy], tmp_path: Path
) -> None:
    store, proxy = lines
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    proxy.spoil(ever=Fault.WRONG_REQUEST, only=is_put)
    with pytest.raises(CorruptObject):
        await store.put("k", DATA)
    with pytest.raises(CorruptObject):
        await store.put("k2", DATA, if_absent=True)
    with pytest.raises(CorruptObject):
        await store.put_file("large", path)
    proxy.spoil()
    assert [each.key async for each in store.list()] == []


async def test_a_stale_list_deceives_nobody_but_its_reader(lines: tuple[Store, Proxy]) -> None:
    store, proxy = lines
    assert (await store.list_page("a/")).objects == ()
    proxy.spoil(ever=Fault.STALE, only=lambda request: "list-type" in request.target)
    await store.put("a/k", DATA, if_absent=True)
    assert (await store.list_page("a/")).objects == (), "the proxy is not stale"
    assert await content(store, "a/k") == DATA
    with pytest.raises(ObjectExists):
        await store.put("a/k", b"", if_absent=True)
    await store.delete("a/k")
    with pytest.raises(ObjectNotFound):
        await store.head("a/k")


async def test_an_upload_that_nobody_ends_is_swept_after_its_time(
    lines: tuple[Store, Proxy], tmp_path: Path
) -> None:
    store, proxy = lines
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    proxy.spoil(ever=Fault.REFUSE, only=lambda request: is_part(request) or is_abort(request))
    with pytest.raises(StoreUnavailable):
        await store.put_file("k", path)
    proxy.spoil()
    proxy.rewrite = (MOTO_TIME, time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()).encode())
    assert await store.sweep(int(time.time() * 1000) - 3_600_000) == 0
    assert await store.sweep(int(time.time() * 1000) + 100_000) == 1
    assert await store.sweep(int(time.time() * 1000) + 100_000) == 0


def is_abort(request: Message) -> bool:
    return request.method == "DELETE" and "uploadId=" in request.target
