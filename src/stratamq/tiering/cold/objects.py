"""What files are read from: objects of the store, by way of the cache or straight from a folder."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent import futures
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from stratamq.lake.parquet.sources import Span
from stratamq.meta.tier.files import TierObject
from stratamq.model.errors import (
    Closed,
    CorruptObject,
    ObjectNotFound,
    StoreDenied,
    StoreUnavailable,
)
from stratamq.tiering.cold.ahead import Ahead
from stratamq.tiering.cold.block_files import BlockFiles
from stratamq.tiering.cold.cache import BlockCache
from stratamq.tiering.stores.contract import ObjectInfo, ObjectStore

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


class Bridge:
    """Starts coroutines on a loop, from any other thread. After `close` no thread waits any more:
    work under way is cancelled, and ends with Closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_ms: int) -> None:
        self._loop, self._timeout_s = loop, timeout_ms / 1000
        self._lock = threading.Lock()
        self._pending: set[futures.Future[Any]] = set()
        self._closed = False

    def start(self, work: Work[T]) -> futures.Future[T]:
        with self._lock:
            if self._closed or self._loop.is_closed():
                raise Closed("history is being shut down")
            future = asyncio.run_coroutine_threadsafe(work(), self._loop)
            self._pending.add(future)
        future.add_done_callback(self._done)
        return future

    def wait(self, future: futures.Future[T]) -> T:
        """Wait for a future's result; StoreUnavailable when it takes too long."""
        try:
            return future.result(self._timeout_s)
        except futures.CancelledError:
            raise Closed("history is being shut down") from None
        except futures.TimeoutError:
            future.cancel()
            raise StoreUnavailable(
                f"the store did not answer within {self._timeout_s:g} s"
            ) from None

    def call(self, work: Work[T]) -> T:
        return self.wait(self.start(work))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            pending = list(self._pending)
        for future in pending:
            future.cancel()

    def _done(self, future: futures.Future[Any]) -> None:
        with self._lock:
            self._pending.discard(future)


class ObjectSource(Protocol):
    """One object. A `lake.parquet.Source` with a way to announce reads, and one to drop what is
    cached."""

    @property
    def size_bytes(self) -> int: ...

    def read_at(self, position: int, size: int) -> bytes:
        """Exactly these bytes. ObjectNotFound, StoreUnavailable, CorruptObject."""

    def read_into(self, position: int, room: memoryview) -> None:
        """Read into memory that the caller has."""

    def expect(self, span: Span) -> None:
        """Announce that these bytes will be wanted soon. Returns at once."""

    def forget(self) -> None:
        """What was read was wrong: read from the store itself the next time."""


Objects = Callable[[TierObject], ObjectSource]


class FolderObjects:
    """Objects of a `file://` store. They are on a disk already, and a cache would copy them from
    one to another; what they hold has checksums of its own."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __call__(self, target: TierObject) -> ObjectSource:
        return FolderSource(self._root, target)


class FolderSource:
    """An open file, which stays readable when its name is removed. Closed by its last holder."""

    def __init__(self, root: Path, target: TierObject) -> None:
        self._target, self._file = target, -1
        try:
            self._file = os.open(root / target.key, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            if not root.is_dir():
                raise StoreUnavailable(f"{root} is gone") from None
            raise ObjectNotFound(target.key) from None
        except PermissionError as error:
            raise StoreDenied(f"{target.key}: {error.strerror}") from None
        except OSError as error:
            raise StoreUnavailable(f"{target.key}: {error.strerror}") from None
        if (size := os.fstat(self._file).st_size) != target.size:
            raise CorruptObject(f"{target.key}: has {size} bytes instead of {target.size}")

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)

    @property
    def size_bytes(self) -> int:
        return self._target.size

    def read_at(self, position: int, size: int) -> bytes:
        with self._translated():
            data = os.pread(self._file, size, position)
        self._check(position, size, len(data))
        return data

    def read_into(self, position: int, room: memoryview) -> None:
        with self._translated():
            size = os.preadv(self._file, [room], position)
        self._check(position, len(room), size)

    def _check(self, position: int, size: int, found: int) -> None:
        if found != size:
            raise CorruptObject(f"{self._target.key}: ends before byte {position + size}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnavailable(f"{self._target.key}: {error.strerror}") from None

    def expect(self, span: Span) -> None:
        """The kernel reads ahead by itself."""

    def forget(self) -> None:
        """Nothing is cached here."""


class CachedObjects:
    """Objects of a store that is elsewhere."""

    def __init__(self, store: ObjectStore, bridge: Bridge, files: BlockFiles, ahead: Ahead) -> None:
        self._store, self._bridge, self._ahead = store, bridge, ahead
        self._infos: dict[str, ObjectInfo] = {}
        self.cache = BlockCache(self._fetch, bridge.wait, files)

    def __call__(self, target: TierObject) -> ObjectSource:
        return CachedSource(target, self.cache, self._ahead)

    def _fetch(self, target: TierObject, start: int, stop: int) -> Future[bytes]:
        async def read() -> bytes:
            info = self._infos.get(target.key) or await self._info_of(target)
            return await self._store.get_range(target.key, start, stop, info=info)

        return self._bridge.start(read)

    async def _info_of(self, target: TierObject) -> ObjectInfo:
        """Ask for the object's sums, once: without them each range would ask for them first."""
        info = await self._store.head(target.key)
        if info.size != target.size:
            raise CorruptObject(f"{target.key}: has {info.size} bytes instead of {target.size}")
        if len(self._infos) >= INFOS_MAX:
            self._infos.clear()
        self._infos[target.key] = info
        return info


INFOS_MAX = 4096


class CachedSource:
    def __init__(self, target: TierObject, cache: BlockCache, ahead: Ahead) -> None:
        self._target, self._cache, self._ahead = target, cache, ahead

    @property
    def size_bytes(self) -> int:
        return self._target.size

    def read_at(self, position: int, size: int) -> bytes:
        return self._cache.read(self._target, Span(position, size))

    def read_into(self, position: int, room: memoryview) -> None:
        room[:] = self.read_at(position, len(room))

    def expect(self, span: Span) -> None:
        self._ahead.submit(lambda: self._cache.load(self._target, span))

    def forget(self) -> None:
        self._cache.forget(self._target)
