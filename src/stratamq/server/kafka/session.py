"""One Kafka connection: frames in, answers out, in order.

Handlers are called in the order in which requests came, each when the `ordering` table lets it
begin; answers leave in the same order. No further request is taken while one waits to begin.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from stratamq.broker.kafka.contract import ANONYMOUS, Caller
from stratamq.broker.kafka.produce_answers import Unanswered
from stratamq.broker.kafka.turns import CLIENT, TURN_S, Client, in_turns, turns
from stratamq.net.connection import Connection, Hold
from stratamq.server.kafka.auth import BEFORE_AUTHENTICATION, SASL_REQUESTS
from stratamq.server.kafka.inbox import SIZE_BYTES, Inbox
from stratamq.server.kafka.ordering import FETCHES, Kind, UnderWay, kind_of
from stratamq.server.kafka.throttle import Stopwatch, Usage, record_bytes
from stratamq.wire.kafka.protocol import (
    Buffer,
    ProtocolError,
    Request,
    RequestHeader,
    Steps,
    UnsupportedVersion,
    decode_request,
    decode_request_in_steps,
    encode_response,
    encode_response_in_steps,
    encode_unsupported_version,
)
from stratamq.wire.kafka.protocol.exceptions import FrameTooLarge
from stratamq.wire.kafka.protocol.headers import API_VERSIONS_KEY

if TYPE_CHECKING:
    from stratamq.server.kafka.server import KafkaServer

logger = logging.getLogger(__name__)

STRANGERS_BYTES_MAX = 512 << 10
"""Largest request of a peer that has not said who it is, as in Kafka."""

PRODUCE = b"\0\0"
"""How a frame of the one API begins whose requests hold records."""

NOTHING: list[Buffer] = []

LARGE_BYTES = 4 << 10
"""Requests above this are read in turns, but for Produce: most of it is records, which are not
read here. A request of this size takes less than a millisecond."""

ELEMENT_BYTES = 384
"""What an element of a list in a request takes in memory, beside its bytes on the wire: about 130
there, and twice that in the answer to it. What an answer says beyond that is counted by itself."""


class Slot:
    """A request's place in the line. `answer` is None until it is known, [] where none is sent.
    `unpacked_bytes` is what its lists take in memory. `lags`: another of its kind could overtake
    it."""

    __slots__ = ("answer", "kind", "lags", "size_bytes", "task", "unpacked_bytes")

    def __init__(self, kind: int, size_bytes: int, unpacked_bytes: int = 0) -> None:
        self.kind, self.size_bytes, self.unpacked_bytes = kind, size_bytes, unpacked_bytes
        self.lags = False
        self.answer: list[Buffer] | None = None
        self.task: asyncio.Task[None] | None = None


class KafkaSession:
    """A net Session. Everything that could grow is counted: requests here, bytes over all."""

    def __init__(self, connection: Connection, server: KafkaServer) -> None:
        self._connection, self._server = connection, server
        self._authenticator = server.security.authenticator(connection.host, connection.principal)
        self._is_stranger = self._authenticator.principal is None
        limit = server.limits.frame_bytes_max
        strangers = min(limit, STRANGERS_BYTES_MAX)
        self._inbox = Inbox(
            connection,
            server.request_budget,
            server.buffers,
            strangers if self._is_stranger else limit,
        )
        self._line: deque[Slot] = deque()
        self._under_way = UnderWay()
        self._next: tuple[Slot, Request] | None = None
        self._reading: tuple[int, asyncio.Task[None]] | None = None
        self._client, self._context = Client(), copy_context()
        self._context.run(CLIENT.set, self._client)
        self._paused = False
        self._lagging = 0
        self._known: Caller | None = None
        self._unsent = 0
        self._muted_until = 0.0
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
            self.cut_off(str(error))
            return
        self._pump()

    def buffer(self) -> memoryview | None:
        return self._inbox.buffer()

    def filled(self, count: int) -> None:
        self._inbox.filled(count)
        self._pump()

    def sent(self) -> None:
        self._server.answer_budget.give(self._unsent)
        self._unsent = 0
        self._flush()
        self._pump()

    def is_busy(self) -> bool:
        return bool(self._line)

    def finish(self) -> None:
        self._finishing = True
        self._connection.hold(Hold.BUSY)
        self._close_when_done()

    def ended(self) -> None:
        under_way = 0
        for slot in self._line:
            if slot.answer is not None:
                self._server.answer_budget.give(_size(slot.answer))
            elif slot.kind & FETCHES and slot.task is not None:
                slot.task.cancel()  # nobody is there to read what it waits for
                self._inbox.done(slot.size_bytes, slot.unpacked_bytes)
            else:
                under_way += slot.size_bytes + slot.unpacked_bytes
        if self._next is not None:
            self._inbox.done(self._next[0].size_bytes, self._next[0].unpacked_bytes)
            self._next = None
        if self._reading is not None:
            size_bytes, task = self._reading
            task.cancel()
            self._inbox.done(size_bytes)
        self._inbox.close(under_way)
        self._server.answer_budget.give(self._unsent)
        self._unsent = 0

    def cut_off(self, reason: str) -> None:
        self._finishing = True
        self._connection.close(reason)

    # -- taking requests -----------------------------------------------------------------------

    def _pump(self) -> None:
        if self._is_stranger and self._authenticator.principal is not None:
            self._is_stranger = False
            self._inbox.limit_frames(self._server.limits.frame_bytes_max)
        self._pumps = True
        began = time.perf_counter()
        while self._may_take():
            if self._next is None and not self._take_frame():
                break
            if (waiting := self._next) is not None:
                if not self._under_way.may_begin(waiting[0].kind):
                    break
                self._next = None
                self._start(*waiting)
            if (used_s := time.perf_counter() - began) >= TURN_S:
                self._pause(used_s)
        self._pumps = False
        self._steer()

    def _pause(self, used_s: float) -> None:
        """Go on when it is this client's turn again."""
        self._paused = True
        turns().use(self._client, used_s)
        turns().ask(self._client, self._go_on)

    def _go_on(self) -> None:
        self._paused = False
        if self._connection.session is not None:
            self._pump()

    def _may_take(self) -> bool:
        if self._finishing or self._connection.is_clogged or self._muted_until:
            return False
        if self._paused or self._reading is not None:
            return False
        if self._authenticator.principal is None:
            return not self._line  # one at a time, until we know who it is
        return len(self._line) < self._server.limits.requests_max

    def _steer(self) -> None:
        """Read on only when what comes could be dealt with."""
        connection = self._connection
        if self._finishing:
            return
        held_back = self._next is not None or not self._may_take()
        if held_back is not self._held_back:
            self._held_back = held_back
            if held_back:
                connection.hold(Hold.BUSY)
            else:
                connection.release(Hold.BUSY)
        self._inbox.steer()

    def _take_frame(self) -> bool:
        """Make the next frame the request that waits to begin. False: there is none, or it is read
        in turns."""
        try:
            frame = self._inbox.next_frame()
        except ProtocolError as error:
            self.cut_off(str(error))
            return False
        if frame is None:
            return False
        served, limits = self._server.served, self._server.limits
        elements_max = limits.request_elements_max
        if len(frame) > LARGE_BYTES and frame[:2] != PRODUCE:
            steps = decode_request_in_steps(frame, served, exact=False, elements_max=elements_max)
            reading = self._read_in_turns(len(frame), steps)
            task = self._loop.create_task(reading, context=self._context)
            self._reading = len(frame) + SIZE_BYTES, task
            return False
        try:
            request = decode_request(frame, served, exact=False, elements_max=elements_max)
        except ProtocolError as error:
            self._taken(len(frame), error)
        else:
            self._taken(len(frame), request)
        return True

    async def _read_in_turns(self, frame_bytes: int, steps: Steps[Request]) -> None:
        request: Request | ProtocolError
        try:
            if frame_bytes > self._server.limits.other_frame_bytes_max:
                raise FrameTooLarge(f"a request of {frame_bytes} bytes that is no Produce")
            request = await in_turns(steps)
        except ProtocolError as error:
            request = error
        self._reading = None
        self._taken(frame_bytes, request)
        self._pump()

    def _taken(self, frame_bytes: int, request: Request | ProtocolError) -> None:
        """Make it the request that waits to begin."""
        size_bytes = frame_bytes + SIZE_BYTES
        if isinstance(request, Request):
            unpacked_bytes = request.elements * ELEMENT_BYTES
            self._inbox.unpacked(unpacked_bytes)
            kind = kind_of(request.header, request.body)
            self._next = Slot(kind, size_bytes, unpacked_bytes), request
        elif isinstance(request, UnsupportedVersion) and request.api_key == API_VERSIONS_KEY:
            slot = self._in_line(Slot(Kind.READ, size_bytes))
            self._settle(slot, encode_unsupported_version(request, self._server.served))
        else:
            self._refuse(request, size_bytes)

    def _refuse(self, error: ProtocolError, size_bytes: int) -> None:
        """As Kafka does: there is no answer to what cannot be read."""
        self._inbox.done(size_bytes)
        self.cut_off(str(error))

    def _in_line(self, slot: Slot) -> Slot:
        self._line.append(slot)
        self._under_way.began(slot.kind)
        return slot

    def _start(self, slot: Slot, request: Request) -> None:
        header, body, _ = request
        handle = self._handler(type(body))
        if handle is None:
            self._inbox.done(slot.size_bytes, slot.unpacked_bytes)
            self.cut_off(f"API key {header.api_key} before authentication")
            return
        caller = self._caller(header)
        self._in_line(slot)
        if not self._begin(slot, header, caller, body):
            work = self._serve(slot, header, caller, handle(body, caller))
            slot.task = self._loop.create_task(work, context=self._context)

    def _begin(self, slot: Slot, header: RequestHeader, caller: Caller, body: object) -> bool:
        """Requests that need no task begin at once. They must not overtake those that had one: a
        producer's batches stay in order."""
        begin = self._server.broker.beginner(type(body))
        if begin is None:
            return False
        quotas = self._server.quotas
        if not self._lagging and (quotas.idle or not quotas.times):
            try:
                if begin(body, caller, partial(self._answered, slot, header, caller)):
                    return True
            except Exception:
                self._failed(header)
                self._settle(slot, NOTHING)
                return True
        slot.lags = True
        self._lagging += 1
        return False

    def _handler(self, body: type) -> Callable[[Any, Caller], Awaitable[Any]] | None:
        if body in SASL_REQUESTS:
            return self._authenticator.answer
        if self._authenticator.principal is None and body not in BEFORE_AUTHENTICATION:
            return None
        return self._server.broker.handler(body)

    def _caller(self, header: RequestHeader) -> Caller:
        """Mostly the same as before."""
        _, version, _, client_id = header
        principal, known = self._authenticator.principal or ANONYMOUS, self._known
        if (
            known is None
            or known.version != version
            or known.client_id != (client_id or "")
            or known.principal != principal
        ):
            self._known = known = Caller(
                version=version,
                client_id=client_id or "",
                principal=principal,
                host=self._connection.host,
                connection=self._connection.number,
            )
        return known

    # -- answering -----------------------------------------------------------------------------

    async def _serve(
        self, slot: Slot, header: RequestHeader, caller: Caller, work: Awaitable[Any]
    ) -> None:
        watch = Stopwatch(work) if self._server.quotas.times else None
        answer = NOTHING
        try:
            response = await (watch or work)
            self._throttle(header, caller, slot, response, watch.busy_s if watch else 0.0)
            if response is not None:
                answer = await in_turns(encode_response_in_steps(header, response))
        except Unanswered as error:
            self.cut_off(str(error))
        except Exception:
            self._failed(header)
        self._settle(slot, answer)

    def _answered(self, slot: Slot, header: RequestHeader, caller: Caller, response: Any) -> None:
        """The same for a request that was begun without a task."""
        answer = NOTHING
        try:
            self._throttle(header, caller, slot, response, 0.0)
            if response is not None:
                answer = encode_response(header, response)
        except Exception:
            self._failed(header)
        self._settle(slot, answer)

    def _failed(self, header: RequestHeader) -> None:
        logger.exception("API key %d, version %d", header.api_key, header.api_version)
        self.cut_off("our own failure")

    def _throttle(
        self, header: RequestHeader, caller: Caller, slot: Slot, response: Any, busy_s: float
    ) -> None:
        """The longer of what the handler and what the quotas ask for."""
        asked_ms: int = getattr(response, "throttle_time_ms", 0)
        if not asked_ms and self._server.quotas.idle:
            return
        usage = Usage(header.api_key, slot.size_bytes, record_bytes(response), busy_s * 1000)
        quiet_ms = self._server.quotas.charge(caller, usage)
        if quiet_ms > asked_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = quiet_ms
        if (quiet_ms := max(quiet_ms, asked_ms)) > 0:
            self._mute(quiet_ms / 1000)

    def _mute(self, quiet_s: float) -> None:
        until = self._loop.time() + quiet_s
        if until > self._muted_until:
            self._muted_until = until
            self._connection.hold(Hold.MUTED)
            self._loop.call_at(until, self._unmute, until)

    def _unmute(self, until: float) -> None:
        if self._muted_until == until:
            self._muted_until = 0.0
            self._connection.release(Hold.MUTED)
            self._pump()

    def _settle(self, slot: Slot, answer: list[Buffer]) -> None:
        slot.answer = answer
        self._lagging -= slot.lags
        self._under_way.answered(slot.kind)
        self._inbox.done(slot.size_bytes, slot.unpacked_bytes)
        if self._connection.session is None:
            return
        self._server.answer_budget.take(_size(answer))
        if (slot is self._line[0] or self._next is not None) and not self._flushes:
            if len(self._line) == 1 and not self._pumps:  # nobody to wait for
                self._flush_and_pump()
            else:
                self._flushes = True
                self._loop.call_soon(self._flush_and_pump)

    def _flush_and_pump(self) -> None:
        """Once for all answers that are ready by now: each write costs a system call."""
        self._flushes = False
        if self._connection.session is not None:
            self._flush()
            if self._held_back:
                self._pump()

    def _flush(self) -> None:
        """Send what is ready, from the front of the line, while the peer takes it."""
        line, ready = self._line, []
        while line and (answer := line[0].answer) is not None:
            line.popleft()
            ready += answer
        if ready:
            self._unsent += _size(ready)
            self._connection.write(ready)
        if not self._connection.is_clogged:
            self._server.answer_budget.give(self._unsent)
            self._unsent = 0
        self._close_when_done()

    def _close_when_done(self) -> None:
        if self._authenticator.failed and not self._line:
            self.cut_off("authentication failed")
        elif self._finishing and not self._line:
            self._connection.close()


def _size(buffers: list[Buffer]) -> int:
    return sum(map(len, buffers))
