"""What every store does, whichever it is: one suite over all of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path

import pytest

from stratamq.model.errors import (
    Closed,
    InvalidInput,
    InvalidName,
    ObjectExists,
    ObjectNotFound,
    StorageError,
)
from stratamq.tiering.stores.contract import ObjectStore
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions
from stratamq.tiering.stores.store import Store
from stratamq.tiering.stores.sums import sum_bytes
from tests.waiting import every

MIB = 1 << 20
LARGE = os.urandom(1 << 16) * 196  # 12.25 MiB: three parts, thirteen blocks, the last of them short


async def all_of(store: ObjectStore, key: str) -> bytes:
    return b"".join([piece async for piece in store.stream(key)])


async def keys_of(store: ObjectStore, prefix: str = "") -> list[str]:
    return [each.key async for each in store.list(prefix)]


async def test_a_store_is_what_the_contract_says(store: Store) -> None:
    seen_as: ObjectStore = store
    assert await keys_of(seen_as) == []


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 9000], ids=len)
async def test_what_was_put_is_there(store: Store, data: bytes) -> None:
    began_ms = time.time() * 1000
    put = await store.put("a/b.parquet", data)
    found = await store.head("a/b.parquet")
    assert found == put
    assert (found.size, found.sums) == (len(data), sum_bytes(data))
    assert found.crc32c == sum_bytes(data).crc32c
    assert began_ms - 2000 < found.modified_ms < time.time() * 1000 + 2000, "stores round seconds"
    assert await all_of(store, "a/b.parquet") == data


async def test_a_large_file(options: StoreOptions, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "segment.log"
    path.write_bytes(LARGE)
    sent: list[int] = []
    put = await store.put_file("t/0_0/segment.log", path, pace=sent.append)
    assert put.sums == sum_bytes(LARGE)
    assert sum(sent) == len(LARGE)
    assert len(sent) > 1
    again = await open_store(options)  # from nothing but what is in the store
    assert await again.head("t/0_0/segment.log") == put
    assert await all_of(again, "t/0_0/segment.log") == LARGE
    await again.close()


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (0, 1),
        (0, 0),
        (MIB - 1, MIB + 1),
        (MIB, 2 * MIB),
        (100, 3 * MIB + 17),
        (len(LARGE) - 1, len(LARGE)),
        (len(LARGE) - 5, len(LARGE) + 99),
        (len(LARGE), len(LARGE) + 1),
        (len(LARGE) + 7, len(LARGE) + 9),
    ],
)
async def test_ranges_are_as_of_a_file(store: Store, start: int, stop: int) -> None:
    info = await store.put("large", LARGE)
    assert await store.get_range("large", start, stop) == LARGE[start:stop]
    assert await store.get_range("large", start, stop, info=info) == LARGE[start:stop]
    pieces = [piece async for piece in store.stream("large", start, stop)]
    assert b"".join(pieces) == LARGE[start:stop]


async def test_a_stream_that_is_left_or_fails_leaves_nothing_running(store: Store) -> None:
    info = await store.put("large", LARGE)
    before = asyncio.all_tasks()
    async with contextlib.aclosing(store.stream("large")) as stream:
        assert LARGE.startswith(await anext(stream))
    assert asyncio.all_tasks() == before
    await store.delete("large")
    with pytest.raises(ObjectNotFound):
        await anext(store.stream("large", info=info))
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (2, 1), (0, 65 * MIB)])
async def test_what_is_no_range(store: Store, start: int, stop: int) -> None:
    await store.put("k", b"bytes")
    with pytest.raises(InvalidInput):
        await store.get_range("k", start, stop)


async def test_a_put_replaces_what_was_there(store: Store) -> None:
    await store.put("a/k", b"old and longer")
    await store.put("a/k", b"new")
    assert await all_of(store, "a/k") == b"new"
    assert (await store.head("a/k")).size == 3


async def test_if_absent_keeps_what_was_there(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    await store.put("a/k", b"first", if_absent=True)
    with pytest.raises(ObjectExists):
        await store.put("a/k", b"other", if_absent=True)
    with pytest.raises(ObjectExists):
        await store.put_file("a/k", path, if_absent=True)
    assert await all_of(store, "a/k") == b"first"
    assert await store.sweep(int(time.time() * 1000) + 100_000) == 0


async def test_one_of_many_wins_if_absent(store: Store) -> None:
    tries = [store.put("race", b"%d" % n, if_absent=True) for n in range(8)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    won = [n for n, result in enumerate(results) if not isinstance(result, BaseException)]
    assert len(won) == 1, results
    lost = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(error, ObjectExists) for error in every(lost)), lost
    assert await all_of(store, "race") == b"%d" % won[0]


async def test_what_is_not_there(store: Store) -> None:
    await store.put("folder/k", b"x")
    for key in ("nothing", "folder", "folder/other"):
        with pytest.raises(ObjectNotFound):
            await store.head(key)
        with pytest.raises(ObjectNotFound):
            await store.get_range(key, 0, 1)
        await store.delete(key)
    assert await keys_of(store) == ["folder/k"]


async def test_a_deleted_object_is_gone_and_may_come_back(store: Store) -> None:
    info = await store.put("a/b/c", b"x")
    await store.delete("a/b/c")
    await store.delete("a/b/c")
    assert await keys_of(store) == []
    with pytest.raises(ObjectNotFound):
        await store.get_range("a/b/c", 0, 1, info=info)
    await store.put("a/b/c", b"y", if_absent=True)
    assert await all_of(store, "a/b/c") == b"y"


KEYS = ["a-b", "a/b", "a/b-c/1", "a/b/1", "a/b/2", "a/bc", "a0", "b/x=1/y", "c"]


async def test_lists_are_in_order_and_by_prefix(store: Store) -> None:
    wanted = [key for key in KEYS if key not in ("a/b",)]  # a folder cannot also be a file
    await asyncio.gather(*(store.put(key, key.encode()) for key in reversed(wanted)))
    assert await keys_of(store) == wanted
    for prefix in ("a", "a/", "a/b", "a/b/", "a/b/1", "b/x=", "nothing/", "c", "c/"):
        assert await keys_of(store, prefix) == [key for key in wanted if key.startswith(prefix)]
    sizes = {each.key: each.size async for each in store.list()}
    assert sizes == {key: len(key) for key in wanted}


async def test_lists_come_in_pages(store: Store) -> None:
    wanted = sorted(f"p/{n % 3}/{n}" for n in range(11))
    await asyncio.gather(*(store.put(key, b"") for key in wanted))
    found, after, more = [], "", True
    while more:
        page = await store.list_page("p/", after=after, limit=3)
        assert 0 < len(page.objects) <= 3
        found += [each.key for each in page.objects]
        after, more = found[-1], page.more
    assert found == wanted
    assert await store.list_page("p/", after=wanted[-1]) == ((), False)
    assert [each.key for each in (await store.list_page("p/", after="p/0/z")).objects] == [
        key for key in wanted if key > "p/0/z"
    ]


@pytest.mark.parametrize("limit", [0, 1001])
async def test_pages_have_a_limit(store: Store, limit: int) -> None:
    with pytest.raises(InvalidInput):
        await store.list_page(limit=limit)


async def test_keys_that_could_leave_the_store_are_refused(store: Store) -> None:
    for key in ("", "/a", "a/", "a//b", "../a", "a/../b", ".", "a/.hidden", "a\\b", "a b", "ä"):
        for call in (
            store.put(key, b""),
            store.head(key),
            store.delete(key),
            store.get_range(key, 0, 1),
        ):
            with pytest.raises(InvalidName):
                await call
    for prefix in ("/", "../", "a/../", ".up"):
        with pytest.raises(InvalidName):
            await store.list_page(prefix)


async def test_a_file_that_changes_on_its_way_is_not_stored(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "changing"
    path.write_bytes(LARGE)

    def change(size: int) -> None:
        with path.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(bytes([LARGE[-1] ^ 1]))

    with pytest.raises(InvalidInput, match="changed"):
        await store.put_file("k", path, pace=change)
    with pytest.raises(ObjectNotFound):
        await store.head("k")


async def test_a_file_that_is_not_there(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        await store.put_file("k", tmp_path / "nothing")


async def test_an_upload_that_is_called_off_leaves_nothing(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(LARGE)

    def stop(size: int) -> None:
        raise Closed("enough")

    with pytest.raises(Closed):
        await store.put_file("k", path, pace=stop)
    assert await keys_of(store) == []
    left = await store.sweep(int(time.time() * 1000) + 100_000)
    # HDFS may make the file after we have taken back the order: that is what sweeping is for.
    assert left == 0 or store.url.startswith("hdfs")
    assert await store.sweep(int(time.time() * 1000) + 100_000) == 0


async def test_many_at_once(store: Store) -> None:
    data = {f"many/{n}": os.urandom(n * 1000) for n in range(20)}
    await asyncio.gather(*(store.put(key, each) for key, each in data.items()))
    found = await asyncio.gather(*(all_of(store, key) for key in data))
    assert dict(zip(data, found, strict=True)) == data


async def test_a_closed_store_takes_nothing(options: StoreOptions) -> None:
    store = await open_store(options)
    await store.close()
    with pytest.raises(Closed):
        await store.put("k", b"")
