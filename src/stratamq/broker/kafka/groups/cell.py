"""One group at work: its state machine, a lock, a timer, and the requests that wait.

No reply leaves before the state it tells of is stored. When storing fails, everyone who waited is
told that the coordinator is not available, and the next event stores again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.classic.members import JoinReply, Reply
from stratamq.broker.kafka.groups.consumer.group import ConsumerGroup
from stratamq.broker.kafka.groups.limits import GROUP_BYTES, GroupLimits
from stratamq.model.clock import Clock
from stratamq.model.errors import Closed, StrataError
from stratamq.wire.kafka.protocol import ErrorCode

log = logging.getLogger(__name__)

Machine = ClassicGroup | ConsumerGroup
T = TypeVar("T")


class Cell:
    """`store` makes a group's state durable; none of its callers may run at the same time. `limits`
    says what holds for a group now: its configs may have been altered since the last request.
    `migrate` gives the group after a request, which may have become one of the other protocol.
    `rest` is called when the cell has no work left and no members."""

    def __init__(
        self,
        name: str,
        machine: Machine,
        clock: Clock,
        store: Callable[[str, Machine], Awaitable[None]],
        limits: Callable[[str], GroupLimits],
        migrate: Callable[[Machine, int], Machine],
        rest: Callable[[Cell], None],
    ) -> None:
        self.name = name
        self.machine = machine
        self._clock = clock
        self._store = store
        self._limits = limits
        self._migrate = migrate
        self._rest = rest
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._work: set[asyncio.Task[Any]] = set()
        self._waiting: dict[asyncio.Future[Reply], None] = {}
        self._closing = False
        self._counted_bytes = 0
        self.count()

    def count(self) -> None:
        """Put the group's size into the node's. A group that is dead has none."""
        size = 0 if self.machine.is_dead else self.machine.size_bytes
        self.machine.limits.usage.used += size - self._counted_bytes
        self._counted_bytes = size

    @property
    def is_idle(self) -> bool:
        """No member, no id that waits to be used, no request, and nothing that is not stored."""
        machine = self.machine
        if machine.size_bytes > GROUP_BYTES or machine.changed or self._work:
            return False
        return machine.state == "Empty" and machine.next_ms() is None

    def forget(self) -> None:
        """It is used no more: take its size out of the node's."""
        self.machine.limits.usage.used -= self._counted_bytes
        self._counted_bytes = 0

    async def run(self, act: Callable[[int], T]) -> T:
        """`act` on the machine, given the time. What it did is stored when this returns."""
        # In a task of its own: a client that hangs up does not leave others without an answer.
        return await asyncio.shield(self._spawn(self._act(act)))

    async def ask(self, act: Callable[[int, asyncio.Future[Reply]], None]) -> Reply:
        """The same for a request whose answer may have to wait for other members."""
        if self._closing:
            raise _closed()
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[reply] = None
        reply.add_done_callback(self._waiting.pop)
        await self.run(lambda now_ms: act(now_ms, reply))
        return await reply

    def wake(self) -> None:
        """The node stops: nobody waits any longer, and the group stays as it is."""
        self._closing = True
        for reply in list(self._waiting):
            if not reply.done():
                reply.set_exception(_closed())

    def arm(self) -> None:
        """Look at the machine again when its next deadline comes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_ms = self.machine.next_ms()
        if next_ms is not None:
            delay_s = max(0, next_ms - self._clock.now_ms() + 1) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._work:
            await asyncio.wait(self._work)

    async def _act(self, act: Callable[[int], T]) -> T:
        async with self._lock:
            self.machine.limits = self._limits(self.name)
            now_ms = self._clock.now_ms()
            result = act(now_ms)
            self.machine = self._migrate(self.machine, now_ms)
            self.count()
            await self._settle()
            return result

    async def _settle(self) -> None:
        machine = self.machine
        try:
            if machine.changed:
                await self._store(self.name, machine)
                machine.changed = False
        except BaseException:
            machine.replies[:] = [
                (ticket, _unavailable(reply)) for ticket, reply in machine.replies
            ]
            raise
        finally:
            self._deliver()
            self.arm()

    def _deliver(self) -> None:
        replies, self.machine.replies = self.machine.replies, []
        for future, reply in replies:
            if not future.done():  # else the client has gone
                future.set_result(reply)

    def _ring(self) -> None:
        self._timer = None
        self._spawn(self._tick())

    async def _tick(self) -> None:
        try:
            await self._act(lambda now_ms: self.machine.tick(now_ms))
        except StrataError as error:
            log.error("group %r could not be stored: %s", self.name, error)

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._work.discard(task)
        if self.is_idle:
            self._rest(self)


def _closed() -> Closed:
    return Closed("the node stops")


def _unavailable(reply: Reply) -> Reply:
    kind = type(reply)
    if kind is JoinReply:
        return JoinReply(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return kind(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
