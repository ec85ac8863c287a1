"""Snapshots of a shard's producers as rows beside its batches."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.engine.rocksdb_rows import ShardRows
from stratamq.model.types import Offset


class RowSnapshots:
    """See `stratamq.log.snapshots`. RocksDB keeps writes in their order: a row that survives a
    power cut was written after every batch that it speaks of, and those survive as well."""

    __slots__ = ("_rows",)

    def __init__(self, rows: ShardRows) -> None:
        self._rows = rows

    def offsets(self) -> Sequence[Offset]:
        return self._rows.snapshot_offsets()

    def load(self, offset: Offset) -> bytes:
        return self._rows.snapshot(offset) or b""

    def save(self, offset: Offset, data: bytes, *, durable: bool = False) -> None:
        rows = self._rows.kv.batch()
        self._rows.put_snapshot(rows, offset, data)
        self._rows.kv.write(rows, sync=durable)

    def forget(self, offset: Offset) -> None:
        rows = self._rows.kv.batch()
        self._rows.drop_snapshot(rows, offset)
        self._rows.kv.write(rows)
