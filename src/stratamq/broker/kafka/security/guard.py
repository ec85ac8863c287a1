"""The table, put before the handlers: none runs for a caller that may not call it.

A request that names little is judged at once. The rest of one that names much is judged in turns,
and its handler begins later: requests of its connection that must not pass it wait until it has its
answer (`server/kafka/ordering.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any

from stratamq.broker.kafka.contract import Answered, Beginner, Caller, Cancel, Handler
from stratamq.broker.kafka.security.apis.table import TABLE
from stratamq.broker.kafka.security.authorizer import Authorizer
from stratamq.broker.kafka.security.rights import ApiRights, Rights, Verdict
from stratamq.broker.kafka.turns import in_turns
from stratamq.meta.topics import BrokerCacheManager
from stratamq.wire.kafka.protocol import Steps

JUDGED_AT_ONCE = 512
"""Elements of a request, some microseconds each."""


class Guard:
    """`authorizer` and `creates_topics` are asked at each request, since rules and configs change.
    When nothing is enforced, only answers that report rights are changed, and other handlers are
    returned as they are."""

    def __init__(
        self,
        authorizer: Callable[[], Authorizer],
        known: BrokerCacheManager,
        *,
        enforces: bool,
        creates_topics: Callable[[], bool] = lambda: False,
    ) -> None:
        self._authorizer, self._known = authorizer, known
        self._enforces = enforces
        self._creates_topics = creates_topics

    def __call__(self, request: type, handler: Handler) -> Handler:
        entry = TABLE.get(request)
        if entry is None:
            assert not self._enforces, f"{request.__name__} has no row in the table of rights"
            return handler
        if self._enforces and (entry.judge or entry.after):
            return self._guarded(entry, handler)
        return handler if entry.reports is None else self._reporting(entry, handler)

    def beginner(self, request: type, beginner: Beginner) -> Beginner | None:
        """The same for what begins without a task. A request of which something is refused, or that
        takes long to judge, is left to its handler. None where answers report rights."""
        entry = TABLE.get(request)
        enforced = entry is not None and self._enforces and (entry.judge or entry.after)
        if entry is None or not (enforced or entry.reports):
            return beginner
        judge = entry.judge
        if judge is None or not _is_final(entry):
            return None

        def begin(request: Any, caller: Caller, answered: Answered) -> Cancel | None:
            verdict, rest = _begun(judge(request, self._rights(caller)))
            if rest is not None:
                return None
            if verdict is None:
                return beginner(request, caller, answered)
            if verdict.left is not request:
                return None
            return beginner(request, caller, lambda answer: answered(verdict.finish(answer)))

        return begin

    def _rights(self, caller: Caller) -> Rights:
        return Rights(self._authorizer(), caller, self._known, self._creates_topics())

    def _guarded(self, entry: ApiRights, handler: Handler) -> Handler:
        """Not a coroutine: what a handler starts at once must still start at once."""

        def guarded(request: Any, caller: Caller) -> Awaitable[Any]:
            rights = self._rights(caller)
            judged = entry.judge(request, rights) if entry.judge is not None else None
            verdict, rest = _begun(judged)
            if rest is None:
                return answered(request, rights, verdict)
            return judged_in_turns(request, rights, rest)

        def answered(request: Any, rights: Rights, verdict: Verdict | None) -> Awaitable[Any]:
            if verdict is None:
                work = handler(request, rights.caller)
                return work if _is_final(entry) else _filtered(entry, request, work, rights)
            if verdict.left is None:
                return _refused(verdict)
            work = handler(verdict.left, rights.caller)
            return _finished(verdict, _filtered(entry, request, work, rights))

        async def judged_in_turns(request: Any, rights: Rights, rest: Steps[Verdict | None]) -> Any:
            return await answered(request, rights, await in_turns(rest))

        return guarded

    def _reporting(self, entry: ApiRights, handler: Handler) -> Handler:
        async def reporting(request: Any, caller: Caller) -> Any:
            response = await handler(request, caller)
            if entry.reports is not None:
                await _done(entry.reports(request, response, self._rights(caller)))
            return response

        return reporting


def _begun(
    judged: Verdict | Steps[Verdict | None] | None,
) -> tuple[Verdict | None, Steps[Verdict | None] | None]:
    """The verdict, or the steps that are left of a long way to it."""
    if not isinstance(judged, Generator):
        return judged, None
    try:
        for _ in range(JUDGED_AT_ONCE):
            next(judged)
    except StopIteration as end:
        return end.value, None
    return None, judged


async def _done(steps: Steps[None] | None) -> None:
    if steps is not None:
        await in_turns(steps)


def _is_final(entry: ApiRights) -> bool:
    return entry.after is None and entry.reports is None


async def _filtered(entry: ApiRights, request: Any, work: Awaitable[Any], rights: Rights) -> Any:
    response = await work
    for step in (entry.after, entry.reports):
        if step is not None and response is not None:
            await _done(step(request, response, rights))
    return response


async def _finished(verdict: Verdict, work: Awaitable[Any]) -> Any:
    return verdict.finish(await work)


async def _refused(verdict: Verdict) -> Any:
    return verdict.finish(None)
