"""Control records: the marks that end a transaction, and those that lead a consumer over a gap."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from stratamq.model.errors import CorruptBatch
from stratamq.model.record import Record
from stratamq.model.types import NO_TIMESTAMP, Offset
from stratamq.wire.kafka.records.batch import BatchHeader
from stratamq.wire.kafka.records.decode import decode_batch
from stratamq.wire.kafka.records.encode import encode_batch
from stratamq.wire.kafka.records.layout import Buffer

_KEY = Struct(">hh")
_END_MARK = Struct(">hi")
_VERSION = 0
SPAN_MAX = 1 << 31
"""Offsets that one batch can cover."""


class ControlType(IntEnum):
    """What a control record says. Kinds that only a Kafka controller writes are UNKNOWN here."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1


_KINDS = {int(kind): kind for kind in ControlType}


def encode_control(
    kind: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    now_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """A batch with the one mark that ends a producer's transaction."""
    assert kind is not ControlType.UNKNOWN, "only known marks are written"
    mark = Record(
        key=_KEY.pack(_VERSION, kind),
        value=_END_MARK.pack(_VERSION, coordinator_epoch),
    )
    return encode_batch(
        [mark],
        now_ms=now_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def encode_skip(base_offset: Offset, last_offset: Offset, leader_epoch: int = -1) -> bytes:
    """A batch that covers these offsets and has nothing in them for any consumer. It is sent where
    records were deleted, and never stored.

    Kafka's clients go on after the last batch of an answer. A batch without any record would do for
    most of them, and is what compaction leaves in Kafka; but kafkajs needs a record to go on, and
    librdkafka takes answers without one for a limit of bytes that is too small, until it reports
    an error. A commit mark of no producer ends nothing, and all of them pass over it.
    """
    assert last_offset - base_offset < SPAN_MAX, "the caller covers more in several steps"
    mark = Record(
        key=_KEY.pack(_VERSION, ControlType.COMMIT),
        value=_END_MARK.pack(_VERSION, -1),
        offset=last_offset,
    )
    return encode_batch(
        [mark],
        now_ms=NO_TIMESTAMP,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        control=True,
        keep_offsets=True,
    )


def is_skip(header: BatchHeader) -> bool:
    """Whether `encode_skip` made the batch: the marks of transactions have a producer."""
    return header.is_control and header.producer_id < 0


def control_type(record: Record) -> ControlType:
    """What a record of a control batch says."""
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptBatch("a control record needs a key of version and type")
    _, kind = _KEY.unpack_from(record.key)
    return _KINDS.get(kind, ControlType.UNKNOWN)


class EndMark(NamedTuple):
    """What a control batch says. The epoch is the coordinator's; -1 where the kind has none."""

    kind: ControlType
    coordinator_epoch: int


def read_mark(header: BatchHeader, data: Buffer) -> EndMark:
    """The mark in a control batch. Its one record is a few bytes, never compressed by anyone."""
    records = decode_batch(header, data)
    if not records:
        return EndMark(ControlType.UNKNOWN, -1)  # compaction took it out
    mark = records[0]
    kind = control_type(mark)
    if kind is ControlType.UNKNOWN:
        return EndMark(kind, -1)
    if mark.value is None or len(mark.value) < _END_MARK.size:
        raise CorruptBatch("a mark that ends a transaction needs its coordinator's epoch")
    _, coordinator_epoch = _END_MARK.unpack_from(mark.value)
    return EndMark(kind, coordinator_epoch)
