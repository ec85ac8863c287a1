"""Objects that are no longer needed.

| what                                          | goes                                     |
|-----------------------------------------------|------------------------------------------|
| retired: files that were dropped or replaced  | a grace period after that                |
| retired with their shard                      | at once                                  |
| orphans: stored, and then something failed    | a grace period after they were stored    |
| parts of uploads that never ended             | a grace period after they were begun     |

Only what has our mark is ever looked at. Listings may be old, and so may our own copy of the
metadata, so the Meta Service is asked again right before each deletion; and what is on its way to
be named is left alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from stratamq.meta.tier.files import ForgetObjects
from stratamq.model.types import NO_TIMESTAMP, ShardName
from stratamq.tiering import keys
from stratamq.tiering.mover.contract import Surroundings
from stratamq.tiering.mover.ship import Flights

log = logging.getLogger(__name__)

CACHE_TIMEOUT_S = 10.0
FORGET_MAX = 100
"""Objects forgotten by one command."""


@dataclass(frozen=True, slots=True)
class Cleaner:
    """Deletes objects, one after the other. Every call may be cut off and repeated."""

    around: Surroundings
    flights: Flights
    grace_ms: int

    async def remove_retired(self) -> int:
        """Remove retired objects whose grace period is over and return their number. Each is
        deleted first and forgotten after that."""
        now_ms = self.around.clock.now_ms()
        due = [
            one
            for one in self.around.files.retired().values()
            if one.since_ms == NO_TIMESTAMP or now_ms - one.since_ms >= self.grace_ms
        ]
        removed: list[str] = []
        for one in due:
            await self._refresh()
            if one.object_key not in self.around.files.retired():
                continue  # a file names it again, or it was removed meanwhile
            await self.around.store.delete(one.object_key)
            removed.append(one.object_key)
            if len(removed) % FORGET_MAX == 0:
                await self._forget(removed[-FORGET_MAX:])
        await self._forget(removed[len(removed) - len(removed) % FORGET_MAX :])
        return len(removed)

    async def remove_orphans(self) -> int:
        """Look through the whole store for orphans, remove them and return their number."""
        before_ms = self.around.clock.now_ms() - self.grace_ms
        last, named = ShardName(""), frozenset[str]()
        removed = 0
        async for listed in self.around.store.list():
            found = keys.parse(listed.key)
            if found is None or found.owner != self.around.owner:
                continue
            if listed.modified_ms > before_ms or listed.key in self.flights:
                continue
            shard = found.shard
            if shard != last:  # keys come in order: a shard's objects lie together
                last, named = shard, self._named(shard)
            if listed.key in named:
                continue
            await self._refresh()  # it may have been named since
            known = listed.key in self.around.files.retired() or listed.key in self._named(shard)
            if known or listed.key in self.flights:
                continue
            with self.flights.removing(listed.key):
                await self.around.store.delete(listed.key)
            removed += 1
        if removed:
            log.info("tiering: removed %d objects that nothing names", removed)
        return removed

    async def sweep(self) -> int:
        """Remove unfinished uploads, but none that is under way here, however short the grace."""
        before_ms = self.around.clock.now_ms() - self.grace_ms
        oldest_ms = self.flights.oldest_ms
        if oldest_ms is not None:
            before_ms = min(before_ms, oldest_ms - 1)
        return await self.around.store.sweep(before_ms)

    async def _forget(self, object_keys: Iterable[str]) -> None:
        if gone := tuple(object_keys):
            await self.around.meta.submit(ForgetObjects(object_keys=gone))

    def _named(self, shard: ShardName) -> frozenset[str]:
        files = self.around.files.files(shard)
        return frozenset(one.key for file in files for one in file.objects)

    async def _refresh(self) -> None:
        """Wait until this node's copy of the metadata is what the Meta Service has now."""
        revision = await self.around.meta.revision()
        await self.around.files.wait_for_revision(revision, CACHE_TIMEOUT_S)
