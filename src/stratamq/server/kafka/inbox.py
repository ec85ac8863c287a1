"""The frames of one connection, received within the budget of all connections."""

from __future__ import annotations

from stratamq.net.connection import Connection, Hold
from stratamq.server.kafka.request_budget import SMALL_BYTES, RequestBudget
from stratamq.wire.kafka.protocol import Frame, FrameReceiver, ReceiveBuffers

SIZE_BYTES = 4
"""Before each frame; counted with it."""


class Inbox:
    """`frames` holds what came and no request was made of yet. A Holder of the budget.

    Bytes are charged when they come, those of a large request when it is admitted. They are given
    back when the session says that a request is done, or when the connection ends.
    """

    def __init__(
        self,
        connection: Connection,
        budget: RequestBudget,
        buffers: ReceiveBuffers,
        frame_bytes_max: int,
    ) -> None:
        self._connection, self._budget = connection, budget
        self.frames = FrameReceiver(buffers, frame_bytes_max)
        self._charged = 0
        self._ahead = 0  # charged, and has not come yet
        self._is_admitted = False
        self._is_held = False

    def limit_frames(self, bytes_max: int) -> None:
        self.frames.frame_bytes_max = bytes_max

    # -- bytes in, frames out ------------------------------------------------------------------

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

    def arrived(self, frame: Frame) -> None:
        """To be called with each frame of `frames` that is over SMALL_BYTES."""
        if not self._is_admitted:  # it came in one piece with others, before it could be asked
            self._budget.let_come(self, len(frame) + SIZE_BYTES)
        self._budget.arrived(self)
        self._is_admitted = False

    def unpacked(self, size_bytes: int) -> None:
        """A request takes so much more in memory, now that it was read."""
        self._charged += size_bytes
        self._budget.used_bytes += size_bytes

    def done(self, size_bytes: int, unpacked_bytes: int = 0) -> None:
        """A request of that size was answered or dropped."""
        given = size_bytes + unpacked_bytes
        self._charged -= given
        admitted = size_bytes > SMALL_BYTES + SIZE_BYTES
        self._budget.discharge(given, size_bytes if admitted else 0)
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
        self._budget.forget(self)
        if self._is_admitted and (large := self.frames.large) is not None:
            self._is_admitted = False
            self.done(large.size + SIZE_BYTES)
        self.frames.close()
        rest = self._charged - under_way_bytes
        self._charged -= rest
        self._budget.discharge(rest)

    # -- Holder --------------------------------------------------------------------------------

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
