"""Random lives of a log against a plain list of batches, and: a crash keeps a prefix."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stratamq.log import sidecar
from stratamq.log.contract import PlacedBatch
from stratamq.model.errors import OffsetOutOfRange
from stratamq.model.types import Offset
from stratamq.wire.kafka.records import Compression, drop_records, read_header
from tests.log.crashing import CUTS, DAMAGING, FATES, KILLED, Fate
from tests.log.ledger import check_epochs, check_lookups, check_order, offloaded
from tests.log.rig import Rig, batches_of
from tests.log.support import ROOM, batch, batches_from, read_log, record
from tests.twins.disk import Power
from tests.twins.kv import Loss

codecs = st.sampled_from(Compression)
counts = st.integers(1, 7)
seeds = st.integers(0, 1 << 30)
safe_fates = st.sampled_from([fate for fate in FATES if fate[0] not in DAMAGING])


class LogModel(RuleBasedStateMachine):
    """`stored` is the log: every batch that was appended and not taken away, by base offset."""

    def __init__(self) -> None:
        super().__init__()
        self._points, sidecar.POINT_EVERY_RECORDS = sidecar.POINT_EVERY_RECORDS, 3
        self.rig = Rig.new().open()
        self.stored: dict[int, bytes] = {}
        self.gaps: set[int] = set()
        self.deleted: set[int] = set()
        self.start = self.end = self.local_start = 0
        self.epoch = 0

    def teardown(self) -> None:
        sidecar.POINT_EVERY_RECORDS = self._points

    # -- what may happen -----------------------------------------------------------------------

    @rule(sizes=st.lists(counts, min_size=1, max_size=4), codec=codecs, seed=seeds)
    def append(self, sizes: list[int], codec: Compression, seed: int) -> None:
        batches: list[PlacedBatch] = []
        for count in sizes:
            records = [record(seed + number, size=seed % 200) for number in range(count)]
            batches.append(batch(self.end, records, self.epoch, codec))
            self.end += count
        self.rig.log.append(batches)
        self.stored.update({one.header.base_offset: one.data for one in batches})

    @rule()
    def acknowledge(self) -> None:
        self.rig.log.sync()
        self.rig.log.flush_index()

    @rule(step=st.integers(1, 3))
    def new_epoch(self, step: int) -> None:
        self.epoch += step

    @rule()
    def roll(self) -> None:
        self.rig.log.roll()

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(max(self.start, self.local_start), self.end))
        self.rig.log.truncate(Offset(end))
        cut = [
            base for base, stored in self.stored.items() if read_header(stored).last_offset >= end
        ]
        for base in cut:
            del self.stored[base]
        self.end = max(min([end, *cut]), self.start)
        assert self.end >= self.local_start
        self.deleted = {offset for offset in self.deleted if offset < self.end}
        assert self.rig.log.end_offset == self.end

    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.end))
        self.rig.log.trim(Offset(self.start))
        self.deleted = {offset for offset in self.deleted if offset >= self.start}

    @rule(data=st.data())
    def offload(self, data: st.DataObject) -> None:
        """Whole sealed segments; the model's start, marks and epochs stay as they are."""
        end = data.draw(st.integers(self.local_start, self.end + 1))
        bases = [info.base_offset for info in self.rig.log.segments()[1:]]
        self.rig.log.offload(Offset(end))
        self.local_start = max([base for base in bases if base <= end], default=self.local_start)
        self.stored = {base: data for base, data in self.stored.items() if base >= self.local_start}
        assert self.rig.log.local_start == max(self.start, self.local_start)

    @rule(data=st.data())
    def truncate_what_was_offloaded(self, data: st.DataObject) -> None:
        assume(self.start < self.local_start < self.end)
        end = data.draw(st.integers(self.start, self.local_start - 1))
        with pytest.raises(OffsetOutOfRange):
            self.rig.log.truncate(Offset(end))

    @rule(start=st.integers(0, 300))
    def restart(self, start: int) -> None:
        self.rig.log.restart(Offset(start))
        self.start = self.end = start
        self.local_start = 0
        self.stored, self.gaps, self.deleted = {}, set(), set()

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        offsets = data.draw(st.sets(st.integers(self.start, self.end - 1), max_size=4))
        self.rig.log.delete(map(Offset, offsets))
        self.deleted |= offsets

    @rule(data=st.data(), keep=st.integers(1, 4))
    def rewrite(self, data: st.DataObject, keep: int) -> None:
        sealed = self.rig.log.segments()[:-1]
        assume(sealed)
        info = data.draw(st.sampled_from(sealed))
        span = range(info.base_offset, info.end_offset)
        gone = [offset for offset in span if offset in self.deleted or offset // 2 % keep == 0]
        self.rig.log.rewrite(
            info.base_offset, lambda header, view: drop_records(header, view, gone, ROOM)
        )
        for header, stored in batches_of(
            {base: stored for base, stored in self.stored.items() if base in span}
        ):
            left = drop_records(header, stored, gone, ROOM)
            if left is None:
                del self.stored[header.base_offset]
                self.gaps |= set(range(header.base_offset, header.next_offset))
            else:
                self.stored[header.base_offset] = left
        self.deleted -= set(span)

    @rule()
    def restart_cleanly(self) -> None:
        self.rig.log.close()
        self.rig = self.rig.after_crash(Power.LOST, Loss.NOTHING, Random(0)).open()

    @rule(loss=st.sampled_from([Loss.KILLED, Loss.WIPED]))
    def kill(self, loss: Loss) -> None:
        self.rig = self.rig.after_crash(Power.KILLED, loss, Random(0)).open()

    @rule(loss=st.sampled_from([Loss.NOTHING, Loss.SUFFIX, Loss.UNSYNCED]), seed=seeds)
    def cut_the_power_after_a_sync(self, loss: Loss, seed: int) -> None:
        self.rig.log.sync()
        self.rig = self.rig.after_crash(Power.LOST, loss, Random(seed)).open()

    # -- what must hold ------------------------------------------------------------------------

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        log = self.rig.log
        assert (log.start_offset, log.end_offset) == (self.start, self.end)
        content = read_log(log, max_bytes=700)
        assert not content.damaged
        assert not log.damage
        visible = {
            base: stored
            for base, stored in sorted(self.stored.items())
            if read_header(stored).last_offset >= self.start
        }
        assert {header.base_offset: found for header, found in content.batches} == visible
        check_order(log, content, self.gaps | offloaded(log))
        assert set(log.deleted()) == self.deleted
        if content.batches:
            check_epochs(log, content)

    @invariant()
    def finds_what_a_scan_finds(self) -> None:
        self.rig.log.flush_index()
        check_lookups(self.rig.log, read_log(self.rig.log))


LogModel.TestCase.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
TestLogModel: Any = LogModel.TestCase


@pytest.mark.usefixtures("dense_points")
@given(
    st.lists(st.tuples(st.lists(counts, min_size=1, max_size=3), st.booleans()), max_size=8),
    st.sampled_from([KILLED, *CUTS]),
    seeds,
)
@settings(max_examples=150, deadline=None)
def test_a_crash_keeps_a_prefix(
    appends: list[tuple[list[int], bool]], fate: Fate, seed: int
) -> None:
    """All that was acknowledged, and of the rest the first so many."""
    rig = Rig.new().open()
    for sizes, acknowledged in appends:
        rig.append(*sizes)
        if acknowledged:
            rig.ack()
    written = [data for _, data in read_log(rig.log).batches]
    found = rig.after_crash(*fate, Random(seed)).open()
    content = found.ledger.check(found.log)
    kept = [data for _, data in content.batches]
    if fate[0] not in DAMAGING:
        assert kept == written[: len(kept)]
        assert not content.damaged


@given(st.lists(counts, min_size=1, max_size=12), seeds)
@settings(max_examples=50, deadline=None)
def test_any_piece_of_a_log_is_whole_batches(sizes: list[int], seed: int) -> None:
    """However few bytes are asked for, from wherever, up to wherever."""
    rig, rng = Rig.new().open(), Random(seed)
    batches = batches_from(0, sizes)
    rig.log.append(batches)
    end = rig.log.end_offset
    for _ in range(20):
        offset, limit = rng.randrange(end), rng.randint(0, end)
        room = rng.choice([0, 1, 61, 200, 1000, 1 << 20])
        data = rig.log.read(Offset(offset), room, Offset(limit))
        holder = next(n for n, one in enumerate(batches) if one.header.last_offset >= offset)
        expected = b""
        for one in batches[holder:]:
            fits = not expected or len(expected) + len(one.data) <= room
            if one.header.last_offset >= limit or not fits:
                break
            expected += one.data
        assert expected.startswith(data)
        assert bool(data) == bool(expected)
