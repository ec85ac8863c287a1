"""The bytes of a record batch: encoder, decoder, log and lake take their numbers from here.

`_layout.pxi` repeats them as C constants; kernels check at import that the two agree. See
docs/formats/record-batch.md for the table.
"""

from __future__ import annotations

from struct import Struct

Buffer = bytes | bytearray | memoryview

MAGIC = 2

HEADER = Struct(">qiibIhiqqqhii")
"""base offset, length, leader epoch, magic, crc, then everything that the CRC covers."""

PLACE = Struct(">qii")
"""The part a broker may set without touching the CRC: base offset, length, leader epoch."""

CHECKED = Struct(">hiqqqhii")
"""The part of the header below the CRC: attributes up to record count."""

HEADER_BYTES = 61
LENGTH_AT = 8
LENGTH_END = 12
"""The batch's length field counts the bytes that follow it."""

MAGIC_AT = 16
CRC_AT = 17
CHECKED_AT = 21
ATTRIBUTES_LOW_AT = 22
"""The second byte of the attributes has all bits that are in use."""

LAST_DELTA_AT = 23
BASE_TIMESTAMP_AT = 27
MAX_TIMESTAMP_AT = 35
RECORD_COUNT_AT = 57
RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, null key, null value, no headers: one byte each."""

BATCH_LENGTH_MIN = HEADER_BYTES - LENGTH_END
BATCH_LENGTH_MAX = (1 << 31) - 1

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20

assert HEADER.size == HEADER_BYTES, "a format change needs a new magic byte"
assert PLACE.size == MAGIC_AT, "the magic byte follows the leader epoch in every format version"
assert CHECKED_AT + CHECKED.size == HEADER_BYTES, "the CRC covers the header's tail and the records"
