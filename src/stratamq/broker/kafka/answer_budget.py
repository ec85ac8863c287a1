"""How many bytes of answers may be in memory at once: of each, and of all together."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque

from stratamq.model.errors import AnswerTooLarge

ANSWER_BYTES_MAX = 32 << 20
UNCOUNTED_BYTES = 16 << 10
"""Smaller answers are counted when they are encoded: with as many connections as are allowed, they
fit anyway."""

GRANTED_PART = 16
"""A fetch that needs more than this part of the budget begins when it can have so much. With less,
many fetches of a few bytes each would each read a whole first batch, and exceed the budget."""


class AnswerBudget:
    """Bytes of answers that were read or encoded and have not left yet, over all connections.

    A fetch that reads on threads reserves bytes first and reads no more than it was granted. When
    too few are left, it waits in line, and gets them in the order of the line as they come back.
    One that describes things counts them in a `LongAnswer` before it describes them. The connection
    then counts what it has to send, until it is sent. So a thousand clients that ask for much and
    read slowly share one limit. What is counted nowhere may not be held: a fetch that waits for
    more drops what it has read.
    """

    def __init__(self, bytes_max: int, answer_bytes_max: int = ANSWER_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._long_max = bytes_max // 2
        """When so much is used, long answers wait: the rest is for fetches."""
        self._answer_max = answer_bytes_max
        self.used_bytes = 0
        self._fetches: OrderedDict[asyncio.Future[int], int] = OrderedDict()
        """Fetches that wait for bytes, and how many each wants, in the order in which they came."""
        self._grants = False
        """Whether `_grant` is about to run."""
        self._long: dict[asyncio.Task[object], int] = {}
        """Bytes of long answers by the tasks that make them, the oldest first."""
        self._long_bytes = 0
        self._line: deque[asyncio.Future[None]] = deque()
        """Long answers that wait for bytes. One at a time is woken, and wakes the next when it has
        taken what it needs: hundreds that look at once would keep the event loop busy."""
        self._next: asyncio.Future[None] | None = None
        """Of the one that was woken and has not run yet."""
        self._held_up: dict[asyncio.Task[object], dict[asyncio.Future[None], None]] = {}
        """The turns that each waits for. An answer may wait for several: tasks build its parts."""

    @property
    def left_bytes(self) -> int:
        return max(self.bytes_max - self.used_bytes, 0)

    def take(self, size_bytes: int) -> None:
        self.used_bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        self._wake()
        if self._fetches and not self._grants:
            self._grant_soon()

    # -- fetches -------------------------------------------------------------------------------

    async def reserve(self, wanted_bytes: int, deadline: float) -> int:
        """Wait in line, until `deadline` by the event loop's clock, and return how many bytes are
        reserved: some or all of those wanted; 0 when the deadline has passed. The caller gives them
        back."""
        if not self._fetches and self._suffices(wanted_bytes):
            granted = min(wanted_bytes, self.left_bytes)
            self.take(granted)
            return granted
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[int] = loop.create_future()
        self._fetches[turn] = wanted_bytes
        timer = loop.call_at(deadline, self._end_turn, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._end_turn(turn)
            else:  # the caller goes away with what it was just granted
                self.give(turn.result())
            raise
        finally:
            timer.cancel()

    def end_turns(self) -> None:
        """Let all that wait in line go on without bytes."""
        for turn in tuple(self._fetches):
            self._end_turn(turn)

    def _suffices(self, wanted_bytes: int) -> bool:
        return self.left_bytes >= min(wanted_bytes, max(self.bytes_max // GRANTED_PART, 1))

    def _end_turn(self, turn: asyncio.Future[int]) -> None:
        """The next in line may want less."""
        if self._fetches.pop(turn, None) is not None and self._fetches and not self._grants:
            self._grant_soon()
        if not turn.done():
            turn.set_result(0)

    def _grant_soon(self) -> None:
        """Not at once: what a fetch gives back after reading is counted again, as its answer, in
        the same turn of the event loop."""
        self._grants = True
        asyncio.get_running_loop().call_soon(self._grant)

    def _grant(self) -> None:
        self._grants = False
        while self._fetches:
            turn, wanted_bytes = next(iter(self._fetches.items()))
            if not turn.done():
                if not self._suffices(wanted_bytes):
                    return
                granted = min(wanted_bytes, self.left_bytes)
                self.take(granted)
                turn.set_result(granted)
            del self._fetches[turn]

    # -- long answers --------------------------------------------------------------------------

    async def _woken(self, turn: asyncio.Future[None]) -> None:
        try:
            await turn
        except asyncio.CancelledError:
            if turn is not self._next:
                with contextlib.suppress(ValueError):
                    self._line.remove(turn)
                raise
            self._next = None
            self._wake()  # the caller goes away; another one can use what is left
            raise
        if turn is self._next:
            self._next = None

    def _wake(self) -> None:
        oldest = next(iter(self._long), None)
        if oldest in self._held_up and self._may_exceed(oldest):
            for turn in self._held_up[oldest]:
                _end_wait(turn)
        while self._line and self._next is None and self.used_bytes < self._long_max:
            turn = self._line.popleft()
            if _end_wait(turn):
                self._next = turn

    def begin(self) -> LongAnswer:
        """An answer that the current task makes."""
        task = asyncio.current_task()
        assert task is not None, "handlers run in tasks"
        return LongAnswer(self, self._answer_max, task)

    async def count(self, task: asyncio.Task[object], size_bytes: int) -> None:
        """Wait until the budget has so much, and count it until the task has ended.

        Answers that grow at the same time could wait for each other for ever. So the oldest goes
        on, whatever the others have; it waits only for clients that do not read.
        """
        if task not in self._long:
            self._long[task] = 0
            task.add_done_callback(self._made)
        put = self._line.append
        while self.used_bytes + size_bytes > self._long_max and not self._may_exceed(task):
            turn = asyncio.get_running_loop().create_future()
            self._held_up.setdefault(task, {})[turn] = None
            put(turn)
            try:
                await self._woken(turn)
            finally:
                del self._held_up[task][turn]
                if not self._held_up[task]:
                    del self._held_up[task]
            if task not in self._long:  # the answer was given without this part
                self._wake()
                return
            put = self._line.appendleft  # it was the first in line, and needs more than is left
        self._long[task] += size_bytes
        self._long_bytes += size_bytes
        self.take(size_bytes)
        self._wake()

    def _may_exceed(self, task: asyncio.Task[object]) -> bool:
        unread = self.used_bytes - self._long_bytes
        return next(iter(self._long), None) is task and unread < self._long_max

    def _made(self, task: asyncio.Task[object]) -> None:
        size_bytes = self._long.pop(task)
        self._long_bytes -= size_bytes
        self.give(size_bytes)


def _end_wait(turn: asyncio.Future[None]) -> bool:
    """False when it had ended before."""
    if turn.done():
        return False
    turn.set_result(None)
    return True


class LongAnswer:
    """Counts the bytes of an answer while it is built, each part before it is built."""

    def __init__(self, budget: AnswerBudget, bytes_max: int, task: asyncio.Task[object]) -> None:
        self._budget, self._max, self._task = budget, bytes_max, task
        self._size = self._counted = 0

    async def add(self, size_bytes: int) -> None:
        """AnswerTooLarge refuses this part alone: what was added before still fits."""
        if self._size + size_bytes > self._max:
            raise AnswerTooLarge(
                "the answer would be larger than kafka.answer.bytes.max: ask for less at a time"
            )
        self._size += size_bytes
        if (uncounted := self._size - self._counted) > UNCOUNTED_BYTES:
            self._counted = self._size
            await self._budget.count(self._task, uncounted)
