"""May this batch be written in this transaction?

Answered from what the Meta Service holds, without waiting, so that batches stay in order: a batch
of a transaction that is open is handed to its shard before the transaction's end can be.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from stratamq.broker.kafka.topics import Refused
from stratamq.broker.kafka.transactions import machine
from stratamq.broker.kafka.transactions.coordinator import TransactionCoordinator
from stratamq.broker.kafka.transactions.machine import Producer
from stratamq.model.errors import StrataError
from stratamq.model.types import ShardName
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.records import BatchHeader

ABORTABLE_SINCE = 11
"""Produce versions that know the code TRANSACTION_ABORTABLE."""

ADDS_SINCE = 12
"""Produce versions of producers that leave it to us to add partitions to their transactions."""

_Key = tuple[str, Producer]


class _Turn(NamedTuple):
    """A batch that waits until its shard is added to the transaction."""

    shard: ShardName
    admitted: asyncio.Future[None]


class Verifier:
    """`admit` lets a transactional batch pass, or refuses it."""

    def __init__(self, coordinator: TransactionCoordinator) -> None:
        self._coordinator = coordinator
        self._waiting: dict[_Key, list[_Turn]] = {}
        self._work: set[asyncio.Task[None]] = set()

    async def admit(
        self, transactional_id: str | None, shard: ShardName, header: BatchHeader, version: int
    ) -> None:
        if transactional_id is None:
            raise Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        who = Producer(header.producer_id, header.producer_epoch)
        try:
            if not self._is_in(transactional_id, who, shard):
                if version < ADDS_SINCE:
                    raise Refused(_not_added(version))
                await self._add(transactional_id, who, shard)
        except Refused as refusal:
            raise Refused(_as_produce(refusal.code, version)) from None

    def _is_in(self, transactional_id: str, who: Producer, shard: ShardName) -> bool:
        if (transactional_id, who) in self._waiting:
            return False  # or it would overtake those that wait
        return machine.verify(self._coordinator.find(transactional_id), who, shard=shard)

    async def _add(self, transactional_id: str, who: Producer, shard: ShardName) -> None:
        """All batches of a producer that come while shards are being added wait in line: those of
        one shard stay in order, and the shards of all of them are added by one write."""
        key = (transactional_id, who)
        turn = _Turn(shard, asyncio.get_running_loop().create_future())
        if key in self._waiting:
            self._waiting[key].append(turn)
        else:
            self._waiting[key] = [turn]
            task = asyncio.create_task(self._serve(key))
            self._work.add(task)
            task.add_done_callback(self._work.discard)
        await turn.admitted

    async def _serve(self, key: _Key) -> None:
        transactional_id, who = key
        while turns := self._waiting[key]:
            self._waiting[key] = []
            failure: StrataError | None = None
            try:
                shards = {turn.shard for turn in turns}
                await self._coordinator.add(transactional_id, who, shards=shards)
            except StrataError as error:
                failure = error
            for _, admitted in turns:
                if admitted.done():
                    continue  # its connection has gone
                if failure is None:
                    admitted.set_result(None)
                else:
                    admitted.set_exception(failure)
            await asyncio.sleep(0)  # they hand their batches over, in this order, before others do
        del self._waiting[key]


def _not_added(version: int) -> ErrorCode:
    if version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.TRANSACTION_ABORTABLE


def _as_produce(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_SINCE:
        return ErrorCode.NOT_ENOUGH_REPLICAS  # the one that older producers just try again after
    return code
