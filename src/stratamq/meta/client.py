"""The Meta Service as the rest of a node sees it: a client, watches of its changes, and caches that
follow it. In the same process now, over gRPC later.

Reads of a cache are dict look-ups and never wait. Pushes keep caches current. A push that got lost
shows as a gap in the revisions when the next one comes, or, when none comes, at the periodic
reconcile; either way the cache reads a snapshot and is whole again.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable
from typing import TYPE_CHECKING, Protocol, TypeVar

from stratamq.meta.state import Event, MetaState, Update
from stratamq.model.errors import Closed, StrataError, TimedOut

if TYPE_CHECKING:
    from stratamq.meta.apply import Command
    from stratamq.meta.groups import Offsets

log = logging.getLogger(__name__)

T = TypeVar("T")

EVENTS_AT_ONCE = 1024
"""Events that a cache takes in before it lets other work on the event loop go on: the end of a
topic of 10,000 partitions has 20,000."""

RETRY_S = 0.5
"""Until the next look of a cache that could not read a snapshot."""

_REVISION = object()
"""The key of callers that wait for any change."""


class MetaClient(Protocol):
    async def submit(self, *commands: Command) -> int:
        """Apply all commands or none. On return they are durable; the revision they led to.

        A refusal is one of `stratamq.model.errors`. A caller that stops waiting does not undo them.
        """

    async def snapshot(self) -> MetaState:
        """Everything that can be watched, at one revision. Group offsets need not be in it."""

    async def revision(self) -> int: ...

    def watch(self) -> Watch:
        """Every update from now on. Watch first and read the snapshot then, and nothing is
        missed."""

    async def group_offsets(self, group: str) -> Offsets:
        """What the group committed; empty for an unknown group."""

    async def groups(self) -> Collection[str]: ...


class Watch:
    """One watcher's queue. Updates come in order; those that did not fit are missing, which shows
    in `Update.previous`: a watcher that is too slow loses pushes, never memory."""

    def __init__(self, updates_max: int, on_close: Callable[[Watch], None]) -> None:
        self._queue: asyncio.Queue[Update | None] = asyncio.Queue(updates_max)
        self._on_close = on_close
        self._closed = False

    def push(self, update: Update) -> None:
        """Called by the service. Never waits: a full queue drops the update."""
        if not self._queue.full():
            self._queue.put_nowait(update)

    async def next(self) -> Update:
        """The next update; Closed when there will be none."""
        if self._closed and self._queue.empty():
            raise Closed("the watch is closed")
        update = await self._queue.get()
        if update is None:
            raise Closed("the watch is closed")
        return update

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._on_close(self)
        if self._queue.full():
            self._queue.get_nowait()
        self._queue.put_nowait(None)


class WatchedCache(ABC):
    """Follows the Meta Service. Subclasses say what they keep of a snapshot and of an event."""

    def __init__(self, client: MetaClient, *, reconcile_s: float = 10.0) -> None:
        self._client = client
        self._reconcile_s = reconcile_s
        self._revision = -1
        self._is_behind = False
        self._waiters: dict[Hashable, dict[asyncio.Event, None]] = {}
        self._follower: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Afterwards the cache holds everything that was there when this was called."""
        watch = self._client.watch()
        self._load(await self._client.snapshot())
        self._follower = asyncio.create_task(self._follow(watch), name=type(self).__name__)

    async def stop(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.cancel()
            await asyncio.wait([follower])

    @property
    def revision(self) -> int:
        return self._revision

    async def wait_for_revision(self, revision: int, timeout_s: float) -> None:
        """Wait until this node sees what the caller did: pass what `submit` returned."""

        def look() -> bool | None:
            return True if self._revision >= revision else None

        await self._wait(_REVISION, look, timeout_s, f"revision {revision}")

    # -- what subclasses keep ------------------------------------------------------------------

    @abstractmethod
    def _replace(self, state: MetaState) -> None:
        """Keep this state's part and forget all else."""

    @abstractmethod
    def _change(self, event: Event) -> Hashable | None:
        """Take one event in; the key whose waiters should look again."""

    # -- following -----------------------------------------------------------------------------

    async def _follow(self, watch: Watch) -> None:
        try:
            while True:
                wait_s = RETRY_S if self._is_behind else self._reconcile_s
                try:
                    async with asyncio.timeout(wait_s):
                        update = await watch.next()
                except TimeoutError:
                    await self._reconcile()
                else:
                    await self._take(update)
        except Closed:
            log.info("%s: the meta service closed", type(self).__name__)
        finally:
            watch.close()

    async def _take(self, update: Update) -> None:
        if update.revision <= self._revision:
            return
        if update.previous > self._revision:
            await self._read_snapshot()
            return
        for number, event in enumerate(update.events, 1):
            self._wake(self._change(event))
            if number % EVENTS_AT_ONCE == 0:
                await asyncio.sleep(0)
        self._revision = update.revision
        self._wake(_REVISION)

    async def _reconcile(self) -> None:
        try:
            if await self._client.revision() == self._revision:
                return
        except Closed:
            raise
        except StrataError as error:
            log.warning("%s: cannot reconcile: %s", type(self).__name__, error)
            return
        log.warning("%s: a push was lost; reading a snapshot", type(self).__name__)
        await self._read_snapshot()

    async def _read_snapshot(self) -> None:
        """Where there is none to be had, the cache stays as it is and soon tries again."""
        self._is_behind = True
        try:
            self._load(await self._client.snapshot())
        except Closed:
            raise
        except StrataError as error:
            log.warning("%s: cannot read a snapshot: %s", type(self).__name__, error)
        else:
            self._is_behind = False

    def _load(self, state: MetaState) -> None:
        self._replace(state)
        self._revision = state.revision
        for key in list(self._waiters):
            self._wake(key)

    # -- waiting -------------------------------------------------------------------------------

    def _wake(self, key: Hashable | None) -> None:
        for waiter in self._waiters.get(key, ()):
            waiter.set()

    async def _wait(
        self, key: Hashable, look: Callable[[], T | None], timeout_s: float, what: str
    ) -> T:
        """What `look` gives as soon as it gives something; TimedOut when it does not in time."""
        waiter = asyncio.Event()
        self._waiters.setdefault(key, {})[waiter] = None
        try:
            async with asyncio.timeout(timeout_s):
                while (found := look()) is None:
                    await waiter.wait()
                    waiter.clear()
            return found
        except TimeoutError:
            raise TimedOut(f"{what} did not reach this node within {timeout_s:g} s") from None
        finally:
            del self._waiters[key][waiter]
            if not self._waiters[key]:
                del self._waiters[key]
