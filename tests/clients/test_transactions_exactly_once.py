"""A loop that reads, works and writes is killed at random, and so is the node under it: in the end
each input was worked on exactly once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.clients.node import Node
from tests.clients.transactional import FLAGS, SECONDS_MAX, values
from tests.waiting import let_run_here, wait_until

WORKER = "tests.clients.exactly_once_worker"
ROOT = Path(__file__).parents[2]
PARTITIONS = 2
INPUT, OUTPUT = "input", "output"


class Stage:
    """A node and a worker, each started again when it is gone."""

    def __init__(self, data: Path) -> None:
        self.node = Node(data, *FLAGS, "--num-partitions", str(PARTITIONS))
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._worker: subprocess.Popen[bytes] | None = None

    def start_worker(self) -> None:
        if self._worker is None or self._worker.poll() is not None:
            command = [sys.executable, "-m", WORKER, self.node.address, INPUT, OUTPUT]
            self._worker = subprocess.Popen(command, stderr=self._log, cwd=ROOT)

    def kill_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()
            worker.wait(SECONDS_MAX)

    def kill_node(self) -> None:
        self.node = self.node.restarted(signal.SIGKILL)

    def close(self) -> None:
        self.kill_worker()
        if self.node.process.poll() is None:
            self.node.end(signal.SIGKILL)
        self._log.close()

    def said(self) -> str:
        self._log.seek(0)
        return self._log.read()[-4000:]


@contextmanager
def staged(data: Path) -> Iterator[Stage]:
    stage = Stage(data)
    try:
        yield stage
    finally:
        stage.close()


def fill(address: str, count: int) -> list[bytes]:
    admin = AdminClient({"bootstrap.servers": address})
    for topic in (INPUT, OUTPUT):
        admin.list_topics(topic, SECONDS_MAX)  # asking for it creates it
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    inputs = [b"%d" % number for number in range(count)]
    for number, value in enumerate(inputs):
        producer.produce(INPUT, value, partition=number % PARTITIONS)
    assert producer.flush(SECONDS_MAX) == 0
    return inputs


def outputs(address: str) -> Counter[bytes]:
    read = (values(address, OUTPUT, partition=number) for number in range(PARTITIONS))
    return Counter(value for some in read for value in some)


def run(data: Path, seed: int, count: int, kills: int) -> None:
    chance = random.Random(seed)
    with staged(data) as stage:
        inputs = fill(stage.node.address, count)
        turns = [stage.kill_worker, stage.kill_node] * (kills // 2)
        chance.shuffle(turns)
        for kill in turns:
            stage.start_worker()
            let_run_here(chance.uniform(0.3, 1.0))
            kill()

        def is_done() -> bool:
            stage.start_worker()
            return outputs(stage.node.address).total() >= count

        wait_until(is_done, lambda: f"seed {seed}\n{stage.said()}", 60 + count / 20)
        found = outputs(stage.node.address)
        assert found == Counter(inputs), f"seed {seed}\n{stage.said()}"
        assert "Traceback" not in stage.node.logged(), stage.node.logged()


def test_each_input_is_worked_on_once(tmp_path: Path) -> None:
    run(tmp_path, seed=random.randrange(1 << 32), count=200, kills=4)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_each_input_is_worked_on_once_for_long(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed, count=5000, kills=40)
