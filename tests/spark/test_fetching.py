"""Fetches ahead of their reader, from a real node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stratamq.client import BlockingClient, TopicPartition, options_of
from stratamq.model.errors import OffsetOutOfRange
from stratamq.spark.fetching import AHEAD_MAX, Fetching, answers
from stratamq.spark.losses import Losses
from stratamq.spark.planning import OffsetRange
from stratamq.wire.kafka.records import iter_batches
from tests.clients.node import Node
from tests.spark.conftest import Talk

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
            time.sleep(0.1)
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
