"""Epochs against a real node: crashes at each step, and drivers and tasks that are late."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stratamq.client import EARLIEST, Client, Handle, TopicPartition, options_of, visible_batches
from stratamq.model.errors import InvalidProducerEpoch, TopicRecreated
from stratamq.model.record import Record
from stratamq.spark.failures import Losses, warn_once
from stratamq.spark.lookups import bounds
from stratamq.spark.sink import epochs, journal
from stratamq.spark.sink.epochs import LostEpoch, Part
from stratamq.spark.sink.journal import Note
from stratamq.wire.kafka.records import decode_batch
from tests.clients.node import Node, running
from tests.waiting import until

STRICT, LAX = Losses(), Losses(fatal=False)


@pytest.fixture
async def client(node: Node) -> AsyncIterator[Client]:
    async with Client(options_of(node.address, {"retry.ms": "5000"})) as client:
        yield client


@pytest.fixture(autouse=True)
def _all_warnings() -> None:
    warn_once.cache_clear()


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
    described = await client.describe_topics([topic])
    return Part(transaction.handle, task, attempt, {topic: described[topic].topic_id})


async def record(client: Client, query: str, note: Note) -> None:
    """What a driver does to decide."""
    await journal.create(client, query)
    recording = await client.begin(epochs.driver_id(query))
    await journal.append(recording, query, note)
    await recording.end(commit=True)


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
    await epochs.decide(client, query, 0, parts, STRICT)
    assert await seen(client, topic) == ["0-0", "0-1", "0-2"]
    assert await epochs.is_decided(client, query, 0)
    assert not await epochs.is_decided(client, query, 1)
    await epochs.decide(client, query, 0, parts, STRICT)
    await epochs.decide(client, query, 1, [await written(client, topic, query, 1, "1-1")], STRICT)
    assert await seen(client, topic) == ["0-0", "0-1", "0-2", "1-1"]


async def test_a_driver_that_dies_before_it_has_decided(
    client: Client, topic: str, query: str
) -> None:
    """The epoch is written anew: nothing of the first time counts, also not what is fenced late."""
    await client.create_topic(topic, 1)
    old = [await written(client, topic, query, task, f"old {task}") for task in range(2)]
    await journal.create(client, query)
    recording = await client.begin(epochs.driver_id(query))
    await journal.append(recording, query, Note(0, {0: 0, 1: 0}, old[0].topics))
    assert not await epochs.is_decided(client, query, 0)
    with pytest.raises(InvalidProducerEpoch):
        await recording.end(commit=True)
    new = [await written(client, topic, query, task, f"new {task}") for task in range(2)]
    await epochs.decide(client, query, 0, new, STRICT)
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
            await epochs.decide(dying, query, 4, parts, STRICT)
    assert await epochs.is_decided(client, query, 4)
    await epochs.finish(client, query, 4, STRICT)
    await epochs.finish(client, query, 4, STRICT)
    assert await seen(client, topic) == ["row 0", "row 1", "row 2"]


async def test_a_task_that_ran_twice_counts_once(client: Client, topic: str, query: str) -> None:
    await client.create_topic(topic, 1)
    await written(client, topic, query, 0, "first attempt")
    second = await written(client, topic, query, 0, "second attempt", attempt=1)
    await epochs.decide(client, query, 0, [second], STRICT)
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
    await epochs.decide(client, query, 0, first, STRICT)
    await epochs.decide(client, query, 0, second, STRICT)
    assert await seen(client, topic) == ["first"]


async def test_an_epoch_that_was_decided_and_lost_is_told(
    client: Client, topic: str, query: str
) -> None:
    await client.create_topic(topic, 1)
    part = await written(client, topic, query, 0, "lost")
    await record(client, query, Note(3, {0: 0}, part.topics))
    await client.end(part.handle, commit=False)  # as when it timed out
    with pytest.raises(LostEpoch, match=r"epoch 3 .* was decided"):
        await epochs.finish(client, query, 3, STRICT)


async def test_an_epoch_whose_transactions_the_nodes_forgot_is_told(
    client: Client, topic: str, query: str
) -> None:
    """It was decided, nobody said that it was ended, and the ids of its tasks have expired."""
    await client.create_topic(topic, 1)
    ids = {topic: (await client.describe_topics([topic]))[topic].topic_id}
    await record(client, query, Note(3, {7: 1}, ids))
    with pytest.raises(LostEpoch, match=rf"transaction '{query}-7-1' was forgotten by the nodes"):
        await epochs.finish(client, query, 3, STRICT)
    await journal.append_ended(client, query, 3)
    await epochs.finish(client, query, 3, STRICT)


async def test_a_note_of_an_earlier_version_counts(client: Client, topic: str, query: str) -> None:
    """An offset of the query's group, with the tasks in its metadata."""
    await client.create_topic(topic, 1)
    for task in range(3):
        await written(client, topic, query, task, f"row {task}")
    recording = await client.begin(epochs.driver_id(query))
    await recording.commit_offset(query, TopicPartition(topic, 0), 6, "0-2")
    await recording.end(commit=True)
    assert await epochs.is_decided(client, query, 6)
    assert not await epochs.is_decided(client, query, 7)
    again = [await written(client, topic, query, 0, "again", attempt=1)]
    await epochs.decide(client, query, 6, again, STRICT)
    assert await seen(client, topic) == ["row 0", "row 1", "row 2"]
    await epochs.decide(client, query, 7, [await written(client, topic, query, 0, "7")], STRICT)
    assert (await journal.read(client, query)).note is not None, "the next one is in the journal"
    assert await epochs.is_decided(client, query, 7)


