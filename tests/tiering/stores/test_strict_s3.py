"""An S3 that checks what it is sent: our signatures and digests are right, and wrong ones refused.

Without metadata the sums are only where the caller keeps them, which is tested here as well.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stratamq.model.errors import CorruptObject, ObjectNotFound, StoreDenied
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions
from stratamq.tiering.stores.store import Store
from stratamq.tiering.stores.sums import sum_bytes
from tests.peers.s3 import strict
from tests.tiering.stores.conftest import KEY_ID, LIMITS, SECRET
from tests.tiering.stores.proxy import Fault, Message, proxy_to

pytestmark = pytest.mark.long

MIB = 1 << 20
LARGE = os.urandom(MIB) * 12


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("rclone")
    (folder / "buckets" / "bucket").mkdir(parents=True)
    with strict.running(folder, KEY_ID, SECRET) as address:
        yield address, folder / "buckets" / "bucket"


@pytest.fixture
def options(strict_server: tuple[str, Path]) -> StoreOptions:
    return StoreOptions(
        url="s3://bucket/prefix", s3_endpoint=strict_server[0], s3_path_style=True, limits=LIMITS
    )


@pytest.fixture
async def store(options: StoreOptions) -> AsyncIterator[Store]:
    opened = await open_store(options)
    yield opened
    await opened.close()


def is_put(request: Message) -> bool:
    return request.method == "PUT"


@pytest.mark.parametrize("data", [b"", b"x", LARGE[: MIB + 5]], ids=len)
async def test_objects(store: Store, data: bytes) -> None:
    info = await store.put("a/k", data)
    assert info.sums == sum_bytes(data)
    assert await store.get_range("a/k", 0, len(data) + 9, info=info) == data
    assert [(each.key, each.size) async for each in store.list("a/")] == [("a/k", len(data))]
    await store.delete("a/k")
    with pytest.raises(ObjectNotFound):
        await store.head("a/k")


async def test_parts(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    info = await store.put_file("large", path)
    assert b"".join([piece async for piece in store.stream("large", info=info)]) == LARGE
    await store.delete("large")


async def test_a_wrong_secret_is_refused(
    options: StoreOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    store = await open_store(options)
    with pytest.raises(StoreDenied, match="SignatureDoesNotMatch"):
        await store.put("k", b"x")
    await store.close()


async def test_the_server_refuses_wrong_bytes(
    options: StoreOptions, strict_server: tuple[str, Path]
) -> None:
    """It never has them, so the object that was there stays."""
    async with proxy_to(options.s3_endpoint) as (proxy, address):
        store = await open_store(replace(options, s3_endpoint=address))
        await store.put("k", b"old bytes")
        proxy.spoil(ever=Fault.WRONG_REQUEST, only=is_put)
        with pytest.raises(CorruptObject):
            await store.put("k", b"new bytes")
        assert proxy.met == LIMITS.attempts_max
        await store.close()
    assert (strict_server[1] / "prefix" / "k").read_bytes() == b"old bytes"


async def test_wrong_bytes_in_the_store_are_found_by_who_has_the_sums(
    store: Store, strict_server: tuple[str, Path]
) -> None:
    info = await store.put("spoilt", LARGE[:100])
    (strict_server[1] / "prefix" / "spoilt").write_bytes(bytes(100))
    with pytest.raises(CorruptObject):
        await store.get_range("spoilt", 0, 9, info=info)
