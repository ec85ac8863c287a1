"""On which thread an engine's work is done."""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from stratamq.engine.contract import AppendResult
from stratamq.engine.group import Append, AppendReplica, Group
from stratamq.engine.shard import Shard
from stratamq.log.contract import Step

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Commit(Protocol):
    """As `ShardStorage.commit`."""

    def __call__(self, groups: Sequence[Group], *, waits: bool = True) -> Step | None: ...


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

    def reads_here(self, shard: Shard) -> bool:
        """Whether the caller itself may read the shard, on the event loop, if that is short."""

    def read(self, shard: Shard, work: Callable[[], T]) -> Awaitable[T]:
        """Read on another thread."""

    def call(self, work: Callable[[], T]) -> Awaitable[T]:
        """Do something that may block and concerns no open shard."""

    async def drain(self) -> None:
        """Answer everything that was asked for."""

    async def close(self) -> None: ...


def answer_request(request: Append | AppendReplica) -> None:
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
    """A caller that gave up gets no answer; what it asked for was done all the same."""
    if future is None or future.done():
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def commit_groups(groups: Sequence[Group], commit: Commit, *, waits: bool = True) -> Step | None:
    """Commit the groups that have batches. Whatever goes wrong is the answer of those it concerns.
    What is returned is to be done before anything is answered."""
    full = [group for group in groups if group.batches]
    left = None
    try:
        if full:
            left = commit(full, waits=waits)
    except Exception as error:
        for group in full:
            group.error = group.error or error
    if left is not None:
        return partial(_finish, full, left)
    for group in full:
        group.settle()
    return None


def _finish(groups: Sequence[Group], left: Step) -> None:
    left()
    for group in groups:
        group.settle()


def save_producers(shards: Iterable[Shard]) -> None:
    """As their writer, on a thread that may wait for a disk."""
    for shard in shards:
        if not shard.poisoned and shard.producers.is_due():
            shard.producers.save(shard.store)
