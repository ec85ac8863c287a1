"""Files of background work, read and written in brief calls.

A kernel that is not preemptible, as most servers' are, lets nobody else have a processor until a
call is done. A process that is behind everybody makes way between its calls, so none may be long:
one write of eight megabytes beside a node made every hundredth of its producers wait for 5 ms
instead of 0.4.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

CALL_BYTES = 64 << 10


class BriefFile(io.FileIO):
    """`read` and `write` give and take all that they are asked for, a little at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            return super().read()
        data, done = bytearray(size), 0
        with memoryview(data) as view:
            while got := self.readinto(view[done : done + CALL_BYTES]):
                done += got
        return bytes(data) if done == size else bytes(data[:done])

    def write(self, data: ReadableBuffer, /) -> int:
        with memoryview(data).cast("B") as view:
            done = 0
            while done < len(view):
                done += super().write(view[done : done + CALL_BYTES]) or 0
        return done
