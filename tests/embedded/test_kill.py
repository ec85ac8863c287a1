"""`kill -9` of a real node at work: what it acknowledged is there, and nothing is half-made."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import stratamq
from tests.waiting import let_run_here

WRITER = """
import sys, stratamq
node = stratamq.open(sys.argv[1], io_workers=2)
log = node.create_topic("log", 2, storage=sys.argv[2], exist_ok=True)
for number in range(int(sys.argv[3]), 10**9):
    placed = log.produce(f"{number}", key=f"{number % 7}", tags=[f"t{number % 3}"])
    print("stored", number, placed.partition, placed.offset, flush=True)
    if number % 5 == 0:
        log.commit("g", placed.partition, placed.offset)
        print("committed", placed.partition, placed.offset, flush=True)
    name = f"topic-{number % 4}"
    if number % 2:
        topic = node.create_topic(name, 2, storage=sys.argv[2], exist_ok=True)
        print("created", name, flush=True)
        topic.add_partitions(topic.partitions + 1)
    else:
        for topic in node.topics():
            if topic.name != "log":
                node.delete_topic(topic.name)
                print("deleted", topic.name, flush=True)
"""


def run_and_kill(path: Path, storage: str, start: int, seconds: float) -> list[list[str]]:
    """What the node said until it was killed. A line cut short was not said."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(path), storage, str(start)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        let_run_here(seconds)
        child.send_signal(signal.SIGKILL)
        said = [first, *child.stdout]
    return [line.split() for line in said if line.endswith("\n")]


def check(node: stratamq.Node, stored: dict[tuple[int, int], str]) -> None:
    log = node.topic("log")
    there = {
        (one.partition, one.offset): one.text
        for partition in range(2)
        for one in log.read(partition=partition, limit=100_000)
    }
    for where, text in stored.items():
        assert there.get(where) == text, f"{where} was acknowledged"
    assert len(set(there.values())) == len(there), "nothing is stored twice"
    by_key = {
        one.text for n in range(7) for one in log.read_by_key(f"{n}", history=True, limit=10**6)
    }
    by_tag = {one.text for n in range(3) for one in log.read_by_tag(f"t{n}", limit=10**6)}
    assert by_key == by_tag == set(there.values()), "every index knows every record"


def check_whole(node: stratamq.Node) -> None:
    """Metadata and storage tell the same story."""
    core = node._face.core
    state = core.meta.state
    shards = {name for engine in core.engines.values() for name in engine.list_shards()}
    assert shards == set(state.shards)
    assert len(shards) == sum(topic.partitions for topic in node.topics())
    assert len(state.topics) == len(node.topics())


@pytest.mark.parametrize("storage", ["segment", "rocksdb"])
def test_kill_9_at_work(tmp_path: Path, storage: str) -> None:
    stored: dict[tuple[int, int], str] = {}
    chance = random.Random(storage)
    number = 0
    for _ in range(3):
        said = run_and_kill(tmp_path, storage, number, chance.uniform(0.05, 0.5))
        committed: dict[int, int] = {}
        for words in said:
            number = max(number, int(words[1]) + 1) if words[0] == "stored" else number
            _hear(words, stored, committed)
        with stratamq.open(tmp_path, io_workers=1) as node:
            check(node, stored)
            check_whole(node)
            kept = node.topic("log").committed("g")
            lost = [part for part, offset in committed.items() if kept[part] < offset]
            assert not lost, "a commit that was acknowledged is durable"
        number += 1  # one may have been stored without a word
    assert stored


def _hear(words: list[str], stored: dict[tuple[int, int], Any], committed: dict[int, int]) -> None:
    if words[0] == "stored":
        _, number, partition, offset = words
        stored[int(partition), int(offset)] = number
    elif words[0] == "committed":
        committed[int(words[1])] = int(words[2])
