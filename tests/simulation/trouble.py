"""What goes wrong, by seed: links are cut, connections reset, nodes killed; power fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from tests.simulation.world import Node, World
from tests.twins.disk import Power

HONEST = (Power.KILLED, Power.KEPT, Power.LOST, Power.PREFIX, Power.TORN)
"""What a disk does that keeps its promise: what was synced is there, unchanged."""


async def make_trouble(world: World, nodes: Sequence[Node], times: int) -> None:
    """On return everything is mended and every node is up."""
    chance = Random(f"{world.seed}/trouble")
    for _ in range(times):
        await asyncio.sleep(chance.uniform(0.1, 1.5))
        kind = chance.choices((_cut, _reset, _kill), weights=(3, 2, 5))[0]
        await kind(world, nodes, chance)
    world.network.mend()


async def _cut(world: World, nodes: Sequence[Node], chance: Random) -> None:
    one, other = chance.sample(list(world.network.hosts), 2)
    world.network.cut(one, other)
    if chance.random() < 0.5:
        world.network.cut(other, one)
    await asyncio.sleep(chance.uniform(0.05, 4))
    world.network.mend()


async def _reset(world: World, nodes: Sequence[Node], chance: Random) -> None:
    if world.network.transports:
        chance.choice(list(world.network.transports)).abort()


async def _kill(world: World, nodes: Sequence[Node], chance: Random) -> None:
    """Mostly in the middle of a call to the disk, where there is one soon."""
    node = chance.choice(nodes)
    if chance.random() < 0.7:
        node.host.die_at_call(chance.randrange(25))
        await asyncio.sleep(chance.uniform(0.05, 2))
    node.host.die()
    await asyncio.sleep(chance.uniform(0.01, 2))
    await come_back(node, chance)


async def come_back(node: Node, chance: Random) -> None:
    """Perhaps after dying again on the way up."""
    for _ in range(3):
        host = node.host.next_life(chance.choice(HONEST))
        node.host = host
        if chance.random() < 0.3:
            host.die_at_call(chance.randrange(40))
        starting = asyncio.ensure_future(node.start())
        death = asyncio.ensure_future(host.death.wait())
        await asyncio.wait({starting, death}, return_when=asyncio.FIRST_COMPLETED)
        if not host.is_dead:
            host.survive()
            await starting
            return
    node.host = node.host.next_life(Power.KILLED)
    await node.start()
