"""Tables in a REST catalog: Apache Iceberg's own, which checks what it is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog.rest import RestCatalog

from stratamq.lake.tables.catalog import CatalogOptions, open_catalog
from stratamq.lake.tables.iceberg import IcebergTables, Synced
from stratamq.lake.tables.snapshots import SnapshotLimits
from stratamq.model.types import TopicId
from stratamq.tiering.tables.worker import StoreBlobs
from tests.lake.tables.files import NARROW, WIDE, make, wanted
from tests.lake.tables.readers import by_duckdb, by_pyiceberg
from tests.peers import iceberg

pytestmark = [pytest.mark.needs("java", "mvn"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with iceberg.running(tmp_path_factory.mktemp("iceberg")) as found:
        yield found


def opened(address: str, blobs: StoreBlobs, namespace: str) -> IcebergTables:
    options = CatalogOptions(uri=address, path=Path("unused"), namespace=namespace)
    return IcebergTables(
        open_catalog(options, blobs),
        blobs,
        namespace=namespace,
        now_ms=lambda: int(time.time() * 1000),
        limits=SnapshotLimits(count_max=3),
    )


def test_the_life_of_a_table(address: str, blobs: StoreBlobs) -> None:
    with (
        closing(opened(address, blobs, "life")) as tables,
        closing(RestCatalog("user", uri=address)) as users,
    ):
        files = [make(blobs, 0, 0, 10), make(blobs, 1, 0, 5, final=False)]
        assert tables.sync(wanted(files)) == Synced(added=2, rows=15)
        assert tables.sync(wanted(files)) == Synced(rows=15)
        before = by_pyiceberg(users.load_table(("life", "orders")))
        files[1] = make(blobs, 1, 0, 5, fields=NARROW)
        assert tables.sync(wanted(files)) == Synced(added=1, removed=1, rows=15)
        table = users.load_table(("life", "orders"))
        assert by_pyiceberg(table) == by_duckdb(table) == before
        for number in range(5):
            files.append(make(blobs, 0, 10 + number, 11 + number, fields=WIDE))
            tables.sync(wanted(files))
        table = users.load_table(("life", "orders"))
        assert by_pyiceberg(table).rows == by_duckdb(table).rows == 20
        assert len(table.snapshots()) <= 4
        assert "data.at" in table.schema().column_names
        topic_id = wanted(files).topic_id
        assert tables.others({}) == [("orders", topic_id)]
        assert tables.drop("orders", topic_id)
        assert not tables.drop("orders", TopicId(topic_id))


def test_namespaces_may_have_levels(address: str, blobs: StoreBlobs) -> None:
    with (
        closing(opened(address, blobs, "plant.line1")) as tables,
        closing(RestCatalog("user", uri=address)) as users,
    ):
        tables.sync(wanted([make(blobs, 0, 0, 10)]))
        assert by_pyiceberg(users.load_table(("plant", "line1", "orders"))).rows == 10
        assert [name for name, _ in tables.others({})] == ["orders"]


def test_two_at_once(address: str, blobs: StoreBlobs) -> None:
    files = [make(blobs, number % 2, 10 * number, 10 * number + 10) for number in range(6)]
    failures: list[Exception] = []

    def run() -> None:
        try:
            with closing(opened(address, blobs, "both")) as tables:
                for count in (2, 4, 6):
                    tables.sync(wanted(files[:count]))
                tables.sync(wanted(files))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    with closing(opened(address, blobs, "both")) as tables:
        tables.sync(wanted(files))
    with closing(RestCatalog("user", uri=address)) as users:
        assert by_pyiceberg(users.load_table(("both", "orders"))).rows == 60
