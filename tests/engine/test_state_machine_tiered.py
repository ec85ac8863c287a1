"""Whatever is done to a shard whose past is on object storage: it answers as one that has
everything in memory.

The random machine of `test_state_machine`, with segments moving to a history at any time. Nothing
is compacted here: what object storage has stays as it is, and the model has none."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from stratamq.engine.engine import StorageEngine
from stratamq.model.record import Record
from stratamq.model.types import Offset
from tests.engine.memory_history import MemoryHistory, copy_out, tier
from tests.engine.support import S
from tests.engine.test_state_machine import SameAnswers, keyed, late_parts, parts


class SameAnswersTiered(SameAnswers):
    def __init__(self) -> None:
        super().__init__()
        self.histories = [MemoryHistory() for _ in self.others]

    def tiered(self) -> list[tuple[StorageEngine, MemoryHistory]]:
        return list(zip(self.others, self.histories, strict=True))

    def attach(self) -> None:
        for engine, history in self.tiered():
            engine.attach_history(S, history)

    # -- what moves ----------------------------------------------------------------------------

    @rule(part=parts)
    def offload(self, part: float) -> None:
        """The start, and all that can be asked, stays."""
        end = self.place(part)
        for engine, history in self.tiered():
            self.runner.run(tier(engine, history, end))
        assert len({engine.local_start(S) for engine in self.others}) == 1

    @rule()
    def copy(self) -> None:
        """In both places, for a while."""
        for engine, history in self.tiered():
            self.runner.run(copy_out(engine, history))
        self.attach()

    # -- what is different ---------------------------------------------------------------------

    @rule(part=late_parts)
    def truncate(self, part: float) -> None:
        """Not below what object storage has; that it is refused has its own test."""
        place = max(self.place(part), *(_settled(engine) for engine in self.others))
        place = min(place, self.memory.offsets(S).end)
        self.cut_at(Offset(place))

    @rule(
        many=st.lists(keyed, min_size=1, max_size=4),
        epoch=st.integers(-1, 5),
        gap=st.sampled_from([0, 0, 0, -1, 1, 7]),
    )
    def append_replica(self, many: list[Record], epoch: int, gap: int) -> None:
        """An empty log may begin anew: then what object storage has is not of it."""
        start, _, end = self.memory.offsets(S)
        super().append_replica.__wrapped__(self, many, epoch, gap)  # type: ignore[attr-defined]
        if start == end and self.memory.offsets(S).start != start:
            self.histories = [MemoryHistory() for _ in self.others]

    @rule()
    def compact(self) -> None:
        pass

    @rule()
    def reopen(self) -> None:
        super().reopen.__wrapped__(self)  # type: ignore[attr-defined]
        self.attach()

    def shape(self, engine: StorageEngine) -> object:
        return [*engine.cold_segments(S), *(one for one in engine.segments(S) if one.size_bytes)]


def _settled(engine: StorageEngine) -> Offset:
    assert isinstance(engine, StorageEngine)
    return engine._shard(S).settled_end()


def test_all_engines_give_the_same_answers_with_a_history() -> None:
    machine: Any = SameAnswersTiered
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
