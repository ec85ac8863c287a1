"""Fetches ahead of their reader, from a real node."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from stratamq.client import BlockingClient, TopicPartition, options_of
from stratamq.client.fetching import Fetched
from stratamq.model.errors import OffsetOutOfRange, TimedOut
from stratamq.model.record import TTL_HEADER, Record
from stratamq.model.types import Offset, TimestampMs
from stratamq.spark import reading
from stratamq.spark.failures import Losses
from stratamq.spark.jobs import task
from stratamq.spark.planning import OffsetRange
from stratamq.spark.reading import AHEAD_MAX, Fetching, answers
from stratamq.wire.kafka.records import encode_batch, encode_skip, iter_batches
from tests.clients.node import Node
from tests.spark.conftest import Talk
from tests.waiting import let_run_here

BATCHES = 12
PER_BATCH = 100  # as `Talk.send` cuts them


class Counted:
    """How often a client was asked for records."""

    def __init__(self, client: BlockingClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client, self.count = client, 0
        real = client.asyncio.fetch

        async def fetch(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return await real(*args, **kwargs)

        monkeypatch.setattr(client.asyncio, "fetch", fetch)

    def settled(self) -> int:
        """Once no more is asked for."""
        before = -1
        while before != self.count:
            before = self.count
            let_run_here(0.1)
        return before


@pytest.fixture
def counted(node: Node, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    with BlockingClient(options_of(node.address, {})) as client:
        yield Counted(client, monkeypatch)


@pytest.fixture
def asked(new_topic: Callable[..., str], talk: Talk) -> Fetching:
    """A batch at a time, of all that is there."""
    topic = new_topic(partitions=1)
    talk.send_values(topic, 0, [f"{i:04}" for i in range(BATCHES * PER_BATCH)])
    wanted = OffsetRange(place=TopicPartition(topic, 0), start=0, stop=BATCHES * PER_BATCH)
    return Fetching(wanted=wanted, bytes_max=1, committed=True, losses=Losses())


def test_the_node_is_asked_ahead_and_then_no_more(counted: Counted, asked: Fetching) -> None:
    found = answers(counted.client, asked)
    first = next(found)
    assert first.offset == 0
    assert AHEAD_MAX < counted.settled() <= AHEAD_MAX + 2, "one is used, one waits for room"
    rest = list(found)
    assert [one.offset for one in (first, *rest)] == list(range(0, BATCHES * PER_BATCH, PER_BATCH))
    headers = [header for one in (first, *rest) for header, _ in iter_batches(one.fetched.data)]
    assert sum(header.record_count for header in headers) == BATCHES * PER_BATCH
    assert counted.count == BATCHES


def test_who_stops_early_leaves_nothing_running(counted: Counted, asked: Fetching) -> None:
    async def has_ended() -> bool:
        """Whether nothing else runs, soon."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        return not others or not (await asyncio.wait(others, timeout=1))[1]

    found = answers(counted.client, asked)
    next(found)
    counted.settled()
    assert not counted.client.call(has_ended()), "it waits for room"
    found.close()
    assert counted.client.call(has_ended())


def test_what_is_gone_is_told_by_the_reader_in_its_turn(
    counted: Counted, asked: Fetching, talk: Talk
) -> None:
    found = answers(counted.client, asked)
    assert next(found).offset == 0
    counted.settled()
    talk.run(lambda client: client.delete_records(asked.wanted.place, BATCHES * PER_BATCH - 1))
    for number in range(1, AHEAD_MAX + 2):
        assert next(found).offset == PER_BATCH * number, "what came before is shown"
    with pytest.raises(OffsetOutOfRange, match="was to be read, but the log has 1199 to 1200"):
        next(found)


@pytest.mark.parametrize("committed", [True, False])
def test_expired_records_are_passed_without_waiting(
    counted: Counted, new_topic: Callable[..., str], talk: Talk, committed: bool
) -> None:
    """The range ends with what nobody can read any more: the answers say so."""
    topic = new_topic(partitions=1, record_ttl_ms="0")
    talk.send_values(topic, 0, ["stays"])
    over = Record(value=b"v", headers=((TTL_HEADER, b"1"),), timestamp=TimestampMs(1000))
    talk.send(topic, 0, [over] * 250)
    wanted = OffsetRange(place=TopicPartition(topic, 0), start=0, stop=251)
    asked = Fetching(wanted=wanted, bytes_max=1, committed=committed, losses=Losses())
    found = list(answers(counted.client, asked))
    assert counted.count == len(found) == 2
    batches = [header for one in found for header, _ in iter_batches(one.fetched.data)]
    assert [(header.is_control, header.next_offset) for header in batches] == [
        (False, 1),
        (True, 251),
    ]


def test_a_node_that_does_not_answer_is_an_error(
    counted: Counted, asked: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty answers are no reason to leave records out."""
    monkeypatch.setattr(reading, "EMPTY_MAX", 3)
    nothing = Fetched(data=b"", start=0, high_watermark=1200, last_stable=1200)

    async def fetch(*args: Any, **kwargs: Any) -> Fetched:
        return nothing

    monkeypatch.setattr(counted.client.asyncio, "fetch", fetch)
    with pytest.raises(TimedOut, match="nothing came from 0 to 1199"):
        list(answers(counted.client, asked))


def test_jobs_store_no_marks_that_only_an_answer_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark covers deleted records for the reader of one answer. In a file it would be one more
    batch."""
    batch = encode_batch([Record(value=b"v")], now_ms=0)
    data = batch + encode_skip(Offset(1), Offset(9))
    answer = Fetched(data=data, start=0, high_watermark=10, last_stable=10)
    monkeypatch.setattr(task, "_answers", lambda work, wanted: iter([answer]))
    sink = io.BytesIO()
    wanted: Any = SimpleNamespace(end=10)
    nothing: Any = None
    assert task._fetched(nothing, wanted, sink) == []
    assert sink.getvalue() == batch
