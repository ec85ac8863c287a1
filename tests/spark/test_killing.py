"""Exactly once, while the driver, the node and Python workers are killed at random."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stratamq.client import LATEST, Client, TopicPartition, visible_batches
from stratamq.wire.kafka.records import decode_batch, walk
from tests.clients.node import ROOT, Node
from tests.peers.spark import standalone
from tests.spark.conftest import Talk
from tests.spark.pausing import POINTS
from tests.waiting import let_run_here, until, wait_until

pytestmark = pytest.mark.timeout(900)

PARTITIONS = 2
RECORDS = 3000
KILLS = 6
RUN_SECONDS_MAX = 300
PATHS = os.pathsep.join([str(ROOT / "src"), str(ROOT)])


class Application:
    """`tests.spark.copying` in a session of its own, so that all of it can be killed at once."""

    def __init__(self, address: str, folder: Path, *more: str) -> None:
        self.log = (folder / "application.log").open("ab")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.spark.copying"),
                *(address, "source", "target", str(folder / "checkpoint"), *more),
            ],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": PATHS},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            start_new_session=True,
        )

        assert self.process.stdout is not None
        self.process.stdout.readline()  # it runs, or has ended already

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        if not self.has_ended:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.end()

    def kill_a_worker(self, chance: random.Random) -> None:
        """One of the Python workers, if any is there."""
        told = subprocess.run(
            ["ps", "-o", "pid=,args=", "-g", str(self.process.pid)],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.splitlines()
        workers = [int(line.split()[0]) for line in told if "pyspark.daemon" in line]
        if workers:
            os.kill(chance.choice(workers), signal.SIGKILL)

    def end(self) -> int:
        self.process.communicate(timeout=RUN_SECONDS_MAX)
        self.log.close()
        return self.process.returncode


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[list[Node]]:
    """In a list, because it is another one after each restart."""
    nodes = [Node(tmp_path / "data", "--topic-flush", "os")]
    yield nodes
    nodes[0].end(signal.SIGKILL)


async def all_decided(
    client: Client, places: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """Where the partitions end, once what the killed left open has timed out."""
    asked = dict.fromkeys(places, LATEST)

    async def is_decided() -> bool:
        return await client.list_offsets(asked) == await client.list_offsets(asked, committed=True)

    await until(is_decided, "all transactions are ended", RUN_SECONDS_MAX)
    return await client.list_offsets(asked)


async def committed(client: Client, topic: str) -> list[bytes]:
    found = []
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    for place, end in (await all_decided(client, places)).items():
        offset = 0
        while offset < end:
            fetched = await client.fetch(place, offset, committed=True)
            for header, batch in visible_batches(fetched.data, fetched.aborted):
                records = decode_batch(header, batch)
                found += [one.value or b"" for one in records if one.offset >= offset]
            offset = walk(fetched.data)[-1].last_offset + 1
    return found


def filled(talk: Talk, count: int) -> list[str]:
    """What is to be copied."""
    for topic in ("source", "target"):
        talk.run(lambda client, topic=topic: client.create_topic(topic, PARTITIONS))
    sent = [f"{i}" for i in range(count)]
    for partition in range(PARTITIONS):
        talk.send_values("source", partition, sent[partition::PARTITIONS])
    return sent


def check_copied_once(talk: Talk, sent: Sequence[str]) -> None:
    values = talk.run(lambda client: committed(client, "target"))
    counts = Counter(value.decode() for value in values)
    assert {value: count for value, count in counts.items() if count > 1} == {}
    assert set(counts) == set(sent)


@pytest.mark.long
@pytest.mark.needs("java")
@pytest.mark.parametrize("seed", [1, 2])
def test_every_row_once_whatever_is_killed(own_node: list[Node], tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    talk = Talk(own_node[0].address)
    sent = filled(talk, RECORDS)
    application = Application(talk.address, tmp_path)
    for _ in range(KILLS):
        if application.has_ended:
            application.end()  # a node that was away too long may end it, too
            application = Application(talk.address, tmp_path)
        let_run_here(chance.uniform(0.5, 6))
        match chance.choice(["driver", "node", "worker"]):
            case "driver":
                application.kill()
                application = Application(talk.address, tmp_path)
            case "node":
                own_node[0] = own_node[0].restarted(signal.SIGKILL)
            case "worker":
                application.kill_a_worker(chance)
    assert _finish(application, talk.address, tmp_path) == 0, said(tmp_path)
    check_copied_once(talk, sent)


def said(folder: Path) -> str:
    return (folder / "application.log").read_text()[-5000:]


def stopped(talk: Talk, folder: Path, point: str) -> Application:
    """An application that stands at the point."""
    application = Application(talk.address, folder, "local[2,8]", point, str(folder))

    def is_there() -> bool:
        assert not application.has_ended, said(folder)
        return (folder / "paused").exists()

    wait_until(is_there, f"it comes to {point!r}", RUN_SECONDS_MAX)
    return application


@pytest.mark.long
@pytest.mark.needs("java")
@pytest.mark.parametrize("point", POINTS)
def test_a_driver_that_is_killed_between_two_steps(
    own_node: list[Node], tmp_path: Path, point: str
) -> None:
    talk = Talk(own_node[0].address)
    sent = filled(talk, 600)
    stopped(talk, tmp_path, point).kill()
    assert Application(talk.address, tmp_path).end() == 0, said(tmp_path)
    check_copied_once(talk, sent)


@pytest.mark.long
@pytest.mark.needs("java")
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("is_early", [False, True])
def test_a_zombie_that_comes_back(
    own_node: list[Node], tmp_path: Path, point: str, is_early: bool
) -> None:
    """When the one that took over is done, or in the middle of it. It may end one of them; what
    counts is what the topic holds when a third has had its turn."""
    talk = Talk(own_node[0].address)
    sent = filled(talk, 600)
    zombie = stopped(talk, tmp_path, point)
    other = Application(talk.address, tmp_path)
    if is_early:
        let_run_here(2)
    else:
        assert other.end() == 0, said(tmp_path)
        check_copied_once(talk, sent)
    (tmp_path / "go").touch()
    zombie.end()
    if is_early:
        other.end()
    assert Application(talk.address, tmp_path).end() == 0, said(tmp_path)
    check_copied_once(talk, sent)


@pytest.mark.long
@pytest.mark.needs("java")
def test_a_cluster_of_its_own_processes(own_node: list[Node], tmp_path: Path) -> None:
    """A master and two workers; one of them is killed while the query runs."""
    talk = Talk(own_node[0].address)
    sent = filled(talk, RECORDS)
    with standalone(tmp_path, workers=2) as cluster:
        application = Application(talk.address, tmp_path, cluster.master)
        let_run_here(5)
        cluster.kill_a_worker()
        assert application.end() == 0, said(tmp_path)
    check_copied_once(talk, sent)


def _finish(application: Application, address: str, folder: Path) -> int:
    """To the end of the topic, undisturbed."""
    application.end()
    return Application(address, folder).end()
