"""Every call against a real node."""

from __future__ import annotations

import dataclasses
import time
import uuid
from pathlib import Path

import pytest

from stratamq.client import (
    EARLIEST,
    LATEST,
    Client,
    ClientOptions,
    FetchLimits,
    TopicPartition,
    Undecided,
    options_of,
    visible_batches,
)
from stratamq.client.fetching import Fetched
from stratamq.model.errors import (
    AlreadyExists,
    InvalidConfig,
    InvalidProducerEpoch,
    NotFound,
    OffsetOutOfRange,
    TopicNotFound,
)
from stratamq.model.record import Record
from stratamq.model.types import TimestampMs
from stratamq.wire.kafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from stratamq.wire.kafka.records import Compression, decode_batch, encode_batch
from tests.client.scripted import Script, scripted
from tests.clients.node import running

NOW_MS = time.time_ns() // 1_000_000


def records(*values: str) -> list[Record]:
    return [Record(value=value.encode(), timestamp=TimestampMs(NOW_MS)) for value in values]


def values(fetched: Fetched) -> list[str]:
    return [
        (record.value or b"").decode()
        for header, batch in visible_batches(fetched.data, fetched.aborted)
        for record in decode_batch(header, batch)
    ]


async def test_topics_are_made_described_widened_and_deleted(client: Client) -> None:
    name = f"made-{uuid.uuid4().hex}"
    await client.create_topic(name, partitions=2, configs={"retention.ms": "60000"})
    with pytest.raises(AlreadyExists, match=name):
        await client.create_topic(name)
    await client.add_partitions(name, 3)
    described = (await client.describe_topics([name]))[name]
    assert [part.index for part in described.partitions] == [0, 1, 2]
    cluster = await client.cluster()
    assert cluster.topics[name] == described
    assert {part.leader for part in described.partitions} <= set(cluster.nodes)
    await client.delete_topic(name)
    with pytest.raises(TopicNotFound, match=name):
        await client.describe_topics([name])


async def test_a_topic_that_is_not_there_is_said_at_once(options: ClientOptions) -> None:
    """A client that tries for ever would not come back."""
    async with Client(dataclasses.replace(options, retry_ms_max=3_600_000)) as client:
        with pytest.raises(TopicNotFound, match="there is no topic 'none'"):
            await client.delete_topic("none")
        with pytest.raises(TopicNotFound, match="there is no topic 'none'"):
            await client.add_partitions("none", 3)


async def test_a_topic_is_made_by_being_asked_for(client: Client, tmp_path: Path) -> None:
    name = f"asked-{uuid.uuid4().hex}"
    with pytest.raises(TopicNotFound, match=f"there is no topic '{name}'$"):
        await client.describe_topics([name])
    assert len((await client.describe_topics([name], create=True))[name].partitions) == 1
    with running(tmp_path, "--auto-create-topics-enable", "false") as strict:
        async with Client(options_of(strict.address, {})) as other:
            with pytest.raises(TopicNotFound, match=r"and auto\.create\.topics\.enable is off"):
                await other.describe_topics([name], create=True)


async def test_a_bad_config_is_named(client: Client) -> None:
    with pytest.raises(InvalidConfig, match=r"no\.such\.setting"):
        await client.create_topic("bad", configs={"no.such.setting": "1"})


async def test_what_was_produced_is_fetched_as_it_was(client: Client, topic: str) -> None:
    place = TopicPartition(topic, 1)
    batch = encode_batch(records("a", "b"), now_ms=NOW_MS, compression=Compression.ZSTD)
    assert await client.produce(place, batch) == 0
    assert await client.produce(place, batch) == 2
    fetched = await client.fetch(place, 0)
    assert bytes(fetched.data[61 : len(batch)]) == batch[61:]
    assert values(fetched) == ["a", "b", "a", "b"]
    assert (fetched.start, fetched.high_watermark, fetched.last_stable) == (0, 4, 4)


