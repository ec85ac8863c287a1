"""A real node below the groups family, and messages through the codec as a client's would go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.groups.family import Groups
from stratamq.model.clock import Clock, SystemClock
from stratamq.model.config import load
from stratamq.node.core import NodeCore
from stratamq.node.doors import Doors
from stratamq.node.kafka import services_of
from stratamq.wire.kafka.protocol import APIS, decode, decode_request, encode, encode_request
from stratamq.wire.kafka.protocol.schema import message_of

FAST = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 50,
    "topic.storage.type": "EngineMemory",
}


class Node:
    """Started and stopped by hand, so that a test can restart it."""

    def __init__(self, path: Path, *, clock: Clock | None = None, **settings: object) -> None:
        flags = {**FAST, **{name.replace("_", "."): value for name, value in settings.items()}}
        self.config = load(flags={"data.dir": str(path), "kafka.port": 19092, **flags})
        self.clock = clock or SystemClock()

    async def start(self) -> None:
        self.core = NodeCore(self.config, doors=Doors(clock=self.clock))
        await self.core.start()
        self.services = services_of(self.core)
        self.groups = Groups(self.services)
        await self.groups.start()
        self._handlers = self.groups.handlers()

    async def stop(self) -> None:
        await self.groups.stop()
        await self.core.stop()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def ask(self, request: Any, version: int | None = None, client: str = "client") -> Any:
        """The response, after both messages went through bytes in this version (the newest)."""
        message = message_of(type(request))
        version = message.versions.last if version is None else version
        sent: Any = decode_request(b"".join(encode_request(request, version, 0))[4:]).body
        caller = Caller(version=version, client_id=client)
        response = await self._handlers[type(request)].handler(sent, caller)
        kind = APIS[message.key].response
        assert type(response) is kind
        return decode(kind, version, b"".join(encode(response, version, b"")), 0)
