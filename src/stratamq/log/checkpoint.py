"""The file that says where the log begins: one number and the checksum of its digits.

    1042 5e8a5a86

Without the checksum a flipped bit could put the start behind everything there is, and a log whose
start lies past its end is taken for one that was trimmed.
"""

from __future__ import annotations

from stratamq.model.errors import StorageError
from stratamq.model.types import Offset
from stratamq.wire.crc import crc32c


def encode(start: Offset) -> bytes:
    digits = str(start)
    return f"{digits} {crc32c(digits.encode()):08x}\n".encode()


def decode(data: bytes) -> Offset:
    digits, _, _ = data.partition(b" ")
    if not digits.isdigit() or data != encode(Offset(int(digits))):
        raise StorageError("the start offset does not match its checksum")
    return Offset(int(digits))