async def test_offsets_by_name_and_by_time(client: Client, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    sender = await client.sender()
    assert await sender.send(first, records("a")) == 0
    assert await sender.send(first, records("b", "c")) == 1
    assert await client.list_offsets({first: LATEST, second: LATEST}) == {first: 3, second: 0}
    assert await client.list_offsets({first: EARLIEST}) == {first: 0}
    assert await client.list_offsets({first: NOW_MS, second: NOW_MS}) == {first: 0, second: -1}


async def test_an_offset_outside_the_log_says_where_the_log_is(client: Client, topic: str) -> None:
    place = TopicPartition(topic, 0)
    await (await client.sender()).send(place, records("a"))
    with pytest.raises(OffsetOutOfRange, match=f"{topic}-0: offset 7 is outside 0..1") as found:
        await client.fetch(place, 7, FetchLimits(wait_ms_max=0))
    assert (found.value.start, found.value.end) == (0, 1)


async def test_the_beginning_can_be_cut_off(client: Client, topic: str) -> None:
    place = TopicPartition(topic, 0)
    await (await client.sender()).send(place, records("a", "b", "c"))
    assert await client.delete_records(place, 2) == 2
    assert await client.list_offsets({place: EARLIEST}) == {place: 2}


async def test_a_partition_that_is_not_there(client: Client, topic: str) -> None:
    with pytest.raises(TopicNotFound, match="has 2 partitions"):
        await client.fetch(TopicPartition(topic, 2), 0)


async def test_a_sender_numbers_its_batches(client: Client, topic: str) -> None:
    """The node refuses a sequence that does not follow: two senders do not disturb each other."""
    place = TopicPartition(topic, 0)
    one, other = await client.sender(), await client.sender()
    for number in range(3):
        await one.send(place, records(f"one {number}"))
        await other.send(place, records(f"other {number}", "and more"))
    assert len(values(await client.fetch(place, 0))) == 9


async def test_a_committed_transaction_is_seen_and_an_aborted_one_is_not(
    client: Client, topic: str
) -> None:
    place = TopicPartition(topic, 0)
    name = uuid.uuid4().hex
    first = await client.begin(name)
    await first.send(place, records("kept"))
    await first.end(commit=True)
    await first.end(commit=True)
    second = await client.begin(name)
    await second.send(place, records("dropped"))
    await second.end(commit=False)
    third = await client.begin(name)
    await third.send(place, records("undecided"))
    fetched = await client.fetch(place, 0, committed=True)
    assert values(fetched) == ["kept"]
    assert await client.list_offsets({place: LATEST}, committed=True) == {place: 4}
    assert await client.list_offsets({place: LATEST}) == {place: 5}
    await client.end(third.handle, commit=True)
    assert values(await client.fetch(place, 0, committed=True)) == ["kept", "undecided"]


async def test_a_transaction_that_was_fenced_cannot_end(client: Client, topic: str) -> None:
    name = uuid.uuid4().hex
    old = await client.begin(name)
    await old.send(TopicPartition(topic, 0), records("late"))
    await client.fence(name)
    with pytest.raises(InvalidProducerEpoch):
        await old.end(commit=True)
    fetched = await client.fetch(TopicPartition(topic, 0), 0, committed=True)
    assert values(fetched) == []


async def test_offsets_count_with_their_transaction(client: Client, topic: str) -> None:
    group, place = f"group-{uuid.uuid4().hex}", TopicPartition(topic, 0)
    dropped = await client.begin(uuid.uuid4().hex)
    await dropped.commit_offset(group, place, 5)
    await dropped.end(commit=False)
    assert await client.group_offsets(group) == {}
    kept = await client.begin(uuid.uuid4().hex)
    await kept.commit_offset(group, place, 7, "a note")
    assert (await client.describe_transaction(kept.handle.transactional_id)).state == "Ongoing"
    await kept.end(commit=True)
    assert await client.group_offsets(group) == {place: (7, "a note")}
    state = await client.describe_transaction(kept.handle.transactional_id)
    assert (state.handle, state.state) == (kept.handle, "CompleteCommit")
    third = await client.begin(uuid.uuid4().hex)
    await third.commit_offset(group, place, 8)
    with pytest.raises(Undecided, match=group):
        await client.group_offsets(group)
    with pytest.raises(NotFound, match="nobody"):
        await client.describe_transaction("nobody")


# -- large answers ---------------------------------------------------------------------------------


async def test_what_was_fetched_stays_as_it_was(client: Client, topic: str) -> None:
    """Its memory is used again for later answers, but not while somebody looks at it."""
    place = TopicPartition(topic, 0)
    for number in range(30):
        batch = encode_batch(records(str(number) * 150_000), now_ms=NOW_MS)
        await client.produce(place, batch)
    limits = FetchLimits(bytes_max=500_000)
    kept = [await client.fetch(place, offset, limits) for offset in range(30)]
    assert all(len(one.data) > 64 << 10 for one in kept)
    for offset, one in enumerate(kept):
        assert values(one)[0] == str(offset) * 150_000
    everything = await client.fetch(place, 0, FetchLimits(bytes_max=8 << 20))
    assert len(values(everything)) == 30, "larger than any room there is"


async def test_other_answers_may_be_large_too() -> None:
    topics = [MetadataResponseTopic(name=f"topic-{i:05}", partitions=[]) for i in range(5000)]
    script: Script = {MetadataRequest: lambda request: MetadataResponse(brokers=[], topics=topics)}
    async with scripted(script) as server, Client(ClientOptions(servers=(server,))) as client:
        assert len((await client.cluster()).topics) == 5000
