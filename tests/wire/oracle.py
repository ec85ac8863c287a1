"""Record batch v2 once more, in plain Python: slow, obvious, and sharing nothing with the product.

Written from the format's description (docs/formats/record-batch.md), it is what the kernel is held
against. It handles uncompressed batches; codecs have their own tests.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER = ">qiibIhiqqqhii"


class Malformed(Exception):
    """The bytes are not a batch."""


class PlainRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]
    timestamp: int
    offset: int


class PlainBatch(NamedTuple):
    fields: tuple[int, ...]
    records: list[PlainRecord]


# -- numbers -------------------------------------------------------------------------------------


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def fnv1a(data: bytes) -> int:
    value = 14695981039346656037
    for byte in data:
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


def varint(value: int) -> bytes:
    left = value * 2 if value >= 0 else -value * 2 - 1
    out = bytearray()
    while left > 127:
        out.append(left % 128 + 128)
        left //= 128
    out.append(left)
    return bytes(out)


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        piece = self.data[self.position : self.position + size]
        if len(piece) != size:
            raise Malformed("cut off")
        self.position += size
        return piece

    def varint(self, bits: int) -> int:
        value = 0
        for place in range(0, bits, 7):
            byte = self.take(1)[0]
            value += (byte & 127) << place
            if byte < 128:
                break
        else:
            raise Malformed("a varint is too long")
        if value >= 2**bits:
            raise Malformed("a varint is too large")
        return value // 2 if value % 2 == 0 else -(value + 1) // 2

    def piece(self) -> bytes | None:
        size = self.varint(32)
        if size < -1:
            raise Malformed("negative length")
        return None if size == -1 else self.take(size)

    def at_end(self) -> bool:
        return self.position == len(self.data)


# -- records -------------------------------------------------------------------------------------


def piece(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def encode_record(record: PlainRecord, base_offset: int, base_timestamp: int) -> bytes:
    body = b"\0" + varint(record.timestamp - base_timestamp) + varint(record.offset - base_offset)
    body += piece(record.key) + piece(record.value) + varint(len(record.headers))
    for name, value in record.headers:
        body += piece(name) + piece(value)
    return varint(len(body)) + body


def decode_record(data: bytes, base_offset: int, base_timestamp: int) -> PlainRecord:
    reader = Reader(data)
    reader.take(1)
    timestamp = base_timestamp + reader.varint(64)
    if not -(2**63) <= timestamp < 2**63:
        raise Malformed("a timestamp is out of range")
    offset = base_offset + reader.varint(32)
    key, value = reader.piece(), reader.piece()
    headers: list[tuple[bytes, bytes | None]] = []
    count = reader.varint(32)
    if count < 0:
        raise Malformed("negative header count")
    for _ in range(count):
        name = reader.piece()
        if name is None:
            raise Malformed("a header without a name")
        headers.append((name, reader.piece()))
    if not reader.at_end():
        raise Malformed("bytes left in a record")
    return PlainRecord(key, value, headers, timestamp, offset)


# -- batches -------------------------------------------------------------------------------------


def encode(
    records: list[PlainRecord],
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    max_timestamp: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    base = records[0].timestamp if records else -1
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=-1)
    if last_offset_delta is None:
        last_offset_delta = records[-1].offset - base_offset
    checked = struct.pack(
        ">hiqqqhii",
        attributes,
        last_offset_delta,
        base,
        max_timestamp,
        *producer,
        len(records),
    )
    checked += b"".join(encode_record(record, base_offset, base) for record in records)
    head = struct.pack(">qiibI", base_offset, len(checked) + 9, leader_epoch, 2, crc32c(checked))
    return head + checked


def decode(data: bytes) -> PlainBatch:
    """A batch from its first byte to its last; CRC and order of offsets are checked too."""
    if len(data) < 61:
        raise Malformed("too short")
    fields = struct.unpack_from(HEADER, data)
    base_offset, length, _, magic, crc, attributes, last_delta, base_timestamp = fields[:8]
    if magic != 2 or length + 12 != len(data) or crc32c(data[21:]) != crc or attributes & 7:
        raise Malformed("not a whole, sound, uncompressed batch")
    reader, records, previous = Reader(data[61:]), [], -1
    if fields[12] < 0:
        raise Malformed("negative count")
    for _ in range(fields[12]):
        size = reader.varint(32)
        if size < 0:
            raise Malformed("negative length")
        record = decode_record(reader.take(size), base_offset, base_timestamp)
        if not previous < record.offset - base_offset <= last_delta:
            raise Malformed("offsets out of order")
        previous = record.offset - base_offset
        if attributes & 8:
            record = record._replace(timestamp=fields[8])
        records.append(record)
    if not reader.at_end():
        raise Malformed("bytes behind the records")
    return PlainBatch(fields, records)
