"""A history in memory, made of the bytes that an engine exports: small and exact, for tests of the
engine's own side. The real one has its tests elsewhere."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from stratamq.engine.engine import StorageEngine
from stratamq.engine.segment.engine import EngineSegment
from stratamq.log.contract import SegmentInfo
from stratamq.model.errors import StoreUnavailable
from stratamq.model.types import Offset, ShardName, TimestampMs
from stratamq.wire.kafka.records import BatchHeader, decode_batch, iter_batches
from tests.engine.support import S


class Stored(NamedTuple):
    header: BatchHeader
    data: bytes


class MemoryHistory:
    """See History. `down`: the store does not answer. `gate`: reads wait until it is open."""

    def __init__(self) -> None:
        self._segments: tuple[SegmentInfo, ...] = ()
        self._batches: tuple[Stored, ...] = ()
        self.down = False
        self.gate = threading.Event()
        self.gate.set()
        self.threads: set[str] = set()
        self.reads = 0
        self.shown_end = Offset(0)

    def add(self, segment: SegmentInfo, data: bytes) -> None:
        found = [Stored(header, bytes(batch)) for header, batch in iter_batches(data)]
        self._batches = (*self._batches, *found)
        self._segments = (*self._segments, segment)

    def _asked(self) -> None:
        self.reads += 1
        self.threads.add(threading.current_thread().name)
        assert self.gate.wait(30)
        if self.down:
            raise StoreUnavailable("the store is down")

    def segments(self) -> tuple[SegmentInfo, ...]:
        return self._segments

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        self._asked()
        answer = b""
        for header, data in self._batches:
            if header.last_offset < offset:
                continue
            if header.last_offset >= end or (answer and len(answer) + len(data) > max_bytes):
                break
            answer += data
        return answer

    def offsets_by_key(self, key: bytes, end: Offset) -> Iterator[Offset]:
        self._asked()
        for header, data in reversed(self._batches):
            records = [] if header.is_control else decode_batch(header, data)
            for record in reversed(records):
                if record.key == key and record.offset < end:
                    yield record.offset

    def offsets_by_tag(self, tag: bytes, start: Offset, end: Offset) -> Iterator[Offset]:
        self._asked()
        for header, data in self._batches:
            records = [] if header.is_control else decode_batch(header, data)
            for record in records:
                if tag in record.tags and start <= record.offset < end:
                    yield record.offset

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset | None:
        self._asked()
        for header, _ in self._batches:
            if header.max_timestamp >= timestamp:
                return header.base_offset
        return None


class TieredSegments(EngineSegment):
    """An EngineSegment that moves everything to a history as soon as it is sealed by hand."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._histories: dict[ShardName, MemoryHistory] = {}

    async def roll(self, shard: ShardName) -> None:
        await super().roll(shard)
        await tier(self, self._histories.setdefault(shard, MemoryHistory()), shard=shard)


async def copy_out(
    engine: StorageEngine, history: MemoryHistory, end: int = 1 << 62, shard: ShardName = S
) -> None:
    """Give the history every sealed, decided segment below `end` that it does not have."""
    stable = engine.last_stable_offset(shard)
    known = history.segments()
    reached = known[-1].end_offset if known else 0
    for segment in engine.segments(shard):
        if segment.active or segment.end_offset > min(end, stable):
            break
        if segment.base_offset < reached:
            continue
        with tempfile.TemporaryDirectory(prefix="stratamq-") as folder:
            exported = await engine.export_segment(shard, segment.base_offset, Path(folder))
            assert exported.segment == segment
            history.add(segment, exported.log.read_bytes())


async def tier(
    engine: StorageEngine, history: MemoryHistory, end: int = 1 << 62, shard: ShardName = S
) -> int:
    """Move what is sealed to the history; the bytes that were freed."""
    await copy_out(engine, history, end, shard)
    engine.attach_history(shard, history)
    return await engine.offload(shard, Offset(end))
