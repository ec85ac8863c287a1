"""A whole Kafka front in this process, and a client that asks it anything in any version."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from stratamq.broker.kafka.security.scram import new_credential
from stratamq.meta.access import CreateAcl, Mechanism, SaveCredential
from stratamq.meta.apply import Command
from stratamq.meta.service import MetaService
from stratamq.model.access import (
    ANYBODY,
    ANYWHERE,
    CLUSTER_NAME,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourceKind,
)
from stratamq.model.config import load
from stratamq.node.core import NodeCore
from stratamq.node.kafka import KafkaFront
from stratamq.wire.kafka.protocol import decode_response, encode_request
from stratamq.wire.kafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from stratamq.wire.kafka.protocol.schema import fields_of, message_of
from tests.waiting import until

SECONDS_MAX = 10
PASSWORD = b"correct horse"
WITH_SASL = {
    "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256",
    "connection_failed_authentication_delay_ms": 0,
    "authorizer": "acl",
}


class Front:
    def __init__(self, core: NodeCore, port: int, kafka: KafkaFront) -> None:
        self.core, self.port, self.kafka = core, port, kafka

    async def allow(self, *rules: AclRule) -> None:
        await self.submit(*(CreateAcl(rule=rule) for rule in rules))

    async def submit(self, *commands: Command) -> None:
        """And everybody's cache has heard of it."""
        meta = self.core.meta
        assert isinstance(meta, MetaService)
        await meta.submit(*commands)
        await until(lambda: not any(watch._queue.qsize() for watch in meta._watches))


@asynccontextmanager
async def front(path: Path, **settings: object) -> AsyncIterator[Front]:
    flags = {name.replace("_", "."): value for name, value in settings.items()}
    config = load(flags={"data.dir": str(path), "kafka.port": 0, "topic.flush": "os", **flags})
    core = NodeCore(config)
    await core.start()
    door = KafkaFront(config, core)
    try:
        yield Front(core, (await door.start()).port, door)
    finally:
        await door.stop()
        await core.stop()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, request: Any, version: int | None = None) -> Any:
        message = message_of(type(request))
        version = message.versions.last if version is None else version
        self._writer.writelines(encode_request(request, version, 7, "tester"))
        async with asyncio.timeout(SECONDS_MAX):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            frame = await self._reader.readexactly(size)
        return decode_response(frame, message.key, version).body

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def is_closed(self) -> bool:
        try:
            async with asyncio.timeout(SECONDS_MAX):
                return await self._reader.read(1) == b""
        except ConnectionError:
            return True


@asynccontextmanager
async def client(port: int) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


def codes(answer: Any) -> set[int]:
    """Every error anywhere in a response."""
    if isinstance(answer, list | tuple):
        return set().union(*(codes(one) for one in answer))
    try:
        fields = fields_of(type(answer))
    except KeyError:
        return set()
    found: set[int] = set()
    for field in fields:
        value = getattr(answer, field.name)
        found |= {value} - {0} if field.name.endswith("error_code") else codes(value)
    return found


def rule(
    operation: Operation,
    kind: ResourceKind,
    name: str = CLUSTER_NAME,
    *,
    principal: str = ANYBODY,
    host: str = ANYWHERE,
    pattern: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
) -> AclRule:
    return AclRule(
        kind=kind,
        pattern=pattern,
        name=name,
        principal=principal,
        host=host,
        operation=operation,
        permission=permission,
    )


async def with_users(door: Front, *names: str) -> None:
    for name in names:
        credential = new_credential(name, Mechanism.SHA_256, PASSWORD, 4096)
        await door.submit(SaveCredential(credential=credential))


async def log_in(
    peer: Client, user: str = "alice", password: bytes = PASSWORD, mechanism: str = "PLAIN"
) -> SaslAuthenticateResponse:
    shaken = await peer.ask(SaslHandshakeRequest(mechanism=mechanism))
    assert shaken.error_code == 0
    token = b"\0" + user.encode() + b"\0" + password
    answer = await peer.ask(SaslAuthenticateRequest(auth_bytes=token))
    assert isinstance(answer, SaslAuthenticateResponse)
    return answer
