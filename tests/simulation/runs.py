"""One run of a seed: nodes, clients, trouble, and what the checks say of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tests.simulation.checks import faults
from tests.simulation.history import History, Outcome
from tests.simulation.trouble import make_trouble
from tests.simulation.workload import Worker, client_of, create_topics, read_logs
from tests.simulation.world import Node, World

DURABLE: tuple[Mapping[str, str], ...] = (
    {"flush": "sync"},
    {"flush": "sync", "segment.bytes": "4096"},
    {"flush": "sync", "segment.bytes": "16384", "index.key": "true"},
    {"storage.type": "EngineRocksDB"},
)
"""Of topics whose acknowledged records survive a power cut on the one disk they are on."""


@dataclass(frozen=True, slots=True)
class Result:
    digest: str
    """Of everything that happened."""
    faults: list[str]
    steps: int
    virtual_s: float
    sent: int
    acknowledged: int
    deaths: int


def run_node(
    seed: int,
    *,
    configs: Sequence[Mapping[str, str]] = DURABLE,
    clients: int = 3,
    requests: int = 40,
    troubles: int = 5,
    log: list[str] | None = None,
) -> Result:
    """One node, with topics of some of these configs. `log` gets a line for each thing that
    happened."""
    chance = Random(f"{seed}/topics")
    topics = {f"t{number}": chance.choice(configs) for number in range(2)}
    with World(seed) as world:
        world.loop.log = log
        node = Node(world, 1)
        names = [f"c{number}" for number in range(1, clients + 1)]
        hosts = [world.host(name) for name in names]
        history = History()

        async def work() -> list[str]:
            await node.start()
            client = client_of([node.host.name])
            await create_topics(client, topics)
            client.close()
            trouble = asyncio.ensure_future(make_trouble(world, [node], troubles))
            workers = [
                host.task(
                    Worker(host.name, ["n1"], list(topics), history, world.seed).work(requests)
                )
                for host in hosts
            ]
            await asyncio.gather(*workers)
            await trouble
            logs = await read_logs(["n1"], list(topics), names)
            await node.stop()
            return faults(history, logs)

        found = world.run(world.host("operator"), work())
        return Result(
            digest=world.loop.digest.hexdigest(),
            faults=found,
            steps=world.loop.steps,
            virtual_s=world.loop.time(),
            sent=len(history.sends),
            acknowledged=sum(send.outcome is Outcome.DONE for send in history.sends),
            deaths=len(world.dead),
        )
