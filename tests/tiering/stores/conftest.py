"""The servers that stores are tested against: one of each for all tests of a worker."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreLimits, StoreOptions
from stratamq.tiering.stores.s3.client import make_client
from stratamq.tiering.stores.store import Store
from tests.peers import hdfs, s3

MIB = 1 << 20
LIMITS = StoreLimits(part_bytes=5 * MIB, backoff_ms=1, backoff_ms_max=5)
KEY_ID, SECRET = "stores-test-key-id", "stores-test-secret"
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of the tests and of nobody else: whatever this machine knows of AWS is out of sight."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    with s3.running() as address:
        yield address


@pytest.fixture(scope="session")
def hdfs_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs.running(tmp_path_factory.mktemp("hdfs")) as address:
        yield address


@pytest.fixture
def s3_options(s3_address: str) -> StoreOptions:
    """A new bucket, and how to get at it."""
    options = StoreOptions(
        url=f"s3://bucket-{os.getpid()}-{next(_numbers)}/some/prefix",
        s3_endpoint=s3_address,
        s3_path_style=True,
        limits=LIMITS,
    )
    client = make_client(options)
    client.create_bucket(Bucket=options.url.split("/")[2])
    client.close()
    return options


@pytest.fixture
def directory_options(tmp_path: Path) -> StoreOptions:
    return StoreOptions(url=(tmp_path / "store").as_uri(), limits=LIMITS)


@pytest.fixture
def hdfs_options(hdfs_address: str) -> StoreOptions:
    return StoreOptions(
        url=f"hdfs://127.0.0.1:8020/stores/{next(_numbers)}",
        hdfs_http_address=hdfs_address,
        hdfs_user="tester",
        limits=LIMITS,
    )


@pytest.fixture(
    params=[
        "directory",
        "s3",
        pytest.param("hdfs", marks=[pytest.mark.needs("java", "mvn"), pytest.mark.timeout(900)]),
    ]
)
def options(request: pytest.FixtureRequest) -> StoreOptions:
    found: StoreOptions = request.getfixturevalue(f"{request.param}_options")
    return found


@pytest.fixture
async def store(options: StoreOptions) -> AsyncIterator[Store]:
    opened = await open_store(options)
    yield opened
    await opened.close()
