from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from stratamq.meta.groups import CommitOffset, CommitOffsets
from stratamq.meta.limits import MetaLimits
from stratamq.meta.nodes import RegisterNode
from stratamq.meta.service import MetaService
from stratamq.meta.state import Event, MetaState, Put, Update
from stratamq.meta.store import RocksMetaStore
from stratamq.meta.topics import ConfirmTopic, CreateTopic, DeleteTopic
from stratamq.model.errors import AlreadyExists, CapacityExceeded, Closed, DiskFull, StorageError
from stratamq.model.shard import shard_name
from stratamq.model.types import Offset, TopicId
from tests.meta.support import ME, T1, creating, topic
from tests.waiting import let_run


class UnreliableStore(RocksMetaStore):
    """A real store that can be held up, and that fails when told to, before or after the write."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate = threading.Event()
        self.gate.set()
        self.fail_before: Exception | None = None
        self.fail_after: Exception | None = None
        self.writes = 0
        self.opens = 0

    def open(self) -> MetaState:
        self.opens += 1
        return super().open()

    def write(self, events: Sequence[Event], revision: int) -> None:
        assert self.gate.wait(10)
        self.writes += 1
        if self.fail_before is not None:
            error, self.fail_before = self.fail_before, None
            raise error
        super().write(events, revision)
        if self.fail_after is not None:
            error, self.fail_after = self.fail_after, None
            raise error


@pytest.fixture
def store(tmp_path: Path) -> UnreliableStore:
    return UnreliableStore(tmp_path)


@pytest.fixture
async def service(store: UnreliableStore) -> AsyncIterator[MetaService]:
    service = MetaService(store)
    await service.open()
    await service.submit(RegisterNode(node_id=ME, address="me:1"))
    yield service
    store.gate.set()
    await service.close()


def create(number: int) -> CreateTopic:
    return CreateTopic(topic=topic(f"t{number}", TopicId(f"{number:032x}")), creator=ME)


async def test_commands_of_one_call_are_applied_together_or_not_at_all(
    service: MetaService,
) -> None:
    with pytest.raises(AlreadyExists):
        await service.submit(*creating(topic()), create(1), create(1))
    assert not service.state.topics
    await service.submit(*creating(topic()), ConfirmTopic(topic_id=T1))
    assert len(service.state.shards) == 1


async def test_a_refusal_hits_only_its_own_caller(
    service: MetaService, store: UnreliableStore
) -> None:
    store.gate.clear()
    calls = [asyncio.create_task(service.submit(create(number))) for number in (0, 1, 1, 2)]
    await let_run(0.01)
    store.gate.set()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(answer, AlreadyExists) for answer in answers] == [False, False, True, False]
    assert len(service.state.topics) == 3


async def test_callers_that_wait_together_share_one_write(
    service: MetaService, store: UnreliableStore
) -> None:
    await service.submit(*creating(topic()))
    before = store.writes
    shard = shard_name(T1, 0)
    commits = [
        CommitOffsets(group=f"g{n}", offsets=(CommitOffset(shard=shard, offset=Offset(n)),))
        for n in range(200)
    ]
    await asyncio.gather(*(service.submit(commit) for commit in commits))
    assert store.writes - before <= 3
    assert len(await service.groups()) == 200
    assert (await service.group_offsets("g7"))[shard].offset == 7
    assert await service.group_offsets("nobody") == {}


async def test_nothing_is_seen_before_it_is_durable(
    service: MetaService, store: UnreliableStore
) -> None:
    watch = service.watch()
    store.gate.clear()
    call = asyncio.create_task(service.submit(create(0)))
    await let_run()
    assert not call.done()
    assert not service.state.topics
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(watch.next(), 0.01)
    store.gate.set()
    await call
    update = await watch.next()
    assert [type(event) for event in update.events] == [Put]
    assert service.state.topics


async def test_a_caller_that_stops_waiting_does_not_undo(
    service: MetaService, store: UnreliableStore
) -> None:
    store.gate.clear()
    call = asyncio.create_task(service.submit(create(0)))
    await let_run(0.01)
    call.cancel()
    await asyncio.wait([call])
    store.gate.set()
    await service.submit(create(1))
    assert len(service.state.topics) == 2


@pytest.mark.parametrize("error", [DiskFull("full"), StorageError("io"), OSError("odd")])
async def test_a_write_that_failed_is_not_seen(
    service: MetaService, store: UnreliableStore, error: Exception
) -> None:
    store.fail_before = error
    with pytest.raises(StorageError):
        await service.submit(create(0))
    assert not service.state.topics
    await service.submit(create(1))
    assert {meta.topic.name for meta in service.state.topics.values()} == {"t1"}


async def test_after_a_doubtful_write_the_store_decides(
    service: MetaService, store: UnreliableStore
) -> None:
    """The write happened although it raised. Without reading again, t0 would exist on disk only."""
    watch = service.watch()
    opens = store.opens
    store.fail_after = StorageError("the answer got lost")
    with pytest.raises(StorageError):
        await service.submit(create(0))
    with pytest.raises(AlreadyExists):
        await service.submit(create(0))
    assert store.opens == opens + 1
    assert {meta.topic.name for meta in service.state.topics.values()} == {"t0"}
    update = await watch.next()
    assert update.previous > service.state.revision, "watchers must notice that they missed it"


async def test_state_survives_a_restart(service: MetaService, tmp_path: Path) -> None:
    await service.submit(*creating(topic()), ConfirmTopic(topic_id=T1))
    state = service.state
    await service.close()
    again = MetaService(RocksMetaStore(tmp_path))
    await again.open()
    assert again.state == state
    await again.close()


async def test_closing_answers_what_is_queued_and_refuses_the_rest(
    service: MetaService, store: UnreliableStore
) -> None:
    watch = service.watch()
    store.gate.clear()
    queued = [asyncio.create_task(service.submit(create(number))) for number in range(3)]
    await let_run(0.01)
    closing = asyncio.create_task(service.close())
    await let_run(0.01)
    with pytest.raises(Closed):
        await service.submit(create(9))
    store.gate.set()
    await asyncio.gather(closing, *queued)
    assert len(service.state.topics) == 3
    while True:
        try:
            await watch.next()
        except Closed:
            break
    for call in (service.submit(), service.snapshot(), service.revision(), service.groups()):
        with pytest.raises(Closed):
            await call


@pytest.mark.parametrize(
    ("limits", "commands"),
    [
        (MetaLimits(topics_max=1), [create(0), create(1)]),
        (MetaLimits(partitions_per_topic_max=2), creating(topic(partitions=3))),
        (MetaLimits(shards_max=2), creating(topic(partitions=3))),
    ],
    ids=["topics", "partitions", "shards"],
)
async def test_limits_are_refusals(tmp_path: Path, limits: MetaLimits, commands: list) -> None:
    service = MetaService(RocksMetaStore(tmp_path), limits=limits)
    await service.open()
    await service.submit(RegisterNode(node_id=ME, address="me:1"))
    with pytest.raises(CapacityExceeded):
        await service.submit(*commands)
    await service.submit(*commands[:1]) if limits.topics_max == 1 else None
    await service.close()


async def test_groups_are_limited_but_old_ones_may_go_on(tmp_path: Path) -> None:
    service = MetaService(RocksMetaStore(tmp_path), limits=MetaLimits(groups_max=1))
    await service.open()
    await service.submit(RegisterNode(node_id=ME, address="me:1"), *creating(topic()))
    entry = CommitOffset(shard=shard_name(T1, 0), offset=Offset(1))
    await service.submit(CommitOffsets(group="a", offsets=(entry,)))
    await service.submit(CommitOffsets(group="a", offsets=(entry,)))
    with pytest.raises(CapacityExceeded):
        await service.submit(CommitOffsets(group="b", offsets=(entry,)))
    await service.close()


async def test_a_full_house_makes_callers_wait(tmp_path: Path) -> None:
    store = UnreliableStore(tmp_path)
    service = MetaService(store, limits=MetaLimits(pending_commands_max=2))
    await service.open()
    store.gate.clear()
    calls = [asyncio.create_task(service.submit(create(number))) for number in range(10)]
    await let_run(0.02)
    assert len(service._pending) <= 2
    store.gate.set()
    await asyncio.gather(*calls)
    assert len(service.state.topics) == 10
    await service.close()


async def test_a_slow_watcher_loses_updates_not_memory(tmp_path: Path) -> None:
    service = MetaService(RocksMetaStore(tmp_path), limits=MetaLimits(watch_updates_max=2))
    await service.open()
    watch = service.watch()
    for number in range(4):
        await service.submit(create(number))
    seen = [await watch.next(), await watch.next()]
    await service.submit(DeleteTopic(topic_id=TopicId(f"{0:032x}")))
    seen.append(await watch.next())
    assert [(update.previous, update.revision) for update in seen] == [(0, 1), (1, 2), (4, 5)]
    await service.close()


def test_a_gap_is_ahead_of_any_watcher() -> None:
    assert Update.gap(5).previous > 5
