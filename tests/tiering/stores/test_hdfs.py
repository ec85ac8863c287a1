"""HDFS's own ways: several NameNodes, and errors by their class."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Coroutine
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from stratamq.model.errors import (
    CorruptObject,
    ObjectExists,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)
from stratamq.tiering.stores.attempts import Deadline
from stratamq.tiering.stores.hdfs.webhdfs import Standby, WebHdfs, remote_error
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions, parse_url
from stratamq.tiering.stores.source import UploadSource
from stratamq.tiering.stores.sums import sum_bytes
from tests.peers.s3 import free_port
from tests.tiering.stores.proxy import Fault, Message, proxy_to

DATA = os.urandom(1 << 16)


@pytest.mark.parametrize(
    ("status", "name", "kind"),
    [
        (404, "FileNotFoundException", ObjectNotFound),
        (403, "FileAlreadyExistsException", ObjectExists),
        (403, "AccessControlException", StoreDenied),
        (401, "SecurityException", StoreDenied),
        (403, "StandbyException", Standby),
        (403, "SafeModeException", StoreUnavailable),
        (403, "IOException", StoreUnavailable),
        (500, "NullPointerException", StoreUnavailable),
        (400, "IllegalArgumentException", StoreError),
    ],
)
def test_errors_by_their_class(status: int, name: str, kind: type[StoreError]) -> None:
    said = {"RemoteException": {"exception": name, "message": "FileNotFoundException"}}
    assert type(remote_error(status, json.dumps(said).encode())) is kind


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"RemoteException": 1}'])
def test_answers_that_are_no_hdfs(body: bytes) -> None:
    assert type(remote_error(502, body)) is StoreUnavailable
    assert type(remote_error(401, body)) is StoreDenied


async def test_nobody_there() -> None:
    options = StoreOptions(url="hdfs://127.0.0.1", hdfs_http_address=f"127.0.0.1:{free_port()}")
    store = await open_store(replace(options, limits=replace(options.limits, attempts_max=2)))
    with pytest.raises(StoreUnavailable):
        await store.head("k")
    await store.close()


@pytest.mark.needs("java", "mvn")
@pytest.mark.timeout(900)
async def test_a_name_node_that_is_down_is_passed_over(hdfs_options: StoreOptions) -> None:
    both = f"127.0.0.1:{free_port()}, {hdfs_options.hdfs_http_address}"
    store = await open_store(replace(hdfs_options, hdfs_http_address=both))
    await store.put("k", DATA)
    assert await store.get_range("k", 0, len(DATA)) == DATA
    assert store.retrier.retries == 0
    await store.close()


@pytest.mark.needs("java", "mvn")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "fault", [Fault.REFUSE, Fault.LOSE_ANSWER, Fault.ERROR_500, Fault.TRUNCATE]
)
@pytest.mark.parametrize("op", ["CREATE", "SETXATTR", "RENAME", "GETFILESTATUS"])
async def test_a_put_gets_through(hdfs_options: StoreOptions, fault: Fault, op: str) -> None:
    def is_op(request: Message) -> bool:
        return f"op={op}&" in request.target

    async with proxy_to(f"http://{hdfs_options.hdfs_http_address}") as (proxy, address):
        store = await open_store(replace(hdfs_options, hdfs_http_address=address))
        proxy.spoil([fault, fault], only=is_op)
        await store.put("a/k", DATA, if_absent=True)
        assert proxy.met > 1
        proxy.spoil()
        assert await store.get_range("a/k", 0, len(DATA)) == DATA
        assert [each.key async for each in store.list()] == ["a/k"]
        await store.sweep(int(time.time() * 1000) + 100_000)
        assert [each.key async for each in store.list()] == ["a/k"]
        await store.close()


@pytest.mark.needs("java", "mvn")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", [Fault.WRONG_REQUEST, Fault.WRONG_ANSWER])
async def test_wrong_bytes_are_found_on_both_ways(hdfs_options: StoreOptions, fault: Fault) -> None:
    """The DataNode's address is rewritten to a second proxy, which spoils what passes through."""
    plain = await open_store(hdfs_options)
    await plain.put("k", DATA)
    async with (
        proxy_to(f"http://{hdfs_options.hdfs_http_address}") as (names, address),
        proxy_to(await data_node(hdfs_options)) as (data, data_address),
    ):
        names.rewrite = (_port(data.server), _port(data_address))
        store = await open_store(replace(hdfs_options, hdfs_http_address=address))
        data.spoil(ever=fault, only=lambda request: request.method == SPOILT[fault])
        call: Coroutine[None, None, object] = store.get_range("k", 0, 9)
        if fault is Fault.WRONG_REQUEST:
            call.close()
            call = store.put("k", bytes(len(DATA)))
        with pytest.raises(CorruptObject):
            await call
        assert data.met == hdfs_options.limits.attempts_max
        await store.close()
    assert await plain.get_range("k", 0, len(DATA)) == DATA
    await plain.close()


@pytest.mark.needs("java", "mvn")
@pytest.mark.timeout(900)
async def test_what_a_crash_leaves_is_not_seen_and_is_swept_after_its_time(
    hdfs_options: StoreOptions,
) -> None:
    half = UploadSource(
        content=b"half", sums=sum_bytes(b"half"), start=0, stop=4, deadline=Deadline(9_000, 4)
    )
    url = parse_url(hdfs_options.url)
    hdfs = WebHdfs.of(url, hdfs_options)
    await asyncio.to_thread(hdfs.create, f"/{url.path}/.uploads/half", half)
    hdfs.close()
    store = await open_store(hdfs_options)
    assert [each.key async for each in store.list()] == []
    now_ms = int(time.time() * 1000)
    assert await store.sweep(now_ms - 60_000) == 0
    assert await store.sweep(now_ms + 60_000) == 1
    assert await store.sweep(now_ms + 60_000) == 0
    await store.close()


SPOILT = {Fault.WRONG_REQUEST: "PUT", Fault.WRONG_ANSWER: "GET"}


def _port(address: str) -> bytes:
    return b":" + address.rpartition(":")[2].encode()


async def data_node(options: StoreOptions) -> str:
    """The address that the NameNode sends readers to."""
    url = parse_url(options.url)
    asked = await asyncio.to_thread(
        WebHdfs.of(url, options).ask, "GET", f"/{url.path}/k", "OPEN", noredirect="true"
    )
    place = urlsplit(asked["Location"])
    return f"http://{place.hostname}:{place.port}"
