"""A stream of bytes cut into frames: four bytes of size, then that many bytes.

Bytes of a small frame are copied two or three times on their way, which costs less than to avoid
it. A Produce request of a megabyte should be copied once, by the kernel, into memory that was used
before: new memory costs as much as the copy.

A size is a claim, and claims take no memory: the receiver holds what it was given and nothing more,
a large frame has no buffer before its bytes are asked for, and of the largest buffers only those
pages are in memory that bytes have come into.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable
from functools import partial
from struct import Struct

from stratamq.wire.kafka.protocol.errors import (
    AnotherProtocol,
    FrameTooLarge,
    MalformedFrame,
    ProtocolError,
)
from stratamq.wire.kafka.protocol.schema import Buffer

SIZE = Struct(">i")
FRAME_BYTES_MAX = 100 << 20
"""As Kafka's `socket.request.max.bytes`."""

_SMALL = 4096
_MERGED_MAX = 64 << 10
"""Small pieces are merged up to this size: a frame that trickles in byte by byte must not cost a
Python object per byte."""

Frame = bytes | memoryview
"""Small ones are bytes. A view may be held for any time: its buffer is not used again before."""

LARGE_BYTES = 64 << 10
BUFFER_BYTES = (1 << 20) + LARGE_BYTES
"""The largest batch that is taken by default, and what is around it."""

BUFFERS_MAX = 16


HTTP_BEGINNINGS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PATC", b"PRI ")
TLS_HANDSHAKE = b"\x16\x03"
MQTT_CONNECT = 0x10


def protocol_of(beginning: bytes) -> str | None:
    """Which other protocol begins with these four bytes. As the size of a frame, each of them is
    over a hundred million."""
    if beginning in HTTP_BEGINNINGS:
        return "HTTP"
    if beginning.startswith(TLS_HANDSHAKE):
        return "TLS"
    return "MQTT" if beginning[0] == MQTT_CONNECT else None


class ReceiveBuffers:
    """Memory for large frames, shared by all connections of an event loop."""

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []
        self._leased: set[int] = set()

    def lease(self) -> bytearray | None:
        """A buffer that nothing is received into and of which there is no view."""
        for buffer in self._buffers:
            if id(buffer) not in self._leased and _is_unseen(buffer):
                self._leased.add(id(buffer))
                return buffer
        if len(self._buffers) == BUFFERS_MAX:
            return None
        buffer = bytearray(BUFFER_BYTES)
        self._buffers.append(buffer)
        self._leased.add(id(buffer))
        return buffer

    def give_back(self, buffer: bytearray) -> None:
        """Nothing more comes into it. Views of it may still be in use."""
        self._leased.discard(id(buffer))


def _is_unseen(buffer: bytearray) -> bool:
    """Whether there is no view of it: only then can its size be changed."""
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True


class LargeFrame:
    """One frame in the making."""

    __slots__ = ("_begin", "_buffers", "_leased", "_memory", "filled", "size")

    def __init__(self, buffers: ReceiveBuffers, size: int, begin: Buffer) -> None:
        self.size, self.filled = size, len(begin)
        self._buffers, self._begin = buffers, begin
        self._leased: bytearray | None = None
        self._memory: memoryview | None = None

    def buffer(self) -> memoryview:
        """Where the next bytes belong."""
        return self._made()[self.filled : self.size]

    def frame(self) -> memoryview:
        """The whole frame, once it is whole."""
        view = self._made()[: self.size]
        self.release()
        return view

    def release(self) -> None:
        if self._leased is not None:
            self._buffers.give_back(self._leased)
            self._leased = None

    def _made(self) -> memoryview:
        """A buffer that is used again, for a frame that fits one. Otherwise one for this frame:
        pages of a private mapping are not in memory before they are written to, and go back to the
        system with the last view, which `malloc` does not promise."""
        if self._memory is None:
            if self.size <= BUFFER_BYTES:
                self._leased = self._buffers.lease()
                memory = memoryview(self._leased or bytearray(self.size))
            else:
                flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
                memory = memoryview(mmap.mmap(-1, self.size, flags=flags))
            memory[: self.filled] = self._begin
            self._memory, self._begin = memory, b""
        return self._memory


