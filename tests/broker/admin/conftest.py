"""The administrators' APIs over a real node's inside, without sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stratamq.broker.kafka.admin.family import Admin
from stratamq.broker.kafka.answer_budget import AnswerBudget
from stratamq.broker.kafka.broker import KafkaBroker
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.fetch import Fetch
from stratamq.broker.kafka.groups.family import Groups
from stratamq.broker.kafka.metadata import Metadata
from stratamq.broker.kafka.produce.api import Produce
from stratamq.model.clock import ManualClock
from stratamq.model.config import load
from stratamq.node.core import NodeCore
from stratamq.node.doors import Doors
from stratamq.node.kafka import services_of
from stratamq.wire.kafka.protocol import APIS, decode, decode_request, encode, encode_request
from stratamq.wire.kafka.protocol.schema import message_of

FLAGS = {"topic.flush": "os", "num.partitions": 2, "log.level": "warning"}


@dataclass
class Rig:
    """Ask it as a client would. Requests and answers go through the codec, so that what no version
    can carry is found; `version` is the newest unless said otherwise."""

    core: NodeCore
    services: Services
    broker: KafkaBroker
    clock: ManualClock
    groups: Groups

    async def ask(self, request: Any, version: int | None = None) -> Any:
        api = APIS[message_of(type(request)).key]
        version = api.versions.last if version is None else version
        handler = self.broker.handler(type(request))
        assert handler is not None
        sent: Any = decode_request(b"".join(encode_request(request, version, 0))[4:]).body
        answer = await handler(sent, Caller(version=version))
        return decode(api.response, version, b"".join(encode(answer, version)))


Starter = Callable[..., Any]


@pytest.fixture
def started(tmp_path: Path) -> Starter:
    """A node on the test's folder; `async with` ends it, and another may follow."""

    @asynccontextmanager
    async def start(**flags: object) -> AsyncIterator[Rig]:
        named = {name.replace("_", "."): value for name, value in flags.items()}
        config = load(flags={"data.dir": str(tmp_path), **FLAGS, **named})
        clock = ManualClock()
        core = NodeCore(config, doors=Doors(clock=clock))
        await core.start()
        services = services_of(core)
        groups = Groups(services)
        families = [
            Admin(services),
            Metadata(services, "cluster"),
            Produce(services),
            Fetch(services, AnswerBudget(64 << 20)),
            groups,
        ]
        broker = KafkaBroker(families)
        await broker.start()
        try:
            yield Rig(core, services, broker, clock, groups)
        finally:
            await broker.stop()
            await core.stop()

    return start


@pytest.fixture
async def rig(started: Starter) -> AsyncIterator[Rig]:
    async with started() as rig:
        yield rig
