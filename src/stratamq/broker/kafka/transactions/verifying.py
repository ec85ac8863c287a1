"""Whether a batch may be written in a transaction.

Answered from what the Meta Service holds, without waiting, so that batches stay in order: a batch
of a transaction that is open is handed to its shard before the transaction's end can be.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import NamedTuple

from stratamq.broker.kafka.errors import Refused
from stratamq.broker.kafka.transactions import machine
from stratamq.broker.kafka.transactions.coordinator import TransactionCoordinator
from stratamq.broker.kafka.transactions.machine import ProducerIdAndEpoch
from stratamq.model.errors import Closed, StorageError, StrataError
from stratamq.model.types import ShardName
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.records import BatchHeader

log = logging.getLogger(__name__)

ABORTABLE_SINCE = 11
"""Produce versions that know the code TRANSACTION_ABORTABLE."""

ADDS_SINCE = 12
"""Produce versions of producers that do not add partitions to their transactions themselves."""

_Key = tuple[str, ProducerIdAndEpoch]


class _Turn(NamedTuple):
    """A batch that waits until its shard is added to the transaction."""

    shard: ShardName
    admitted: asyncio.Future[None]


class TransactionVerifier:
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
        who = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
        try:
            if not self._is_in(transactional_id, who, shard):
                if version < ABORTABLE_SINCE:
                    raise Refused(ErrorCode.INVALID_TXN_STATE)
                if version < ADDS_SINCE:
                    raise Refused(ErrorCode.TRANSACTION_ABORTABLE)
                await self._add(transactional_id, who, shard)
        except Refused as refusal:
            code = refusal.code
            if code is ErrorCode.PRODUCER_FENCED:
                code = ErrorCode.INVALID_PRODUCER_EPOCH
            if code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_SINCE:
                code = ErrorCode.NOT_ENOUGH_REPLICAS  # older producers retry after this one
            raise Refused(code) from None

    def _is_in(self, transactional_id: str, who: ProducerIdAndEpoch, shard: ShardName) -> bool:
        if (transactional_id, who) in self._waiting:
            return False  # or it would overtake those that wait
        return machine.verify(self._coordinator.find(transactional_id), who, shard=shard)

    async def _add(self, transactional_id: str, who: ProducerIdAndEpoch, shard: ShardName) -> None:
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
        """An error is the answer of all batches that wait for it: none waits for ever."""
        turns: list[_Turn] = []
        try:
            while turns := self._waiting[key]:
                self._waiting[key] = []
                failure = await self._added(key, {turn.shard for turn in turns})
                _answer(turns, failure)
                # They hand their batches over, in this order, before others do.
                await asyncio.sleep(0)
        finally:  # some are left only if this task was cancelled
            _answer([*turns, *self._waiting.pop(key)], Closed("the node stops"))

    async def _added(self, key: _Key, shards: set[ShardName]) -> Exception | None:
        try:
            await self._coordinator.add(*key, shards=shards)
        except StrataError as error:
            return error
        except Exception as error:
            log.exception("transaction %r: its partitions were not added", key[0])
            return StorageError(f"the partitions were not added: {error}")
        return None


def _answer(turns: Iterable[_Turn], failure: Exception | None) -> None:
    for _, admitted in turns:
        if admitted.done():
            continue  # its connection has gone
        if failure is None:
            admitted.set_result(None)
        else:
            admitted.set_exception(failure)
