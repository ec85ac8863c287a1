"""A real server whose past is in a store elsewhere: through its cache, after a kill, as a table."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from stratamq.tiering.stores.options import StoreOptions
from tests.clients.node import Node
from tests.tiering.node.users import FLAGS, RECORDS, command, consumed, expected, fill
from tests.tiering.stores.conftest import KEY_ID, SECRET

LOUD = ("--log-level", "debug")


def flags(options: StoreOptions) -> tuple[str, ...]:
    given = {
        "--store-url": options.url,
        "--store-s3-endpoint": options.s3_endpoint,
        "--store-s3-path-style": str(options.s3_path_style).lower(),
        "--store-hdfs-http-address": options.hdfs_http_address,
        "--store-hdfs-user": options.hdfs_user,
    }
    return tuple(word for pair in given.items() if pair[1] for word in pair)


@pytest.fixture(
    params=[
        "s3",
        pytest.param("hdfs", marks=[pytest.mark.needs("java", "mvn"), pytest.mark.timeout(900)]),
    ]
)
def options(request: pytest.FixtureRequest) -> StoreOptions:
    found: StoreOptions = request.getfixturevalue(f"{request.param}_options")
    return found


@pytest.fixture
def node(options: StoreOptions, tmp_path: Path) -> Iterator[Node]:
    one = Node(tmp_path, *FLAGS, *LOUD, *flags(options))
    yield one
    if one.process.poll() is None:
        one.end(signal.SIGKILL)


def test_the_past_is_elsewhere(node: Node) -> None:
    fill(node)
    assert consumed(node, "orders", 0, RECORDS) == expected(range(RECORDS))
    again = node.restarted(signal.SIGKILL)
    assert consumed(again, "orders", 0, RECORDS) == expected(range(RECORDS))
    logged = again.logged()
    assert KEY_ID not in logged
    assert SECRET not in logged
    assert again.end() == 0


def test_its_table_is_there_as_well(
    s3_options: StoreOptions, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    node = Node(tmp_path, *FLAGS, *LOUD, *flags(s3_options))
    request.addfinalizer(lambda: node.process.poll() is None and node.end(signal.SIGKILL))
    fill(node)
    command("lake", "flush", "orders", "--servers", node.address)
    reach = {
        "s3.endpoint": s3_options.s3_endpoint,
        "s3.access-key-id": KEY_ID,
        "s3.secret-access-key": SECRET,
        "s3.region": "us-east-1",
    }
    address = f"sqlite:///{tmp_path}/lake/catalog.sqlite"
    with closing(SqlCatalog("stratamq", uri=address, **reach)) as catalog:
        table = catalog.load_table("stratamq.orders").scan().to_arrow()
    assert table.num_rows == RECORDS
    assert SECRET not in (tmp_path / "lake" / "catalog.sqlite").read_bytes().decode("latin-1")
    assert SECRET not in node.logged()
