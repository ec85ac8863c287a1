"""A Fetch that has not found enough yet.

It sleeps until something could change its answer, and then looks only at what has changed:

| what happens                                   | what it does                             |
|------------------------------------------------|------------------------------------------|
| a partition's start or high watermark moves    | looks at it again, in the next loop turn |
| so much was stored that `min_bytes` is reached | reads, and answers                       |
| a read of object storage is done               | reads, and answers                       |
| `max_wait_ms` is over, or the node stops       | reads once more, and answers             |
| the client goes away                           | ends without an answer                   |

How much could be read is known without reading: from what the first pass has found, and from how
many bytes were stored since. So records are read once, when they are answered. A read that lacks
bytes of the budget for answers waits for its turn there (`AnswerBudget.reserve`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from stratamq.broker.kafka.fetch.cold import ColdAnswer
from stratamq.broker.kafka.fetch.reading import FetchPass, Standing
from stratamq.model.errors import StrataError
from stratamq.wire.kafka.protocol.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from stratamq.broker.kafka.fetch.api import Fetch

SUBSCRIBED_AT_ONCE = 1024
"""Partitions that are subscribed to, or looked at again, in one turn of the event loop."""

Finished = Callable[[FetchPass], None]
"""Takes the pass that is the answer."""


class WaitingFetch:
    """See the module. `finished` is called once, on the event loop, unless `cancel` comes first."""

    __slots__ = (
        "_changed",
        "_ends",
        "_expired",
        "_family",
        "_finished",
        "_loop",
        "_pass",
        "_request",
        "_task",
        "_timer",
        "_wakes",
    )

    def __init__(
        self,
        family: Fetch,
        first: FetchPass,
        request: FetchRequest,
        deadline: float,
        finished: Finished,
    ) -> None:
        """`deadline` is by the event loop's clock. What the first pass has read is not held while
        it waits."""
        first.drop()
        self._family, self._pass, self._request = family, first, request
        self._finished: Finished | None = finished
        self._loop = loop = asyncio.get_running_loop()
        self._changed: set[int] = set()
        self._ends: list[Callable[[], object]] = []
        self._expired = self._wakes = False
        self._task: asyncio.Task[None] | None = None
        self._timer = loop.call_at(deadline, self.expire)
        family.waiting[self] = None
        self._watch()

    # -- what wakes it -------------------------------------------------------------------------

    def _watch(self) -> None:
        first = self._pass
        self._subscribe(first, iter(first.standing.items()))
        for task in first.under_way:
            task.add_done_callback(self._wake)
            self._ends.append(partial(task.remove_done_callback, self._wake))

    def _subscribe(self, first: FetchPass, rest: Iterator[tuple[int, Standing]]) -> None:
        """Many partitions take several turns of the loop: one that has moved until then is looked
        at as well."""
        if self._finished is None or self._pass is not first:
            return
        for at, one in islice(rest, SUBSCRIBED_AT_ONCE):
            try:
                self._ends.append(one.shard.subscribe(partial(self._move, at)))
                if one.shard.offsets() != one.position.offsets:
                    self._move(at)
            except StrataError:
                self._move(at)  # it was deleted meanwhile: the next look says so
        if len(first.standing) > SUBSCRIBED_AT_ONCE:
            following = next(rest, None)
            if following is not None:
                self._loop.call_soon(self._subscribe, first, chain([following], rest))

    def _move(self, at: int) -> None:
        self._changed.add(at)
        self._wake()

    def _wake(self, _: asyncio.Task[ColdAnswer] | None = None) -> None:
        """Look at the end of this turn: more partitions may move until then."""
        if not self._wakes:
            self._wakes = True
            self._loop.call_soon(self._look)

    def expire(self) -> None:
        self._expired = True
        self._wake()

    def cancel(self) -> None:
        """No answer is wanted any more."""
        self._end()
        self._finished = None
        if self._task is not None:
            self._task.cancel()

    # -- looking again -------------------------------------------------------------------------

    def _look(self) -> None:
        self._wakes = False
        if self._finished is None or self._task is not None:
            return
        if not self._expired and not self._is_worth_it():
            return
        asked = self._pass.asked
        if len(asked) <= SUBSCRIBED_AT_ONCE:
            again = self._family.begin_pass(asked, self._request)
            if self._look_at_changes(again) and again.read_at_once():
                self._settle(again)
                return
        self._task = self._loop.create_task(self._read_again())

    def _is_worth_it(self) -> bool:
        """Whether a pass could find enough. What was stored may be hidden from consumers, or not be
        committed yet: then the wait goes on."""
        first = self._pass
        if any(task.done() for task in first.under_way):
            return True
        stored = 0
        for at in self._changed:
            one = first.standing[at]
            try:
                now = one.shard.position()
            except StrataError:
                return True
            if now.offsets != one.position.offsets:
                stored += max(now.stored_bytes - one.position.stored_bytes, 1)
        return bool(stored) and first.found_bytes + stored >= self._request.min_bytes

    def _look_at_changes(self, again: FetchPass) -> bool:
        """A partition that has not changed and had nothing to read still has not."""
        before = self._pass
        for at in range(len(before.asked)):
            one = before.standing.get(at)
            if one is not None and at not in self._changed and one.is_caught_up:
                again.adopt(before, at)
            elif not again.look(at):
                return False
        return True

    async def _read_again(self) -> None:
        asked = self._pass.asked
        again = await self._family.read_pass(asked, self._request, self._timer.when())
        self._task = None
        if self._finished is not None:
            self._settle(again)

    def _settle(self, again: FetchPass) -> None:
        """Answer with this pass, or wait on from where it stands."""
        if self._expired or self._family.is_enough(again, self._request):
            self._answer(again)
            return
        self._end_watching()
        again.drop()
        self._pass = again
        self._changed.clear()
        self._watch()

    # -- the end -------------------------------------------------------------------------------

    def _answer(self, last: FetchPass) -> None:
        finished, self._finished = self._finished, None
        self._end()
        if finished is not None:
            finished(last)

    def _end(self) -> None:
        self._timer.cancel()
        self._family.waiting.pop(self, None)
        self._end_watching()

    def _end_watching(self) -> None:
        for end in self._ends:
            end()
        self._ends.clear()
