"""Frames as they come from a socket, the large ones straight into rooms of their own.

Bytes of a small frame are copied two or three times on their way, which costs less than to think
about it. A Produce request of a megabyte should be copied once, by the kernel, into memory that was
used before: new memory costs as much as the copy.

A size is a claim, and claims take no memory. There is a fixed number of rooms that are used again;
who gets none, or claims more, has a room that grows with what has arrived.
"""

from __future__ import annotations

from stratamq.wire.kafka.protocol.frames import FRAME_BYTES_MAX, FrameSplitter
from stratamq.wire.kafka.protocol.schema import Buffer

Frame = bytes | memoryview
"""Small ones are bytes. A view may be kept as long as anybody likes: its room is not used again
before."""

LARGE_BYTES = 64 << 10
ROOM_BYTES = (1 << 20) + LARGE_BYTES
"""The largest batch that is taken by default, and what is around it."""

ROOMS_MAX = 16
GROWTH = 2


class Rooms:
    """Memory for large frames, shared by all connections of an event loop."""

    def __init__(self) -> None:
        self._rooms: list[bytearray] = []
        self._lent: set[int] = set()

    def lend(self) -> bytearray | None:
        """A room that nobody uses or looks at."""
        for room in self._rooms:
            if id(room) not in self._lent and _is_unseen(room):
                self._lent.add(id(room))
                return room
        if len(self._rooms) == ROOMS_MAX:
            return None
        room = bytearray(ROOM_BYTES)
        self._rooms.append(room)
        self._lent.add(id(room))
        return room

    def give_back(self, room: bytearray) -> None:
        """Nothing more comes into it. Views of it may still be in use."""
        self._lent.discard(id(room))


def _is_unseen(room: bytearray) -> bool:
    """Whether there is no view of it: only then can its size be changed."""
    try:
        room.append(0)
    except BufferError:
        return False
    room.pop()
    return True


class LargeFrame:
    """One frame in the making: `room` has the place for the next bytes."""

    __slots__ = ("_lent", "_memory", "_rooms", "filled", "size")

    def __init__(self, rooms: Rooms, size: int, begin: Buffer) -> None:
        self.size, self.filled = size, len(begin)
        self._rooms = rooms
        lent = rooms.lend() if size <= ROOM_BYTES else None
        self._lent = lent
        self._memory = bytearray(self._step()) if lent is None else lent
        self._memory[: len(begin)] = begin

    def _step(self) -> int:
        return min(self.size, max(LARGE_BYTES, self.filled * GROWTH))

    def room(self) -> memoryview:
        if self.filled == len(self._memory):
            grown = bytearray(self._step())
            grown[: self.filled] = self._memory
            self._memory = grown
        return memoryview(self._memory)[self.filled : self.size]

    def frame(self) -> memoryview:
        """The whole frame, once it is whole."""
        view = memoryview(self._memory)[: self.size]
        self.let_go()
        return view

    def let_go(self) -> None:
        if self._lent is not None:
            self._rooms.give_back(self._lent)
            self._lent = None


class FrameReceiver:
    """A FrameSplitter with rooms: bytes in by `feed`, or into `room` and then `filled`."""

    def __init__(self, rooms: Rooms, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._rooms = rooms
        self._splitter = FrameSplitter(frame_bytes_max)
        self._large: LargeFrame | None = None

    @property
    def frame_bytes_max(self) -> int:
        return self._splitter.frame_bytes_max

    @frame_bytes_max.setter
    def frame_bytes_max(self, limit: int) -> None:
        self._splitter.frame_bytes_max = limit

    @property
    def held_bytes(self) -> int:
        """Bytes that no frame has carried out yet."""
        return self._splitter.held_bytes + (0 if self._large is None else self._large.filled)

    def room(self) -> memoryview | None:
        """Where the next bytes belong, if they are of a large frame."""
        large = self._large
        return None if large is None or large.filled == large.size else large.room()

    def filled(self, count: int) -> None:
        assert self._large is not None, "nothing is filled but rooms"
        self._large.filled += count

    def feed(self, data: bytes) -> None:
        if self._large is None:
            self._splitter.feed(data)
            return
        while data and (room := self.room()) is not None:
            part = data[: len(room)]
            room[: len(part)] = part
            self.filled(len(part))
            data = data[len(part) :]
        if data:
            self._splitter.feed(data)

    def next_frame(self) -> Frame | None:
        """The next whole frame without its size, or None when bytes are missing."""
        large = self._large
        if large is not None:
            if large.filled < large.size:
                return None
            self._large = None
            return large.frame()
        frame = self._splitter.next_frame()
        if frame is None and self._splitter.awaited_bytes > LARGE_BYTES:
            size = self._splitter.awaited_bytes
            self._large = LargeFrame(self._rooms, size, self._splitter.surrender())
        return frame

    def close(self) -> None:
        """What is unfinished is dropped."""
        if self._large is not None:
            self._large.let_go()
            self._large = None
