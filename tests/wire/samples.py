"""Records and batches for the tests of this folder."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from crc32c import crc32c
from hypothesis import strategies as st

from stratamq.model.record import Record
from stratamq.model.types import LeaderEpoch, Offset, TimestampMs
from stratamq.wire.kafka.records import BatchHeader, Buffer, place_batch
from tests.wire.oracle import PlainRecord

ROOM = 1 << 20
"""A decompression limit that no honest batch of these tests comes near."""

NOW = 1_700_000_000_000

pieces = st.binary(max_size=200)
nullable = st.none() | pieces
header_names = st.sampled_from([b"", b"a", b"tag", b"tags", b"TAG", b"\xff\xfe"]) | st.binary(
    max_size=9
)
timestamps = st.integers(-1, 1 << 40) | st.integers(-(1 << 61), 1 << 61)

plain_headers = st.tuples(header_names.filter(lambda name: name != b"tag"), nullable)

records = st.builds(
    Record,
    value=nullable,
    key=nullable,
    headers=st.lists(plain_headers, max_size=4).map(tuple),
    tags=st.lists(pieces, max_size=3).map(tuple),
    timestamp=timestamps.map(TimestampMs),
)

record_lists = st.lists(records, min_size=1, max_size=20)


def some_records(count: int = 5) -> list[Record]:
    """Different in every respect that matters."""
    return [
        Record(
            value=None if i % 5 == 3 else b"value-%d" % i,
            key=None if i % 4 == 2 else b"key-%d" % (i % 3),
            headers=((b"h", b"x" * i), (b"null", None)) if i % 2 else (),
            tags=(b"odd", b"n/%d" % i) if i % 2 else (b"even",),
            timestamp=TimestampMs(NOW + (i * 7) % 5),
        )
        for i in range(count)
    ]


def stored(given: Sequence[Record], base_offset: int = 0, now_ms: int = NOW) -> list[Record]:
    """What `given` looks like when it comes back."""
    return [
        record._replace(
            offset=Offset(base_offset + i),
            timestamp=TimestampMs(now_ms) if record.timestamp == -1 else record.timestamp,
        )
        for i, record in enumerate(given)
    ]


def plain(record: Record) -> PlainRecord:
    """A record as the oracle knows it, with its tags among the headers."""
    headers = [*record.headers, *((b"tag", tag) for tag in record.tags)]
    return PlainRecord(record.key, record.value, headers, record.timestamp, record.offset)


def from_plain(record: PlainRecord) -> Record:
    """The record that the product should make of the oracle's."""
    is_tag = [name == b"tag" and value is not None for name, value in record.headers]
    pairs = list(zip(record.headers, is_tag, strict=True))
    return Record(
        value=record.value,
        key=record.key,
        headers=tuple(header for header, tag in pairs if not tag),
        tags=tuple(header[1] for header, tag in pairs if tag and header[1] is not None),
        timestamp=TimestampMs(record.timestamp),
        offset=Offset(record.offset),
    )


def with_crc(data: bytes) -> bytes:
    """The same bytes with the CRC they need: damage that a checksum does not give away."""
    return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]


def with_field(data: bytes, position: int, layout: str, value: int) -> bytes:
    """A header field replaced, CRC put right."""
    changed = bytearray(data)
    struct.pack_into(layout, changed, position, value)
    return with_crc(bytes(changed))


def batch_of(
    body: bytes, count: int = 1, last_delta: int | None = None, attributes: int = 0
) -> bytes:
    """A batch with a sound header around any bytes."""
    last_delta = count - 1 if last_delta is None else last_delta
    checked = struct.pack(">hiqqqhii", attributes, last_delta, NOW, NOW, -1, -1, -1, count) + body
    return with_crc(struct.pack(">qiibI", 0, len(checked) + 9, 0, 2, 0) + checked)


def whole(
    header: BatchHeader, data: Buffer, base_offset: Offset, epoch: LeaderEpoch, **stamps: int
) -> tuple[BatchHeader, bytes]:
    """`place_batch`, its parts put together."""
    placed, parts = place_batch(header, data, base_offset, epoch, **stamps)
    return placed, b"".join(parts)
