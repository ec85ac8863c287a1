"""Which shards there are in EngineRocksDB: names, ids, specs, saved high watermarks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from stratamq.engine.contract import ShardSpec
from stratamq.engine.rocksdb_rows import ShardRows
from stratamq.log.index import U32, U64
from stratamq.log.kv import KVStore, after_prefix
from stratamq.model.topic import TopicConfig
from stratamq.model.types import Offset, ShardName

SHARDS = b"\xff\xff\xff\xffP"
WATERMARKS = b"\xff\xff\xff\xffH"


class ShardTable:
    """A shard exists while its row does. Adding and removing are one durable write each; the row
    goes together with everything the shard has, so there is no half-way that a crash could
    leave."""

    def __init__(self, kv: KVStore) -> None:
        self._kv = kv
        self._ids: dict[ShardName, bytes] = {}

    def load(self) -> Iterator[tuple[ShardSpec, ShardRows, Offset | None]]:
        for key, row in self._kv.scan(SHARDS, after_prefix(SHARDS)):
            name = ShardName(key[len(SHARDS) :].decode())
            self._ids[name] = row[:4]
            mark = self._kv.get(WATERMARKS + name.encode())
            saved = Offset(U64.unpack(mark)[0]) if mark else None
            yield _decode(name, row[4:]), ShardRows(self._kv, row[:4]), saved

    def add(self, specs: Sequence[ShardSpec]) -> list[ShardRows]:
        """Ids may be used again: nothing is left of the shard that had one before."""
        used = list(self._ids.values())  # others may be on their way out meanwhile
        first = max((U32.unpack(one)[0] for one in used), default=0) + 1
        ids = {spec.name: U32.pack(first + number) for number, spec in enumerate(specs)}
        self._write(specs, ids)
        self._ids |= ids
        return [ShardRows(self._kv, shard_id) for shard_id in ids.values()]

    def save(self, spec: ShardSpec) -> None:
        self._write([spec], self._ids)

    def _write(self, specs: Sequence[ShardSpec], ids: Mapping[ShardName, bytes]) -> None:
        rows = self._kv.batch()
        for spec in specs:
            rows.put(SHARDS + spec.name.encode(), ids[spec.name] + _encode(spec))
        self._kv.write(rows, sync=True)

    def rows(self, name: ShardName) -> ShardRows:
        return ShardRows(self._kv, self._ids[name])

    def remove(self, name: ShardName) -> None:
        rows = self._kv.batch()
        self.rows(name).drop_everything(rows)
        rows.delete(SHARDS + name.encode())
        rows.delete(WATERMARKS + name.encode())
        self._kv.write(rows, sync=True)
        del self._ids[name]

    def save_watermarks(self, marks: Mapping[ShardName, Offset]) -> None:
        rows = self._kv.batch()
        for name, mark in marks.items():
            if name in self._ids:
                rows.put(WATERMARKS + name.encode(), U64.pack(mark))
        self._kv.write(rows)


def _encode(spec: ShardSpec) -> bytes:
    fields = {"config": dict(spec.config.given), "replicated": spec.replicated}
    return json.dumps(fields).encode()


def _decode(name: ShardName, row: bytes) -> ShardSpec:
    fields = json.loads(row)
    config = TopicConfig.of(fields["config"])
    return ShardSpec(name=name, config=config, replicated=fields["replicated"])
