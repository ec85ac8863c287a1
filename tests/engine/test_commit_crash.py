"""One commit over several shards: crashes between its writes and syncs, and syncs that fail."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import pytest

from stratamq.engine.engine_shard import from_batch
from stratamq.engine.group import Group
from stratamq.engine.limits import EngineLimits
from stratamq.engine.segment.disk_threads import SYNC_THREADS, SyncThreads
from stratamq.engine.segment.folders import _encode
from stratamq.engine.segment.storage import SegmentStorage
from stratamq.engine.shard import Shard
from stratamq.log import names
from stratamq.log.epochs import FIRST_LEADER
from stratamq.log.shard_log import FileShardLog
from stratamq.model.errors import DiskFull, ShardPoisoned
from stratamq.model.types import EARLIEST, LeaderEpoch, ShardName, TimestampMs
from tests.engine.support import NOW, batch, spec
from tests.log.crashing import FATES, Fate
from tests.log.support import ROOM, read_log
from tests.twins.disk import Call, Crash, Power, SimDisk, at_call, no_trouble
from tests.twins.kv import Loss, SimKV
from tests.waiting import every

DATA = Path("/data")
NAMES = [ShardName(f"shard-{number}") for number in range(4)]
UNSYNCED = NAMES[-1]
"""The last one promises no sync."""

ROUNDS = 3
SECOND = LeaderEpoch(1)


class Machine:
    """A storage on twins of disk and index, and what it was asked to store."""

    def __init__(self, disk: SimDisk, kv: SimKV) -> None:
        self.disk, self.kv = disk, kv
        self.submitted: dict[ShardName, list[bytes]] = {name: [] for name in NAMES}
        self.acknowledged = dict.fromkeys(NAMES, 0)
        self.storage = SegmentStorage(DATA, EngineLimits(), disk, lambda *_, **__: kv)
        kv.before_write = lambda sync: disk.step("kv sync" if sync else "kv write", DATA)

    def open(self) -> Machine:
        found = {kept.spec.name: kept for kept in self.storage.open().kept}
        specs = [spec(name, flush="os" if name == UNSYNCED else "sync") for name in NAMES]
        kept = [found[name].store for name in found]
        stores = kept or self.storage.create(specs)
        self.shards = [Shard(one, store, None) for one, store in zip(specs, stores, strict=True)]
        return self

    def commit(self, number: int, epoch: LeaderEpoch | None = None) -> list[Group]:
        groups = []
        for shard in self.shards:
            group = Group(shard, TimestampMs(NOW))
            data = batch(b"%d of " % number + shard.name.encode() * 9)
            group.add(from_batch(shard, data, epoch, ROOM))
            self.submitted[shard.name] += [placed.data for placed in group.batches]
            groups.append(group)
        self.storage.commit(groups)
        for group in groups:
            if group.batches and group.error is None:
                self.acknowledged[group.shard.name] += 1
            group.settle()
        return groups

    def stop(self) -> None:
        """The process is not there any more, and troubles nobody."""
        self.disk.trouble = no_trouble

    def after_crash(self, fate: Fate, rng: Random) -> Machine:
        power, loss = fate
        return Machine(self.disk.after_crash(power, rng), self.kv.after_crash(loss, rng))


def new() -> Machine:
    disk = SimDisk()
    disk.make_folder(DATA)
    disk.sync_folder(Path("/"))
    return Machine(disk, SimKV()).open()


def stopped_machines(epochs: Sequence[int | None]) -> Iterator[tuple[Call, Machine]]:
    """One that stopped before each call of a commit for each epoch."""
    for number in count():
        machine = new()
        machine.disk.written_part = 0.6
        machine.disk.trouble = at_call(len(machine.disk.calls) + number, Crash())
        try:
            for round_number, epoch in enumerate(epochs):
                machine.commit(round_number, epoch if epoch is None else LeaderEpoch(epoch))
        except Crash:
            yield machine.disk.calls[-1], machine
        else:
            return
        finally:
            machine.stop()


def check(before: Machine, found: Machine, fate: Fate, where: str) -> None:
    for shard in found.shards:
        content = read_log(shard.store)  # type: ignore[arg-type]
        stored = [data for _, data in content.batches]
        submitted = before.submitted[shard.name]
        assert all(data in submitted for data in stored), f"invented, {where}"
        if shard.name != UNSYNCED or fate[0] is Power.KILLED:
            promised = submitted[: before.acknowledged[shard.name]]
            assert stored[: len(promised)] == promised, f"lost, {where}"
        assert found.storage._stores[shard.name].end_offset >= len(stored)


@pytest.mark.parametrize("epochs", [[None] * ROUNDS, [0, 0, 4], [1, 1]], ids=str)
def test_every_promise_survives_a_crash_between_any_writes_and_syncs(
    epochs: list[int | None],
) -> None:
    rng = Random(11)
    kinds = set()
    for call, machine in stopped_machines(epochs):
        kinds.add(call.kind)
        for fate in every(rng.sample(FATES, 5)):
            found = machine.after_crash(fate, rng).open()
            check(machine, found, fate, f"{call}, {fate}")
            assert not [group for group in found.commit(ROUNDS) if group.error]
            found.stop()
    assert {"write", "sync", "kv write"} <= kinds


def test_all_are_written_before_the_first_is_synced_and_indexed_once_after_the_last() -> None:
    machine = new()
    machine.commit(0)
    begin = len(machine.disk.calls)
    machine.commit(1)
    kinds = [call.kind for call in machine.disk.calls[begin:]]
    assert kinds == ["write"] * 4 + ["sync"] * 3 + ["kv write"]
    machine.stop()


def test_a_sync_that_fails_is_the_trouble_of_its_shard_alone() -> None:
    machine = new()
    machine.commit(0)
    failing = NAMES[1]

    def trouble(call: Call) -> BaseException | None:
        fails = call.kind == "sync" and call.path.parent.name == failing
        return OSError(errno.EIO, "broken") if fails else None

    machine.disk.trouble = trouble
    failed = {group.shard.name: group.error for group in machine.commit(1) if group.error}
    assert list(failed) == [failing]
    assert isinstance(failed[failing], ShardPoisoned)
    machine.disk.trouble = no_trouble
    refused = [group.shard.name for group in machine.commit(2) if not group.batches]
    assert refused == [failing], "it takes no more writes, and the others do"
    found = machine.after_crash((Power.LOST, Loss.UNSYNCED), Random(0)).open()
    check(machine, found, (Power.LOST, Loss.UNSYNCED), "a failed sync")
    machine.stop()
    found.stop()


def test_where_no_descriptor_is_left_files_are_synced_early() -> None:
    """Files that wait for their sync are open. Two of them are all that this machine has."""
    machine = new()
    machine.commit(0)
    machine.commit(1)
    begin = len(machine.disk.calls)

    def starving(path: Path) -> OSError | None:
        since = machine.disk.calls[begin:]
        written = sum(call.kind == "write" for call in since)
        synced = sum(call.kind == "sync" for call in since)
        return OSError(errno.EMFILE, "too many") if written - synced >= 2 else None

    machine.disk.open_trouble = starving
    groups = machine.commit(2)
    machine.disk.open_trouble = lambda path: None
    assert not [group.error for group in groups if group.error]
    kinds = [call.kind for call in machine.disk.calls[begin:]]
    assert [kind for kind in kinds if kind in ("write", "sync")] == [
        *("write", "write", "sync", "sync", "write", "write", "sync")
    ]
    machine.stop()


@pytest.mark.parametrize("calls", [1, 2, SYNC_THREADS, 5 * SYNC_THREADS])
def test_the_threads_make_every_call_once_and_say_which_failed(calls: int) -> None:
    made: list[int] = []
    threads = SyncThreads()
    threads.start()

    def call(number: int) -> None:
        made.append(number)
        if number % 3 == 0:
            raise OSError(errno.EIO, str(number))

    errors = threads.run([lambda number=number: call(number) for number in range(calls)])  # type: ignore[misc]
    threads.close()
    assert sorted(made) == list(range(calls))
    assert [error is not None for error in errors] == [n % 3 == 0 for n in every(range(calls))]


def test_threads_that_are_closed_can_be_started_again_and_none_are_needed() -> None:
    made: list[int] = []
    threads = SyncThreads()
    calls = [partial(made.append, number) for number in range(3)]
    threads.run(calls)
    for _ in range(2):
        threads.start()
        threads.run(calls)
        threads.close()
        threads.run(calls)
    assert sorted(made) == sorted(5 * [0, 1, 2])


def test_the_first_leader_of_a_shard_needs_no_file() -> None:
    machine = new()
    machine.commit(0)
    assert not [call for call in machine.disk.calls if call.path.name.startswith(names.EPOCHS)]
    found = machine.after_crash((Power.LOST, Loss.UNSYNCED), Random(0)).open()
    for shard in every(found.shards):
        if shard.name != UNSYNCED:
            assert shard.store.epochs() == FIRST_LEADER
    machine.stop()
    found.stop()


@pytest.mark.parametrize("epochs", [[1], [0, 1], [0, 1, 2]], ids=str)
def test_a_file_of_epochs_that_is_lost_is_missed(epochs: list[int]) -> None:
    machine = new()
    for number, epoch in enumerate(epochs):
        machine.commit(number, LeaderEpoch(epoch))
    kept = machine.shards[0].store.epochs()
    assert [entry.epoch for entry in kept] == epochs
    found = machine.after_crash((Power.LOST, Loss.UNSYNCED), Random(0))
    lost = DATA / "segments" / NAMES[0] / names.EPOCHS
    found.disk.unlink(lost)
    first, second = found.open().shards[:2]
    assert first.store.epochs() == second.store.epochs() == kept
    assert any(str(lost) in text for text in log_of(found, first).damage)
    assert not log_of(found, second).damage
    machine.stop()
    found.stop()


@pytest.mark.parametrize("way", ["offloaded", "compacted"])
def test_the_first_leader_is_known_after_its_batches_are_gone(way: str) -> None:
    machine = new()
    machine.commit(0)
    log = log_of(machine, machine.shards[0])
    log.roll()
    if way == "offloaded":
        log.offload(log.end_offset)
    else:
        log.rewrite(EARLIEST, lambda header, data: None)
    found = machine.after_crash((Power.LOST, Loss.UNSYNCED), Random(0)).open()
    again = log_of(found, found.shards[0])
    assert again.segments()[0].base_offset == again.end_offset > EARLIEST
    assert again.epochs() == FIRST_LEADER
    assert not again.damage
    machine.stop()
    found.stop()


def test_a_folder_of_an_older_version_must_have_its_file_of_epochs() -> None:
    """Also where its `shard.json` is as new as a change of configs; one that is not older keeps
    that over such a change."""
    machine = new()
    machine.commit(0)
    older, newer = machine.shards[:2]
    found = machine.after_crash((Power.KILLED, Loss.NOTHING), Random(0))
    path = DATA / "segments" / older.name / names.SPEC
    file = found.disk.open(path)
    file.truncate(0)
    file.write([_encode(older.spec, 2)], 0)
    found.open()
    assert log_of(found, older).epochs() == FIRST_LEADER
    assert len(log_of(found, older).damage) == 1
    for shard in (older, newer):
        found.storage.configure(spec(shard.name, flush="os"), log_of(found, shard))
    found.disk.unlink(path.with_name(names.EPOCHS))
    again = found.after_crash((Power.KILLED, Loss.NOTHING), Random(0)).open()
    assert len(log_of(again, older).damage) == 1
    assert not log_of(again, newer).damage
    assert log_of(again, newer).epochs() == FIRST_LEADER
    for one in every((machine, found, again)):
        one.stop()


def log_of(machine: Machine, shard: Shard) -> FileShardLog:
    return machine.storage._stores[shard.name]


def test_shards_that_begin_together_save_their_epochs_together() -> None:
    machine = new()
    machine.commit(0)
    begin = len(machine.disk.calls)
    machine.commit(1, SECOND)
    steps = [
        (call.kind, call.path.name.startswith(names.EPOCHS)) for call in machine.disk.calls[begin:]
    ]
    order = [step for at, step in enumerate(steps) if at == 0 or steps[at - 1] != step]
    epochs = [kind for kind, is_epoch in order if is_epoch and kind in ("sync", "rename")]
    assert epochs == ["sync", "rename"], "one wave of each"
    calls = list(enumerate(machine.disk.calls[begin:]))
    folders_synced = max(at for at, call in calls if call.kind == "sync_folder")
    written = [at for at, call in calls if call.kind == "write" and call.path.suffix == names.LOG]
    assert min(written) > folders_synced, "durable before the first batch"
    machine.stop()


def test_an_epoch_that_cannot_be_saved_is_the_trouble_of_its_shard_alone() -> None:
    machine = new()
    failing = NAMES[1]

    def trouble(call: Call) -> BaseException | None:
        fails = call.path.name.startswith(names.EPOCHS) and call.path.parent.name == failing
        return OSError(errno.ENOSPC, "full") if fails and call.kind == "write" else None

    machine.disk.trouble = trouble
    failed = {group.shard.name: group.error for group in machine.commit(0, SECOND) if group.error}
    assert list(failed) == [failing]
    assert isinstance(failed[failing], DiskFull)
    machine.disk.trouble = no_trouble
    assert not [group for group in machine.commit(1, SECOND) if group.error], "then it is saved"
    found = machine.after_crash((Power.LOST, Loss.UNSYNCED), Random(0)).open()
    check_stored(machine, found)
    machine.stop()
    found.stop()


def check_stored(before: Machine, found: Machine) -> None:
    """What was acknowledged is there, also after a batch that was refused."""
    for shard in found.shards:
        stored = [data for _, data in read_log(shard.store).batches]  # type: ignore[arg-type]
        if shard.name != UNSYNCED:
            assert len(stored) == before.acknowledged[shard.name]
