"""A real store for tables, on a loop of its own, and catalogs in it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stratamq.lake.tables.blobs import Blobs
from stratamq.lake.tables.catalog import CatalogOptions, open_catalog
from stratamq.lake.tables.iceberg import IcebergTables
from stratamq.lake.tables.snapshots import SnapshotLimits
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions
from stratamq.tiering.tables.worker import StoreBlobs
from tests.tiering.stores.conftest import (  # noqa: F401
    _credentials,
    directory_options,
    hdfs_address,
    hdfs_options,
    s3_address,
    s3_options,
)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    running = asyncio.new_event_loop()
    thread = threading.Thread(target=running.run_forever)
    thread.start()
    yield running
    running.call_soon_threadsafe(running.stop)
    thread.join()
    running.close()


@pytest.fixture(params=["directory"])
def blobs(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> Iterator[StoreBlobs]:
    options: StoreOptions = request.getfixturevalue(f"{request.param}_options")
    store = asyncio.run_coroutine_threadsafe(open_store(options), loop).result()
    yield StoreBlobs(store, loop)
    asyncio.run_coroutine_threadsafe(store.close(), loop).result()


OpenTables = Callable[..., IcebergTables]


@pytest.fixture
def open_tables(blobs: StoreBlobs, tmp_path: Path) -> Iterator[OpenTables]:
    """Open the same catalog, again and again, as processes would."""
    opened: list[IcebergTables] = []

    def open_again(
        *,
        limits: SnapshotLimits | None = None,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
        through: Blobs | None = None,
    ) -> IcebergTables:
        options = CatalogOptions(path=tmp_path / "lake" / "catalog.sqlite")
        store = through or blobs
        tables = IcebergTables(
            open_catalog(options, store),
            store,
            namespace=options.namespace,
            now_ms=now_ms,
            limits=limits,
        )
        opened.append(tables)
        return tables

    yield open_again
    for tables in opened:
        tables.close()


@pytest.fixture
def tables(open_tables: OpenTables) -> IcebergTables:
    return open_tables()
