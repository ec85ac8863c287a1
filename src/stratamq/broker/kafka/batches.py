"""What Kafka refuses in the records of a Produce request before the log sees them."""

from __future__ import annotations

from stratamq.broker.kafka.topics import Refused
from stratamq.model.errors import UnsupportedFormat
from stratamq.wire.kafka.protocol import Buffer, ErrorCode
from stratamq.wire.kafka.records import (
    HEADER_BYTES,
    BatchHeader,
    Compression,
    read_header,
)
from stratamq.wire.kafka.records.layout import CONTROL_BIT, LENGTH_END

_ZSTD_SINCE = 7


def checked(records: Buffer | None, version: int) -> tuple[BatchHeader, Buffer]:
    """Exactly one batch, of today's format, that a client may write."""
    if not records:
        raise _invalid("a partition without a batch")
    try:
        header = read_header(records)
    except UnsupportedFormat as error:
        raise _invalid(str(error)) from None
    if HEADER_BYTES <= header.batch_length + LENGTH_END < len(records):
        raise _invalid("more than one batch for a partition")
    if header.attributes & CONTROL_BIT:
        raise _invalid("only the transaction coordinator writes control records")
    if version < _ZSTD_SINCE and header.compression is Compression.ZSTD:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return header, records


def _invalid(why: str) -> Refused:
    return Refused(ErrorCode.INVALID_RECORD, why)
