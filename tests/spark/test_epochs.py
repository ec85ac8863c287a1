"""Epochs against a real node: crashes at each step, and drivers and tasks that are late."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.client import Client, Handle, TopicPartition, options_of, visible_batches
from stratamq.model.errors import InvalidProducerEpoch
from stratamq.model.record import Record
from stratamq.spark import epochs
from stratamq.spark.epochs import LostEpoch, Part
from stratamq.wire.kafka.records import decode_batch
from tests.clients.node import Node

NewTopic = Callable[..., str]


@pytest.fixture
async def client(node: Node) -> AsyncIterator[Client]:
    async with Client(options_of(node.address, {"retry.ms": "5000"})) as client:
        yield client


@pytest.fixture
def topic(node: Node) -> str:
    return f"epochs-{uuid.uuid4().hex}"


@pytest.fixture
def query() -> str:
    return f"query-{uuid.uuid4().hex}"


async def written(
    client: Client, topic: str, query: str, task: int, value: str, attempt: int = 0
) -> Part:
    """What a task does."""
    transaction = await client.begin(epochs.task_id(query, task, attempt))
    place = TopicPartition(topic, 0)
    await transaction.send(place, [Record(value=value.encode())])
    return Part(transaction.handle, task, attempt, place)


async def seen(client: Client, topic: str) -> list[str]:
    fetched = await client.fetch(TopicPartition(topic, 0), 0, committed=True)
    return sorted(
        (record.value or b"").decode()
        for header, batch in visible_batches(fetched.data, fetched.aborted)
        for record in decode_batch(header, batch)
    )


async def test_an_epoch_counts_as_a_whole_and_once(client: Client, topic: str, query: str) -> None:
    await client.create_topic(topic, 1)
    parts = [await written(client, topic, query, task, f"0-{task}") for task in range(3)]
    assert not await epochs.is_decided(client, query, 0)
    assert await seen(client, topic) == []
    await epochs.decide(client, query, 0, parts)
    assert await seen(client, topic) == ["0-0", "0-1", "0-2"]
    assert await epochs.is_decided(client, query, 0)
    assert not await epochs.is_decided(client, query, 1)
    await epochs.decide(client, query, 0, parts)
    await epochs.decide(client, query, 1, [await written(client, topic, query, 1, "1-1")])
    assert await seen(client, topic) == ["0-0", "0-1", "0-2", "1-1"]


async def test_a_driver_that_dies_before_it_has_decided(
    client: Client, topic: str, query: str
) -> None:
    """The epoch is written anew: nothing of the first time counts, also not what is fenced late."""
    await client.create_topic(topic, 1)
    old = [await written(client, topic, query, task, f"old {task}") for task in range(2)]
    recording = await client.begin(epochs.driver_id(query))
    await recording.commit_offset(query, old[0].place, 0, epochs.note_of(old))
    assert not await epochs.is_decided(client, query, 0)
    with pytest.raises(InvalidProducerEpoch):
        await recording.end(commit=True)
    new = [await written(client, topic, query, task, f"new {task}") for task in range(2)]
    await epochs.decide(client, query, 0, new)
    assert await seen(client, topic) == ["new 0", "new 1"]


class Crash(Exception):
    pass


class DyingClient(Client):
    """Ends so many transactions, and no more."""

    ends_left = 0

    async def end(self, handle: Handle, *, commit: bool) -> None:
        if not self.ends_left:
            raise Crash
        self.ends_left -= 1
        await super().end(handle, commit=commit)


@pytest.mark.parametrize("ended", [0, 1, 2])
async def test_a_driver_that_dies_after_it_has_decided(
    node: Node, client: Client, topic: str, query: str, ended: int
) -> None:
    """What it left open is ended by the one that comes after; nobody writes the epoch again."""
    await client.create_topic(topic, 1)
    parts = [await written(client, topic, query, task, f"row {task}") for task in range(3)]
    async with DyingClient(options_of(node.address, {})) as dying:
        dying.ends_left = ended
        with pytest.raises(Crash):
            await epochs.decide(dying, query, 4, parts)
    assert await epochs.is_decided(client, query, 4)
    await epochs.finish(client, query, 4)
    await epochs.finish(client, query, 4)
    assert await seen(client, topic) == ["row 0", "row 1", "row 2"]


async def test_a_task_that_ran_twice_counts_once(client: Client, topic: str, query: str) -> None:
    await client.create_topic(topic, 1)
    await written(client, topic, query, 0, "first attempt")
    second = await written(client, topic, query, 0, "second attempt", attempt=1)
    await epochs.decide(client, query, 0, [second])
    await epochs.fence_losers(client, query, [second])
    assert await seen(client, topic) == ["second attempt"]
    state = await client.describe_transaction(epochs.task_id(query, 0, 0))
    assert state.state in ("CompleteAbort", "Empty")


async def test_a_second_driver_aborts_what_was_written_twice(
    client: Client, topic: str, query: str
) -> None:
    """Its tasks began before the first driver decided, so they wrote; its decision finds that."""
    await client.create_topic(topic, 1)
    first = [await written(client, topic, query, 0, "first")]
    second = [await written(client, topic, query, 0, "second", attempt=1)]
    await epochs.decide(client, query, 0, first)
    await epochs.decide(client, query, 0, second)
    assert await seen(client, topic) == ["first"]


async def test_an_epoch_that_was_decided_and_lost_is_told(
    client: Client, topic: str, query: str
) -> None:
    await client.create_topic(topic, 1)
    part = await written(client, topic, query, 0, "lost")
    recording = await client.begin(epochs.driver_id(query))
    await recording.commit_offset(query, part.place, 3, epochs.note_of([part]))
    await recording.end(commit=True)
    await client.end(part.handle, commit=False)  # as when it timed out
    with pytest.raises(LostEpoch, match=r"epoch 3 .* was decided"):
        await epochs.finish(client, query, 3)


@given(st.dictionaries(st.integers(0, 300), st.sampled_from([0, 0, 0, 0, 1, 2])))
def test_notes_say_which_tasks(attempts: dict[int, int]) -> None:
    parts = [
        Part(Handle("", 0, 0), task, attempt, TopicPartition("t", 0))
        for task, attempt in attempts.items()
    ]
    assert dict(epochs.noted(epochs.note_of(parts))) == attempts


def test_a_note_is_short() -> None:
    parts = [Part(Handle("", 0, 0), task, 0, TopicPartition("t", 0)) for task in range(10_000)]
    assert epochs.note_of(parts) == "0-9999"
