"""The event loop of a simulation: virtual time, one thread, every order by seed.

Callbacks of one host run first in, first out, as asyncio promises; between hosts chance decides.
When nothing is left to do, time jumps to the next timer. Work for threads is done at a moment of
its own, and its answer comes at a later one.

Everything that happens goes into `digest`: two runs that differ anywhere differ there.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.network import Network

T = TypeVar("T")

HOST: ContextVar[Host | None] = ContextVar("host", default=None)
"""On which host the running callback is. Tasks and timers inherit it from those who made them."""

STEPS_MAX = 3_000_000
"""A run that takes more is stuck in a loop."""


class Stuck(Exception):
    """Nothing is left that could happen, or too much has happened: the run would never end."""


class SimLoop(asyncio.BaseEventLoop):
    """See the module. `network` must be set before a host listens or connects."""

    network: Network

    def __init__(self, seed: str) -> None:
        super().__init__()
        self.chance = Random(f"{seed}/loop")
        self.digest = blake2b(digest_size=8)
        self.log: list[str] | None = None
        """What happened, line by line, where somebody wants to read it."""
        self.steps = 0
        self._now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_count = 0
        self._queues: dict[Host | None, deque[asyncio.Handle]] = {}
        self._free_at: dict[object, float] = {}
        """When the only thread of an executor has done what it was given."""
        self._tasks: list[asyncio.Task[Any]] = []
        """All of them: one of a dead host would run its `finally` when it is collected."""
        self.set_exception_handler(lambda loop, context: None)

    # -- time and order --------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = events.Handle(callback, args, self, context)
        self._queue_of(handle).append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = events.TimerHandle(when, callback, args, self, context)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is skipped when its time comes."""

    def _queue_of(self, handle: asyncio.Handle) -> deque[asyncio.Handle]:
        host = handle._context.get(HOST)  # type: ignore[attr-defined]
        queue = self._queues.get(host)
        if queue is None:
            queue = self._queues[host] = deque()
        return queue

    def _run_once(self) -> None:
        """One turn of one host's loop: what is ready there now, in order."""
        if not any(self._queues.values()):
            self._jump()
        while self._timers and self._timers[0][0] <= self._now:
            timer = heapq.heappop(self._timers)[2]
            if not timer.cancelled():
                self._queue_of(timer).append(timer)
        ready = [host for host, queue in self._queues.items() if queue]
        if not ready:
            return
        host = ready[0] if len(ready) == 1 else self.chance.choice(ready)
        queue = self._queues[host]
        for _ in range(len(queue)):
            if host is not None and host.is_dead:
                del self._queues[host]
                return
            handle = queue.popleft()
            if not handle.cancelled():
                self._step(host, handle)
            if self._stopping:  # type: ignore[attr-defined]
                return

    def _jump(self) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            raise Stuck("nothing is left to happen, and the run is not at its end")
        self._now = max(self._now, self._timers[0][0])

    def _step(self, host: Host | None, handle: asyncio.Handle) -> None:
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Stuck(f"{STEPS_MAX} steps")
        self.trace(str(host), _name(handle._callback))  # type: ignore[attr-defined]
        handle._run()

    def trace(self, *words: str) -> None:
        line = f"{self._now:.9f} {' '.join(words)}"
        self.digest.update(line.encode())
        if self.log is not None:
            self.log.append(line)

    def forget(self) -> None:
        """Everything that would still happen."""
        self._queues.clear()
        self._timers.clear()
        self._tasks.clear()

    def create_task(  # type: ignore[override]
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, name=name, context=context)
        self._tasks.append(task)
        return task

    def _process_events(self, event_list: object) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    # -- threads ---------------------------------------------------------------------------------

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """An executor of one thread does one thing after the other."""
        future: asyncio.Future[T] = self.create_future()
        begin = self._now + self.chance.uniform(1e-5, 3e-4)
        if executor is not None and executor._max_workers == 1:
            begin = max(begin, self._free_at.get(executor, 0.0))
        end = begin + self.chance.uniform(1e-5, 2e-3)
        if executor is not None:
            self._free_at[executor] = end
        self.call_at(begin, self._work, future, end, func, args)
        return future

    def _work(
        self, future: asyncio.Future[T], end: float, func: Callable[..., T], args: tuple[Any, ...]
    ) -> None:
        try:
            answer = func(*args)
        except BaseException as error:
            self.call_at(end, _fail, future, error)
        else:
            self.call_at(end, _fulfil, future, answer)

    # -- network ---------------------------------------------------------------------------------

    async def create_server(  # type: ignore[override]
        self, factory: Any, host: str, port: int, **_: Any
    ) -> Any:
        return self.network.listen(factory, port)

    async def create_connection(  # type: ignore[override]
        self, factory: Any, host: str, port: int, **_: Any
    ) -> Any:
        return await self.network.connect(factory, host, port)


def _fulfil(future: asyncio.Future[T], answer: T) -> None:
    if not future.done():
        future.set_result(answer)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _name(callback: Any) -> str:
    """What runs, without an address in memory."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return str(getattr(owner.get_coro(), "__qualname__", "task"))
    return str(getattr(callback, "__qualname__", None) or type(callback).__name__)
