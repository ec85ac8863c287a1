"""A worker and its executor die in the middle of a query: the topic holds each row once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratamq.client import LATEST, Client, TopicPartition
from tests.clients.node import Node, running
from tests.peers.spark import standalone
from tests.spark.conftest import Talk
from tests.spark.test_killing import Application, committed
from tests.waiting import let_run_here, wait_until

PARTITIONS = 2
RECORDS = 3000
SECONDS_MAX = 240

pytestmark = [pytest.mark.long, pytest.mark.needs("java"), pytest.mark.timeout(900)]


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[Node]:
    with running(tmp_path / "node", "--topic-flush", "os") as node:
        talk = Talk(node.address)
        for topic in ("source", "target"):
            talk.run(lambda client, topic=topic: client.create_topic(topic, PARTITIONS))
        for partition in range(PARTITIONS):
            values = [str(number) for number in range(partition, RECORDS, PARTITIONS)]
            talk.send_values("source", partition, values)
        yield node


@pytest.mark.parametrize("seed", range(3))
def test_each_row_once(topics: Node, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    talk = Talk(topics.address)
    with standalone(tmp_path, workers=2) as cluster:
        application = Application(topics.address, tmp_path, cluster.master)
        _wait_for(talk, chance.randrange(1, RECORDS // 2))
        let_run_here(chance.random())
        cluster.kill_a_worker(at_once=True)
        assert not application.has_ended, "it was killed too late"
        _wait_for(talk, RECORDS * 2 // 3)
        cluster.add_workers(1)
        assert application.end() == 0, (tmp_path / "application.log").read_text()[-5000:]
    values = talk.run(lambda client: committed(client, "target"))
    assert sorted(int(value) for value in values) == list(range(RECORDS))


def _wait_for(talk: Talk, count: int) -> None:
    """Until so many offsets are taken in the target."""
    places = [TopicPartition("target", partition) for partition in range(PARTITIONS)]

    async def ends(client: Client) -> int:
        return sum((await client.list_offsets(dict.fromkeys(places, LATEST))).values())

    wait_until(lambda: talk.run(ends) >= count, "the query makes progress", SECONDS_MAX)
