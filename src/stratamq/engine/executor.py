"""On which thread an engine's work is done."""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from stratamq.engine.contract import AppendResult
from stratamq.engine.group import Append, AppendReplica, Group, gather
from stratamq.engine.shard import Shard
from stratamq.model.clock import Clock

T = TypeVar("T")
logger = logging.getLogger(__name__)
Commit = Callable[[Sequence[Group]], None]


class Executor(Protocol):
    """One writer per shard at any time; reads beside it."""

    def start(self) -> None: ...

    def lane_of(self, name: str) -> int:
        """Which writer a shard belongs to."""

    def append(self, request: Append | AppendReplica) -> Awaitable[AppendResult]:
        """Committed, and in sight of readers, when it returns. Cancelling the wait does not undo
        it."""

    def begin(self, request: Append) -> None:
        """As `append`, in the same order. The answer goes to the request's `done`, perhaps before
        this returns."""

    def run(self, shard: Shard, work: Callable[[], T]) -> Awaitable[T]:
        """Do something as the shard's writer, after everything asked for before."""

    def read(self, shard: Shard, work: Callable[[], T]) -> Awaitable[T]: ...

    def call(self, work: Callable[[], T]) -> Awaitable[T]:
        """Do something that may block and concerns no open shard."""

    async def drain(self) -> None:
        """Answer everything that was asked for."""

    async def close(self) -> None: ...


class Inline:
    """Everything at once, on the event loop: right for memory, where a thread hop costs more than
    the work."""

    def __init__(self, commit: Commit, clock: Clock) -> None:
        self._commit, self._clock = commit, clock

    def start(self) -> None:
        pass

    def lane_of(self, name: str) -> int:
        return 0

    async def append(self, request: Append | AppendReplica) -> AppendResult:
        self._append(request)
        answer = request.answer
        if isinstance(answer, AppendResult):
            return answer
        assert isinstance(answer, BaseException), "a commit answers every request"
        raise answer

    def begin(self, request: Append) -> None:
        self._append(request)
        tell(request)

    def _append(self, request: Append | AppendReplica) -> None:
        with request.shard.lock:
            groups = gather((request,), self._clock.now_ms())
            commit_groups(groups, self._commit)
        groups[0].publish()

    async def run(self, shard: Shard, work: Callable[[], T]) -> T:
        with shard.lock:
            return work()

    async def read(self, shard: Shard, work: Callable[[], T]) -> T:
        return work()

    async def call(self, work: Callable[[], T]) -> T:
        return work()

    async def drain(self) -> None:
        pass

    async def close(self) -> None:
        pass


def tell(request: Append | AppendReplica) -> None:
    """Answer a request that was committed or failed, on the event loop."""
    if not isinstance(request, Append) or request.done is None:
        answer_future(request.future, request.answer)
        return
    assert request.answer is not None, "a commit answers every request"
    try:
        request.done(request.answer)
    except Exception:  # the caller's own, and others wait for their answers
        logger.exception("%s: a producer failed at its answer", request.shard.name)


def answer_future(future: Future[Any] | None, answer: Any) -> None:
    """A caller that gave up is not told; what it asked for was done all the same."""
    if future is None or future.done():
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def commit_groups(groups: Sequence[Group], commit: Commit) -> None:
    """Commit what there is to commit. Whatever goes wrong is the answer of those it concerns."""
    full = [group for group in groups if group.batches]
    try:
        if full:
            commit(full)
    except Exception as error:
        for group in full:
            group.error = group.error or error
    for group in full:
        group.settle()
