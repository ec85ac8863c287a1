"""Nodes to attack. `inside` is one in the test's own process, whose event loop can be watched; a
child process shows what memory, descriptors and threads an attack costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from stratamq.model.config import load
from stratamq.node.core import NodeCore
from stratamq.node.kafka import KafkaFront
from tests.attack.raw import RawClient, connected

T = TypeVar("T")


class Inside(NamedTuple):
    """A node in this process. Clients run in threads, so that only the node uses the loop."""

    core: NodeCore
    host: str
    port: int

    async def client(self, act: Callable[[RawClient], T]) -> T:
        """What a client does on a connection of its own."""

        def run() -> T:
            with connected(self.host, self.port) as client:
                return act(client)

        return await asyncio.to_thread(run)

    async def asked(self, request: object, version: int | None = None) -> Any:
        return await self.client(lambda client: client.asked(request, version))


Starter = Callable[..., Any]


@pytest.fixture
def inside(tmp_path: Path) -> Starter:
    @asynccontextmanager
    async def start(**flags: object) -> AsyncIterator[Inside]:
        named = {name.replace("_", "."): value for name, value in flags.items()}
        given = {"topic.flush": "os", "log.level": "warning", "kafka.port": 0, **named}
        core = NodeCore(load(flags={"data.dir": str(tmp_path), **given}))
        await core.start()
        front = KafkaFront(core.config, core)
        try:
            address = await front.start()
            yield Inside(core, address.host, address.port)
        finally:
            await front.stop()
            await core.stop()

    return start
