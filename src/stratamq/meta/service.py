"""The Meta Service: validates, applies, persists, and only then publishes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from stratamq.meta.apply import Command, apply
from stratamq.meta.client import Watch
from stratamq.meta.groups import Offsets
from stratamq.meta.limits import MetaLimits, check_limits
from stratamq.meta.state import Event, MetaState, Update
from stratamq.meta.store import MetaStore
from stratamq.model.errors import Closed, StorageError, StrataError

log = logging.getLogger(__name__)

T = TypeVar("T")


class _Request(NamedTuple):
    commands: tuple[Command, ...]
    answer: asyncio.Future[int]


class _Outcome(NamedTuple):
    """What a round of requests leads to. `answers` are revisions and refusals, one per request."""

    state: MetaState
    events: tuple[Event, ...]
    answers: tuple[int | StrataError, ...]


class MetaService:
    """A `MetaClient`. Use it from one event loop.

    Requests are applied in the order they came. Those that wait at the same time share one durable
    write. The state that others see is never ahead of the store. After a failed write the service
    does not guess: it reads its state from the store again before it does anything else.

    `on_durable` is called with each state that has become durable, by the event loop.
    """

    def __init__(
        self,
        store: MetaStore,
        *,
        limits: MetaLimits | None = None,
        on_durable: Callable[[MetaState], None] = lambda state: None,
    ) -> None:
        self._store = store
        self._on_durable = on_durable
        self._limits = limits or MetaLimits()
        self._state = MetaState()
        self._pending: list[_Request] = []
        self._slots = asyncio.Semaphore(self._limits.pending_commands_max)
        self._wake = asyncio.Event()
        self._watches: dict[Watch, None] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stratamq-meta")
        self._writer: asyncio.Task[None] | None = None
        self._closing = False
        self._store_is_doubtful = False

    async def open(self) -> None:
        self._state = await self._in_thread(self._store.open)
        self._writer = asyncio.create_task(self._write_forever(), name="meta-writer")

    async def close(self) -> None:
        """Answer what is queued, then release the store. Afterwards every call raises Closed."""
        if self._closing:
            return
        self._closing = True
        self._wake.set()
        if self._writer is not None:
            await self._writer
        for watch in list(self._watches):
            watch.close()
        await self._in_thread(self._store.close)
        self._thread.shutdown()

    # -- MetaClient ----------------------------------------------------------------------------

    @property
    def state(self) -> MetaState:
        """What is durable now."""
        return self._state

    async def submit(self, *commands: Command) -> int:
        async with self._slots:
            self._check_open()
            answer = asyncio.get_running_loop().create_future()
            self._pending.append(_Request(commands, answer))
            self._wake.set()
            revision: int = await answer
            return revision

    async def snapshot(self) -> MetaState:
        self._check_open()
        return self._state

    async def revision(self) -> int:
        self._check_open()
        return self._state.revision

    def watch(self) -> Watch:
        self._check_open()
        watch = Watch(self._limits.watch_updates_max, self._watches.pop)
        self._watches[watch] = None
        return watch

    async def group_offsets(self, group: str) -> Offsets:
        self._check_open()
        return self._state.groups.get(group, {})

    async def groups(self) -> Collection[str]:
        self._check_open()
        return sorted(self._state.groups)

    # -- the writer: one task, so commands need no lock ----------------------------------------

    async def _write_forever(self) -> None:
        while self._pending or not self._closing:
            await self._wake.wait()
            self._wake.clear()
            requests, self._pending = self._pending, []
            if requests:
                await self._serve(requests)

    async def _serve(self, requests: Sequence[_Request]) -> None:
        try:
            await self._trust_store()
            outcome = await self._in_thread(self._work, requests)
        except Exception as error:  # the writer must outlive every failure
            log.error("meta service: %d requests failed: %r", len(requests), error)
            if not isinstance(error, StrataError):
                error = StorageError(f"meta service: {error!r}")
            _answer(requests, [error] * len(requests))
            return
        self._publish(outcome)
        _answer(requests, outcome.answers)

    def _work(self, requests: Sequence[_Request]) -> _Outcome:
        """Apply and store requests, in the thread: a thousand shards do not hold up the event
        loop."""
        outcome = _outcome(self._state, requests, self._limits)
        if outcome.events:
            try:
                self._store.write(outcome.events, outcome.state.revision)
            except Exception:
                self._store_is_doubtful = True
                raise
        return outcome

    async def _trust_store(self) -> None:
        """Whether a failed write happened is for the store to say, not for us to guess."""
        if not self._store_is_doubtful:
            return
        self._state = await self._in_thread(self._store.open)
        self._store_is_doubtful = False
        for watch in list(self._watches):
            watch.push(Update.gap(self._state.revision))

    def _publish(self, outcome: _Outcome) -> None:
        previous, self._state = self._state.revision, outcome.state
        self._on_durable(outcome.state)
        if outcome.state.revision == previous:
            return
        update = Update(previous, outcome.state.revision, outcome.events)
        for watch in list(self._watches):
            watch.push(update)

    # -- small things --------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closing or self._writer is None:
            raise Closed("the meta service is closed")

    async def _in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, function, *arguments)


def _outcome(state: MetaState, requests: Sequence[_Request], limits: MetaLimits) -> _Outcome:
    """Each request meets the state its predecessor left; a refused one leaves no trace."""
    events: list[Event] = []
    answers: list[int | StrataError] = []
    for request in requests:
        after, caused = state, list[Event]()
        try:
            for command in request.commands:
                check_limits(after, command, limits)
                after, more = apply(after, command)
                caused += more
        except StrataError as refusal:
            answers.append(refusal)
            continue
        state = after
        events += caused
        answers.append(state.revision)
    return _Outcome(state, tuple(events), tuple(answers))


def _answer(requests: Sequence[_Request], answers: Sequence[int | StrataError]) -> None:
    for request, answer in zip(requests, answers, strict=True):
        if request.answer.done():
            continue  # the caller has gone; what it asked for is done all the same
        if isinstance(answer, StrataError):
            request.answer.set_exception(answer)
        else:
            request.answer.set_result(answer)
