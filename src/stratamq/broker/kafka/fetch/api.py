"""The Fetch API: sessions, the first pass over the partitions, and the response.

A request whose partitions all have their newest batches in memory is answered when it comes; one
that finds too little waits (`waiting`), without a task. Only what threads or object storage have to
read takes one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial

from stratamq.broker.kafka.answer_budget import AnswerBudget
from stratamq.broker.kafka.contract import (
    Answered,
    Caller,
    Cancel,
    Family,
    Handled,
    Services,
    nothing,
)
from stratamq.broker.kafka.errors import Refused
from stratamq.broker.kafka.fetch.cold import ColdFetches
from stratamq.broker.kafka.fetch.reading import Asked, FetchPass, refusal
from stratamq.broker.kafka.fetch.sessions import FetchPlan, FetchSessions, changed
from stratamq.broker.kafka.fetch.waiting import WaitingFetch
from stratamq.broker.kafka.turns import in_turns
from stratamq.model.settings.setting import Value
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

BEGUN_MAX = 64
"""Partitions of a request that is looked at as soon as it comes. One with more takes turns."""

ANSWERED_AT_ONCE = 512
"""Partitions of an answer that is put together without a pause."""

FILLED_AT_ONCE = 64
"""Partitions of a larger answer between two looks at the clock."""

TURN_S = 5.0
"""How long a Fetch waits for its turn at the budget for answers, even if its client wants to wait
less. When the time is over, it is answered without records: clients that do not read their answers
hold the budget."""


class Fetch(Family):
    """The family of one API. `stop` ends all waiting, so that no client is kept from leaving."""

    def __init__(self, services: Services, budget: AnswerBudget) -> None:
        self._services, self._partitions = services, services.partitions
        self._budget = budget
        self._cold = ColdFetches(budget)
        self._sessions = FetchSessions(
            services.config.number("kafka.fetch.sessions.max"),
            services.config.number("kafka.fetch.session.partitions.max"),
            services.entropy,
        )
        self.waiting: dict[WaitingFetch, None] = {}
        self._values: Mapping[str, Value] = {}
        self._bytes_max = 0
        self._begun: tuple[FetchRequest, FetchPlan] | None = None
        self._stopping = False

    def handlers(self) -> Mapping[type, Handled]:
        return {FetchRequest: Handled(self.fetch, beginner=self.begin)}

    async def stop(self) -> None:
        self.wake_all()
        await self._cold.stop()

    def wake_all(self) -> None:
        """Answer all that wait, with the records that are there."""
        self._stopping = True
        self._budget.end_turns()
        for waiting in tuple(self.waiting):
            waiting.expire()

    # -- without a task ------------------------------------------------------------------------

    def begin(self, request: FetchRequest, caller: Caller, answered: Answered) -> Cancel | None:
        """None: what was begun is in `_begun`, for `fetch` to go on with."""
        count = 0
        if request.session_id and (session := self._sessions.get(request.session_id)) is not None:
            count = len(session.partitions)
        for topic in request.topics:
            count += len(topic.partitions)
        if caller.version < ZSTD_SINCE or count > BEGUN_MAX:
            return None
        try:
            plan = self._plan(request, caller)
        except Refused as error:
            answered(FetchResponse(error_code=error.code, responses=[]))
            return nothing
        first = self.begin_pass(plan.wanted, request)
        self._begun = request, plan
        for at in range(len(plan.wanted)):
            if not first.look(at):
                return None
        if not first.read_at_once():
            return None
        self._begun = None
        if request.max_wait_ms <= 0 or self.is_enough(first, request):
            answered(self._response(plan, first, caller.version))
            return nothing
        deadline = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
        finish = partial(self._finish, plan, caller.version, answered)
        return WaitingFetch(self, first, request, deadline, finish).cancel

    def _finish(self, plan: FetchPlan, version: int, answered: Answered, last: FetchPass) -> None:
        answered(self._response(plan, last, version))

    # -- with a task ---------------------------------------------------------------------------

    def fetch(self, request: FetchRequest, caller: Caller) -> Awaitable[FetchResponse]:
        """Not a coroutine: fetches of a session are counted in the order in which they came."""
        begun, self._begun = self._begun, None
        if begun is not None and begun[0] is request:
            return self._fetch(request, caller, begun[1])
        try:
            return self._fetch(request, caller, self._plan(request, caller))
        except Refused as error:
            return _refused(error.code)

    async def _fetch(self, request: FetchRequest, caller: Caller, plan: FetchPlan) -> FetchResponse:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max(request.max_wait_ms, 0) / 1000
        last = await self.read_pass(plan.wanted, request, deadline)
        if not self.is_enough(last, request) and loop.time() < deadline:
            done: asyncio.Future[FetchPass] = loop.create_future()
            waiting = WaitingFetch(self, last, request, deadline, partial(self._hold, done))
            try:
                last = await done
            finally:
                waiting.cancel()
                if not done.cancelled():
                    self._budget.give(done.result().found_bytes)
        if len(last.answers) <= ANSWERED_AT_ONCE:
            return self._response(plan, last, caller.version)
        self._budget.take(last.found_bytes)  # what waits for its turn is held meanwhile
        try:
            return await in_turns(self._response_in_steps(plan, last, caller.version))
        finally:
            self._budget.give(last.found_bytes)

    def _hold(self, done: asyncio.Future[FetchPass], last: FetchPass) -> None:
        """What was read counts as used until the task goes on."""
        if not done.done():
            self._budget.take(last.found_bytes)
            done.set_result(last)

    def _plan(self, request: FetchRequest, caller: Caller) -> FetchPlan:
        by_id, now_ms = caller.version >= BY_ID_SINCE, self._services.clock.now_ms()
        return self._sessions.plan(request, caller.principal, by_id, now_ms)

    # -- for those that wait -------------------------------------------------------------------

    def begin_pass(self, asked: Sequence[Asked], request: FetchRequest) -> FetchPass:
        """A pass that may read as much as the budget has."""
        config, budget = self._services.config, self._budget
        if config.values is not self._values:  # limits may be altered while the node runs
            self._values, self._bytes_max = config.values, config.number("kafka.fetch.bytes.max")
        left_bytes = budget.bytes_max - budget.used_bytes
        bytes_max = min(request.max_bytes, self._bytes_max, left_bytes)
        return FetchPass(self._partitions, self._cold, asked, bytes_max, request.isolation_level)

    async def read_pass(
        self, asked: Sequence[Asked], request: FetchRequest, deadline: float
    ) -> FetchPass:
        """A whole pass, with what threads and object storage have to read. What it may read counts
        as used meanwhile; it waits until the budget has so much."""
        limit = min(request.max_bytes, self._services.config.number("kafka.fetch.bytes.max"))
        done = FetchPass(self._partitions, self._cold, asked, limit, request.isolation_level)
        await done.look_all()
        if (wanted_bytes := done.readable_bytes()) <= 0:
            await done.read()
            return done
        ends = max(deadline, asyncio.get_running_loop().time() + TURN_S)
        granted = await self._budget.reserve(wanted_bytes, ends)
        try:
            await done.read(granted if granted < wanted_bytes else limit)
        finally:
            self._budget.give(granted)
        return done

    def is_enough(self, done: FetchPass, request: FetchRequest) -> bool:
        return (
            self._stopping
            or done.failed
            or done.skips
            or done.found_bytes >= request.min_bytes
            or not done.asked
            or (done.found_bytes > 0 and (done.is_full or done.is_cold))
        )

    # -- answering -----------------------------------------------------------------------------

    def _response(self, plan: FetchPlan, done: FetchPass, version: int) -> FetchResponse:
        responses: list[FetchableTopicResponse] = []
        self._fill(responses, plan, done, version, 0, len(done.answers))
        return FetchResponse(session_id=plan.session_id, responses=responses)

    def _response_in_steps(
        self, plan: FetchPlan, done: FetchPass, version: int
    ) -> Steps[FetchResponse]:
        """The same for one of many partitions, a few at a time."""
        responses: list[FetchableTopicResponse] = []
        for begin in range(0, len(done.answers), FILLED_AT_ONCE):
            yield
            self._fill(responses, plan, done, version, begin, begin + FILLED_AT_ONCE)
        return FetchResponse(session_id=plan.session_id, responses=responses)

    def _fill(
        self,
        responses: list[FetchableTopicResponse],
        plan: FetchPlan,
        done: FetchPass,
        version: int,
        begin: int,
        end: int,
    ) -> None:
        """Add the answers of partitions `begin..end - 1`. In a session, those that are no news are
        left out."""
        session = plan.session
        if session is None and plan.session_id:
            session = self._sessions.get(plan.session_id)
        last: tuple[str, bytes] | None = None
        partitions: list[FetchablePartitionResponse] = []
        if responses:  # its partitions may go on
            last = responses[-1].topic, responses[-1].topic_id
            responses[-1].partitions = partitions = [*responses[-1].partitions]
        read, standing = done.offsets_read, done.standing
        for at, (key, _) in enumerate(done.asked[begin:end], begin):
            answer = done.answers[at]
            assert answer is not None, "a pass answers every partition"
            if at in read and answer.records:
                traffic = standing[at].shard.traffic
                traffic.bytes_out += len(answer.records)
                traffic.offsets_out += read[at]
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


async def _refused(code: ErrorCode) -> FetchResponse:
    return FetchResponse(error_code=code, responses=[])


def _for_old_clients(answer: FetchablePartitionResponse) -> FetchablePartitionResponse:
    """They would take zstd for damage: an error says what is wrong."""
    records = answer.records or b""
    codecs = {read_header(records, span.position).compression for span in walk(records)}
    if Compression.ZSTD in codecs:
        return refusal(answer.partition_index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return answer
