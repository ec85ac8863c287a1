"""The state on disk: what was acknowledged is there after any crash, whole commands only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratamq.log.kv import KVBatch, KVStore, RocksKV
from stratamq.meta.apply import Command, apply
from stratamq.meta.rows import dump
from stratamq.meta.state import MetaState
from stratamq.meta.store import (
    FORMAT_KEY,
    KVMetaStore,
    RocksMetaStore,
    entity_of,
    row_key,
    row_value,
)
from stratamq.model.errors import StorageError
from tests.meta.support import T1, creating, topic


class CountingKV:
    """A real store that notes how it is written to."""

    def __init__(self, path: Path) -> None:
        self._kv: KVStore = RocksKV(path)
        self.syncs: list[bool] = []

    def get(self, key: bytes) -> bytes | None:
        return self._kv.get(key)

    def scan(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._kv.scan(begin, end)

    def scan_back(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._kv.scan_back(begin, end)

    def batch(self) -> KVBatch:
        return self._kv.batch()

    def write(self, batch: KVBatch, *, sync: bool = False) -> None:
        self.syncs.append(sync)
        self._kv.write(batch, sync=sync)

    def close(self) -> None:
        self._kv.close()


def write(store: KVMetaStore, state: MetaState, *commands: Command) -> MetaState:
    for command in commands:
        state, events = apply(state, command)
        store.write(events, state.revision)
    return state


def test_each_write_is_one_synced_batch(tmp_path: Path) -> None:
    """Two batches could be torn apart by a crash, and an unsynced one lost by a power cut."""
    kv = CountingKV(tmp_path)
    store = KVMetaStore(lambda: kv)
    state = store.open()
    kv.syncs.clear()
    write(store, state, *creating(topic())[:2])
    assert kv.syncs == [True, True]
    store.close()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    kv = RocksKV(tmp_path)
    batch = kv.batch()
    batch.put(FORMAT_KEY, dump({}).replace(b'"v":1', b'"v":2'))
    kv.write(batch)
    kv.close()
    with pytest.raises(StorageError, match="version 2"):
        RocksMetaStore(tmp_path).open()


@pytest.mark.parametrize(
    "harm",
    [
        lambda value: value[:-5],
        lambda value: b"",
        lambda value: b"[]",
        lambda value: value.replace(b'"name"', b'"nome"'),
        lambda value: value.replace(b'"phase":"creating"', b'"phase":"odd"'),
        lambda value: value.replace(b'"v":1', b'"v":7'),
        lambda value: value.replace(b'"config":{}', b'"config":{"flsh":1}'),
        lambda value: value.replace(b'"config":{}', b'"config":3'),
    ],
)
def test_a_damaged_row_is_named(harm: object) -> None:
    _, events = apply(MetaState(), creating(topic())[0])
    entity = events[0].entity
    key, value = row_key(entity), row_value(entity)
    assert entity_of(key, value) == entity
    with pytest.raises(StorageError, match=T1):
        entity_of(key, harm(value))  # type: ignore[operator]


CHILD = """
import itertools, sys
from pathlib import Path
from stratamq.meta.apply import apply
from stratamq.meta.shards import CreateShard
from stratamq.meta.topics import CreateTopic
from stratamq.meta.store import RocksMetaStore
from tests.meta.support import ME, topic
store = RocksMetaStore(Path(sys.argv[1]))
state = store.open()
for number in itertools.count(len(state.topics)):
    one = topic(f"t{number}", f"{number:032x}", 3)
    commands = [CreateShard(topic_id=one.topic_id, partition=n) for n in range(3)]
    events = []
    for command in [CreateTopic(topic=one, creator=ME), *commands]:
        state, more = apply(state, command)
        events += more
    store.write(events, state.revision)
    print(number, flush=True)
"""


def test_kill_9_loses_nothing_acknowledged_and_tears_no_command(tmp_path: Path) -> None:
    acknowledged = -1
    for pause in (1, 7, 23):
        acknowledged = _run_and_kill(tmp_path, acknowledged + pause)
        store = RocksMetaStore(tmp_path)
        state = store.open()
        store.close()
        assert acknowledged < len(state.topics) <= acknowledged + 2
        assert len(state.shards) == 3 * len(state.topics), "a topic without all of its shards"
        assert state.revision == 4 * len(state.topics)
        acknowledged = len(state.topics) - 1


def _run_and_kill(path: Path, until: int) -> int:
    """Kill a writer when it has acknowledged topic `until`; the last one it acknowledged."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CHILD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdout is not None
        last = -1
        for line in child.stdout:
            last = int(line)
            if last >= until:
                child.send_signal(signal.SIGKILL)
                break
        rest = [int(line) for line in child.stdout if line.endswith("\n")]
    return max([last, *rest])
