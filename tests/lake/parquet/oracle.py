"""The kernel once more, in plain Python: what columns a batch's records make."""

from __future__ import annotations

from typing import Any

from tests.wire.oracle import PlainBatch, PlainRecord

LOG_APPEND_TIME = 0x08
LAST_DATE_MS = 253402300799999


def columns_of(batches: list[PlainBatch], own_stamps: list[list[int]]) -> dict[str, list[Any]]:
    """`own_stamps` are the records' own timestamps, which a batch may hide behind its own."""
    rows = [
        _row(record, own)
        for batch, owns in zip(batches, own_stamps, strict=True)
        for record, own in zip(batch.records, owns, strict=True)
    ]
    names = ("offset", "timestamp", "producer_timestamp", "key", "value", "headers", "tags")
    return {name: [row[name] for row in rows] for name in names}


def _row(record: PlainRecord, own: int) -> dict[str, Any]:
    dated = 0 <= record.timestamp <= LAST_DATE_MS
    return {
        "offset": record.offset,
        "timestamp": record.timestamp if dated else None,
        "producer_timestamp": None if dated and own == record.timestamp else own,
        "key": record.key,
        "value": record.value,
        "headers": [{"name": name, "value": value} for name, value in record.headers],
        "tags": [value for name, value in record.headers if name == b"tag" and value is not None],
    }
