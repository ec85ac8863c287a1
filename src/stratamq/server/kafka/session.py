"""One Kafka connection: frames in, answers out, in order.

Handlers are called in the order in which requests came, each when the `ordering` table lets it
begin; answers leave in the same order. No further request is taken while one waits to begin.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

from stratamq.broker.kafka.contract import ANONYMOUS, Beginner, Caller
from stratamq.broker.kafka.produce.answers import Unanswered
from stratamq.broker.kafka.quotas.manager import RequestCost
from stratamq.broker.kafka.turns import CLIENT, TURN_S, ClientShare, in_turns, turns
from stratamq.model.counters import SECONDS
from stratamq.net.connection import Connection, Hold
from stratamq.server.kafka.auth import BEFORE_AUTHENTICATION, SASL_REQUESTS
from stratamq.server.kafka.inbox import Inbox
from stratamq.server.kafka.ordering import (
    FETCHES,
    NOTHING,
    WAITS_FOR,
    Answers,
    RequestKind,
    RequestSlot,
    UnderWay,
    kind_of,
)
from stratamq.server.kafka.throttle import Mute, Stopwatch, record_bytes, throttle
from stratamq.server.kafka.watch import SERVED, SERVING, about
from stratamq.wire.kafka.protocol import (
    APIS,
    Buffer,
    ErrorCode,
    ProtocolError,
    Request,
    RequestHeader,
    UnsupportedVersion,
    encode_response,
    encode_response_in_steps,
    encode_unsupported_version,
)
from stratamq.wire.kafka.protocol.errors import ERROR_CODES, AnotherProtocol, UnknownApi
from stratamq.wire.kafka.protocol.exchange import API_VERSIONS_KEY

if TYPE_CHECKING:
    from stratamq.server.kafka.server import KafkaServer

UNAUTHENTICATED_BYTES_MAX = 512 << 10
"""Largest request of a client that is not authenticated yet, as in Kafka."""

UNKNOWN_KEY = -1

ELEMENT_BYTES = 384
"""What an element of a list in a request takes in memory, beside its bytes on the wire: about 130
there, and twice that in the answer to it. What an answer says beyond that is counted by itself."""

HOLDS_DATA = RequestKind.APPEND | FETCHES

FEW_ELEMENTS = 8
"""So many are not counted: they are no more than what each request takes anyway."""


class KafkaSession:
    """A net Session. Everything that could grow is counted: requests here, bytes over all."""

    def __init__(self, connection: Connection, server: KafkaServer) -> None:
        self._connection, self._server = connection, server
        self._authenticator = server.security.authenticator(connection.host, connection.principal)
        self._is_unauthenticated = self._authenticator.principal is None
        limit = server.limits.frame_bytes_max
        unauthenticated = min(limit, UNAUTHENTICATED_BYTES_MAX)
        self._client, self._context = ClientShare(), copy_context()
        self._context.run(CLIENT.set, self._client)
        frame_bytes_max = unauthenticated if self._is_unauthenticated else limit
        self._inbox = Inbox(connection, server, frame_bytes_max, self._context, self._pump)
        self._frames = self._inbox.frames
        self.buffer = self._frames.buffer
        self._answers = Answers(connection, server.answer_budget)
        self._line = self._answers.line
        self._under_way = UnderWay()
        self._next: RequestSlot | None = None
        self._paused = False
        self._lagging = 0
        self._known_by: tuple[int, str | None, str | None] | None = None
        self._caller: Caller
        self._mute = Mute(connection, self._pump)
        self._finishing = False
        self._flushes = False
        self._held_back = False
        self._pumps = False
        self._loop = asyncio.get_running_loop()

    # -- what the connection calls -------------------------------------------------------------

    def received(self, data: bytes) -> None:
        try:
            self._inbox.received(data)
        except ProtocolError as error:
            self._refuse(UNKNOWN_KEY, ErrorCode.INVALID_REQUEST, str(error))
            return
        self._pump()

    def filled(self, count: int) -> None:
        self._inbox.filled(count)
        self._pump()

    def sent(self) -> None:
        self._answers.sent()
        self._flush()
        self._pump()

    def is_busy(self) -> bool:
        return bool(self._line) or self._inbox.is_reading

    def finish(self) -> None:
        self._finishing = True
        self._connection.hold(Hold.BUSY)
        self._close_when_done()

    def ended(self) -> None:
        under_way = 0
        for slot in self._answers.close():
            if slot.kind & FETCHES and slot.cancel is not None:
                slot.cancel()  # its client is gone
                slot.cancel = None  # a cancelled task holds its frames, and they hold the slot
                self._inbox.done(slot.size_bytes, slot.unpacked_bytes)
            else:
                under_way += slot.size_bytes + slot.unpacked_bytes
        if self._next is not None:
            self._inbox.done(self._next.size_bytes, self._next.unpacked_bytes)
            self._next = None
        self._inbox.close(under_way)
        self._mute.close()

    def cut_off(self, reason: str) -> None:
        self._finishing = True
        self._connection.close(reason)

    # -- taking requests -----------------------------------------------------------------------

    def _pump(self) -> None:
        if self._is_unauthenticated and self._authenticator.principal is not None:
            self._is_unauthenticated = False
            self._inbox.limit_frames(self._server.limits.frame_bytes_max)
        self._pumps = True
        began = time.perf_counter()
        held_back = self._take_all(began)
        while self._flushes:  # one write for all that were answered at once
            self._flush()
            if held_back:
                held_back = self._take_all(began)
        self._pumps = False
        if self._finishing:
            return
        if held_back is not self._held_back:
            self._held_back = held_back
            if held_back:
                self._connection.hold(Hold.BUSY)
            else:
                self._connection.release(Hold.BUSY)
        self._inbox.steer()

    def _take_all(self, began: float) -> bool:
        """Begin what has come and may begin. Whether something, or whatever comes next, has to
        wait."""
        frames, inbox, connection, line = self._frames, self._inbox, self._connection, self._line
        while True:
            if self._finishing or self._paused or connection.is_clogged or self._mute.is_on:
                return True
            requests_max = self._server.limits.requests_max
            if self._authenticator.principal is None:
                requests_max = 1  # one at a time, until we know who it is
            if inbox.is_reading or len(line) >= requests_max:
                return True
            if self._next is None:
                if not (frames.may_have_frame or inbox.taken):
                    return False
                if not self._take():
                    return inbox.is_reading
            if (waiting := self._next) is not None:
                if self._under_way.kinds & WAITS_FOR[waiting.kind]:
                    return True
                self._next = None
                self._start(waiting)
            if (used_s := time.perf_counter() - began) >= TURN_S:
                self._pause(used_s)

    def _pause(self, used_s: float) -> None:
        """Go on when it is this client's turn again."""
        self._paused = True
        turns().use(self._client, used_s)
        turns().ask(self._client, self._go_on)

    def _go_on(self) -> None:
        self._paused = False
        if self._connection.session is not None:
            self._pump()

    def _take(self) -> bool:
        """Make the next request the one that waits to begin. False: there is none yet."""
        try:
            slot = self._inbox.take()
        except ProtocolError as error:
            if isinstance(error, AnotherProtocol):
                self._server.refusals.another_protocol(str(error), self._connection.host)
            self._refuse(UNKNOWN_KEY, ErrorCode.INVALID_REQUEST, str(error))
            return False
        if slot is None:
            return False
        request = slot.request
        if not isinstance(request, Request):
            assert request is not None, "it was read just now"
            self._unreadable(slot, request)
            return True
        if request.elements > FEW_ELEMENTS:
            slot.unpacked_bytes = request.elements * ELEMENT_BYTES
            self._inbox.unpacked(slot.unpacked_bytes)
            slot.kind = kind_of(request)
        elif slot.kind == RequestKind.FETCH:
            slot.kind = kind_of(request)
        self._next = slot
        return True

    def _unreadable(self, slot: RequestSlot, error: ProtocolError) -> None:
        """As Kafka does: only an ApiVersions request from the future is answered."""
        api_key = slot.api_key
        unsupported = isinstance(error, UnsupportedVersion | UnknownApi)
        code = ErrorCode.UNSUPPORTED_VERSION if unsupported else ErrorCode.INVALID_REQUEST
        if isinstance(error, UnsupportedVersion) and api_key == API_VERSIONS_KEY:
            self._server.refusals.count(api_key, [code], host=self._connection.host)
            self._line.append(slot)
            self._under_way.began(slot.kind)
            self._settle(slot, encode_unsupported_version(error, self._server.served))
        else:
            self._inbox.done(slot.size_bytes)
            self._refuse(api_key, code, str(error))

    def _refuse(self, api_key: int, code: ErrorCode, reason: str) -> None:
        """There is no answer: the connection is closed."""
        connection = self._connection
        self._server.refusals.count(
            api_key, [code], reason=reason, host=connection.host, connection=connection.number
        )
        self.cut_off(reason)

    def _start(self, slot: RequestSlot) -> None:
        request = slot.request
        assert isinstance(request, Request), "others are not begun"
        slot.request = None  # its answer may wait in line for long, and need not hold its bytes
        header = request.header
        body: Any = request.body
        body_type = type(body)
        begin = None if self._is_unauthenticated else self._server.broker.beginners.get(body_type)
        handle = self._handler(body_type) if begin is None else None
        if begin is None and handle is None:
            self._inbox.done(slot.size_bytes, slot.unpacked_bytes)
            reason = f"{APIS[header.api_key].name} without a login, or after its session ended"
            if self._server.security.served:  # otherwise only its certificate could be wrong
                self._server.logins.failed(self._connection.host, "none", reason)
            self._refuse(header.api_key, ErrorCode.ILLEGAL_SASL_STATE, reason)
            return
        known_by = header.api_version, header.client_id, self._authenticator.principal
        if known_by != self._known_by:  # mostly it is the same as before
            self._known_by, self._caller = known_by, self._caller_of(header)
        slot.header, slot.caller = header, self._caller
        slot.began_at = time.perf_counter()
        if slot.kind & FETCHES:
            slot.wait_s = body.max_wait_ms / 1000
        self._line.append(slot)
        self._under_way.began(slot.kind)
        outer, SERVING.slot = SERVING.slot, slot
        try:
            if begin is not None:
                if self._begin(begin, slot, body):
                    return
                handle = self._handler(body_type)
            assert handle is not None, "what can begin has a handler too"
            # Requests of data are not kept until they are answered: their answers say enough.
            kept = None if slot.kind & HOLDS_DATA else body
            work = self._serve(slot, kept, handle(body, slot.caller))
        finally:
            SERVING.slot = outer
        context = self._context.copy()
        context.run(SERVED.set, ref(slot))
        slot.cancel = self._loop.create_task(work, context=context).cancel

    def _begin(self, begin: Beginner, slot: RequestSlot, body: Any) -> bool:
        """Requests that need no task begin at once. They must not overtake those that had one: a
        producer's batches stay in order."""
        produces = not slot.kind & FETCHES
        if not (produces and self._lagging):
            try:
                answered = partial(self._answered, slot, self._server.quotas.idle)
                slot.cancel = begin(body, slot.caller, answered)
                if slot.cancel is not None:
                    slot.busy_s = time.perf_counter() - slot.began_at
                    return True
            except Exception:
                self._failed(slot)
                self._settle(slot, NOTHING)
                return True
        slot.lags = produces
        self._lagging += produces
        return False

    def _handler(self, body: type) -> Callable[[Any, Caller], Awaitable[Any]] | None:
        if body in SASL_REQUESTS:
            return self._authenticator.answer
        if self._authenticator.principal is None and body not in BEFORE_AUTHENTICATION:
            return None
        return self._server.broker.handler(body)

    def _caller_of(self, header: RequestHeader) -> Caller:
        return Caller(
            version=header.api_version,
            client_id=header.client_id or "",
            principal=self._authenticator.principal or ANONYMOUS,
            host=self._connection.host,
            connection=self._connection.number,
        )

    # -- answering -----------------------------------------------------------------------------

    async def _serve(self, slot: RequestSlot, body: Any, work: Awaitable[Any]) -> None:
        quotas, audit = self._server.quotas, self._server.audit
        watch = Stopwatch(work) if quotas.times else None
        answer, held_bytes = NOTHING, 0
        try:
            response = await (watch or work)
            codes = () if response is None else ERROR_CODES[type(response)](response)
            if codes:
                self._server.refusals.count(slot.api_key, codes, **about(slot))
            if audit is not None:
                audit.served(slot, body, response, codes)
            if not quotas.idle or getattr(response, "throttle_time_ms", False):
                self._throttle(slot, response, watch.busy_s if watch else 0.0)
            if response is not None:
                held_bytes = record_bytes(response)  # which others could ask for meanwhile
                self._server.answer_budget.take(held_bytes)
                answer = await in_turns(encode_response_in_steps(slot.header, response))
        except Unanswered as error:
            self._server.refusals.count(slot.api_key, [error.code], **about(slot))
            self.cut_off(str(error))
        except Exception:
            self._failed(slot)
            if audit is not None:
                audit.failed(slot)
        finally:
            self._server.answer_budget.give(held_bytes)
        self._settle(slot, answer)

    def _answered(self, slot: RequestSlot, idle: bool, response: Any) -> None:
        """The same for a request that was begun without a task; `idle`: no client had a quota. What
        is done for it later, when it has waited, is little and not counted as its time."""
        answer = NOTHING
        try:
            if response is not None and (codes := ERROR_CODES[type(response)](response)):
                self._server.refusals.count(slot.api_key, codes, **about(slot))
            if not idle or getattr(response, "throttle_time_ms", False):
                busy_s = slot.busy_s or time.perf_counter() - slot.began_at
                self._throttle(slot, response, busy_s)
            if response is not None:
                answer = encode_response(slot.header, response)
        except Exception:
            self._failed(slot)
        self._settle(slot, answer)

    def _throttle(self, slot: RequestSlot, response: Any, busy_s: float) -> None:
        sizes = slot.size_bytes, record_bytes(response)
        cost = RequestCost(slot.api_key, *sizes, busy_s * 1000)
        self._mute.start(throttle(self._server.quotas, slot.caller, cost, response))

    def _failed(self, slot: RequestSlot) -> None:
        self._server.refusals.failed(slot.api_key, **about(slot))
        self.cut_off("our own failure")

    def _settle(self, slot: RequestSlot, answer: list[Buffer]) -> None:
        self._lagging -= slot.lags
        server = self._server
        took_s = time.perf_counter() - slot.read_at
        durations = server.durations[slot.api_key]
        durations.total_s += took_s
        durations.counts[bisect_left(SECONDS, took_s)] += 1
        if took_s >= server.watch.least_s:
            server.watch.look(slot, took_s)
        self._under_way.answered(slot.kind)
        self._inbox.done(slot.size_bytes, slot.unpacked_bytes)
        if self._connection.session is None:
            return
        alone = len(self._line) == 1  # no other answer to share a write with
        can_leave = self._answers.put(slot, answer, at_once=alone or self._pumps)
        if self._flushes or not (can_leave or self._next is not None):
            return
        if alone and not self._pumps:
            self._flush()
            if self._held_back:
                self._pump()
        else:
            self._flushes = True
            if not self._pumps:
                self._loop.call_soon(self._flush_and_pump)

    def _flush_and_pump(self) -> None:
        """Once for all answers that are ready by now: each write costs a system call."""
        if self._connection.session is not None:
            self._flush()
            if self._held_back:
                self._pump()

    def _flush(self) -> None:
        self._flushes = False
        self._answers.send()
        if self._finishing or self._authenticator.failed:
            self._close_when_done()

    def _close_when_done(self) -> None:
        if self._authenticator.failed and not self._line:
            self.cut_off("authentication failed")
        elif self._finishing and not self._line:
            self._connection.close()
