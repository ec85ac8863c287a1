"""What is written to a file, and the checksums of it that its readers will want."""

from __future__ import annotations

from typing import BinaryIO, NamedTuple

from stratamq.wire.crc import crc32c

FOOTER_END_BYTES = 8
"""A file ends with the footer's length (little-endian) and Parquet's magic."""


PIECE_BYTES = 1 << 18
"""A row group's bytes have a checksum for each piece of so many, counted from its beginning."""


class Footer(NamedTuple):
    """The end of a file, with its last eight bytes. Parquet has no checksum for it, and Arrow may
    end the process over a damaged one: a reader of the file has to know these numbers. The index is
    what lies before it: bloom filters and page index."""

    size: int
    crc: int
    index_size: int
    index_crc: int


class Tally:
    """Passes bytes on to the sink. The sink stays open when this is closed."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink: BinaryIO | None = sink
        self._size = 0
        self._crc = 0
        self._pieces: list[int] = []
        self._piece_size = PIECE_BYTES
        self._end: list[bytes] | None = None
        self.closed = False

    @property
    def crc(self) -> int:
        """CRC32C of everything."""
        return self._crc

    def write(self, data: bytes) -> int:
        if self._sink is not None:
            self._sink.write(data)
        self._size += len(data)
        self._crc = crc32c(data, self._crc)
        self._add_pieces(memoryview(data))
        if self._end is not None:
            self._end.append(bytes(data))
        return len(data)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        if self._sink is not None:
            self._sink.flush()

    def abandon(self) -> None:
        """Let nothing reach the sink any more: a writer that is dropped still writes its footer, at
        a time when the sink is the caller's, or closed."""
        self._sink = None

    def close(self) -> None:
        self.closed = True

    def begin_pieces(self) -> None:
        """Count pieces from here on."""
        self._pieces, self._piece_size = [], PIECE_BYTES

    def pieces(self) -> list[int]:
        """CRC32C of each piece since then; the last one may be short."""
        return self._pieces

    def _add_pieces(self, data: memoryview) -> None:
        while len(data):
            if self._piece_size == PIECE_BYTES:
                self._pieces.append(0)
                self._piece_size = 0
            part = data[: PIECE_BYTES - self._piece_size]
            self._pieces[-1] = crc32c(part, self._pieces[-1])
            self._piece_size += len(part)
            data = data[len(part) :]

    def ending(self) -> None:
        """What is written from now on is the end: filters, page index, footer."""
        self._end = []

    def footer(self) -> Footer:
        end = b"".join(self._end or ())
        size = int.from_bytes(end[-8:-4], "little") + FOOTER_END_BYTES
        index = end[:-size]
        return Footer(size, crc32c(end[-size:]), len(index), crc32c(index))
