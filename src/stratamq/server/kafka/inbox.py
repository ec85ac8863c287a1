"""What comes in on one connection: bytes become frames, and frames requests, within the budget of
all connections. Small requests are read at once, large ones in turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING

from stratamq.broker.kafka.contract import nothing
from stratamq.broker.kafka.turns import in_turns
from stratamq.net.connection import Connection, Hold
from stratamq.server.kafka.ordering import RequestSlot
from stratamq.server.kafka.request_budget import SMALL_BYTES
from stratamq.wire.kafka.protocol import (
    Frame,
    FrameReceiver,
    ProtocolError,
    decode_request,
    decode_request_in_steps,
)
from stratamq.wire.kafka.protocol.errors import FrameTooLarge

if TYPE_CHECKING:
    from stratamq.server.kafka.server import KafkaServer

SIZE_BYTES = 4
"""Before each frame; counted with it."""

PRODUCE = b"\0\0"
"""How a frame of the one API begins whose requests hold records."""

LARGE_BYTES = 4 << 10
"""Requests above this are read in turns, but for Produce: most of it is records, which are not
read here. A request of this size takes less than a millisecond."""


class Inbox:
    """`frames` holds received bytes that are no request yet. A BudgetHolder.

    Bytes are charged when they come, those of a large request when it is admitted. They are given
    back when the session says that a request is done, or when the connection ends. `is_reading`
    while a large request is read; `ready` is called when it was.
    """

    def __init__(
        self,
        connection: Connection,
        server: KafkaServer,
        frame_bytes_max: int,
        context: Context,
        ready: Callable[[], None],
    ) -> None:
        self._connection, self._budget = connection, server.request_budget
        self._served, self._limits = server.served, server.limits
        self._context, self._ready = context, ready
        self.frames = FrameReceiver(server.buffers, frame_bytes_max)
        self._charged = 0
        self._ahead = 0  # charged, and has not come yet
        self._is_admitted = False
        self._is_held = False
        self.is_reading = False
        self._reading: asyncio.Task[None] | None = None
        self._reading_bytes = 0
        self.taken: RequestSlot | None = None
        """A large request that was read, and not taken yet."""

    def limit_frames(self, bytes_max: int) -> None:
        self.frames.frame_bytes_max = bytes_max

    # -- bytes in ----------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        if self._ahead:
            self._count(len(data))
        else:
            self._charged += len(data)
            self._budget.used_bytes += len(data)
        self.frames.feed(data)

    def filled(self, count: int) -> None:
        self._count(count)
        self.frames.filled(count)

    # -- requests out --------------------------------------------------------------------------

    def take(self) -> RequestSlot | None:
        """The next request; None while its bytes are missing or it is being read. ProtocolError:
        what comes are no frames."""
        if (taken := self.taken) is not None:
            self.taken = None
            return taken
        if not self.frames.may_have_frame:
            return None
        frame = self.frames.next_frame()
        if frame is None:
            return None
        if (frame_bytes := len(frame)) > LARGE_BYTES:
            if frame_bytes > SMALL_BYTES:
                self._arrived(frame)
            if frame[:2] != PRODUCE:
                self._begin_reading(frame)
                return None
        elements_max = self._limits.request_elements_max
        try:
            request = decode_request(frame, self._served, exact=False, elements_max=elements_max)
        except ProtocolError as error:
            return _unreadable(frame, error)
        return RequestSlot(request.header.api_key, frame_bytes + SIZE_BYTES, request)

    def _arrived(self, frame: Frame) -> None:
        """A frame over SMALL_BYTES is whole."""
        if not self._is_admitted:  # it came in one piece with others, before it could be asked
            self._budget.let_come(self, len(frame) + SIZE_BYTES)
        self._budget.arrived(self)
        self._is_admitted = False

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
            self.taken = RequestSlot(request.header.api_key, self._reading_bytes, request)
        self.is_reading = False
        self._ready()

    # -- the budget ----------------------------------------------------------------------------

    def unpacked(self, size_bytes: int) -> None:
        """A request takes so much more in memory, now that it was read."""
        self._charged += size_bytes
        self._budget.used_bytes += size_bytes

    def done(self, size_bytes: int, unpacked_bytes: int = 0) -> None:
        """A request of that size was answered or dropped."""
        given = size_bytes + unpacked_bytes
        self._charged -= given
        budget = self._budget
        admitted = size_bytes > SMALL_BYTES + SIZE_BYTES
        if admitted or budget.waiting or budget.waiting_large:
            budget.discharge(given, size_bytes if admitted else 0)
        else:
            budget.used_bytes -= given
        if self._is_held and self._charged <= SMALL_BYTES and self.frames.large is None:
            self._budget.forget(self)
            self.budget_is_back()

    def steer(self) -> None:
        """Stop reading while the budget is used up; called when all whole frames were taken."""
        budget, large = self._budget, self.frames.large
        if self._is_held or self._is_admitted:
            return
        if large is None:
            may = budget.used_bytes <= budget.bytes_max or budget.may_read(self)
        else:
            may = budget.admit(self, large.size + SIZE_BYTES)
        if may:
            if large is not None:
                self._note_admission()
        else:
            self._is_held = True
            self._connection.hold(Hold.MEMORY)

    def close(self, under_way_bytes: int) -> None:
        """Give back all but what the requests under way have."""
        if self.is_reading and self._reading is not None:
            self._reading.cancel()
            self.done(self._reading_bytes)
        elif self.taken is not None:
            self.done(self.taken.size_bytes)
        self._budget.forget(self)
        if self._is_admitted and (large := self.frames.large) is not None:
            self._is_admitted = False
            self.done(large.size + SIZE_BYTES)
        self._reading, self._ready = None, nothing  # the session is freed when nothing refers to it
        self.frames.close()
        rest = self._charged - under_way_bytes
        self._charged -= rest
        self._budget.discharge(rest)

    # -- BudgetHolder --------------------------------------------------------------------------

    @property
    def charged_bytes(self) -> int:
        return self._charged

    @property
    def missing_bytes(self) -> int:
        large = self.frames.large
        return 0 if large is None else large.size - large.filled

    def budget_is_back(self) -> None:
        self._is_held = False
        self._note_admission()
        self._connection.release(Hold.MEMORY)

    def cut_off(self, reason: str) -> None:
        self._connection.close(reason)

    def _note_admission(self) -> None:
        if self.frames.large is not None:
            self._is_admitted = True
            self._ahead = self.missing_bytes
            self._charged += self._ahead

    def _count(self, count: int) -> None:
        """Bytes that were charged ahead are not charged again."""
        ahead = min(count, self._ahead)
        self._ahead -= ahead
        count -= ahead
        self._charged += count
        self._budget.used_bytes += count


def _unreadable(frame: Frame, error: ProtocolError) -> RequestSlot:
    """Without the error's traces: they hold the frame, which may be large, until the garbage
    collector finds them."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    api_key = int.from_bytes(frame[:2], "big", signed=True)
    return RequestSlot(api_key, len(frame) + SIZE_BYTES, error)
