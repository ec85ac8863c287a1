"""The console's port: who gets it, and how much of it one client may take."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from stratamq.console import http
from stratamq.console.health import Health
from stratamq.console.http import HttpServer
from stratamq.model.config import ConfigSource, NodeConfig
from stratamq.model.settings.node import NODE_SETTINGS
from stratamq.node.console import ConsoleFront
from stratamq.node.core import NodeCore
from stratamq.node.kafka import KafkaFront
from tests.clients.node import ROOT
from tests.console.web import get
from tests.waiting import let_pass, until

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
REQUEST = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.mark.parametrize("flag", ["--console-port", "--kafka-port"])
def test_a_port_in_use_is_one_sentence(tmp_path: Path, taken: int, flag: str) -> None:
    ports = {"--console-port": "0", "--kafka-port": "0", flag: str(taken)}
    words = [word for pair in ports.items() for word in pair]
    command = [sys.executable, "-m", "stratamq.cli", "server", "--data-dir", str(tmp_path / "data")]
    ended = subprocess.run(
        [*command, *words, "--log-level", "warning"],
        capture_output=True,
        text=True,
        timeout=60,
        env=ENVIRONMENT,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"stratamq: cannot listen on 127.0.0.1:{taken}: another program uses it;"
        " end that, or choose another port\n"
    )


async def test_a_console_that_was_not_asked_for_takes_another_port(taken: int) -> None:
    defaults = {name: setting.default for name, setting in NODE_SETTINGS.items()}
    config = NodeConfig({ConfigSource.DEFAULT: {**defaults, "console.port": taken}})
    core = NodeCore(config)
    front = ConsoleFront(config, Health(), core, KafkaFront(config, core))
    _, host, port, _ = await front.start()
    try:
        assert port != taken
        assert (await asyncio.to_thread(get, (host, port), "/readyz")).status == 200
    finally:
        await front.stop()


def test_a_node_imports_nothing_of_http_before_a_client_comes() -> None:
    program = (
        "import sys, stratamq.cli.server; print({'uvicorn', 'starlette', 'h11'} & {*sys.modules})"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert shown.stdout == "set()\n", shown.stderr


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def serving(connections_max: int = 8) -> AsyncIterator[tuple[HttpServer, tuple[str, int]]]:
    server = HttpServer(lambda: app, connections_max)
    try:
        yield server, await server.start("127.0.0.1", 0)
    finally:
        await server.stop()
        await until(lambda: not server.connections)


@asynccontextmanager
async def connected(
    address: tuple[str, int],
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_connections_over_the_limit_are_closed() -> None:
    async with serving(connections_max=1) as (server, address):
        async with connected(address) as (reader, writer):
            await until(lambda: server.connections)
            async with connected(address) as (other, _):
                with contextlib.suppress(ConnectionResetError):
                    assert await other.read() == b""
            writer.write(REQUEST)
            assert await reader.readline() == b"HTTP/1.1 204 No Content\r\n"
        await until(lambda: not server.connections)
        assert (await asyncio.to_thread(get, address, "/")).status == 204


@pytest.mark.parametrize("sent", [b"", REQUEST[:20], REQUEST])
async def test_a_client_that_asks_nothing_more_is_cut_off(sent: bytes) -> None:
    async with serving() as (server, address), connected(address) as (reader, writer):
        writer.write(sent)
        if sent == REQUEST:
            await reader.readline()
        await until(lambda: server.connections)
        for _ in range(2):  # a request counts as progress once
            let_pass(http.REQUEST_PAUSE_S_MAX)
            await asyncio.sleep(0)
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        await until(lambda: not server.connections)


async def test_what_is_no_http_is_refused() -> None:
    async with serving() as (_, address), connected(address) as (reader, writer):
        writer.write(b"\x16\x03\x01 hello\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
