"""The data plane's families over a real node's inside, without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stratamq.broker.kafka.answer_budget import AnswerBudget
from stratamq.broker.kafka.broker import KafkaBroker
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.fetch import Fetch
from stratamq.broker.kafka.log_offsets import LogOffsets
from stratamq.broker.kafka.metadata import Metadata
from stratamq.broker.kafka.produce.api import Produce
from stratamq.model.clock import ManualClock
from stratamq.model.config import load
from stratamq.node.core import NodeCore
from stratamq.node.doors import Doors
from stratamq.node.kafka import services_of
from stratamq.wire.kafka.protocol import APIS
from stratamq.wire.kafka.protocol.schema import message_of

NEWEST = -1


@dataclass
class Rig:
    """Ask it as a client would; `version` is the newest unless said otherwise."""

    core: NodeCore
    services: Services
    broker: KafkaBroker
    fetch: Fetch
    budget: AnswerBudget
    clock: ManualClock
    begins: bool = False
    """Whether to ask without a coroutine, where the broker takes it that way."""
    begun: int = 0

    async def ask(self, request: object, version: int = NEWEST) -> object:
        handler = self.broker.handler(type(request))
        assert handler is not None
        if version == NEWEST:
            version = APIS[message_of(type(request)).key].versions.last
        caller = Caller(version=version)
        beginner = self.broker.beginners.get(type(request)) if self.begins else None
        if beginner is not None:
            answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            if beginner(request, caller, answer.set_result):
                self.begun += 1
                return await answer
        return await handler(request, caller)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    clock = ManualClock()
    config = load(flags={"data.dir": str(tmp_path), "topic.flush": "os", "num.partitions": 2})
    core = NodeCore(config, doors=Doors(clock=clock))
    await core.start()
    services = services_of(core)
    budget = AnswerBudget(64 << 20)
    fetch = Fetch(services, budget)
    families = [Metadata(services, "cluster"), Produce(services), LogOffsets(services)]
    broker = KafkaBroker([*families, fetch])
    await broker.start()
    yield Rig(core, services, broker, fetch, budget, clock)
    await broker.stop()
    await core.stop()
