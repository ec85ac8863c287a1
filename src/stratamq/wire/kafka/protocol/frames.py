"""A stream of bytes cut into frames: four bytes of size, then that many bytes.

The splitter holds what it was given and nothing more: a size is a claim, and no memory is set
aside for claims.
"""

from __future__ import annotations

from collections import deque
from struct import Struct

from stratamq.wire.kafka.protocol.exceptions import FrameTooLarge, MalformedFrame, ProtocolError
from stratamq.wire.kafka.protocol.schema import Buffer

SIZE = Struct(">i")
FRAME_BYTES_MAX = 100 << 20
"""As Kafka's `socket.request.max.bytes`."""

_SMALL = 4096
_MERGED_MAX = 64 << 10
"""Small pieces are merged up to this size: a frame that trickles in byte by byte must not cost a
Python object per byte."""


class FrameSplitter:
    """Bytes in by `feed`, frames out by `next_frame`, however the bytes were cut.

    A size that is negative or over the limit is refused as soon as it is there, before any of its
    frame is waited for. Where the next frame would begin is then unknown, so every later call
    refuses too. A new limit counts from the next size on.
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._pieces: deque[bytes | bytearray] = deque()
        self._at = 0  # how much of the first piece is used up
        self.held_bytes = 0
        """Bytes that no frame has carried out yet."""
        self._size: int | None = None
        self._refusal: ProtocolError | None = None

    @property
    def awaited_bytes(self) -> int:
        """The size of the frame that bytes are missing of; 0 while it is not known."""
        return self._size or 0

    def surrender(self) -> bytes:
        """What there is of the frame that bytes are missing of. Its size is forgotten here: whoever
        takes the bytes sees to the rest of them."""
        self._size = None
        return self._take(self.held_bytes)

    def feed(self, data: Buffer) -> None:
        """Take what the socket gave; the caller may reuse its buffer."""
        if self._refusal is not None:
            raise self._refusal
        self.held_bytes += len(data)
        if len(data) >= _SMALL or not self._pieces:
            self._pieces.append(data if isinstance(data, bytes) else bytes(data))
            return
        last = self._pieces[-1]
        if not isinstance(last, bytearray) or len(last) >= _MERGED_MAX:
            last = bytearray()
            self._pieces.append(last)
        last += data

    def next_frame(self) -> bytes | None:
        """The next whole frame without its size, or None when bytes are missing."""
        if self._refusal is not None:
            raise self._refusal
        if self._size is None:
            if self._pieces and (frame := self._whole(self._pieces[0])) is not None:
                return frame
            if self.held_bytes < SIZE.size:
                return None
            self._size = self._checked(SIZE.unpack(self._take(SIZE.size))[0])
        if self.held_bytes < self._size:
            return None
        frame = self._take(self._size)
        self._size = None
        return frame

    def _whole(self, first: bytes | bytearray) -> bytes | None:
        """The frame that lies in the first piece from its size to its end, as most do."""
        start = self._at + SIZE.size
        if start > len(first):
            return None
        (size,) = SIZE.unpack_from(first, self._at)
        end = start + size
        if not 0 <= size <= self.frame_bytes_max or end > len(first):
            return None
        self.held_bytes -= end - self._at
        if end == len(first):
            self._pieces.popleft()
            self._at = 0
        else:
            self._at = end
        return first[start:end] if type(first) is bytes else bytes(first[start:end])

    def _checked(self, size: int) -> int:
        if size < 0:
            self._refusal = MalformedFrame(f"a frame of {size} bytes")
        elif size > self.frame_bytes_max:
            self._refusal = FrameTooLarge(f"a frame of {size} bytes is over {self.frame_bytes_max}")
        if self._refusal is not None:
            self._pieces.clear()
            self.held_bytes = 0
            raise self._refusal
        return size

    def _take(self, count: int) -> bytes:
        """Remove that many bytes from the front; they are there."""
        self.held_bytes -= count
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
