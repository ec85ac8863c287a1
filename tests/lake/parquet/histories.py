"""Random histories of a shard: everything a log may hold, as bytes and as what they mean."""

from __future__ import annotations

import io
import struct
from typing import NamedTuple

from crc32c import crc32c
from hypothesis import strategies as st

from stratamq.lake.parquet.reading import ColdFile
from stratamq.lake.parquet.sinks import Footer
from stratamq.lake.parquet.sources import BytesSource
from stratamq.lake.parquet.writing import FileLayout, FileSummary, write_file
from stratamq.model.record import Record
from stratamq.wire.kafka.records import Compression, compress, decode_batch, read_header
from stratamq.wire.kafka.records.decode import record_bytes
from tests.wire import oracle
from tests.wire.oracle import PlainRecord

ROOM = 1 << 24
NAME = "test.parquet"
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20

pieces = st.binary(max_size=40)
nullable = st.none() | pieces
names = st.sampled_from([b"", b"tag", b"a", b"ttl-ms", b"\xff"]) | st.binary(max_size=5)
stamps = (
    st.integers(1_700_000_000_000, 1_700_000_100_000)
    | st.integers(-5, 5)
    | st.integers(-(1 << 62), 1 << 62)
    | st.just(253402300799999)
    | st.just(253402300800000)
)


class Content(NamedTuple):
    """A record without its place. `gap` is how many before it compaction took away."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]
    timestamp: int
    gap: int


contents = st.builds(
    Content,
    nullable,
    nullable,
    st.lists(st.tuples(names, nullable), max_size=4),
    stamps,
    st.sampled_from([0, 0, 0, 1, 7, 1 << 20]),
)


class Spec(NamedTuple):
    """A batch without its place. No contents: compaction left it empty."""

    contents: list[Content]
    codec: Compression
    flags: int
    append_time: int
    leader_epoch: int
    producer: tuple[int, int, int]
    gap: int
    tail: int
    odd: str


producers = st.just((-1, -1, -1)) | st.tuples(
    st.integers(0, 3), st.integers(0, 1 << 14), st.integers(0, (1 << 31) - 1)
)

specs = st.builds(
    Spec,
    st.lists(contents, max_size=6),
    st.sampled_from(Compression),
    st.sampled_from([0, 0, LOG_APPEND_TIME, TRANSACTIONAL, TRANSACTIONAL | LOG_APPEND_TIME]),
    stamps,
    st.integers(0, 5),
    producers,
    st.sampled_from([0, 0, 0, 3, 1 << 33]),
    st.sampled_from([0, 0, 2]),
    st.sampled_from(["", "", "", "", "attributes", "padding", "control"]),
)

histories = st.lists(specs, max_size=12)


def build(history: list[Spec]) -> list[bytes]:
    """The batches, one behind the other."""
    batches, offset = [], 0
    for spec in history:
        batch = _batch(spec, offset + spec.gap)
        batches.append(batch)
        offset = read_header(batch).next_offset
    return batches


def _batch(spec: Spec, base_offset: int) -> bytes:
    records, offset = [], base_offset
    for content in spec.contents:
        offset += content.gap
        records.append(
            PlainRecord(content.key, content.value, content.headers, content.timestamp, offset)
        )
        offset += 1
    base = records[0].timestamp if records else 5
    last_delta = max(0, offset - 1 - base_offset) + spec.tail
    top = max((record.timestamp for record in records), default=base)
    flags = spec.flags | (CONTROL | TRANSACTIONAL if spec.odd == "control" else 0)
    stamp = spec.append_time if flags & LOG_APPEND_TIME else top
    body = b"".join(_record(record, base_offset, base, spec.odd) for record in records)
    codec = spec.codec if records else Compression.NONE
    numbers = (flags | codec, last_delta, base, stamp, *spec.producer, len(records))
    return assemble(base_offset, spec.leader_epoch, numbers, compress(codec, body))


def assemble(base_offset: int, leader_epoch: int, numbers: tuple[int, ...], packed: bytes) -> bytes:
    checked = struct.pack(">hiqqqhii", *numbers) + packed
    head = struct.pack(">qiibI", base_offset, len(checked) + 9, leader_epoch, 2, crc32c(checked))
    return head + checked


def _record(record: PlainRecord, base_offset: int, base: int, odd: str) -> bytes:
    plain = oracle.encode_record(record, base_offset, base)
    if odd not in ("attributes", "padding"):
        return plain
    reader = oracle.Reader(plain)
    content = reader.take(reader.varint(32))
    if odd == "attributes":
        return oracle.varint(len(content)) + b"\x07" + content[1:]
    size = bytearray(oracle.varint(len(content)))
    size[-1] |= 0x80
    return bytes(size) + b"\x00" + content


def records_of(batch: bytes) -> list[Record]:
    return decode_batch(read_header(batch), batch, ROOM)


def body_of(batch: bytes) -> bytes:
    """The records' bytes, unpacked."""
    header = read_header(batch)
    if not header.record_count:
        return b""
    body = record_bytes(header, batch, ROOM)
    return bytes(memoryview(body.data)[body.start : body.stop])


def meaning(batch: bytes) -> tuple[object, ...]:
    """All that anyone can learn from a batch, but for how its records are packed."""
    header = read_header(batch)
    attributes = header.attributes & ~7
    return (header.base_offset, header.leader_epoch, attributes, *header[6:], body_of(batch))


def written(batches: list[bytes], row_group_bytes: int = 500) -> tuple[bytes, FileSummary]:
    sink = io.BytesIO()
    layout = FileLayout(partition=7, row_group_bytes=row_group_bytes)
    summary = write_file(batches, sink, layout)
    return sink.getvalue(), summary


def opened(data: bytes, *, recompressed: bool = False) -> ColdFile:
    return ColdFile(BytesSource(data), NAME, footer_of(data), recompressed=recompressed)


def footer_of(data: bytes) -> Footer:
    """What `write_file` told of an undamaged file, but for its index."""
    size = int.from_bytes(data[-8:-4], "little") + 8
    return Footer(size, crc32c(data[-size:]), 0, 0)
