"""The same records under another codec."""

from __future__ import annotations

from stratamq.wire.kafka.records.body import record_bytes
from stratamq.wire.kafka.records.compression import Compression, compress
from stratamq.wire.kafka.records.encode import assemble
from stratamq.wire.kafka.records.header import BatchHeader
from stratamq.wire.kafka.records.layout import CHECKED, CODEC_MASK, Buffer


def recompress(
    header: BatchHeader, data: Buffer, codec: Compression, decompressed_max: int
) -> bytes:
    """The batch at the start of `data`, packed anew. All else stays as it was.

    It gets a CRC of its own: whoever calls this has held the old one against the bytes.
    """
    body = record_bytes(header, data, decompressed_max)
    records = memoryview(body.data)[body.start : body.stop]
    changed = header._replace(attributes=header.attributes & ~CODEC_MASK | codec)
    packed = compress(codec, records) if codec else records
    return assemble(header.base_offset, header.leader_epoch, CHECKED.pack(*changed[5:]), packed)
