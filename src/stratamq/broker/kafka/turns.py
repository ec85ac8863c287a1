"""Long work on the event loop, a few milliseconds at a time.

A request may ask for much: ten thousand topics, a hundred thousand partitions. The work is Python
and needs the event loop's own state, so a thread would not help. Instead it is done in turns: when
`TURN_S` is used up, the work waits for its next turn, and in each iteration of the loop one of all
that wait gets one.

The line is fair between clients: the next turn goes to the client that has used least. One that
asks for little therefore waits for about one turn, however many others ask for much and however
much they ask for.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from contextvars import ContextVar
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
R = TypeVar("R")

TURN_S = 0.002
SORTED_AT_ONCE = 2048


class ClientShare:
    """What a connection has used of the event loop: `used_s` is only compared with that of
    others."""

    __slots__ = ("used_s",)

    def __init__(self) -> None:
        self.used_s = 0.0


CLIENT: ContextVar[ClientShare] = ContextVar("CLIENT")
"""Set in the context of a request's task; tasks that it starts inherit it."""

NO_CLIENT = ClientShare()
"""Stands for all work that is not for a connection."""


class Turns:
    """Hands out the turns of one event loop.

    As in start-time fair queueing: a client that was idle begins where the client that was served
    last stands, so that idling saves nothing up.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._line: list[tuple[float, int, ClientShare, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._served_s = 0.0
        self._used_s = 0.0

    @property
    def is_used_up(self) -> bool:
        """Whether enough was done in this iteration of the loop: even short work should wait."""
        return self._used_s >= TURN_S

    def use(self, client: ClientShare, seconds: float) -> None:
        client.used_s = max(client.used_s, self._served_s) + seconds
        if not self._used_s:
            self._loop.call_soon(self._iterated)
        self._used_s += seconds

    def ask(self, client: ClientShare, callback: Callable[[], None]) -> None:
        """Call back when it is the client's turn."""
        start_s = max(client.used_s, self._served_s)
        client.used_s = start_s + TURN_S  # what else it asks for meanwhile comes after this
        heapq.heappush(self._line, (start_s, next(self._numbers), client, callback))
        if len(self._line) == 1:
            self._loop.call_soon(self._give)

    def _give(self) -> None:
        """Once per iteration while there is a line: what is called soon runs after the next poll
        for bytes, and so does the task that gets the turn."""
        self._served_s, _, client, callback = heapq.heappop(self._line)
        client.used_s -= TURN_S  # what it really uses is counted when it has
        if self._line:
            self._loop.call_soon(self._give)
        callback()

    def _iterated(self) -> None:
        self._used_s = 0.0


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def turns() -> Turns:
    """Those of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _turns.get(loop)
    if found is None:
        found = _turns[loop] = Turns(loop)
    return found


class Pace:
    """One piece of work: after each step of it `is_over` says whether to wait for a turn.

    A turn is over by the clock, which is cheap to look at. What a client has used is processor
    time: it is not to blame for what else the machine does.
    """

    __slots__ = ("_began", "_client", "_cpu", "_turns")

    def __init__(self) -> None:
        self._turns, self._client = turns(), CLIENT.get(NO_CLIENT)
        self._began, self._cpu = time.perf_counter(), time.thread_time()

    @property
    def is_over(self) -> bool:
        return time.perf_counter() - self._began >= TURN_S

    async def begin(self) -> None:
        """At once, unless others have used up this iteration of the loop."""
        if self._turns.is_used_up:
            await self._turn()

    async def next_turn(self) -> None:
        self.end()
        await self._turn()

    def end(self) -> None:
        """Work that waited for something between its steps has let others use the thread: what
        was used meanwhile counts as two turns at most."""
        self._turns.use(self._client, min(time.thread_time() - self._cpu, 2 * TURN_S))

    async def _turn(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._turns.ask(self._client, partial(_end_wait, turn))
        await turn
        self._began, self._cpu = time.perf_counter(), time.thread_time()


def _end_wait(turn: asyncio.Future[None]) -> None:
    if not turn.done():  # cancelled otherwise
        turn.set_result(None)


async def next_turn() -> None:
    """For work that knows itself when it has gone on for long enough."""
    await Pace().next_turn()


async def paced(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, with a pause for others wherever a turn is over."""
    pace = Pace()
    await pace.begin()
    for item in items:
        yield item
        if pace.is_over:
            await pace.next_turn()
    pace.end()


async def paced_sorted(items: Iterable[str]) -> AsyncIterator[str]:
    """The items in order; they are sorted some thousand at a time and then merged."""
    todo, parts = iter(items), list[list[str]]()
    async for _ in paced(iter(int, 1)):
        part = sorted(itertools.islice(todo, SORTED_AT_ONCE))
        if not part:
            break
        parts.append(part)
    async for item in paced(heapq.merge(*parts)):
        yield item


async def paced_each(
    items: Iterable[T], act: Callable[[T], Awaitable[R]], at_once: int = 1
) -> list[R]:
    """What `act` answers to each item, in order, a few of them at a time."""
    answers: dict[int, R] = {}
    todo = enumerate(items)

    async def work() -> None:
        async for at, item in paced(todo):
            answers[at] = await act(item)

    if at_once == 1:
        await work()
    else:
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())
    return [answers[at] async for at in paced(range(len(answers)))]


def at_once(steps: Generator[None, None, T]) -> T:
    """What a generator returns, without a pause: for few steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


async def in_turns(steps: Generator[None, None, T]) -> T:
    """What a generator returns that yields wherever it may be interrupted."""
    pace = Pace()
    await pace.begin()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            pace.end()
            result: T = end.value
            return result
        if pace.is_over:
            await pace.next_turn()
