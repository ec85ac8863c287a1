"""Random histories of producers against a naive reading of the log they should have left.

Producers send, send again, leave gaps, take over from each other and end transactions, while the
log is truncated, and the engine is closed or killed. After each step the engine must know exactly
what a plain walk over the expected log tells, and a consumer of committed data must see exactly
what counts."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.engine.engine import StorageEngine
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.engine import EngineMemory
from stratamq.engine.producers import shard as producers_shard
from stratamq.engine.rocksdb.engine import EngineRocksDB
from stratamq.engine.segment.engine import EngineSegment
from stratamq.model.clock import ManualClock
from stratamq.model.errors import OutOfOrderSequence
from stratamq.model.types import Offset
from stratamq.wire.kafka.records import ControlType, control_type, decode_batch, iter_batches
from tests.engine.support import NOW, S, produced, spec, write_mark

LIMITS = EngineLimits(workers=1, reader_threads=1)
MODES = {0: False, 1: False, 2: True, 3: True}
"""Producers, and whether they write transactions."""

pids = st.sampled_from(sorted(MODES))
steps = st.one_of(
    st.tuples(st.just("send"), pids, st.integers(1, 3)),
    st.tuples(st.just("send"), pids, st.integers(1, 3)),
    st.tuples(st.just("send again"), pids, st.integers(1, 5)),
    st.tuples(st.just("leave a gap"), pids, st.integers(1, 3)),
    st.tuples(st.just("take over"), pids, st.just(0)),
    st.tuples(st.just("end it"), st.sampled_from([2, 3]), st.integers(0, 1)),
    st.tuples(st.just("truncate"), st.just(0), st.integers(1, 8)),
    st.tuples(st.sampled_from(["roll", "reopen", "kill"]), st.just(0), st.just(0)),
)


@dataclass
class Entry:
    """A batch, or with `commit` a mark."""

    base: int
    pid: int
    epoch: int
    sequence: int
    values: list[bytes]
    commit: bool | None = None

    @property
    def end(self) -> int:
        return self.base + len(self.values)


@dataclass
class Told:
    """What the log tells when it is read from its start."""

    epochs: dict[int, int] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    begun: dict[int, int] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    counted: list[tuple[int, bytes]] = field(default_factory=list)
    last_stable: int = 0


def read(log: list[Entry]) -> Told:
    told = Told()
    pending: dict[int, list[tuple[int, bytes]]] = {}
    for entry in log:
        pid = entry.pid
        if told.epochs.get(pid) != entry.epoch:
            told.epochs[pid], told.sequences[pid] = entry.epoch, -1
        if entry.commit is None:
            told.sequences[pid] = entry.sequence + len(entry.values) - 1
            records = list(enumerate(entry.values, entry.base))
            if not MODES[pid]:
                told.counted += records
                continue
            told.begun.setdefault(pid, entry.base)
            pending.setdefault(pid, []).extend(records)
        elif pid in told.begun:
            if entry.commit:
                told.counted += pending[pid]
            else:
                told.aborted.append((pid, told.begun[pid], entry.base))
            del told.begun[pid], pending[pid]
    end = log[-1].end if log else 0
    told.last_stable = min(told.begun.values(), default=end)
    told.counted = sorted(one for one in told.counted if one[0] < told.last_stable)
    return told


class History:
    """An engine, and the log that it should have."""

    def __init__(self, kind: Callable[..., StorageEngine], folder: Path) -> None:
        self.kind, self.root = kind, folder
        self.log: list[Entry] = []
        self.places = 0
        self.engine = self.make(folder / "0")

    def make(self, folder: Path) -> StorageEngine:
        self.folder = folder
        return self.kind(folder, clock=ManualClock(NOW), limits=LIMITS)

    @property
    def end(self) -> int:
        return self.log[-1].end if self.log else 0

    async def run(self, plan: list[tuple[str, int, int]]) -> None:
        await self.engine.open()
        await self.engine.create_shard(spec(segment_bytes=1024))
        stable = 0
        for name, pid, number in plan:
            await getattr(self, name.replace(" ", "_"))(pid, number)
            found = self.engine.last_stable_offset(S)
            assert found >= stable or name == "truncate", "it never goes back"
            stable = found
            await self.compare()
        await self.engine.close()

    # -- steps ---------------------------------------------------------------------------------

    async def send(self, pid: int, count: int) -> None:
        told = read(self.log)
        sequence, epoch = told.sequences.get(pid, -1) + 1, told.epochs.get(pid, 0)
        values = [b"%d/%d/%d" % (pid, self.end, n) for n in range(count)]
        entry = Entry(self.end, pid, epoch, sequence, values)
        assert (await self.append(entry)) == entry.base
        self.log.append(entry)

    async def append(self, entry: Entry) -> int:
        data = produced(
            *entry.values,
            pid=entry.pid,
            epoch=entry.epoch,
            sequence=entry.sequence,
            transactional=MODES[entry.pid],
        )
        return (await self.engine.append_batch(S, data)).base_offset

    async def send_again(self, pid: int, back: int) -> None:
        epoch = read(self.log).epochs.get(pid)
        of_epoch = [
            one for one in self.log if one.pid == pid and one.epoch == epoch and one.commit is None
        ]
        if len(of_epoch) >= back:
            assert await self.append(of_epoch[-back]) == of_epoch[-back].base

    async def leave_a_gap(self, pid: int, size: int) -> None:
        told = read(self.log)
        if pid in told.epochs:
            sequence = told.sequences[pid] + 1 + size
            with pytest.raises(OutOfOrderSequence):
                await self.append(Entry(0, pid, told.epochs[pid], sequence, [b"gap"]))

    async def take_over(self, pid: int, _: int) -> None:
        """A new instance of the producer; a transaction of the old one is aborted."""
        epoch = read(self.log).epochs.get(pid, -1) + 1
        if MODES[pid]:
            await self.mark(pid, epoch, commit=False)
        else:
            entry = Entry(self.end, pid, epoch, 0, [b"new/%d" % self.end])
            assert await self.append(entry) == entry.base
            self.log.append(entry)

    async def end_it(self, pid: int, commit: int) -> None:
        await self.mark(pid, read(self.log).epochs.get(pid, 0), commit=bool(commit))

    async def mark(self, pid: int, epoch: int, *, commit: bool) -> None:
        base = self.end
        assert await write_mark(self.engine, pid, epoch=epoch, commit=commit) == base
        self.log.append(Entry(base, pid, epoch, -1, [b""], commit))

    async def truncate(self, _: int, count: int) -> None:
        self.log = self.log[:-count]
        await self.engine.truncate(S, Offset(self.end))

    async def roll(self, _: int, __: int) -> None:
        await self.engine.roll(S)

    async def reopen(self, _: int, __: int) -> None:
        if self.kind is not EngineMemory:
            await self.engine.close()
            self.engine = self.make(self.folder)
            await self.engine.open()

    async def kill(self, _: int, __: int) -> None:
        """What a process that is killed leaves: its files, as they are."""
        if self.kind is not EngineMemory:
            self.places += 1
            left = self.root / str(self.places)
            shutil.copytree(self.folder, left)
            await self.engine.close()
            self.engine = self.make(left)
            await self.engine.open()

    # -- what holds ----------------------------------------------------------------------------

    async def compare(self) -> None:
        told = read(self.log)
        states = {one.producer_id: one for one in self.engine.producers(S)}
        assert {pid: one.producer_epoch for pid, one in states.items()} == told.epochs
        assert {pid: one.last_sequence for pid, one in states.items()} == told.sequences
        begun = {
            pid: one.transaction_start
            for pid, one in states.items()
            if one.transaction_start is not None
        }
        assert begun == told.begun
        assert self.engine.last_stable_offset(S) == told.last_stable
        found = self.engine.aborted_transactions(S, Offset(0), Offset(1 << 40))
        assert [(one.producer_id, one.first_offset, one.last_offset) for one in found] == (
            told.aborted
        )
        assert await self.consumed() == told.counted

    async def consumed(self) -> list[tuple[int, bytes]]:
        """As Kafka's consumers do it: batch by batch, with the list of what was aborted."""
        offset, end = Offset(0), self.engine.last_stable_offset(S)
        seen: list[tuple[int, bytes]] = []
        while offset < end:
            fetched = await self.engine.fetch_batches(S, offset, 300)
            waiting = sorted(
                (one.first_offset, one.producer_id)
                for one in self.engine.aborted_transactions(S, offset, fetched.next_offset)
            )
            shut: set[int] = set()
            for header, data in iter_batches(fetched.data):
                if header.base_offset >= end:
                    return seen
                while waiting and waiting[0][0] <= header.last_offset:
                    shut.add(waiting.pop(0)[1])
                records = decode_batch(header, data)
                if header.is_control:
                    if control_type(records[0]) is ControlType.ABORT:
                        shut.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in shut):
                    seen += [(one.offset, one.value or b"") for one in records]
            offset = fetched.next_offset
        return seen


@pytest.mark.parametrize("kind", [EngineMemory, EngineRocksDB, EngineSegment])
def test_the_log_holds_each_batch_once_and_readers_see_what_counts(
    kind: Callable[..., StorageEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers_shard, "SNAPSHOT_BATCHES", 3)

    @given(st.lists(steps, max_size=25))
    @settings(max_examples=30 if kind is EngineMemory else 8)
    def holds(plan: list[tuple[str, int, int]]) -> None:
        with tempfile.TemporaryDirectory(prefix="stratamq-") as folder:
            asyncio.run(History(kind, Path(folder)).run(plan))

    holds()
