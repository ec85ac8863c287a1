"""One object on its way into the store: in one piece, or in parts."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from stratamq.model.errors import (
    CorruptObject,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    StoreUnavailable,
)
from stratamq.tiering.stores.attempts import Deadline, Retrier
from stratamq.tiering.stores.backend import Backend, Head, PartsBackend, Tags
from stratamq.tiering.stores.contract import Pace
from stratamq.tiering.stores.options import StoreLimits
from stratamq.tiering.stores.source import Content, UploadSource
from stratamq.tiering.stores.sums import Sums, windows

T = TypeVar("T")


class Run(Protocol):
    """Does blocking work on a thread."""

    def __call__(self, work: Callable[[], T]) -> Coroutine[Any, Any, T]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """One put. After a lost answer it is unknown whether the object was stored. Its token shows it:
    an object that is in the way and has our token is the one we put."""

    backend: Backend
    limits: StoreLimits
    run: Run
    retrier: Retrier
    key: str
    content: Content
    sums: Sums
    pace: Pace | None
    if_absent: bool
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    async def store(self) -> Head:
        size, backend = self.sums.size, self.backend
        step = part_bytes(self.limits.part_bytes, self.sums.block_bytes)
        if isinstance(backend, PartsBackend) and size > step:
            await self._in_parts(backend, step)
        else:
            await self.retrier.run(self._whole)
        return await self.retrier.run(self._stored)

    @property
    def _tags(self) -> Tags:
        return Tags(self.sums.encode(), self.token)

    async def _stored(self) -> Head:
        """Ask the store for the object, as proof that it has it. A store that keeps no metadata of
        objects loses the sums, but the caller has them."""
        head = await self.run(lambda: self.backend.head(self.key))
        return head if head.tags else head._replace(tags=self._tags)

    def _source(self, start: int, stop: int) -> UploadSource:
        return UploadSource(
            content=self.content,
            sums=self.sums,
            start=start,
            stop=stop,
            deadline=Deadline(self.limits.timeout_ms, stop - start),
            pace=self.pace,
        )

    # -- in one piece ------------------------------------------------------------------------------

    async def _whole(self) -> None:
        def put() -> None:
            source = self._source(0, self.sums.size)
            self.backend.put(self.key, source, self._tags, if_absent=self.if_absent)

        try:
            await self.run(put)
        except ObjectExists:
            if not await self._is_ours():
                raise
            await self.run(self._compare)

    async def _is_ours(self) -> bool:
        try:
            head = await self.run(lambda: self.backend.head(self.key))
        except ObjectNotFound:
            return False
        return head.tags is not None and head.tags.token == self.token

    def _compare(self) -> None:
        """Check an object that an earlier attempt stored without an answer: its bytes may be
        wrong."""
        try:
            for first, last in windows(0, self.sums.size, self.sums, self.backend.window_bytes):
                deadline = Deadline(self.limits.timeout_ms, last - first)
                data = self.backend.read(self.key, first, last, deadline)
                self.sums.check(self.key, first, data)
        except CorruptObject:
            self.backend.delete(self.key)
            raise

    # -- in parts ----------------------------------------------------------------------------------

    async def _in_parts(self, backend: PartsBackend, step: int) -> None:
        upload = await self._tried(lambda: backend.begin(self.key, self._tags))
        try:
            starts = range(0, self.sums.size, step)
            receipts = await all_of(
                self._part(backend, upload, number, start, step)
                for number, start in enumerate(starts, 1)
            )
            await self.retrier.run(lambda: self._finish(backend, upload, receipts))
        except BaseException:
            await asyncio.shield(self._abort(backend, upload))
            raise

    async def _part(
        self, backend: PartsBackend, upload: str, number: int, start: int, step: int
    ) -> str:
        stop = min(start + step, self.sums.size)
        return await self._tried(
            lambda: backend.part(self.key, upload, number, self._source(start, stop))
        )

    async def _finish(self, backend: PartsBackend, upload: str, receipts: list[str]) -> None:
        try:
            await self.run(
                lambda: backend.finish(self.key, upload, receipts, if_absent=self.if_absent)
            )
        except ObjectExists:
            if not await self._is_ours():
                raise
        except ObjectNotFound:
            if not await self._is_ours():
                raise StoreUnavailable(f"{self.key}: the store lost the upload") from None

    async def _abort(self, backend: PartsBackend, upload: str) -> None:
        """Abort an upload, as far as possible: `sweep` removes what stays."""
        with contextlib.suppress(StoreError):
            await self._tried(lambda: backend.abort(self.key, upload))

    async def _tried(self, work: Callable[[], T]) -> T:
        return await self.retrier.run(lambda: self.run(work))


def part_bytes(wanted: int, block_bytes: int) -> int:
    """The wanted size of a part or a little more: a whole number of blocks, which can be
    checked."""
    return -(-wanted // block_bytes) * block_bytes


async def all_of(work: Iterable[Awaitable[T]]) -> list[T]:
    """Return the results in order. At the first failure the rest is cancelled."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
