"""On which thread an engine's work is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from stratamq.engine.contract import AppendResult
from stratamq.engine.group import Append, AppendReplica, Group, gather
from stratamq.engine.shard import Shard
from stratamq.model.clock import Clock

T = TypeVar("T")
Commit = Callable[[Sequence[Group]], None]


class Executor(Protocol):
    """One writer per shard at any time; reads beside it."""

    begins: bool
    """Whether `begin` may be called."""

    def start(self) -> None: ...

    def lane_of(self, name: str) -> int:
        """Which writer a shard belongs to."""

    def append(self, request: Append | AppendReplica) -> Awaitable[AppendResult]:
        """Committed, and in sight of readers, when it returns. Cancelling the wait does not undo
        it."""

    def begin(self, request: Append) -> None:
        """As `append`, in the same line. The answer goes to the request's `done`."""

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

    begins = False

    def __init__(self, commit: Commit, clock: Clock) -> None:
        self._commit, self._clock = commit, clock

    def start(self) -> None:
        pass

    def lane_of(self, name: str) -> int:
        return 0

    async def append(self, request: Append | AppendReplica) -> AppendResult:
        with request.shard.lock:
            groups = gather((request,), self._clock.now_ms())
            commit_groups(groups, self._commit)
        groups[0].publish()
        answer = request.answer
        if isinstance(answer, AppendResult):
            return answer
        assert isinstance(answer, BaseException), "a commit answers every request"
        raise answer

    def begin(self, request: Append) -> None:
        raise AssertionError("what is done at once is not begun")

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
