"""All transactional ids: decide, store, then act.

An id's state is what the Meta Service holds, and nothing is answered before it does. Once an end is
decided and stored, a task writes the marks and the group's offsets, and retries until it is done;
after a crash the next start goes on with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from stratamq.broker.kafka.contract import Services
from stratamq.broker.kafka.errors import Refused
from stratamq.broker.kafka.groups.offsets.pending import PendingOffsets
from stratamq.broker.kafka.transactions import machine
from stratamq.broker.kafka.transactions.machine import ProducerIdAndEpoch
from stratamq.broker.kafka.transactions.producer_ids import ProducerIdSource
from stratamq.meta.transactions import DeleteTransaction, SaveTransaction, TransactionMeta
from stratamq.model.errors import NotFound, ProducerRefused, StrataError
from stratamq.model.shard import split_shard_name
from stratamq.model.transaction import DECIDED, NO_PRODUCER_ID, TransactionState
from stratamq.model.types import ShardName
from stratamq.wire.kafka.protocol import ErrorCode

log = logging.getLogger(__name__)

T = TypeVar("T")

SWEEP = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
EXPIRATION = "transactional.id.expiration.ms"

COORDINATOR_EPOCH = 0
"""There is one coordinator, and no other takes over from it."""

RETRY_S_MIN, RETRY_S_MAX = 0.05, 2.0
"""Between two attempts to finish a transaction: first and longest pause."""

ANSWER_S = 1.0
"""An end is answered when it is done, so that the producer can go on at once; but an end that was
decided is answered after this time all the same."""

GRACE_S, GRACE_TURNS = 1.0, 10
"""A transaction that is found past its time gets so much more, in as many turns of the event loop.
This process may have been stopped, or starved of CPU: then its producer was waiting for an answer,
and would be fenced before it could go on."""

SWEPT_AT_ONCE = 500
"""Ids that a sweep looks at before it lets other tasks run."""


class TransactionCoordinator:
    """One change of a transactional id at a time; different ids do not wait for each other."""

    def __init__(self, services: Services, pending: PendingOffsets) -> None:
        self.ids = ProducerIdSource(services.meta)
        self._services = services
        self._pending = pending
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._work: set[asyncio.Task[Any]] = set()
        self._finishing: dict[str, asyncio.Task[None]] = {}
        self._sweeper: asyncio.Task[None] | None = None

    # -- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        for one in self.all():
            if one.state in DECIDED:
                self._finish(one.transactional_id)
        self._sweeper = asyncio.create_task(self._sweep_forever(), name="transaction-sweeper")

    async def stop(self) -> None:
        """What is decided and not finished goes on at the next start."""
        if self._work:
            await asyncio.wait(self._work)
        tasks = [*self._finishing.values()]
        if self._sweeper is not None:
            tasks.append(self._sweeper)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def find(self, transactional_id: str) -> TransactionMeta | None:
        return self._services.meta.state.transactions.get(transactional_id)

    def all(self) -> Collection[TransactionMeta]:
        return self._services.meta.state.transactions.values()

    # -- changes -------------------------------------------------------------------------------

    async def initialize(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> TransactionMeta:
        """The producer that may use the id from now on; all others are fenced."""

        async def change(old: TransactionMeta | None) -> TransactionMeta:
            new_id = await self.ids.next() if machine.needs_new_id(old) else NO_PRODUCER_ID
            now_ms = self._services.clock.now_ms()
            if old is None:
                new = machine.create(transactional_id, new_id, timeout_ms, now_ms)
                return await self._store(None, new)
            begun = machine.initialize(old, expected, timeout_ms, new_id, now_ms)
            stored = await self._store(old, begun.transaction)
            if not begun.is_ready:
                raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
            return stored

        return await self._alone(transactional_id, change)

    async def add(
        self,
        transactional_id: str,
        who: ProducerIdAndEpoch,
        *,
        shards: Collection[ShardName] = (),
        groups: Collection[str] = (),
    ) -> None:
        async def change(old: TransactionMeta | None) -> None:
            now_ms = self._services.clock.now_ms()
            await self._store(old, machine.add(old, who, now_ms, shards=shards, groups=groups))

        await self._alone(transactional_id, change)

    async def within(
        self,
        transactional_id: str,
        who: ProducerIdAndEpoch,
        group: str,
        act: Callable[[], Awaitable[T]],
    ) -> T:
        """`act` while the transaction is open and has the group, and cannot end meanwhile."""

        async def change(old: TransactionMeta | None) -> T:
            if not machine.verify(old, who, group=group):
                raise Refused(ErrorCode.INVALID_TXN_STATE)
            return await act()

        return await self._alone(transactional_id, change)

    async def end(
        self, transactional_id: str, who: ProducerIdAndEpoch, *, commit: bool, renews: bool = False
    ) -> TransactionMeta:
        """Decided on return, and done unless it takes too long."""

        async def change(old: TransactionMeta | None) -> TransactionMeta:
            rotates = renews and machine.ends_with_new_id(old, who)
            new_id = await self.ids.next() if rotates else NO_PRODUCER_ID
            now_ms = self._services.clock.now_ms()
            new = machine.end(old, who, commit=commit, now_ms=now_ms, renews=renews, new_id=new_id)
            return await self._store(old, new)

        decided = await self._alone(transactional_id, change)
        finishing = self._finishing.get(transactional_id)
        if finishing is not None:
            await asyncio.wait([finishing], timeout=ANSWER_S)
        return decided

    async def _store(self, old: TransactionMeta | None, new: TransactionMeta) -> TransactionMeta:
        if new is not old:
            await self._services.meta.submit(SaveTransaction(transaction=new))
        if new.state in DECIDED:
            self._finish(new.transactional_id)
        return new

    # -- finishing -----------------------------------------------------------------------------

    def _finish(self, transactional_id: str) -> None:
        if transactional_id not in self._finishing:
            task = asyncio.create_task(self._finish_end(transactional_id))
            self._finishing[transactional_id] = task

    async def _finish_end(self, transactional_id: str) -> None:
        """Write the marks, and then the end, and retry until both are done."""
        try:
            one = self.find(transactional_id)
            if one is None or one.state not in DECIDED:
                return
            left, pause_s = sorted(one.shards), RETRY_S_MIN
            while True:
                done = await asyncio.gather(*(self._mark(one, shard) for shard in left))
                left = [shard for shard, marked in zip(left, done, strict=True) if not marked]
                if not left and await self._complete(one):
                    return
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_S_MAX)
        finally:
            del self._finishing[transactional_id]

    async def _mark(self, one: TransactionMeta, shard: ShardName) -> bool:
        """Write the mark that ends the transaction in a shard. Writing it again does no harm. False
        when it has to be tried again."""
        topic_id, partition = split_shard_name(shard)
        try:
            await self._services.drivers.write_marker(
                self._services.broker_cache.topic_by_id(topic_id).name,
                partition,
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                commit=one.state is TransactionState.PREPARE_COMMIT,
                coordinator_epoch=COORDINATOR_EPOCH,
            )
        except NotFound:
            log.info("transaction %r: %s is gone", one.transactional_id, shard)
        except ProducerRefused as error:  # a newer mark is there: ours would say nothing new
            log.error("transaction %r, mark in %s: %s", one.transactional_id, shard, error)
        except StrataError as error:
            log.warning("transaction %r, mark in %s: %s", one.transactional_id, shard, error)
            return False
        return True

    async def _complete(self, one: TransactionMeta) -> bool:
        """The offsets and the end of the transaction become visible together."""
        try:
            async with self._lock(one.transactional_id):
                if self.find(one.transactional_id) != one:
                    return True  # a write that seemed to fail did happen
                done = machine.complete(one, self._services.clock.now_ms())
                commit = one.state is TransactionState.PREPARE_COMMIT
                offsets = await self._pending.ending(one.producer_id, commit=commit)
                await self._services.meta.submit(offsets, SaveTransaction(transaction=done))
        except StrataError as error:
            log.warning("transaction %r cannot be completed: %s", one.transactional_id, error)
            return False
        return True

    # -- time ----------------------------------------------------------------------------------

    async def _sweep_forever(self) -> None:
        while True:
            interval_ms = self._services.config.number(SWEEP)
            await asyncio.sleep(interval_ms / 1000)
            try:
                await self.sweep(GRACE_S)
            except StrataError as error:
                log.error("sweeping transactions: %s", error)

    async def sweep(self, grace_s: float = 0.0) -> None:
        """Abort transactions that take too long, forget unused ids, finish what is decided."""
        now_ms = self._services.clock.now_ms()
        expiration_ms = self._services.config.number(EXPIRATION)
        overdue: list[str] = []
        for number, one in enumerate(self.all()):  # a snapshot: a change makes a new mapping
            if machine.has_timed_out(one, now_ms):
                overdue.append(one.transactional_id)
            elif machine.has_expired(one, expiration_ms, now_ms):
                await self._alone(one.transactional_id, self._expire)
            elif one.state in DECIDED:  # also what was stored by a write that seemed to fail
                self._finish(one.transactional_id)
            if number % SWEPT_AT_ONCE == 0:
                await asyncio.sleep(0)
        if overdue:
            for _ in range(GRACE_TURNS):
                await asyncio.sleep(grace_s / GRACE_TURNS)
        for name in overdue:
            await self._alone(name, self._time_out)

    async def _time_out(self, old: TransactionMeta | None) -> None:
        now_ms = self._services.clock.now_ms()
        if old is not None and machine.has_timed_out(old, now_ms):
            log.info("transaction %r timed out", old.transactional_id)
            await self._store(old, machine.fence(old, now_ms))

    async def _expire(self, old: TransactionMeta | None) -> None:
        now_ms = self._services.clock.now_ms()
        expiration_ms = self._services.config.number(EXPIRATION)
        if old is not None and machine.has_expired(old, expiration_ms, now_ms):
            gone = DeleteTransaction(transactional_id=old.transactional_id)
            await self._services.meta.submit(gone)

    # -- one at a time -------------------------------------------------------------------------

    async def _alone(
        self, transactional_id: str, change: Callable[[TransactionMeta | None], Awaitable[T]]
    ) -> T:
        """`change` the id as it is, alone. A client that hangs up does not interrupt it."""

        async def act() -> T:
            async with self._lock(transactional_id):
                return await change(self.find(transactional_id))

        task = asyncio.create_task(act())
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return await asyncio.shield(task)

    def _lock(self, transactional_id: str) -> asyncio.Lock:
        lock = self._locks.get(transactional_id)
        if lock is None:
            lock = self._locks[transactional_id] = asyncio.Lock()
        return lock
