"""Small append-only text files whose lines carry their checksums.

    c1c6a3f1 segment 60

The CRC32C of the line after it, in hexadecimal. A crash may leave the last line torn: it was not
durable, and counts as not written. Damage anywhere else is reported by position, and costs the
lines it is in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stratamq.wire.crc import crc32c

CHECKSUM_DIGITS = 8


class CheckedLines(NamedTuple):
    """The lines that match their checksums, where the last of them ends, where damaged lines
    begin, and whether the file ends with a part of a line."""

    lines: list[str]
    end: int
    damaged: list[int]
    torn: bool


def encode_lines(lines: Iterable[str]) -> bytes:
    return b"".join(b"%08x %b\n" % (crc32c(line.encode()), line.encode()) for line in lines)


def decode_lines(data: bytes) -> CheckedLines:
    lines: list[str] = []
    damaged: list[int] = []
    position = end = 0
    while (stop := data.find(b"\n", position) + 1) > 0:
        line = data[position + CHECKSUM_DIGITS + 1 : stop - 1]
        if data[position:stop] == b"%08x %b\n" % (crc32c(line), line) and line.isascii():
            lines.append(line.decode())
            end = stop
        else:
            damaged.append(position)
        position = stop
    return CheckedLines(lines, end, damaged, torn=position < len(data))
