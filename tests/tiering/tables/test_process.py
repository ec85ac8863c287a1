"""The process that writes tables: asked for real tables, killed, left alone."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from stratamq.lake.tables.errors import TableError
from stratamq.lake.tables.manifest import Manifest, parse_manifest
from stratamq.meta.tier.files import ParquetEnd, TierFile, TierObject
from stratamq.model.errors import Closed, ObjectNotFound, StorageError, TimedOut
from stratamq.model.shard import shard_name
from stratamq.model.topic import Topic, TopicConfig
from stratamq.model.types import Offset, TopicId
from stratamq.tiering import keys
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions
from stratamq.tiering.stores.store import Store
from stratamq.tiering.tables.process import TableWriter
from stratamq.tiering.tables.requests import (
    DropTable,
    KeepTables,
    TableOptions,
    WriteTable,
    Written,
    decode_options,
    decode_request,
    encode_options,
    encode_request,
)
from stratamq.tiering.tables.worker import StoreBlobs
from tests.lake.tables.files import NARROW, TOPIC_ID, make, schema
from tests.lake.tables.readers import by_duckdb, by_pyiceberg, users_table
from tests.waiting import let_run, until

FOLDER = keys.topic_folder("orders", TOPIC_ID)


def topic(**given: object) -> Topic:
    settings = {name.replace("_", "."): value for name, value in given.items()}
    return Topic(topic_id=TOPIC_ID, name="orders", partitions=2, config=TopicConfig.of(settings))


async def read_manifest(store: Store) -> Manifest:
    return parse_manifest(await store.get_range(keys.manifest_key(FOLDER), 0, 1 << 20))


@pytest.fixture
async def options(directory_options: StoreOptions, tmp_path: Path) -> TableOptions:
    await (await open_store(directory_options)).close()  # a node has been here
    return TableOptions(store=directory_options, catalog_path=tmp_path / "catalog.sqlite")


@pytest.fixture
async def store(directory_options: StoreOptions) -> AsyncIterator[Store]:
    opened = await open_store(directory_options)
    yield opened
    await opened.close()


@pytest.fixture
async def writer(options: TableOptions) -> AsyncIterator[TableWriter]:
    made = TableWriter(options)
    yield made
    await made.close()


@pytest.fixture
def file(store: Store) -> Callable[..., Any]:
    async def made(*args: Any, **more: Any) -> TierFile:
        blobs = StoreBlobs(store, asyncio.get_running_loop())
        return await asyncio.to_thread(make, blobs, *args, **more)

    return made


def test_requests_come_back_as_they_were(options: TableOptions) -> None:
    assert decode_options(encode_options(options)) == options
    files = [
        TierFile(
            shard=shard_name(TOPIC_ID, 0),
            base_offset=Offset(number),
            end_offset=Offset(number + 1),
            final=number % 2 == 0,
            parquet=TierObject("a", 2, 3),
            parquet_end=ParquetEnd(1, 2, 3, 4),
            log=TierObject("b", 5, 6) if number % 3 else None,
        )
        for number in range(450)
    ]
    for request in (
        WriteTable(topic=topic(), files=[], revision=0),
        WriteTable(topic=topic(lake_iceberg=False), files=files, revision=5),
        DropTable(name="a", topic_id=TOPIC_ID),
        KeepTables(topics={"a": TOPIC_ID}),
    ):
        assert decode_request(encode_request(request)) == request


async def test_it_writes_manifest_and_table(
    writer: TableWriter, file: Any, store: Store, tmp_path: Path
) -> None:
    files = [await file(0, 0, 10), await file(1, 0, 5, fields=NARROW)]
    first = await writer.ask(WriteTable(topic=topic(), files=files, revision=3))
    assert first == Written(added=2, rows=15)
    manifest = await read_manifest(store)
    assert (manifest.rows, manifest.revision, len(manifest.files)) == (15, 3, 2)
    with users_table(tmp_path / "catalog.sqlite") as table:
        assert by_pyiceberg(table) == by_duckdb(table)
        assert by_pyiceberg(table).rows == 15
    again = await writer.ask(WriteTable(topic=topic(), files=files, revision=4))
    assert again == Written(rows=15)


async def test_the_table_has_the_columns_that_are_declared(
    writer: TableWriter, file: Any, tmp_path: Path
) -> None:
    declared = topic(lake_value_format="json", lake_value_schema=schema({"id": "long", "x": "int"}))
    files = [await file(0, 0, 10, fields=NARROW)]
    await writer.ask(WriteTable(topic=declared, files=files, revision=3))
    with users_table(tmp_path / "catalog.sqlite") as table:
        assert {"data.id", "data.name", "data.x"} <= set(table.schema().column_names)


async def test_a_topic_may_have_no_iceberg_table(
    writer: TableWriter, file: Any, store: Store, tmp_path: Path
) -> None:
    files = [await file(0, 0, 10)]
    await writer.ask(WriteTable(topic=topic(), files=files, revision=3))
    off = topic(lake_iceberg=False)
    assert await writer.ask(WriteTable(topic=off, files=files, revision=4)) == Written()
    assert (await read_manifest(store)).revision == 4
    with pytest.raises(Exception, match="does not exist"), users_table(tmp_path / "catalog.sqlite"):
        pass
    on = await writer.ask(WriteTable(topic=topic(), files=files, revision=5))
    assert on == Written(added=1, rows=10)


async def test_without_a_catalog_there_are_manifests(
    options: TableOptions, file: Any, store: Store
) -> None:
    writer = TableWriter(dataclasses.replace(options, catalog_uri="none"))
    try:
        request = WriteTable(topic=topic(), files=[await file(0, 0, 10)], revision=3)
        assert await writer.ask(request) == Written()
        assert (await read_manifest(store)).rows == 10
        await writer.ask(DropTable(name="orders", topic_id=TOPIC_ID))
        with pytest.raises(ObjectNotFound):
            await store.head(keys.manifest_key(FOLDER))
    finally:
        await writer.close()
    assert not options.catalog_path.exists()


async def test_topics_that_are_gone_leave_nothing(
    writer: TableWriter, file: Any, store: Store, tmp_path: Path
) -> None:
    files = [await file(0, 0, 10)]
    await writer.ask(WriteTable(topic=topic(), files=files, revision=3))
    assert await writer.ask(KeepTables(topics={"orders": TOPIC_ID})) == Written()
    assert await writer.ask(KeepTables(topics={"other": TopicId("cd" * 16)})) == Written(removed=1)
    assert [listed.key async for listed in store.list()] == [files[0].objects[0].key]
    assert await writer.ask(KeepTables(topics={})) == Written()
    await writer.ask(DropTable(name="orders", topic_id=TOPIC_ID))


# -- its life --------------------------------------------------------------------------------------


async def test_what_goes_wrong_is_said_and_it_goes_on(writer: TableWriter, file: Any) -> None:
    there, gone = await file(0, 0, 10), await file(0, 10, 20)
    lost = dataclasses.replace(gone, parquet=gone.parquet._replace(key=f"{FOLDER}/data/none"))
    with pytest.raises(ObjectNotFound, match="none"):
        await writer.ask(WriteTable(topic=topic(), files=[there, lost], revision=1))
    pid = writer.pid
    done = await writer.ask(WriteTable(topic=topic(), files=[there], revision=2))
    assert (done.added, writer.pid) == (1, pid)


async def test_a_catalog_that_does_not_answer_is_an_error(
    options: TableOptions, file: Any, unused_tcp_port: int
) -> None:
    uri = f"http://127.0.0.1:{unused_tcp_port}"
    writer = TableWriter(dataclasses.replace(options, catalog_uri=uri))
    request = WriteTable(topic=topic(), files=[await file(0, 0, 10)], revision=1)
    try:
        with pytest.raises(TableError, match=f"{uri}: ConnectionError"):
            await writer.ask(request)
    finally:
        await writer.close()


async def test_when_it_is_killed_another_takes_its_place(writer: TableWriter, file: Any) -> None:
    files = [await file(0, 0, 10)]
    await writer.ask(WriteTable(topic=topic(), files=files, revision=1))
    assert writer.pid is not None
    os.kill(writer.pid, signal.SIGKILL)
    with pytest.raises(StorageError, match="the table writer"):
        await writer.ask(WriteTable(topic=topic(), files=files, revision=2))
    again = await writer.ask(WriteTable(topic=topic(), files=files, revision=3))
    assert again == Written(rows=10)


async def test_it_ends_when_it_has_nothing_to_do(options: TableOptions) -> None:
    writer = TableWriter(options, idle_s=0.05)
    try:
        await writer.ask(KeepTables(topics={}))
        pid = writer.pid
        assert pid
        await until(lambda: writer.pid is None)
        await until(lambda: not Path(f"/proc/{pid}").exists())
        await writer.ask(KeepTables(topics={}))
    finally:
        await writer.close()
    with pytest.raises(Closed):
        await writer.ask(KeepTables(topics={}))


async def test_one_that_takes_too_long_is_given_up(options: TableOptions) -> None:
    writer = TableWriter(options, timeout_s=0.01)
    try:
        with pytest.raises(TimedOut):
            await writer.ask(KeepTables(topics={}))
        assert writer.pid is None
    finally:
        await writer.close()


async def test_closing_ends_what_is_under_way(options: TableOptions) -> None:
    writer = TableWriter(options)
    asked = asyncio.create_task(writer.ask(KeepTables(topics={})))
    await let_run()
    await writer.close()
    with pytest.raises(StorageError):
        await asked


# -- S3 --------------------------------------------------------------------------------------------


async def test_on_s3_with_credentials_of_a_file(
    s3_options: StoreOptions, s3_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the store has its credentials from, the process has them from."""
    credentials = tmp_path / "credentials"
    names = {
        "aws_access_key_id": "AWS_ACCESS_KEY_ID",
        "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    }
    lines = [f"{name} = {os.environ[variable]}" for name, variable in names.items()]
    credentials.write_text("\n".join(["[default]", *lines]))
    for variable in names.values():
        monkeypatch.delenv(variable)
    store_options = dataclasses.replace(s3_options, s3_credentials_file=str(credentials))
    options = TableOptions(store=store_options, catalog_path=tmp_path / "catalog.sqlite")
    store, writer = await open_store(store_options), TableWriter(options)
    try:
        blobs = StoreBlobs(store, asyncio.get_running_loop())
        files = [await asyncio.to_thread(make, blobs, 0, 0, 10)]
        done = await writer.ask(WriteTable(topic=topic(), files=files, revision=1))
        assert done == Written(added=1, rows=10)
        assert (await read_manifest(store)).rows == 10
        secret = credentials.read_text().split()[-1]
        assert secret not in (tmp_path / "catalog.sqlite").read_text(errors="replace")
        async for listed in store.list():
            assert secret.encode() not in await store.get_range(listed.key, 0, listed.size)
    finally:
        await writer.close()
        await store.close()


async def test_a_refusal_of_the_store_is_said_without_secrets(
    s3_options: StoreOptions, tmp_path: Path
) -> None:
    missing = dataclasses.replace(s3_options, url="s3://no-such-bucket/x")
    options = TableOptions(store=missing, catalog_path=tmp_path / "catalog.sqlite")
    writer = TableWriter(options)
    try:
        with pytest.raises(StorageError) as caught:
            await writer.ask(WriteTable(topic=topic(), files=[], revision=1))
        assert os.environ["AWS_SECRET_ACCESS_KEY"] not in str(caught.value)
        assert os.environ["AWS_ACCESS_KEY_ID"] not in str(caught.value)
    finally:
        await writer.close()
