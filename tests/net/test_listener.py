"""Limits on who comes in, back-pressure, TLS. The session here only echoes or keeps quiet."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stratamq.model.errors import InvalidConfig
from stratamq.net.connection import Connection, Hold
from stratamq.net.listener import HANDSHAKE_TIMEOUT_S, ConnectionLimits, Listener, reachable_name
from stratamq.net.tls import ClientAuth, TlsContext, principal_of, server_context
from tests.net.conftest import Certificates
from tests.waiting import let_pass, let_run, until

MIB = 1 << 20


class Echo:
    """Sends back what it gets, and notes what happens to it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.received_bytes = 0
        self.story: list[str] = []

    def received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        self.connection.write([data[:1], memoryview(data)[1:]])

    def sent(self) -> None:
        self.story.append("sent")

    def is_busy(self) -> bool:
        return False

    def finish(self) -> None:
        self.connection.close()

    def ended(self) -> None:
        self.story.append("ended")


class RoomyEcho(Echo):
    """Has places of ten bytes for what comes, and then, once in a while, none."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.memory = bytearray(10)

    def buffer(self) -> memoryview | None:
        return memoryview(self.memory) if len(self.story) % 100 else None

    def filled(self, count: int) -> None:
        self.received(bytes(self.memory[:count]))

    def received(self, data: bytes) -> None:
        self.story.append("received")
        super().received(data)


@asynccontextmanager
async def listening(
    limits: ConnectionLimits | None = None,
    tls: TlsContext | None = None,
    kind: type[Echo] = Echo,
) -> AsyncIterator[tuple[Listener, int, list[Echo]]]:
    sessions: list[Echo] = []

    def make(connection: Connection) -> Echo:
        sessions.append(kind(connection))
        return sessions[-1]

    listener = Listener(make, limits, tls)
    _, port = await listener.start("127.0.0.1", 0)
    try:
        yield listener, port, sessions
    finally:
        await listener.stop(1)


async def test_bytes_come_and_go_and_the_session_hears_of_the_end() -> None:
    async with listening() as (listener, port, sessions):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        assert listener.connection_count == 1
        writer.close()
        await until(lambda: bool(sessions[0].story))
        assert sessions[0].story == ["ended"]
        assert listener.connection_count == 0


@pytest.mark.parametrize("secure", [False, True])
async def test_bytes_go_where_the_session_has_a_buffer(
    certificates: Certificates, secure: bool
) -> None:
    tls = _server(certificates, ClientAuth.NONE) if secure else None
    client = ssl.create_default_context(cafile=certificates.authority) if secure else None
    async with listening(tls=tls, kind=RoomyEcho) as (_, port, sessions):
        name = "localhost" if secure else None
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=client, server_hostname=name
        )
        for payload in (b"first", *[bytes(range(1, 251))] * 200, b"last"):
            writer.write(payload)
            assert await asyncio.wait_for(reader.readexactly(len(payload)), 10) == payload
        writer.close()
        assert len(sessions[0].story) > 3000


async def test_connections_that_share_a_buffer_do_not_share_bytes() -> None:
    async with listening() as (_, port, _):
        pairs = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
        for _ in range(20):
            for number, (_, writer) in enumerate(pairs):
                writer.write(b"%c" % number * 3000)
            for number, (reader, _) in enumerate(pairs):
                assert await reader.readexactly(3000) == b"%c" % number * 3000
        for _, writer in pairs:
            writer.close()


@pytest.mark.parametrize("limit", ["connections_max", "connections_per_host_max"])
async def test_one_too_many_is_closed_and_its_slot_is_given_back(limit: str) -> None:
    async with listening(ConnectionLimits(**{limit: 2})) as (listener, port, _):
        kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for _, writer in kept:
            writer.write(b"x")
        for reader, _ in kept:
            assert await reader.readexactly(1) == b"x"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with_end = await asyncio.wait_for(_rest(reader), 5)
        assert with_end == b""
        writer.close()
        kept[0][1].close()
        await until(lambda: listener.connection_count == 1)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"y")
        assert await reader.readexactly(1) == b"y"
        writer.close()
        kept[1][1].close()


async def test_refusals_are_logged_once_in_a_spell(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "stratamq.net")

    async def refused(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await _rest(reader) == b""
        writer.close()

    async with listening(ConnectionLimits(connections_max=20)) as (listener, port, _):
        kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        await until(lambda: listener.connection_count == 20)
        for _ in range(5):
            await refused(port)
        kept.pop()[1].close()
        await until(lambda: listener.connection_count == 19)
        kept.append(await asyncio.open_connection("127.0.0.1", port))
        await until(lambda: listener.connection_count == 20)
        await refused(port)
        assert [record.message for record in caplog.records] == ["connections are refused"]
        for _, writer in kept[:5]:
            writer.close()
        await until(lambda: listener.connection_count == 15)
        again = caplog.records[-1]
        assert again.message == "connections are accepted again"
        assert vars(again)["fields"]["refused"] == 6
        assert len(caplog.records) == 2
        for _, writer in kept[5:]:
            writer.close()


@pytest.mark.needs("openssl")
async def test_a_connection_counts_before_its_handshake(certificates: Certificates) -> None:
    """And no longer than that may take."""
    tls = _server(certificates, ClientAuth.NONE)
    async with listening(ConnectionLimits(connections_max=3), tls) as (listener, port, sessions):
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        await until(lambda: listener.connection_count == 3)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await _rest(reader) == b""
        writer.close()
        silent[0][1].close()
        await until(lambda: listener.connection_count == 2)
        silent[1][1].write(b"GET / HTTP/1.1\r\n\r\n")
        await until(lambda: listener.connection_count == 1)
        client = _client(certificates, shows_itself=False)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        assert len(sessions) == 1
        let_pass(HANDSHAKE_TIMEOUT_S + 1)
        await until(lambda: listener.connection_count == 1)
        for _, one in (*silent, (reader, writer)):
            one.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    limits = ConnectionLimits(unsent_high_bytes=MIB, unsent_low_bytes=MIB // 4)
    async with listening(limits) as (_, port, sessions):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        payload = bytes(64 * MIB)
        writer.write(payload)
        await until(lambda: bool(sessions) and sessions[0].connection.is_clogged)
        session = sessions[0]
        await let_run(0.1)  # time to go on
        assert session.received_bytes < 40 * MIB, "it went on reading"
        assert session.connection.unsent_bytes < 4 * MIB
        assert session.connection.is_clogged
        assert len(await asyncio.wait_for(reader.readexactly(len(payload)), 30)) == len(payload)
        assert "sent" in session.story
        writer.close()


async def test_a_slow_reader_is_not_idle_until_it_stops() -> None:
    async with listening(ConnectionLimits(idle_ms_max=1200)) as (listener, port, sessions):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        sessions[0].connection.write([bytes(128 * MIB)])
        for _ in range(25):  # twice as long as a connection may idle
            await let_run(0.1)
            await reader.readexactly(2 * MIB)
        assert listener.connection_count == 1
        await until(lambda: listener.connection_count == 0, "it reads no more")
        writer.close()


async def test_reading_stops_while_any_hold_is_on() -> None:
    async with listening() as (_, port, sessions):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"a")
        await reader.readexactly(1)
        connection = sessions[0].connection
        connection.hold(Hold.BUSY)
        connection.hold(Hold.MUTED)
        writer.write(b"b")
        connection.release(Hold.BUSY)
        await let_run()
        assert sessions[0].received_bytes == 1
        connection.release(Hold.MUTED)
        assert await asyncio.wait_for(reader.readexactly(1), 5) == b"b"
        writer.close()


def _client(certificates: Certificates, *, shows_itself: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates.authority)
    if shows_itself:
        context.load_cert_chain(certificates.client)
    return context


def _server(certificates: Certificates, client_auth: ClientAuth) -> TlsContext:
    return server_context(
        certificates.server,
        certificates.server,
        client_authorities=certificates.authority,
        client_auth=client_auth,
    )


@pytest.mark.needs("openssl")
@pytest.mark.parametrize(
    ("client_auth", "shows_itself", "principal"),
    [
        (ClientAuth.NONE, True, None),
        (ClientAuth.REQUESTED, False, None),
        (ClientAuth.REQUESTED, True, "User:CN=reports,O=Example"),
        (ClientAuth.REQUIRED, True, "User:CN=reports,O=Example"),
    ],
)
async def test_tls_tells_who_the_client_is(
    certificates: Certificates, client_auth: ClientAuth, shows_itself: bool, principal: str | None
) -> None:
    tls = _server(certificates, client_auth)
    async with listening(tls=tls) as (_, port, sessions):
        client = _client(certificates, shows_itself=shows_itself)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        writer.write(b"x" * 100_000)
        assert len(await reader.readexactly(100_000)) == 100_000
        assert sessions[0].connection.principal == principal
        writer.close()


@pytest.mark.needs("openssl")
async def test_without_the_certificate_that_is_required_nobody_is_served(
    certificates: Certificates,
) -> None:
    tls = _server(certificates, ClientAuth.REQUIRED)
    async with listening(tls=tls) as (_, port, sessions):
        client = _client(certificates, shows_itself=False)
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await _one_byte(port, client)
        assert [session.received_bytes for session in sessions] in ([], [0])


async def _one_byte(port: int, client: ssl.SSLContext) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
    try:
        writer.write(b"x")
        await asyncio.wait_for(reader.readexactly(1), 5)
    finally:
        writer.close()


@pytest.mark.needs("openssl")
def test_files_that_cannot_be_used_are_named(tmp_path: Path, certificates: Certificates) -> None:
    with pytest.raises(InvalidConfig, match=r"none\.pem"):
        server_context(tmp_path / "none.pem", tmp_path / "none.pem")
    with pytest.raises(InvalidConfig, match="authorities"):
        server_context(certificates.server, certificates.server, client_auth=ClientAuth.REQUIRED)


def test_names_are_escaped_as_kafka_does() -> None:
    subject = ((("organizationName", "A, B+C"),), (("commonName", "x"), ("userId", "7")))
    assert principal_of({"subject": subject}) == r"User:CN=x+UID=7,O=A\, B\+C"
    assert principal_of({}) is None


def test_a_wildcard_is_no_address_for_clients() -> None:
    assert reachable_name("10.0.0.1") == "10.0.0.1"
    assert reachable_name("0.0.0.0") not in ("", "0.0.0.0")
