"""On which thread an engine's work is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from stratamq.engine.contract import AppendResult
from stratamq.engine.group import Append, AppendReplica
from stratamq.engine.shard import Shard

T = TypeVar("T")


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
