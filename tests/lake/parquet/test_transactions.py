"""What a shard derives from its log, it derives from the cold copy too."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.engine.contract import ShardSpec
from stratamq.engine.memory.engine import EngineMemory
from stratamq.model.record import Record
from stratamq.model.topic import TopicConfig
from stratamq.model.types import Offset, ShardName
from stratamq.wire.kafka.records import (
    Compression,
    ControlType,
    encode_batch,
    encode_control,
    read_header,
)
from stratamq.wire.kafka.records.rewrite import empty_batch
from tests.lake.parquet.histories import opened, written

NOW = 1_700_000_000_000
EVERYTHING = 1 << 62
SHARD = ShardName("0123456789abcdef0123456789abcdef_0")

steps = st.tuples(
    st.integers(0, 2),
    st.sampled_from(["write", "write", "write", "commit", "abort", "emptied", "plain"]),
    st.integers(1, 3),
    st.sampled_from(Compression),
)


class Writers:
    """Three transactional producers and those without an id, writing one log."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self._offset = self._epoch = 0
        self._sequences = [0, 0, 0]
        self._open: set[int] = set()

    def step(self, producer: int, what: str, count: int, codec: Compression) -> None:
        self._epoch += what == "abort"
        if what in ("commit", "abort"):
            if producer in self._open:
                self._end(producer, ControlType.COMMIT if what == "commit" else ControlType.ABORT)
        elif what == "plain":
            self._write(-1, -1, count, codec)
        else:
            self._write(producer, self._sequences[producer], count, codec)
            self._sequences[producer] += count
            self._open.add(producer)
            if what == "emptied":
                self.batches[-1] = empty_batch(read_header(self.batches[-1]))

    def _write(self, producer: int, sequence: int, count: int, codec: Compression) -> None:
        self._add(
            encode_batch(
                [Record(b"%d" % number) for number in range(count)],
                now_ms=NOW,
                base_offset=self._offset,
                leader_epoch=self._epoch,
                compression=codec,
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=sequence,
                transactional=producer >= 0,
            )
        )

    def _end(self, producer: int, kind: ControlType) -> None:
        self._open.discard(producer)
        self._add(
            encode_control(
                kind,
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=3,
                now_ms=NOW,
                base_offset=self._offset,
                leader_epoch=self._epoch,
            )
        )

    def _add(self, batch: bytes) -> None:
        self.batches.append(batch)
        self._offset = read_header(batch).next_offset


async def derived(log: bytes, folder: Path) -> dict[str, object]:
    """Everything that a shard with this log tells consumers, producers and followers."""
    engine = EngineMemory(folder)
    await engine.open()
    await engine.create_shard(ShardSpec(name=SHARD, config=TopicConfig.of({}), replicated=True))
    end = await engine.append_replica(SHARD, log)
    await engine.advance_high_watermark(SHARD, end)
    found = {
        "aborted": engine.aborted_transactions(SHARD, Offset(0), end),
        "stable": engine.last_stable_offset(SHARD),
        "producers": engine.producers(SHARD),
        "epochs": engine.epochs(SHARD),
        "end": end,
        "records": await engine.read_by_offset(SHARD, Offset(0)),
    }
    await engine.close()
    return found


@given(st.lists(steps, min_size=1, max_size=25))
@settings(max_examples=40)
async def test_producers_transactions_and_epochs_are_the_same(
    history: list[tuple[int, str, int, Compression]],
) -> None:
    writers = Writers()
    writers.step(0, "plain", 1, Compression.NONE)
    for step in history:
        writers.step(*step)
    cold = opened(written(writers.batches)[0]).read(0, EVERYTHING, EVERYTHING)
    with tempfile.TemporaryDirectory() as folder:
        warm = await derived(b"".join(writers.batches), Path(folder, "warm"))
        assert await derived(cold, Path(folder, "cold")) == warm