class FrameReceiver:
    """Bytes in by `feed`, or into `buffer` and then `filled`; frames out by `next_frame`, however
    the bytes were cut. Without `buffers`, large frames are put together like small ones.

    A size that is negative or over the limit is refused as soon as it is there, before any of its
    frame is waited for. Where the next frame would begin is then unknown, so every later call
    refuses too. A new limit counts from the next size on.
    """

    def __init__(
        self, buffers: ReceiveBuffers | None = None, frame_bytes_max: int = FRAME_BYTES_MAX
    ) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._buffers = buffers
        self._pieces: deque[bytes | bytearray] = deque()
        self._pieces_bytes = 0
        self._at = 0  # how much of the first piece is used up
        self._size: int | None = None
        """Of the frame that bytes are missing of, once it is known."""
        self._refusal: Callable[[], ProtocolError] | None = None
        """Makes the error. An error that is raised holds all callers, and with them this."""
        self.large: LargeFrame | None = None
        """The large frame in the making."""
        self.may_have_frame = False
        """Whether bytes have come since `next_frame` had none to give."""

    @property
    def held_bytes(self) -> int:
        """Bytes that no frame has carried out yet."""
        return self._pieces_bytes + (0 if self.large is None else self.large.filled)

    def buffer(self) -> memoryview | None:
        """Where the next bytes belong, if they are of a large frame."""
        large = self.large
        return None if large is None or large.filled == large.size else large.buffer()

    def filled(self, count: int) -> None:
        assert self.large is not None, "only buffers are filled"
        self.large.filled += count
        self.may_have_frame = True

    def feed(self, data: Buffer) -> None:
        """Take what the socket gave; the caller may reuse its buffer."""
        if self._refusal is not None:
            raise self._refusal()
        self.may_have_frame = True
        if self.large is not None:
            while data and (buffer := self.buffer()) is not None:
                part = data[: len(buffer)]
                buffer[: len(part)] = part
                self.filled(len(part))
                data = data[len(part) :]
            if not data:
                return
        self._pieces_bytes += len(data)
        if len(data) >= _SMALL or not self._pieces:
            self._pieces.append(data if isinstance(data, bytes) else bytes(data))
            return
        last = self._pieces[-1]
        if not isinstance(last, bytearray) or len(last) >= _MERGED_MAX:
            last = bytearray()
            self._pieces.append(last)
        last += data

    def next_frame(self) -> Frame | None:
        """The next whole frame without its size, or None when bytes are missing."""
        if self._size is None and self.large is None and self._pieces:
            # As most do, the frame lies in the first piece from its size to its end.
            first, start = self._pieces[0], self._at + SIZE.size
            if start <= len(first):
                end = start + SIZE.unpack_from(first, self._at)[0]
                if start <= end <= len(first) and end - start <= self.frame_bytes_max:
                    self._pieces_bytes -= end - self._at
                    self._at = end
                    if end == len(first):
                        self._pieces.popleft()
                        self._at = 0
                    self.may_have_frame = self._pieces_bytes > 0
                    return first[start:end] if type(first) is bytes else bytes(first[start:end])
        frame = self._put_together()
        self.may_have_frame = frame is not None and self._pieces_bytes > 0
        return frame

    def _put_together(self) -> Frame | None:
        """A frame that came in pieces, once they are all there."""
        if self._refusal is not None:
            raise self._refusal()
        if (large := self.large) is not None:
            if large.filled < large.size:
                return None
            self.large = None
            return large.frame()
        if self._size is None:
            if self._pieces_bytes < SIZE.size:
                return None
            self._size = self._checked(SIZE.unpack(self._take(SIZE.size))[0])
        size = self._size
        if self._pieces_bytes >= size:
            self._size = None
            return self._take(size)
        if self._buffers is not None and size > LARGE_BYTES:
            self._size = None
            self.large = LargeFrame(self._buffers, size, self._take(self._pieces_bytes))
        return None

    def _checked(self, size: int) -> int:
        if size < 0:
            self._refusal = partial(MalformedFrame, f"a frame of {size} bytes")
        elif size > self.frame_bytes_max:
            why = f"a frame of {size} bytes is over {self.frame_bytes_max}"
            name = protocol_of(SIZE.pack(size))
            if name:
                why = f"this is a port for Kafka clients, and what came looks like {name}"
            self._refusal = partial(AnotherProtocol if name else FrameTooLarge, why)
        if self._refusal is not None:
            self._pieces.clear()
            self._pieces_bytes = 0
            raise self._refusal()
        return size

    def _take(self, count: int) -> bytes:
        """Remove that many bytes from the front; they are there."""
        self._pieces_bytes -= count
        if count and self._at + count < len(self._pieces[0]):  # the first piece has more than that
            begin = self._at
            self._at += count
            return bytes(self._pieces[0][begin : self._at])
        parts = []
        while count:
            first = self._pieces[0]
            part = memoryview(first)[self._at : self._at + count]
            parts.append(part)
            count -= len(part)
            self._at += len(part)
            if self._at == len(first):
                self._pieces.popleft()
                self._at = 0
        return b"".join(parts)

    def close(self) -> None:
        """What is unfinished is dropped."""
        if self.large is not None:
            self.large.release()
            self.large = None
