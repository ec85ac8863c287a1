"""One node for all tests of a worker, and clients of it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stratamq.client import Client, ClientOptions, options_of
from tests.clients.node import Node, running

_numbers = itertools.count()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    data: Path = tmp_path_factory.mktemp("node")
    with running(data, "--topic-flush", "os") as node:
        yield node
        assert node.end() == 0, node.logged()


@pytest.fixture
def options(node: Node) -> ClientOptions:
    return options_of(node.address, {"retry.ms": "10000"})


@pytest.fixture
async def client(options: ClientOptions) -> AsyncIterator[Client]:
    async with Client(options) as client:
        yield client


@pytest.fixture
async def topic(client: Client) -> str:
    """Two partitions that no other test knows."""
    name = f"client-{next(_numbers)}"
    await client.create_topic(name, partitions=2)
    return name
