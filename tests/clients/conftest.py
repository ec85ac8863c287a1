"""One node for all tests of a worker. A test that needs its own starts it with `running`."""

from __future__ import annotations

import gc
import itertools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.java import driver as java_driver
from tests.clients.kafkajs import driver as kafkajs_driver
from tests.clients.node import Node, running
from tests.clients.remote import Remote

with warnings.catch_warnings():  # on import, it reads its schemas by a deprecated function
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

_numbers = itertools.count()
HERE = Path(__file__).parent
CARELESS = "ignore:unclosed:ResourceWarning"
"""kafka-python leaves sockets to the garbage collector."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(CARELESS))


@pytest.fixture(autouse=True)
def _swept() -> Iterator[None]:
    """What a client left lying about must not be found during somebody else's test."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    data: Path = tmp_path_factory.mktemp("node")
    with running(data, "--topic-flush", "os", "--log-level", "info") as node:
        yield node
        assert node.end() == 0, node.logged()


@pytest.fixture
def kafka(node: Node) -> Iterator[str]:
    """`host:port` of a node that must be alive after the test, and must not have complained."""
    before = len(node.logged())
    yield node.address
    assert node.process.poll() is None, node.logged()
    assert "Traceback" not in node.logged()[before:], node.logged()[before:]


@pytest.fixture
def new_topic() -> Callable[[], str]:
    """A topic name that no other test uses; asking for it creates it."""
    return lambda: f"topic-{next(_numbers)}"


@pytest.fixture
def topic(new_topic: Callable[[], str]) -> str:
    return new_topic()


@pytest.fixture(scope="session")
def java() -> Iterator[Remote]:
    with java_driver() as remote:
        yield remote


@pytest.fixture(scope="session")
def kafkajs() -> Iterator[Remote]:
    with kafkajs_driver() as remote:
        yield remote
