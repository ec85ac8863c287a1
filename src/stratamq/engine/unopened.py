"""Shards that a start leaves closed: each is opened when it is first used, or by a pass in the
background.

Opening a shard means reading its folder: half a millisecond, which ten thousand shards make five
seconds. So a node with many shards opens those before it is ready that have something to recover
(`SegmentStorage.open` decides), and leaves the others closed. An unopened shard has a name, and the
spec that the metadata has of it; everything else is known once it is opened, damage included.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from stratamq.engine.contract import ShardSpec
from stratamq.engine.shard import Shard
from stratamq.engine.storage import StoredShard
from stratamq.model.errors import KVDamaged, StrataError
from stratamq.model.types import Offset, ShardName

logger = logging.getLogger(__name__)

PASS_DELAY_S = 1.0
"""When the pass begins: clients that waited for the node come first."""

PASS_PAUSE_S = 0.0005
"""Between two shards of the pass, so that the event loop gets its turn."""

RETRY_WAIT_S = 5.0
"""How long the pass leaves shards alone after one could not be opened for want of the index."""


class OpenedShard(NamedTuple):
    """A shard with the high watermark that was saved for it."""

    shard: Shard
    saved: Offset | None


class Opening:
    """One shard being opened: by a thread, or by the event loop where it cannot wait for one."""

    def __init__(
        self, name: ShardName, open_later: Callable[[ShardName], StoredShard | None]
    ) -> None:
        self.name, self._open = name, open_later
        self._lock, self._done = threading.Lock(), False
        self.outcome: OpenedShard | Exception | None = None

    def run(self) -> None:
        """Once, however many threads call. `outcome` is None where no shard was after all."""
        with self._lock:
            if self._done:
                return
            try:
                kept = self._open(self.name)
                if kept is not None:
                    self.outcome = OpenedShard(Shard(*kept), kept.high_watermark)
            except (OSError, StrataError) as error:
                self.outcome = error
            self._done = True


class UnopenedShards:
    """On the event loop alone. `admit` takes the spec that the metadata has, where it is known, and
    the outcome of an opening; it is called once per shard. A shard that could not be opened because
    the index is damaged stays here, and `damaged` is called."""

    def __init__(
        self,
        call: Callable[[Callable[[], None]], Awaitable[None]],
        admit: Callable[[ShardName, ShardSpec | None, OpenedShard | Exception | None], None],
        damaged: Callable[[], None],
    ) -> None:
        self._call, self._admit, self._damaged = call, admit, damaged
        self._open_later: Callable[[ShardName], StoredShard | None]
        self._openings: dict[ShardName, Opening] = {}
        self._reading: dict[ShardName, asyncio.Future[None]] = {}
        self._pass: asyncio.Task[None] | None = None
        self.specs: dict[ShardName, ShardSpec | None] = {}
        """By name: what the metadata has of each, once `Registry.restore` has said so."""

    async def open(self, name: ShardName) -> None:
        """Open it on another thread. What it was found to be is the caller's to look up."""
        opening = self._opening(name)
        reading = self._reading.get(name)
        if reading is None:
            reading = self._reading[name] = asyncio.ensure_future(self._call(opening.run))
            reading.add_done_callback(lambda _: self._reading.pop(name))
        await asyncio.shield(reading)
        self._settle(opening)

    def open_here(self, name: ShardName) -> None:
        """The same on the event loop, for callers that cannot wait otherwise."""
        opening = self._opening(name)
        opening.run()
        self._settle(opening)

    def _opening(self, name: ShardName) -> Opening:
        opening = self._openings.get(name)
        if opening is None:
            opening = self._openings[name] = Opening(name, self._open_later)
        return opening

    def _settle(self, opening: Opening) -> None:
        """Of several callers that waited for one opening, the first gets here."""
        name, outcome = opening.name, opening.outcome
        if self._openings.get(name) is not opening:
            return
        del self._openings[name]
        if isinstance(outcome, KVDamaged):
            self._damaged()
            raise outcome
        self._admit(name, self.specs.pop(name), outcome)

    async def settled(self) -> None:
        """No thread opens a shard any more. The caller sees to it that none begins meanwhile."""
        while self._reading:
            await asyncio.wait(self._reading.values())

    # -- the pass ------------------------------------------------------------------------------

    def begin(
        self,
        names: list[ShardName],
        open_later: Callable[[ShardName], StoredShard | None],
        open_one: Callable[[ShardName], Awaitable[None]],
    ) -> None:
        """Take the names, and open one after the other by `open_one` when the node has started."""
        self._open_later = open_later
        self.specs = dict.fromkeys(names)
        if names:
            logger.info("%d shards are opened when they are used, or later", len(names))
            self._pass = asyncio.create_task(self._open_all(open_one))

    async def _open_all(self, open_one: Callable[[ShardName], Awaitable[None]]) -> None:
        await asyncio.sleep(PASS_DELAY_S)
        while self.specs:
            try:
                await open_one(next(iter(self.specs)))
            except StrataError as error:
                logger.warning("shards are opened later: %s", error)
                await asyncio.sleep(RETRY_WAIT_S)
            await asyncio.sleep(PASS_PAUSE_S)
        logger.info("all shards are open")

    async def stop(self) -> None:
        if self._pass is not None:
            self._pass.cancel()
            await asyncio.wait([self._pass])
        await self.settled()
