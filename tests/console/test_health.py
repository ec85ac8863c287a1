"""Whether a node lives and serves, over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from stratamq.console.health import Health
from stratamq.model.config import load
from stratamq.node.console import ConsoleFront
from stratamq.node.core import NodeCore
from stratamq.node.kafka import Address, KafkaFront
from stratamq.node.server import serve
from tests.clients.node import running
from tests.console.metrics import scrape
from tests.console.web import Answer, address_of, get


def test_a_running_node_is_alive_and_ready(tmp_path: Path) -> None:
    with running(tmp_path, "--console-port", "0") as node:
        console = address_of(node.ready)
        assert get(console, "/healthz")[::2] == (200, "ok\n")
        answer = get(console, "/readyz")
        assert (answer.status, answer.json()) == (200, {"ready": True, "missing": {}})
        assert get(console, "/no-such-page").status == 404
        assert node.end() == 0


def test_a_node_can_do_without(tmp_path: Path) -> None:
    with running(tmp_path, "--console-port", "-1") as node:
        assert "console=" not in node.ready
        assert node.end() == 0


PATIENCE_S = 20.0
"""For a test that fails halfway."""


class Part:
    """A core or a front that starts and stops when it is let."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.may_start, self.may_stop = asyncio.Event(), asyncio.Event()
        self.stops = asyncio.Event()

    async def start(self) -> Address:
        await self.may_start.wait()
        return Address(self.name, "127.0.0.1", 1)

    async def stop(self) -> None:
        self.stops.set()
        async with asyncio.timeout(PATIENCE_S):
            await self.may_stop.wait()

    async def recover(self) -> None:
        raise AssertionError("not asked for")


class Console(ConsoleFront):
    """Says where it is before the node is ready."""

    def __init__(self, folder: Path, health: Health) -> None:
        config = load(flags={"data.dir": str(folder), "console.port": 0})
        core = NodeCore(config)
        super().__init__(config, health, core, KafkaFront(config, core))
        self.address: asyncio.Future[Address] = asyncio.get_running_loop().create_future()

    async def start(self) -> Address:
        self.address.set_result(await super().start())
        return self.address.result()

    async def ask(self) -> Answer:
        _, host, port, _ = await self.address
        return await asyncio.to_thread(get, (host, port), "/readyz")


async def test_what_is_missing_is_named_while_a_node_starts_and_stops(tmp_path: Path) -> None:
    health, core, kafka = Health("storage", "kafka"), Part("core"), Part("kafka")
    console, ready = Console(tmp_path, health), asyncio.Event()
    config = load(flags={"data.dir": str(tmp_path)})
    node = asyncio.create_task(
        serve(config, core, [kafka], lambda line: ready.set(), health, console)
    )

    async def shown() -> tuple[int, dict[str, str]]:
        answer = await console.ask()
        return answer.status, answer.json()["missing"]

    assert await shown() == (503, {"storage": "starting", "kafka": "starting"})
    _, host, port, _ = await console.address
    found = await asyncio.to_thread(scrape, (host, port))
    assert (found["ready"], found["memory_resident_bytes"] > 0) == (0, True)
    core.may_start.set()
    kafka.may_start.set()
    await ready.wait()
    assert await shown() == (200, {})
    os.kill(os.getpid(), signal.SIGTERM)
    await kafka.stops.wait()
    assert await shown() == (503, {"storage": "stopping", "kafka": "stopping"})
    kafka.may_stop.set()
    core.may_stop.set()
    await node
    with pytest.raises(ConnectionRefusedError):
        await console.ask()
