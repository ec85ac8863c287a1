"""A node that was not run for a while: its clients were not at fault, and get time to go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from stratamq.broker.kafka.transactions import coordinator
from stratamq.model.clock import ManualClock
from stratamq.model.config import load
from stratamq.model.transaction import TransactionState
from stratamq.node.core import NodeCore
from stratamq.node.doors import Doors
from stratamq.node.kafka import KafkaFront
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages import transactions as tx
from tests.broker.security.support import Client, client
from tests.waiting import let_run_here, until

SWEEP_MS, TIMEOUT_MS = 20, 1000
INTERVAL = "transaction.abort.timed.out.transaction.cleanup.interval.ms"


class Stalled:
    """A node behind a socket, a client of it, and a clock that only the test moves."""

    def __init__(self, core: NodeCore, clock: ManualClock, peer: Client) -> None:
        self.core, self.clock, self.peer = core, clock, peer
        self.who: dict[str, Any] = {}

    async def begin(self) -> None:
        asked = tx.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=TIMEOUT_MS)
        told = await self.peer.ask(asked)
        self.who = {
            "transactional_id": "x",
            "producer_id": told.producer_id,
            "producer_epoch": told.producer_epoch,
        }
        assert (await self.peer.ask(self.group("g"))).error_code == 0

    def group(self, name: str) -> tx.AddOffsetsToTxnRequest:
        return tx.AddOffsetsToTxnRequest(**self.who, group_id=name)

    @property
    def state(self) -> TransactionState:
        return self.core.meta.state.transactions["x"].state


def on_uvloop(path: Path, story: Callable[[Stalled], Awaitable[None]]) -> None:
    async def run() -> None:
        async with _started(path) as node, asyncio.timeout(30):
            await story(node)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


@asynccontextmanager
async def _started(path: Path) -> AsyncIterator[Stalled]:
    config = load(flags={"data.dir": str(path), "kafka.port": 0, INTERVAL: SWEEP_MS})
    clock = ManualClock()
    core = NodeCore(config, doors=Doors(clock=clock))
    await core.start()
    front = KafkaFront(config, core)
    try:
        address = await front.start()
        async with client(address.port) as peer:
            yield Stalled(core, clock, peer)
    finally:
        await front.stop()
        await core.stop()


def test_a_transaction_goes_on_after_a_stall_that_was_longer_than_its_time(tmp_path: Path) -> None:
    """Its producer waits for an answer meanwhile, and has more to ask for before it can end it."""

    async def story(node: Stalled) -> None:
        await node.begin()
        more = asyncio.create_task(node.peer.ask(node.group("h")))
        node.clock.advance(TIMEOUT_MS + 1)
        let_run_here(3 * SWEEP_MS / 1000)  # the event loop is not: nothing of the node is run
        assert (await more).error_code == 0
        for group in "ijk":
            assert (await node.peer.ask(node.group(group))).error_code == 0
        told = await node.peer.ask(tx.EndTxnRequest(**node.who, committed=True))
        assert ErrorCode(told.error_code) is ErrorCode.NONE
        assert node.state is TransactionState.COMPLETE_COMMIT

    on_uvloop(tmp_path, story)


def test_what_nobody_ends_is_aborted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "GRACE_S", 0.01)

    async def story(node: Stalled) -> None:
        await node.begin()
        node.clock.advance(TIMEOUT_MS + 1)
        await until(lambda: node.state is TransactionState.COMPLETE_ABORT)
        told = await node.peer.ask(tx.EndTxnRequest(**node.who, committed=True))
        assert ErrorCode(told.error_code) is ErrorCode.PRODUCER_FENCED

    on_uvloop(tmp_path, story)
