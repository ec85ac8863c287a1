"""Whatever is done to the engines, all of them give the same answers.

Hypothesis does the same things to EngineRocksDB and EngineSegment as to EngineMemory, which is
simple enough to be the model, and compares everything that can be asked. It has the clock in its
hands, and closes and opens the durable ones as it likes."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from stratamq.engine.contract import OffsetStrategy, ReadLimit
from stratamq.engine.engine import StorageEngine
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.engine import EngineMemory
from stratamq.engine.rocksdb.engine import EngineRocksDB
from stratamq.engine.segment.engine import EngineSegment
from stratamq.log.contract import SegmentInfo
from stratamq.model.clock import ManualClock
from stratamq.model.errors import StrataError
from stratamq.model.record import TTL_HEADER, Record
from stratamq.model.types import LeaderEpoch, Offset, TimestampMs
from stratamq.wire.kafka.records import Compression, is_skip, iter_batches
from tests.engine.support import EVERYTHING, NOW, S, batch, headers, spec, write_mark

LIMITS = EngineLimits(workers=1, reader_threads=1)
Call = Callable[[StorageEngine], Awaitable[Any]]

keys = st.sampled_from([b"", b"a", b"b", b"a/b", b"\xff"])
tags = st.sampled_from([b"", b"x", b"x/y", b"z"])
own_ttls = st.sampled_from([b"50", b"5000", b"never"])
records = st.builds(
    lambda value, key, tagged, at, ttl: Record(
        value, key, ((TTL_HEADER, ttl),) if ttl else (), tuple(tagged), TimestampMs(at)
    ),
    st.none() | st.binary(max_size=40) | st.just(b"large" * 60),
    st.none() | keys,
    st.lists(tags, max_size=2),
    st.just(-1) | st.integers(NOW - 300, NOW + 300),
    st.none() | own_ttls,
)
keyed = records.map(lambda found: found._replace(key=found.key or b"a"))
configs = st.fixed_dictionaries(
    {
        "segment_bytes": st.sampled_from([1024, 4096, 1 << 20]),
        "segment_ms": st.sampled_from([100, 10**9]),
        "retention_ms": st.sampled_from([-1, 200]),
        "retention_bytes": st.sampled_from([-1, 1500]),
        "cleanup_policy": st.sampled_from(["delete", "compact", "compact,delete"]),
        "delete_retention_ms": st.sampled_from([0, 150]),
        "record_ttl_ms": st.sampled_from([-1, -1, 0, 300]),
        "message_timestamp_type": st.sampled_from(["CreateTime", "CreateTime", "LogAppendTime"]),
        "compression_type": st.sampled_from(["producer", "lz4"]),
        "index_key": st.booleans(),
        "index_tag": st.booleans(),
        "replicated": st.sampled_from([False, False, True]),
    }
)
parts = st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
"""A place between the start and the end of the log, whatever they are by then."""

late_parts = st.sampled_from([0.0, 0.6, 0.8, 0.9, 1.0])


async def fetched(engine: StorageEngine, offset: Offset, size: int) -> tuple[bytes, Offset]:
    """All a consumer gets from here on, and where it ends. In how many steps is the engine's own
    affair, and so are the marks at the end of a step."""
    data = b""
    while True:
        found = await engine.fetch_batches(S, offset, size)
        if not found.data:
            assert found.next_offset == offset, "a consumer would not get on"
            return data, offset
        for header, part in iter_batches(found.data):
            data += b"" if is_skip(header) else part
        assert offset < found.next_offset == header.next_offset
        offset = found.next_offset


async def replicated(engine: StorageEngine, offset: Offset, size: int) -> bytes:
    """All a follower gets from here on."""
    data = b""
    while found := await engine.read_raw(S, offset, size):
        data += found
        offset = headers(found)[-1].next_offset
    return data


class SameAnswers(RuleBasedStateMachine):
    kinds: tuple[Callable[..., StorageEngine], ...] = (EngineRocksDB, EngineSegment)
    gaps = True

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp(prefix="stratamq-"))
        self.clock = ManualClock(NOW)
        self.memory = EngineMemory(self.folder, clock=self.clock, limits=LIMITS)
        self.runner.run(self.memory.open())
        self.others = self.opened()

    def opened(self) -> list[StorageEngine]:
        """The engines that are held to memory's answers."""
        engines = [kind(self.folder, clock=self.clock, limits=LIMITS) for kind in self.kinds]
        for engine in engines:
            self.runner.run(engine.open())
        return engines

    @property
    def engines(self) -> list[StorageEngine]:
        return [self.memory, *self.others]

    def teardown(self) -> None:
        for engine in self.engines:
            self.runner.run(engine.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    def all_do(self, call: Call) -> Any:
        """The answer of all engines, or the error they all gave."""

        async def outcome(engine: StorageEngine) -> Any:
            try:
                return await call(engine)
            except StrataError as error:
                return type(error), str(error)

        answers = [self.runner.run(outcome(engine)) for engine in self.engines]
        for engine, answer in zip(self.engines, answers, strict=True):
            assert answer == answers[0], f"{type(engine).__name__}: {answer} is not {answers[0]}"
        return answers[0]

    def place(self, part: float) -> Offset:
        start, _, end = self.memory.offsets(S)
        return Offset(start + round(part * (end - start)))

    @initialize(config=configs)
    def create(self, config: dict[str, Any]) -> None:
        self.all_do(
            lambda engine: engine.create_shard(
                spec(**config, memory_persist=engine is not self.memory)
            )
        )

    # -- writing -------------------------------------------------------------------------------

    @rule(record=records)
    def write(self, record: Record) -> None:
        self.all_do(lambda engine: engine.write(S, record))

    @rule(many=st.lists(keyed, max_size=8))
    def batch_write(self, many: list[Record]) -> None:
        self.all_do(lambda engine: engine.batch_write(S, many))

    @rule(
        many=st.lists(keyed, min_size=1, max_size=8),
        codec=st.sampled_from(Compression),
        epoch=st.none() | st.integers(0, 5),
    )
    def append_batch(self, many: list[Record], codec: Compression, epoch: int | None) -> None:
        data = batch(*many, compression=codec, now=self.clock.now_ms())
        led = None if epoch is None else LeaderEpoch(epoch)
        self.all_do(lambda engine: engine.append_batch(S, data, led))

    @rule()
    def append_control(self) -> None:
        self.all_do(write_mark)

    @rule(
        many=st.lists(keyed, min_size=1, max_size=4),
        epoch=st.integers(-1, 5),
        gap=st.sampled_from([0, 0, 0, -1, 1, 7]),
    )
    def append_replica(self, many: list[Record], epoch: int, gap: int) -> None:
        base = max(0, self.memory.offsets(S).end + (gap if self.gaps else min(gap, 0)))
        if epoch < 0 and (led := self.memory.epochs(S)):
            epoch = led[-1].epoch  # leaders that count do not stop counting
        data = batch(*many, base=base, epoch=epoch, now=self.clock.now_ms())
        self.all_do(lambda engine: engine.append_replica(S, data))

    @rule(part=parts)
    def advance_high_watermark(self, part: float) -> None:
        """To the end of a batch, as replicas that copy batches do."""
        data = self.runner.run(self.memory.read_raw(S, self.place(part), 1))
        reached = headers(data)[0].next_offset if data else self.memory.offsets(S).end
        self.all_do(lambda engine: engine.advance_high_watermark(S, reached))

    # -- changing the past ---------------------------------------------------------------------

    @rule(part=late_parts)
    def truncate(self, part: float) -> None:
        place = self.place(part)
        self.cut_at(place)
        self.seal()

    def cut_at(self, place: Offset) -> None:
        """EngineSegment seals a log that is cut within a gap: only the name of the next file tells
        where the log ends. So all do, here."""
        data = self.runner.run(self.memory.read_raw(S, place, 1))
        after = headers(data)[0].base_offset if data else self.memory.offsets(S).end
        in_gap = after > place
        self.all_do(lambda engine: engine.truncate(S, place))
        if in_gap:
            self.roll()

    @rule(part=parts)
    def trim(self, part: float) -> None:
        place = self.place(part)
        self.all_do(lambda engine: engine.trim(S, place))

    @rule()
    def roll(self) -> None:
        self.all_do(lambda engine: engine.roll(S))

    @rule()
    def apply_retention(self) -> None:
        self.all_do(lambda engine: engine.apply_retention(S))

    @rule()
    def compact(self) -> None:
        self.all_do(lambda engine: engine.compact(S))

    @rule(key=keys)
    def delete_by_key(self, key: bytes) -> None:
        self.all_do(lambda engine: engine.delete_by_key(S, key))

    @rule(part=parts)
    def delete_by_offset(self, part: float) -> None:
        place = self.place(part)
        self.all_do(lambda engine: engine.delete_by_offset(S, place))

    @rule(ms=st.sampled_from([1, 60, 250]))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule()
    def reopen(self) -> None:
        self.seal()
        for engine in self.others:
            self.runner.run(engine.close())
        self.others = self.opened()

    def seal(self) -> None:
        """For engines that begin a new segment at such an occasion."""

    # -- asking --------------------------------------------------------------------------------

    @rule(
        part=parts,
        count=st.sampled_from([0, 1, 2, 5, 100]),
        size=st.sampled_from([1, 100, 1000]),
    )
    def read_with_limits(self, part: float, count: int, size: int) -> None:
        place, limit = self.place(part), ReadLimit(count, size)
        self.all_do(lambda engine: engine.read_by_offset(S, place, limit))
        self.all_do(lambda engine: engine.read_by_tag(S, b"x", place, limit))
        self.all_do(lambda engine: engine.read_by_key(S, b"a", place, limit, history=True))
        self.all_do(lambda engine: fetched(engine, place, size))
        self.all_do(lambda engine: replicated(engine, place, size))

    @rule(
        at=st.integers(NOW - 400, NOW + 2000),
        strategy=st.sampled_from(OffsetStrategy),
    )
    def ask_for_a_time(self, at: int, strategy: OffsetStrategy) -> None:
        self.all_do(lambda engine: engine.offset_by_timestamp(S, TimestampMs(at), strategy))

    @rule(epoch=st.integers(-1, 6))
    def ask_for_an_epoch(self, epoch: int) -> None:
        answers = [engine.end_of_epoch(S, LeaderEpoch(epoch)) for engine in self.engines]
        assert answers.count(answers[0]) == len(answers)

    @rule(key=keys, tag=tags)
    def look_up_everything(self, key: bytes, tag: bytes) -> None:
        zero = Offset(0)
        self.all_do(lambda engine: engine.read_by_key(S, key, zero, EVERYTHING, history=True))
        self.all_do(lambda engine: engine.read_by_key(S, key))
        self.all_do(lambda engine: engine.read_by_tag(S, tag, zero, EVERYTHING))

    def shape(self, engine: StorageEngine) -> object:
        """Where the engine put what. A log that is cut within a gap may leave EngineSegment a file
        with nothing in it."""
        return [one for one in engine.segments(S) if one.size_bytes]

    @invariant()
    @precondition(lambda self: self.memory.list_shards())
    def same_log(self) -> None:
        states = [
            (engine.offsets(S), engine.epochs(S), self.shape(engine)) for engine in self.engines
        ]
        for engine, state in zip(self.engines, states, strict=True):
            assert state == states[0], f"{type(engine).__name__}: {state} is not {states[0]}"
        start = self.memory.offsets(S).start
        self.all_do(lambda engine: engine.read_by_offset(S, start, EVERYTHING))
        self.all_do(lambda engine: fetched(engine, start, 1 << 30))
        self.all_do(lambda engine: replicated(engine, start, 1 << 30))


class SameAnswersPersisted(SameAnswers):
    """What EngineMemory persists is sealed: when it is closed, and where it is cut. A gap at its
    end is nothing that could be persisted. It persists when it is told to, so that every run can be
    repeated."""

    kinds = (partial(EngineMemory, persist_in_background=False),)
    gaps = False

    @rule()
    def persist(self) -> None:
        for engine in self.others:
            assert isinstance(engine, EngineMemory)
            self.runner.run(engine.persist())

    def seal(self) -> None:
        self.roll()

    def shape(self, engine: StorageEngine) -> object:
        """What can be read, that is. Where gaps belong to, and when something that nobody can read
        is gone, is another matter where segments move."""
        return [
            (found.size_bytes, found.first_timestamp, found.max_timestamp)
            for found in engine.segments(S)
            if found.size_bytes and self.is_readable(engine, found)
        ]

    def is_readable(self, engine: StorageEngine, segment: SegmentInfo) -> bool:
        """Whether any batch of it reaches behind the start."""
        first = max(segment.base_offset, engine.offsets(S).start)
        data = self.runner.run(engine.read_raw(S, first, 1))
        return bool(data) and headers(data)[0].base_offset < segment.end_offset

    @rule()
    def reopen(self) -> None:
        """The epoch of a log that was trimmed to its end before any of it was on disk is forgotten:
        there was nowhere to keep it."""
        start, _, end = self.memory.offsets(S)
        if start < end or not self.memory.epochs(S):
            super().reopen()


@pytest.mark.parametrize("machine", [SameAnswers, SameAnswersPersisted])
def test_all_engines_give_the_same_answers(machine: type[SameAnswers]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
