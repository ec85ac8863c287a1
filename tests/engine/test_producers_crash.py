"""Snapshots of producers through crashes: whatever is left of log and snapshots, the table is the
one that the log alone would give."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest

from stratamq.engine import housekeeping
from stratamq.engine.engine_shard import from_batch, from_marker
from stratamq.engine.group import Append, Group
from stratamq.engine.producers.shard import forget_above
from stratamq.engine.shard import Shard
from stratamq.model.types import NO_OFFSET, Offset, TimestampMs
from stratamq.wire.kafka.records import ControlType, encode_control
from tests.engine.support import NOW, produced, spec
from tests.log.support import FOLDER, ROOM, open_log
from tests.twins.disk import Crash, Power, SimDisk, at_call, no_trouble
from tests.twins.kv import Loss, SimKV

FATES = [
    (Power.KILLED, Loss.KILLED),
    (Power.KEPT, Loss.NOTHING),
    (Power.LOST, Loss.UNSYNCED),
    (Power.PREFIX, Loss.SUFFIX),
    (Power.TORN, Loss.NOTHING),
    (Power.TORN, Loss.WIPED),
]
"""Without those that damage the middle of a log: there a snapshot knows more than is left."""


def opened(disk: SimDisk, kv: SimKV) -> Shard:
    log = open_log(disk, kv, segment_bytes=1024)
    return Shard(spec(), log, None)


def store(shard: Shard, *requests: Append, durable: bool) -> None:
    group = Group(shard, TimestampMs(NOW))
    for request in requests:
        group.add(request)
        assert not isinstance(request.answer, BaseException), request.answer
    shard.store.append(group.batches)
    if durable:
        shard.store.sync()
    group.settle()


def data(shard: Shard, pid: int, *, transactional: bool = False) -> Append:
    known = shard.producers.table.get(pid)
    sequence = known.last_sequence + 1 if known else 0
    batch = produced(b"value", pid=pid, sequence=sequence, transactional=transactional)
    return from_batch(shard, batch, None, ROOM)


def mark(shard: Shard, pid: int) -> Append:
    batch = encode_control(
        ControlType.ABORT, producer_id=pid, producer_epoch=0, coordinator_epoch=0, now_ms=NOW
    )
    return from_marker(shard, batch, None)


def live(shard: Shard, first_pid: int, rng: Random) -> None:
    """Some writing, some of it synced, snapshots all the time, and a truncation."""
    for step in range(8):
        pid = first_pid + step % 2
        store(shard, data(shard, pid, transactional=pid % 2 == 1), durable=rng.random() < 0.4)
        if pid % 2 == 1 and rng.random() < 0.5:
            store(shard, mark(shard, pid), durable=False)
        shard.producers.save(shard.store)
        if step == 5:
            end = shard.store.end_offset
            housekeeping.truncate(shard, Offset(max(end - rng.randrange(4), 0)))


def told(shard: Shard) -> object:
    table = shard.producers.table
    by_id = sorted(table.states(), key=lambda one: one.producer_id)
    return by_id, table.transactions.unstable, list(table.transactions.aborted)


def check(shard: Shard) -> None:
    """Undecided transactions that have their mark are a matter of when it was committed."""
    found = told(shard)
    forget_above(shard.store, NO_OFFSET)
    shard.learn_producers()
    by_id, unstable, aborted = found  # type: ignore[misc]
    plain_id, plain_unstable, plain_aborted = told(shard)  # type: ignore[misc]
    assert (by_id, aborted) == (plain_id, plain_aborted)
    assert [one for one in unstable if one.marker_offset is None] == [
        one for one in plain_unstable if one.marker_offset is None
    ]


def machines(seed: int) -> Iterator[tuple[SimDisk, SimKV]]:
    """One that stopped before each call that `live` makes."""
    for number in count():
        disk, kv = SimDisk(), SimKV()
        disk.make_folder(FOLDER.parent)
        disk.sync_folder(Path("/"))
        shard = opened(disk, kv)
        disk.trouble = at_call(len(disk.calls) + number, Crash())
        try:
            live(shard, 1, Random(seed))
        except Crash:
            disk.trouble = no_trouble
            yield disk, kv
        else:
            return


@pytest.mark.parametrize(("power", "loss"), FATES)
def test_whatever_is_left_the_log_alone_tells(power: Power, loss: Loss) -> None:
    """Twice: what a first crash left must not mislead after a second one, when another log has
    grown in its place."""
    rng = Random(f"{power} {loss}")
    for disk, kv in machines(seed=rng.randrange(100)):
        disk, kv = disk.after_crash(power, rng), kv.after_crash(loss, rng)
        shard = opened(disk, kv)
        live(shard, 11, rng)
        left = disk.after_crash(power, rng), kv.after_crash(loss, rng)
        check(shard)
        check(opened(*left))
