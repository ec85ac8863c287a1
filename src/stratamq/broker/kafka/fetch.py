"""Fetch: batches go out as they are stored, as soon as there are enough of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from stratamq.broker.kafka.answer_budget import AnswerBudget
from stratamq.broker.kafka.cold_fetches import Answer, ColdFetches
from stratamq.broker.kafka.contract import Caller, Handled, Services
from stratamq.broker.kafka.fetch_reading import (
    EverythingIsStable,
    PartitionReader,
    Reading,
    Stability,
    Told,
    refusal,
)
from stratamq.broker.kafka.fetch_sessions import FetchSessions, Plan, changed
from stratamq.broker.kafka.topics import Refused
from stratamq.broker.kafka.turns import at_once, in_turns, paced
from stratamq.model.errors import StrataError
from stratamq.wire.kafka.protocol import ErrorCode, Steps
from stratamq.wire.kafka.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
)
from stratamq.wire.kafka.records import Compression, read_header, walk

BY_ID_SINCE = 13
ZSTD_SINCE = 10
GATHER_S = (0.005, 0.5)
"""A fetch that found less than it wants waits at least so long before it reads again, since bytes
come in bursts; and at most so long."""

GATHER_BYTES_PER_S = 20 << 20
"""Between the two, so long that no fetch reads the same records faster than this."""

ANSWERED_AT_ONCE = 512
"""Partitions of an answer that is put together without a pause."""

STARVED_S = 0.05
"""How often to look again while the budget for answers is used up."""


class Fetch:
    """The family of one API. `stop` ends all waiting, so that nobody is kept from leaving."""

    def __init__(
        self, services: Services, budget: AnswerBudget, stability: Stability | None = None
    ) -> None:
        self._services = services
        self._budget = budget
        self._cold = ColdFetches(budget)
        self._reader = PartitionReader(services, stability or EverythingIsStable(), self._cold)
        self._sessions = FetchSessions(
            services.config.number("kafka.fetch.sessions.max"),
            services.config.number("kafka.fetch.session.partitions.max"),
        )
        self._waiting: set[asyncio.Event] = set()
        self._stopping = False

    def handlers(self) -> Mapping[type, Handled]:
        return {FetchRequest: Handled(self.fetch)}

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        self.wake_all()
        await self._cold.stop()

    def wake_all(self) -> None:
        """Answer everybody with what there is."""
        self._stopping = True
        for event in self._waiting:
            event.set()

    async def fetch(self, request: FetchRequest, caller: Caller) -> FetchResponse:
        by_id = caller.version >= BY_ID_SINCE
        try:
            now_ms = self._services.clock.now_ms()
            plan = self._sessions.plan(request, caller.principal, by_id, now_ms)
        except Refused as refusal:
            return FetchResponse(error_code=refusal.code, responses=[])
        reading = await self._read(plan, request)
        steps = self._answered(plan, reading.told, caller.version)
        if len(reading.told) <= ANSWERED_AT_ONCE:
            return at_once(steps)
        self._budget.take(reading.found_bytes)  # what waits for its turn is held meanwhile
        try:
            return await in_turns(steps)
        finally:
            self._budget.give(reading.found_bytes)

    def _answered(self, plan: Plan, told: Sequence[Told], version: int) -> Steps[FetchResponse]:
        """One step for each partition."""
        session = plan.session or self._sessions.get(plan.session_id)
        responses: list[FetchableTopicResponse] = []
        partitions: list[FetchablePartitionResponse] = []
        last: tuple[str, bytes] | None = None
        for key, answer in told:
            yield
            if version < ZSTD_SINCE:
                answer = _for_old_clients(answer)
            news = session is None or changed(session, key, answer)
            if plan.session is not None and not news:
                continue
            if last != key[:2]:
                last, partitions = key[:2], []
                responses.append(
                    FetchableTopicResponse(
                        topic=key.topic, topic_id=key.topic_id, partitions=partitions
                    )
                )
            partitions.append(answer)
        return FetchResponse(session_id=plan.session_id, responses=responses)

    # -- waiting -------------------------------------------------------------------------------

    async def _read(self, plan: Plan, request: FetchRequest) -> Reading:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max(request.max_wait_ms, 0) / 1000
        while True:
            reading = await self._read_once(plan, request)
            left_s = deadline - loop.time()
            if self._is_enough(reading, request) or left_s <= 0 or self._stopping:
                return reading
            reading.told.clear()  # not held while waiting: it is read again
            if reading.is_starved:
                await self._budget.wait(min(STARVED_S, left_s))
                continue
            if reading.found_bytes:
                least_s, most_s = GATHER_S
                pause_s = max(least_s, reading.found_bytes / GATHER_BYTES_PER_S)
                await asyncio.sleep(min(pause_s, most_s, left_s))
            await self._wait(reading, deadline - loop.time())

    async def _read_once(self, plan: Plan, request: FetchRequest) -> Reading:
        bytes_max = self._services.config.number("kafka.fetch.bytes.max")
        wanted_bytes = min(request.max_bytes, bytes_max)
        with self._budget.reserved(wanted_bytes) as granted:
            return await self._reader.read_all(plan.wanted, granted, request.isolation_level)

    def _is_enough(self, reading: Reading, request: FetchRequest) -> bool:
        return (
            reading.failed
            or reading.skips
            or reading.found_bytes >= request.min_bytes
            or not reading.told
            or (reading.found_bytes > 0 and reading.is_full(request.isolation_level))
        )

    async def _wait(self, reading: Reading, timeout_s: float) -> None:
        """Until any partition has moved since it was looked at, or object storage has answered."""
        event = asyncio.Event()
        self._waiting.add(event)
        with contextlib.ExitStack() as watching, contextlib.suppress(TimeoutError, StrataError):
            watching.callback(self._waiting.discard, event)
            for task in reading.under_way:
                watching.callback(_watch(task, event))
            async for seen in paced(reading.waits_for):
                name, number = seen.topic.name, seen.wanted.partition
                watching.callback(await self._services.drivers.subscribe(name, number, event.set))
                if await self._services.drivers.offsets(name, number) != seen.offsets:
                    return
            async with asyncio.timeout(timeout_s):
                await event.wait()


def _watch(task: asyncio.Task[Answer], event: asyncio.Event) -> Callable[[], object]:
    """Set the event when the task is done. What is returned ends it."""

    def wake(_: object) -> None:
        event.set()

    task.add_done_callback(wake)
    return lambda: task.remove_done_callback(wake)


def _for_old_clients(answer: FetchablePartitionResponse) -> FetchablePartitionResponse:
    """They would take zstd for damage: an error says what is wrong."""
    records = answer.records or b""
    codecs = {read_header(records, span.position).compression for span in walk(records)}
    if Compression.ZSTD in codecs:
        return refusal(answer.partition_index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return answer
