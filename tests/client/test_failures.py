"""Nodes that are down, silent, gone in between, or do not know who we are."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stratamq.client import BlockingClient, Client, ClientOptions, TopicPartition, options_of
from stratamq.client.options import Server
from stratamq.client.sasl import exchange
from stratamq.model.errors import (
    Closed,
    Denied,
    InvalidConfig,
    StrataError,
    TimedOut,
    TopicNotFound,
    Unreachable,
)
from stratamq.model.record import Record
from tests.clients.node import running
from tests.clients.security import MECHANISMS, PASSWORD, SECURE, add_users, certificates
from tests.waiting import let_run


@contextlib.asynccontextmanager
async def silent_server() -> AsyncIterator[Server]:
    """Takes everything, says nothing."""
    held: list[asyncio.StreamWriter] = []

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    try:
        yield Server("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for writer in held:
            writer.close()
            await writer.wait_closed()
        await server.wait_closed()


async def test_a_node_that_is_down_is_named() -> None:
    options = ClientOptions(servers=(Server("127.0.0.1", 1),), retry_ms_max=50)
    async with Client(options) as client:
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1 cannot be reached"):
            await client.cluster()


async def test_a_node_that_is_silent_is_given_up() -> None:
    async with silent_server() as server:
        options = ClientOptions(servers=(server,), connect_ms_max=50, retry_ms_max=100)
        async with Client(options) as client:
            with pytest.raises(TimedOut, match="no answer to ApiVersions"):
                await client.cluster()


async def test_the_second_server_will_do(options: ClientOptions) -> None:
    several = ClientOptions(servers=(Server("127.0.0.1", 1), *options.servers))
    async with Client(several) as client:
        assert (await client.cluster()).nodes


async def test_a_closed_client_says_so(client: Client) -> None:
    client.close()
    with pytest.raises(Closed):
        await client.cluster()


async def test_requests_under_way_end_with_the_connection(client: Client, topic: str) -> None:
    from stratamq.client import FetchLimits

    waiting = asyncio.create_task(
        client.fetch(TopicPartition(topic, 0), 0, FetchLimits(wait_ms_max=60_000))
    )
    await let_run(0.2)
    client.close()
    with pytest.raises(StrataError):
        await asyncio.wait_for(waiting, 5)


async def test_a_node_that_comes_back_is_found_again(tmp_path: Path) -> None:
    """Killed with a batch on its way: sent again, it is stored once."""
    with running(tmp_path, "--topic-flush", "os") as node:
        options = options_of(node.address, {"retry.ms": "30000"})
        async with Client(options) as client:
            await client.create_topic("orders")
            place, sender = TopicPartition("orders", 0), await client.sender()
            assert await sender.send(place, [Record(value=b"before")]) == 0
            node.end(signal.SIGKILL)
            sending = asyncio.create_task(sender.send(place, [Record(value=b"after")]))
            back = await asyncio.to_thread(node.restarted)
            try:
                assert await sending == 1
            finally:
                await asyncio.to_thread(back.end)


@pytest.fixture(scope="module")
def secure_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secure")
    add_users(folder, "root")
    return folder


async def test_logging_in(secure_folder: Path) -> None:
    with running(secure_folder, *SECURE) as node:
        for mechanism in MECHANISMS:
            login = {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.username": "root",
                "sasl.password": PASSWORD,
            }
            async with Client(options_of(node.address, login)) as client:
                assert (await client.cluster()).nodes
            wrong = options_of(node.address, {**login, "sasl.password": "wrong"})
            async with Client(wrong) as client:
                with pytest.raises(Denied, match="'root' cannot log in"):
                    await client.cluster()


async def test_a_mechanism_that_is_not_offered(secure_folder: Path) -> None:
    with running(secure_folder, "--sasl-enabled-mechanisms", "PLAIN") as node:
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.username": "root",
            "sasl.password": PASSWORD,
        }
        async with Client(options_of(node.address, login)) as client:
            with pytest.raises(Denied, match="does not offer SCRAM-SHA-256 but PLAIN"):
                await client.cluster()


async def test_tls(tmp_path: Path) -> None:
    authority, server, _ = certificates(tmp_path)
    flags = ("--kafka-tls-certificate", str(server), "--kafka-tls-key", str(server))
    with running(tmp_path / "data", "--host", "127.0.0.1", *flags) as node:
        trusting = {"security.protocol": "SSL", "ssl.ca.location": str(authority)}
        async with Client(options_of(node.address, trusting)) as client:
            assert (await client.cluster()).nodes
        doubting = options_of(node.address, {"security.protocol": "SSL", "retry.ms": "50"})
        async with Client(doubting) as client:
            with pytest.raises(Unreachable, match="TLS failed"):
                await client.cluster()


def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    from stratamq.client import Login

    steps = exchange(Login(mechanism="SCRAM-SHA-256", user="a=b,c", password="x"), nonce="abc")
    assert next(steps) == b"n,,n=a=3Db=2Cc,r=abc"
    assert steps.send(b"r=abcdef,s=c2FsdA==,i=4096").startswith(b"c=biws,r=abcdef,p=")
    with pytest.raises(Denied, match="does not know the password"):
        steps.send(b"v=AAAA")


@pytest.mark.parametrize(
    ("servers", "settings", "said"),
    [
        ("", {}, "at least one host:port"),
        ("host:port", {}, "must be a number"),
        ("host", {"security.protocol": "TLS"}, "security.protocol: 'TLS'"),
        ("host", {"security.protocol": "SASL_SSL"}, "sasl.username is needed"),
        ("host", {"security.protocol": "SASL_SSL", "sasl.mechanism": "X"}, "sasl.mechanism: 'X'"),
        ("host", {"retry.ms": "soon"}, "retry.ms must be a number"),
    ],
)
def test_bad_options_are_named(servers: str, settings: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        options_of(servers, settings)


def test_the_blocking_face(options: ClientOptions) -> None:
    with BlockingClient(options) as client:
        assert client.call(client.asyncio.cluster()).nodes
        with pytest.raises(TopicNotFound, match="'nowhere'"):
            client.call(client.asyncio.describe_topics(["nowhere"]))
        waiting = client.start(client.asyncio.group_offsets("nobody"))
        assert waiting.result(timeout=10) == {}
    client.close()
