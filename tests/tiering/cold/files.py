"""Files of history for tests: made from batches as the mover makes them, put into a real store."""

from __future__ import annotations

import asyncio
import io
import random
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from crc32c import crc32c

from stratamq.lake.parquet.writing import FileLayout, write_file
from stratamq.log.sidecar import (
    OffsetPoint,
    TimePoint,
    encode_offset_points,
    encode_time_points,
)
from stratamq.meta.tier.files import ParquetEnd, TierFile, TierObject
from stratamq.model.record import Record
from stratamq.model.types import Offset, Position, ShardName, TimestampMs
from stratamq.wire.kafka.records import BatchHeader, encode_batch, iter_batches

SHARD = ShardName("0123456789abcdef0123456789abcdef_0")
POINT_EVERY = 3
"""Batches between two points of an index."""


class Puts(Protocol):
    """A store, as far as filling it goes."""

    async def put(self, key: str, data: bytes, *, if_absent: bool = False) -> object: ...


class Folder:
    """A `file://` store's folder, filled without its syncs: those of hundreds of examples take
    minutes."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def put(self, key: str, data: bytes, *, if_absent: bool = False) -> object:
        path = self._root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.write_bytes(data)


async def put(store: Puts, key: str, data: bytes) -> TierObject:
    await store.put(key, data, if_absent=True)
    return TierObject(key, len(data), crc32c(data))


async def store_file(
    store: Puts,
    batches: Sequence[bytes],
    *,
    formats: str = "parquet",
    row_group_bytes: int = 2000,
    end: int | None = None,
) -> TierFile:
    """One final file of all these batches."""
    headers = [header for header, _ in iter_batches(b"".join(batches))]
    stem = f"t.id/part/{headers[0].base_offset:020d}-{secrets.token_hex(4)}"
    facts: dict[str, object] = {}
    if formats in ("parquet", "both"):
        facts |= await _parquet(store, stem, batches, row_group_bytes)
    if formats in ("log", "both"):
        facts |= await _log(store, stem, batches, headers)
    return TierFile(
        shard=SHARD,
        base_offset=headers[0].base_offset,
        end_offset=Offset(end if end is not None else headers[-1].next_offset),
        final=True,
        batches=len(batches),
        log_bytes=sum(map(len, batches)),
        max_timestamp=TimestampMs(max(header.max_timestamp for header in headers)),
        **facts,  # type: ignore[arg-type]
    )


async def _parquet(
    store: Puts, stem: str, batches: Sequence[bytes], row_group_bytes: int
) -> dict[str, object]:
    sink = io.BytesIO()
    layout = FileLayout(partition=0, row_group_bytes=row_group_bytes)
    summary = await asyncio.to_thread(write_file, batches, sink, layout)
    target = await put(store, f"{stem}.parquet", sink.getvalue())
    return {"parquet": target, "parquet_end": ParquetEnd(*summary.footer), "rows": summary.rows}


async def _log(
    store: Puts, stem: str, batches: Sequence[bytes], headers: Sequence[BatchHeader]
) -> dict[str, object]:
    base, position, largest = headers[0].base_offset, 0, -1
    offsets, times = [], []
    for number, (header, batch) in enumerate(zip(headers, batches, strict=True)):
        if number % POINT_EVERY == POINT_EVERY - 1:
            offsets.append(OffsetPoint(header.last_offset, Position(position)))
        if header.max_timestamp > largest:
            largest = header.max_timestamp
            times.append(TimePoint(header.max_timestamp, header.last_offset))
        position += len(batch)
    return {
        "log": await put(store, f"{stem}.log", b"".join(batches)),
        "index": await put(store, f"{stem}.index", encode_offset_points(base, offsets)),
        "timeindex": await put(store, f"{stem}.timeindex", encode_time_points(base, times)),
    }


def plain(count: int, first: int = 0, value_bytes: int = 500, seed: int = 0) -> list[bytes]:
    """Batches of a few records each, one behind the other from `first` on."""
    rng, made = random.Random(seed + first), []
    for _ in range(count):
        records = [
            Record(None if rng.random() < 0.1 else rng.randbytes(rng.randrange(value_bytes)), b"k")
            for _ in range(rng.randint(1, 20))
        ]
        batch = encode_batch(records, now_ms=5)
        made.append(first.to_bytes(8, "big") + batch[8:])
        first += len(records)
    return made
