"""Files that a converter reads and writes in short calls, and the sidecars of a log it rewrote.

A kernel that is not preemptible, as on most servers, gives a processor to no other process until a
call is done. A process of the lowest priority makes way between its calls, so none may be long:
with writes of eight megabytes next to a node, one in a hundred of its producers' requests took 5 ms
instead of 0.4.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stratamq.lake.parquet.writing import read_chunks
from stratamq.log.scan import Intact
from stratamq.log.sidecar import collect_points, encode_offset_points, encode_time_points
from stratamq.model.types import Offset, Position
from stratamq.wire.kafka.records import read_header, walk

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


CALL_BYTES = 64 << 10


class ShortCallFile(io.FileIO):
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


def write_sidecars(log: Path, base_offset: Offset) -> tuple[Path, Path]:
    """Write the sidecars next to the log, as if it had been sealed."""
    offsets, times = collect_points(_batches(log))
    index, timeindex = log.with_suffix(".index"), log.with_suffix(".timeindex")
    index.write_bytes(encode_offset_points(base_offset, offsets))
    timeindex.write_bytes(encode_time_points(base_offset, times))
    return index, timeindex


def _batches(log: Path) -> Iterator[Intact]:
    """Yield the batches with their headers alone: sidecars need no more."""
    position = 0
    with ShortCallFile(log) as file:
        for chunk in read_chunks(file):
            for span in walk(chunk):
                header = read_header(chunk[span.position :])
                yield Intact(Position(position + span.position), header, b"")
            position += len(chunk)
