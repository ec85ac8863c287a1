"""Ranges of objects, out of blocks: from the local disk where they are, else from the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple, Protocol, TypeVar

from stratamq.lake.parquet.sources import Span
from stratamq.meta.tier.files import TierObject
from stratamq.tiering.cold.block_files import BlockFiles, BlockName
from stratamq.tiering.stores.sums import block_bytes_of

REQUEST_BYTES = 4 << 20
"""Neighbouring blocks are asked for together, up to so many bytes: several requests at once are
faster than a long one, and very short ones cost more than they bring."""

RECENT_BYTES_MAX = 8 << 20

Fetch = Callable[[TierObject, int, int], Future[bytes]]
"""Begins to read start..stop-1 of an object; checked bytes come out of it."""

T = TypeVar("T")
Block = Future[memoryview]


class Wait(Protocol):
    """Waits, for so long and no longer."""

    def __call__(self, future: Future[T], /) -> T: ...


class _Run(NamedTuple):
    """Blocks first..last of an object, in one request."""

    first: int
    last: int


class BlockCache:
    """For any number of threads. However many want a block, it is fetched once at a time.

    Blocks are as large as those an object's sums are made of: nothing is read that is not wanted,
    or not wanted to check what is.
    """

    def __init__(self, fetch: Fetch, wait: Wait, files: BlockFiles) -> None:
        self._fetch, self._wait, self._files = fetch, wait, files
        self._lock = threading.Lock()
        self._loading: dict[BlockName, Block] = {}
        self._recent: dict[BlockName, memoryview] = {}

    def read(self, target: TierObject, span: Span) -> bytes:
        """Read exactly these bytes."""
        if not span.size:
            return b""
        step = block_bytes_of(target.size)
        first, last = span.position // step, (span.position + span.size - 1) // step
        blocks = self._load(target, range(first, last + 1))
        start = span.position - first * step
        if len(blocks) == 1:
            return bytes(blocks[0][start : start + span.size])
        blocks[0] = blocks[0][start:]
        blocks[-1] = blocks[-1][: span.position + span.size - last * step]
        return b"".join(blocks)

    def load(self, target: TierObject, span: Span) -> None:
        """Have these bytes on disk, for a later reader. Does nothing where they would not be
        stored."""
        stop = min(span.position + span.size, target.size)
        if span.position >= stop:
            return
        step = block_bytes_of(target.size)
        for run in _runs(range(span.position // step, (stop - 1) // step + 1), step):
            names = [BlockName(target.key, n) for n in range(run.first, run.last + 1)]
            wanted = [
                name.number
                for name in names
                if name not in self._loading and not self._files.has(name)
            ]
            if wanted and self._files.is_writing():
                self._load(target, wanted)

    def forget(self, target: TierObject) -> None:
        """Drop everything that is cached of the object: the next read fetches it again."""
        step = block_bytes_of(target.size)
        names = [BlockName(target.key, number) for number in range(-(-target.size // step))]
        with self._lock:
            for name in names:
                self._loading.pop(name, None)
                self._recent.pop(name, None)
        for name in names:
            self._files.drop(name)

    def _load(self, target: TierObject, numbers: Sequence[int]) -> list[memoryview]:
        names = [BlockName(target.key, number) for number in numbers]
        mine, waits = {}, []
        with self._lock:
            for name in names:
                if name not in self._loading:
                    block: Block = Future()
                    block.set_running_or_notify_cancel()  # other readers wait for it: no cancelling
                    mine[name] = self._loading[name] = block
                waits.append(self._loading[name])
        try:
            self._fill(target, mine)
        except BaseException as error:
            for future in mine.values():
                if not future.done():
                    future.set_exception(error)
            raise
        finally:
            self._settle(mine)
        return [block.result() if block.done() else self._wait(block) for block in waits]

    def _settle(self, mine: dict[BlockName, Block]) -> None:
        """End the loading of these blocks, and keep them a moment in memory: the same block is
        often asked for again at once, for the bytes next in it."""
        recent = self._recent
        with self._lock:
            for name, block in mine.items():
                if self._loading.get(name) is not block:
                    continue
                del self._loading[name]
                if block.exception() is None:
                    recent.pop(name, None)
                    recent[name] = block.result()
                    while sum(map(len, recent.values())) > RECENT_BYTES_MAX and len(recent) > 1:
                        del recent[next(iter(recent))]

    def _fill(self, target: TierObject, mine: dict[BlockName, Block]) -> None:
        """Fill blocks from memory and disk, the others by requests that are all sent at once."""
        missing = []
        for name, future in mine.items():
            data = self._recent.get(name) or self._files.get(name)
            if data is not None:
                future.set_result(data)
            else:
                missing.append(name.number)
        step = block_bytes_of(target.size)
        runs = list(_runs(missing, step))
        asked = [
            self._fetch(target, run.first * step, min((run.last + 1) * step, target.size))
            for run in runs
        ]
        for run, request in zip(runs, asked, strict=True):
            data = memoryview(self._wait(request))
            for number in range(run.first, run.last + 1):
                at = (number - run.first) * step
                block = data[at : at + step]
                name = BlockName(target.key, number)
                mine[name].set_result(block)
                self._files.put(name, block)


def _runs(numbers: Sequence[int], step: int) -> Iterator[_Run]:
    """Put neighbouring blocks together, up to REQUEST_BYTES."""
    most = max(1, REQUEST_BYTES // step)
    run: _Run | None = None
    for number in numbers:
        if run and number == run.last + 1 and number - run.first < most:
            run = run._replace(last=number)
            continue
        if run:
            yield run
        run = _Run(number, number)
    if run:
        yield run