async def make_again(client: Client, topic: str) -> None:
    await client.delete_topic(topic)
    await client.create_topic(topic, 1)


async def test_a_target_that_was_made_again_between_two_epochs(
    client: Client, topic: str, query: str, caplog: pytest.LogCaptureFixture
) -> None:
    await client.create_topic(topic, 1)
    await epochs.decide(client, query, 0, [await written(client, topic, query, 0, "0")], STRICT)
    await make_again(client, topic)
    part = await written(client, topic, query, 0, "1")
    with pytest.raises(TopicRecreated, match="failOnDataLoss=false goes on with the new one"):
        await epochs.decide(client, query, 1, [part], STRICT)
    assert not await epochs.is_decided(client, query, 1)
    await epochs.decide(client, query, 1, [part], LAX)
    assert "was deleted and made again" in caplog.text
    assert await seen(client, topic) == ["1"]
    await epochs.decide(client, query, 2, [await written(client, topic, query, 0, "2")], STRICT)
    assert await seen(client, topic) == ["1", "2"]


@pytest.mark.parametrize("losses", [STRICT, LAX])
async def test_a_target_that_was_made_again_while_tasks_wrote_to_it(
    client: Client, topic: str, query: str, losses: Losses
) -> None:
    """Some of the epoch is gone, whatever the query does about losses: it is written again."""
    await client.create_topic(topic, 1)
    first = await written(client, topic, query, 0, "gone")
    await make_again(client, topic)
    second = await written(client, topic, query, 1, "there")
    with pytest.raises(TopicRecreated, match="nothing of the epoch counts"):
        await epochs.decide(client, query, 0, [first, second], losses)
    await epochs.abort(client, [first, second])
    assert await seen(client, topic) == []
    assert not await epochs.is_decided(client, query, 0)
    with pytest.raises(TopicRecreated):
        await epochs.commit_all(client, [first, second])


async def test_a_target_that_was_made_again_before_a_decided_epoch_was_ended(
    node: Node, client: Client, topic: str, query: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The journal is not lost with the topic, and knows its id."""
    await client.create_topic(topic, 1)
    part = await written(client, topic, query, 0, "gone")
    async with DyingClient(options_of(node.address, {})) as dying:
        with pytest.raises(Crash):
            await epochs.decide(dying, query, 0, [part], STRICT)
    await make_again(client, topic)
    assert await epochs.is_decided(client, query, 0)
    with pytest.raises(TopicRecreated):
        await epochs.finish(client, query, 0, STRICT)
    await epochs.finish(client, query, 0, LAX)
    assert "was deleted and made again" in caplog.text


async def test_a_target_that_is_gone_does_not_take_the_note_with_it(
    client: Client, topic: str, query: str
) -> None:
    await client.create_topic(topic, 1)
    await epochs.decide(client, query, 0, [await written(client, topic, query, 0, "0")], STRICT)
    await client.delete_topic(topic)
    assert await epochs.is_decided(client, query, 0)
    await epochs.finish(client, query, 0, STRICT)


@pytest.mark.parametrize("tasks", [1000, 20_000])
async def test_an_epoch_of_many_tasks_that_were_tried_again(
    client: Client, topic: str, query: str, tasks: int
) -> None:
    """More than fits the metadata of an offset, or a record: it is decided all the same."""
    note = Note(5, {task: task % 2 for task in range(tasks)}, {topic: bytes(16)})
    await record(client, query, note)
    assert (await journal.read(client, query)).note == note
    assert await epochs.is_decided(client, query, 5)


async def test_a_journal_keeps_little_of_what_was_before(
    client: Client, topic: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "TRIM_AFTER", 10)
    await client.create_topic(topic, 1)
    for epoch in range(12):
        part = await written(client, topic, query, 0, str(epoch))
        await epochs.decide(client, query, epoch, [part], STRICT)
    place = journal.place_of(query)
    starts, ends = await bounds(client, [place], committed=True)
    assert starts[place] > 0
    assert ends[place] - starts[place] <= 10 + 3, "a note, its mark, and that it was ended"
    found = await journal.read(client, query)
    assert found.note == Note(11, {0: 0}, part.topics, ended=True)


async def test_a_note_outlives_all_retention_of_the_node(tmp_path: Path, query: str) -> None:
    """Neither offsets of a group, which expire, nor records as old as the node's topics keep."""
    flags = ("--topic-flush", "os", "--topic-retention-ms", "1", "--housekeeping-interval-ms", "10")
    with running(tmp_path, *flags) as node:
        async with Client(options_of(node.address, {})) as client:
            await client.create_topic("target", 1)
            part = await written(client, "target", query, 0, "row")
            await epochs.decide(client, query, 0, [part], STRICT)
            assert await client.group_offsets(query) == {}, "nothing that could expire"
            target = TopicPartition("target", 0)

            async def is_emptied() -> bool:
                """By retention, of the row and of the mark that ended its transaction."""
                return (await client.list_offsets({target: EARLIEST}))[target] == 2

            await until(is_emptied)
            assert await epochs.is_decided(client, query, 0)
