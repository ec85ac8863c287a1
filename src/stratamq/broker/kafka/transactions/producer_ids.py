"""Producer ids: never the same twice, whatever happens to the node."""

from __future__ import annotations

import asyncio

from stratamq.meta.service import MetaService
from stratamq.meta.transactions import TakeProducerIds
from stratamq.model.errors import StaleEpoch

BLOCK = 1000
"""Ids taken at once. A node that ends leaves the rest of its block unused."""


class ProducerIdSource:
    """A block is durably ours before the first id of it is given away."""

    def __init__(self, meta: MetaService) -> None:
        self._meta = meta
        self._left = range(0)
        self._taking = asyncio.Lock()

    async def next(self) -> int:
        while not self._left:
            await self._take()
        given, self._left = self._left[0], self._left[1:]
        return given

    async def _take(self) -> None:
        async with self._taking:
            if self._left:
                return  # another request took a block while this one waited
            first = self._meta.state.next_producer_id
            try:
                await self._meta.submit(TakeProducerIds(first_id=first, count=BLOCK))
            except StaleEpoch:
                return  # another node was faster; the next look shows where to go on
            self._left = range(first, first + BLOCK)
