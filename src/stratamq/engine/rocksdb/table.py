"""Which shards there are in EngineRocksDB: names, ids, specs, saved high watermarks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from stratamq.engine.contract import ShardSpec
from stratamq.engine.rocksdb.rows import ShardRows
from stratamq.log.index import U32, U64
from stratamq.log.kv import KVStore, after_prefix
from stratamq.model.errors import InvalidConfig, ShardUnavailable
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
        self._ids: dict[ShardName, bytes] = {
            ShardName(key[len(SHARDS) :].decode()): row[:4]
            for key, row in kv.scan(SHARDS, after_prefix(SHARDS))
        }

    def names(self) -> list[ShardName]:
        return list(self._ids)

    def load(self, name: ShardName) -> tuple[ShardSpec, Offset | None]:
        """A shard's spec and the high watermark that was saved last."""
        row = self._kv.get(SHARDS + name.encode())
        if row is None:
            raise ShardUnavailable(f"the row of shard {name} is gone")
        mark = self._kv.get(WATERMARKS + name.encode())
        return _decode(name, row[4:]), Offset(U64.unpack(mark)[0]) if mark else None

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
    try:
        fields = json.loads(row)
        config = TopicConfig.of(fields["config"])
        return ShardSpec(name=name, config=config, replicated=fields["replicated"])
    except (ValueError, KeyError, TypeError, InvalidConfig) as error:
        raise ShardUnavailable(f"the row of shard {name} cannot be read: {error}") from error
