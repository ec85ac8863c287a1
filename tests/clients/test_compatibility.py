"""A running node does what docs/kafka-compatibility.md says of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stratamq.client.connection import NodeConnection, connect, offered_by
from stratamq.client.options import options_of
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from stratamq.wire.kafka.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from stratamq.wire.kafka.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.clients.node import Node, running
from tests.waiting import every

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "kafka-compatibility.md").read_text()
CONFIG = re.compile(r"^\| `(\S+)` \| (\w+) \| (.*) \|$", re.MULTILINE)
API = re.compile(r"^\| (\d+) \| \w+ \| (\d+)(?:-(\d+))? \| (.*) \|$", re.MULTILINE)
ADVERTISED = re.compile(r"advertised as (\d+)-(\d+)")
TOPIC, BROKER, GROUP = 2, 4, 32
NAMES = {TOPIC: "compared", BROKER: "1", GROUP: "some-group"}
TITLES = {TOPIC: "Configs of topics", BROKER: "Configs of brokers", GROUP: "Configs of groups"}
SECONDS = 30.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("node"), "--log-level", "warning") as node:
        yield node


@pytest.fixture
async def connection(node: Node) -> AsyncIterator[NodeConnection]:
    connection = await connected(node)
    topic = CreatableTopic(
        name=NAMES[TOPIC], num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    await connection.ask(request, CreateTopicsResponse, SECONDS)
    yield connection
    connection.close()


async def connected(node: Node) -> NodeConnection:
    options = options_of(node.address, {})
    return await connect(options.servers[0], options, None)


def rows(kind: int) -> dict[str, str]:
    """Each config of this kind of resource, and what the page says becomes of it."""
    section = PAGE.split(f"### {TITLES[kind]}\n")[1].split("\n#")[0]
    return {name: here for name, here, _ in CONFIG.findall(section)}


async def described(connection: NodeConnection, kind: int) -> dict[str, str | None]:
    asked = DescribeConfigsResource(
        resource_type=kind, resource_name=NAMES[kind], configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[asked])
    answer = await connection.ask(request, DescribeConfigsResponse, SECONDS)
    (found,) = answer.results
    assert found.error_code == 0, found.error_message
    return {one.name: one.value for one in found.configs}


async def altered(
    connection: NodeConnection, kind: int, name: str, value: str, validate_only: bool = False
) -> tuple[ErrorCode, str]:
    change = IncrementalAlterableConfig(name=name, config_operation=0, value=value)
    resource = IncrementalAlterConfigsResource(
        resource_type=kind, resource_name=NAMES[kind], configs=[change]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    answer = await connection.ask(request, IncrementalAlterConfigsResponse, SECONDS)
    (one,) = answer.responses
    return ErrorCode(one.error_code), one.error_message or ""


# -- APIs ------------------------------------------------------------------------------------------


def advertised(sasl: bool) -> dict[int, tuple[int, int]]:
    """As the page has it."""
    found = {}
    for key, first, last, said in API.findall(PAGE):
        if sasl or "sasl.enabled.mechanisms" not in said:
            differs = ADVERTISED.search(said)
            low, high = differs.groups() if differs else (first, last or first)
            found[int(key)] = (int(low), int(high))
    return found


@pytest.mark.parametrize("sasl", [False, True])
async def test_api_versions_is_the_page(tmp_path: Path, sasl: bool) -> None:
    flags = ("--sasl-enabled-mechanisms", "SCRAM-SHA-256") if sasl else ()
    with running(tmp_path, *flags, "--log-level", "warning") as one:
        connection = await connected(one)
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        answer = await connection.ask(request, ApiVersionsResponse, SECONDS)
        connection.close()
    assert offered_by(answer) == advertised(sasl)


# -- configs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TITLES)
async def test_what_is_not_refused_is_described(connection: NodeConnection, kind: int) -> None:
    found = await described(connection, kind)
    for name, here in every(rows(kind).items()):
        assert (name in found) == (here != "refused"), name


@pytest.mark.parametrize("kind", TITLES)
async def test_what_is_refused_says_why(connection: NodeConnection, kind: int) -> None:
    refused = [name for name, here in rows(kind).items() if here == "refused"]
    for name in every(refused):
        code, why = await altered(connection, kind, name, "1")
        assert code is ErrorCode.INVALID_CONFIG
        assert why.startswith(f"'{name}' of Apache Kafka is not supported: ")


@pytest.mark.parametrize("name", ["broker.id", "listeners", "advertised.listeners"])
async def test_what_is_only_shown_cannot_be_set(connection: NodeConnection, name: str) -> None:
    assert rows(BROKER)[name] == "shown"
    code, why = await altered(connection, BROKER, name, "1")
    assert code is ErrorCode.INVALID_CONFIG
    assert why.startswith(f"'{name}' follows from ")


@pytest.mark.parametrize(
    ("kind", "name", "value", "here"),
    [
        (TOPIC, "retention.ms", "1234", "works"),
        (TOPIC, "flush.messages", "17", "idle"),
        (TOPIC, "min.cleanable.dirty.ratio", "0.25", "idle"),
        (BROKER, "max.connections", "77", "works"),
        (BROKER, "log.retention.ms", "4321", "works"),
        (BROKER, "leader.replication.throttled.rate", "5", "idle"),
        (GROUP, "consumer.session.timeout.ms", "50000", "works"),
    ],
)
async def test_what_works_or_is_idle_is_stored(
    connection: NodeConnection, kind: int, name: str, value: str, here: str
) -> None:
    assert rows(kind)[name] == here
    assert await altered(connection, kind, name, value) == (ErrorCode.NONE, "")
    assert (await described(connection, kind))[name] == value


async def test_what_is_read_at_the_start_cannot_be_altered(connection: NodeConnection) -> None:
    """And what the page says can be altered while the node runs is accepted."""
    said = {name: text for name, _, text in CONFIG.findall(PAGE)}
    values = await described(connection, BROKER)
    both = [name for name in rows(BROKER) if said[name].endswith(("runs.*", "start.*"))]
    for name in every(both):
        code, why = await altered(connection, BROKER, name, values[name] or "", True)
        runs = said[name].endswith("*While it runs.*")
        assert (code is ErrorCode.NONE) == runs, (name, why)
