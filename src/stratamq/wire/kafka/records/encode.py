"""Records into a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stratamq.model.errors import BatchTooLarge
from stratamq.model.record import Record
from stratamq.wire.crc import crc32c
from stratamq.wire.kafka.records import _kernel
from stratamq.wire.kafka.records.compression import Compression, compress
from stratamq.wire.kafka.records.layout import (
    BATCH_LENGTH_MAX,
    BATCH_LENGTH_MIN,
    CHECKED,
    CONTROL_BIT,
    MAGIC,
    PLACE,
    TRANSACTIONAL_BIT,
    Buffer,
)


class Packed(NamedTuple):
    """Records as a batch holds them, and what its header says about them."""

    body: Buffer
    record_count: int
    base_timestamp: int
    max_timestamp: int
    last_delta: int


def encode_batch(
    records: Sequence[Record],
    *,
    now_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    keep_offsets: bool = False,
) -> bytes:
    """One batch with these records, in this order.

    A record without a timestamp gets `now_ms`. With `keep_offsets` each stays at its own offset
    (they must ascend from `base_offset`); without it they are numbered through. InvalidRecord for
    what no batch can hold.
    """
    return pack_batch(
        pack_records(records, now_ms, base_offset, keep_offsets=keep_offsets),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
    )


def pack_records(
    records: Sequence[Record], now_ms: int, base_offset: int = 0, *, keep_offsets: bool = False
) -> Packed:
    body, base_timestamp, max_timestamp, last_delta = _kernel.encode_records(
        records, now_ms, base_offset, keep_offsets
    )
    return Packed(body, len(records), base_timestamp, max_timestamp, last_delta)


def pack_batch(
    packed: Packed,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """One batch with records that are encoded already."""
    attributes = (
        compression | (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0)
    )
    checked = CHECKED.pack(
        attributes,
        packed.last_delta,
        packed.base_timestamp,
        packed.max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        packed.record_count,
    )
    body = compress(compression, packed.body) if compression else packed.body
    return assemble(base_offset, leader_epoch, checked, body)


def assemble(base_offset: int, leader_epoch: int, checked: bytes, body: Buffer) -> bytes:
    """A whole batch from the checked part of its header and its records, with the CRC they need."""
    length = BATCH_LENGTH_MIN + len(body)
    if length > BATCH_LENGTH_MAX:
        raise BatchTooLarge(f"a batch cannot hold {len(body)} bytes")
    crc = crc32c(body, crc32c(checked))
    head = PLACE.pack(base_offset, length, leader_epoch) + bytes((MAGIC,)) + crc.to_bytes(4, "big")
    return b"".join((head, checked, body))
