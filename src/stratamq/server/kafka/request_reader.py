"""Frames of one connection become requests: small ones at once, large ones in turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, NamedTuple

from stratamq.broker.kafka.turns import in_turns
from stratamq.server.kafka.inbox import SIZE_BYTES, Inbox
from stratamq.server.kafka.request_budget import SMALL_BYTES
from stratamq.wire.kafka.protocol import (
    Frame,
    ProtocolError,
    Request,
    decode_request,
    decode_request_in_steps,
)
from stratamq.wire.kafka.protocol.errors import FrameTooLarge

if TYPE_CHECKING:
    from stratamq.server.kafka.server import KafkaServer

PRODUCE = b"\0\0"
"""How a frame of the one API begins whose requests hold records."""

LARGE_BYTES = 4 << 10
"""Requests above this are read in turns, but for Produce: most of it is records, which are not
read here. A request of this size takes less than a millisecond."""


class Taken(NamedTuple):
    """A frame that was read, or why it could not be. `size_bytes` is what the inbox counts."""

    api_key: int
    size_bytes: int
    request: Request | ProtocolError


class RequestReader:
    """`is_reading` while a large request is read; `ready` is called when it was."""

    def __init__(
        self, server: KafkaServer, inbox: Inbox, context: Context, ready: Callable[[], None]
    ) -> None:
        self._inbox = inbox
        self._context, self._ready = context, ready
        self._frames = inbox.frames
        self._served, self._limits = server.served, server.limits
        self.is_reading = False
        self._reading: asyncio.Task[None] | None = None
        self._reading_bytes = 0
        self.taken: Taken | None = None
        """A large request that was read, and not taken yet."""

    def take(self) -> Taken | None:
        """The next request; None while its bytes are missing or it is being read. ProtocolError:
        what comes are no frames."""
        if (taken := self.taken) is not None:
            self.taken = None
            return taken
        if not self._frames.may_have_frame:
            return None
        frame = self._frames.next_frame()
        if frame is None:
            return None
        if (frame_bytes := len(frame)) > LARGE_BYTES:
            if frame_bytes > SMALL_BYTES:
                self._inbox.arrived(frame)
            if frame[:2] != PRODUCE:
                self._begin_reading(frame)
                return None
        elements_max = self._limits.request_elements_max
        try:
            request = decode_request(frame, self._served, exact=False, elements_max=elements_max)
        except ProtocolError as error:
            return _unreadable(frame, error)
        return Taken(request.header.api_key, frame_bytes + SIZE_BYTES, request)

    def close(self) -> None:
        if self.is_reading and self._reading is not None:
            self._reading.cancel()
            self._inbox.done(self._reading_bytes)
        elif self.taken is not None:
            self._inbox.done(self.taken.size_bytes)

    def _begin_reading(self, frame: Frame) -> None:
        reading = self._read_in_turns(frame)
        self._reading = asyncio.get_running_loop().create_task(reading, context=self._context)
        self._reading_bytes = len(frame) + SIZE_BYTES
        self.is_reading = True

    async def _read_in_turns(self, frame: Frame) -> None:
        limits = self._limits
        try:
            if len(frame) > limits.other_frame_bytes_max:
                raise FrameTooLarge(f"a request of {len(frame)} bytes that is no Produce")
            steps = decode_request_in_steps(
                frame, self._served, exact=False, elements_max=limits.request_elements_max
            )
            request = await in_turns(steps)
        except ProtocolError as error:
            self.taken = _unreadable(frame, error)
        else:
            self.taken = Taken(request.header.api_key, self._reading_bytes, request)
        self.is_reading = False
        self._ready()


def _unreadable(frame: Frame, error: ProtocolError) -> Taken:
    """Without the error's traces: they hold the frame, which may be large, until the garbage
    collector finds them."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    api_key = int.from_bytes(frame[:2], "big", signed=True)
    return Taken(api_key, len(frame) + SIZE_BYTES, error)
