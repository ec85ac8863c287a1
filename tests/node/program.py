"""A node and its Kafka front on twins, in a process of its own: `python -m tests.node.program`.

Prints what the node wrote, as JSON, and ends with an error if it touched a real file. A test
compares the output of processes that differ in their hash seeds.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

from stratamq.client import Client, ClientOptions, TopicPartition
from stratamq.client.options import Server
from stratamq.model.config import load
from stratamq.model.record import Record
from stratamq.node.core import NodeCore
from stratamq.node.kafka import KafkaFront
from stratamq.wire.kafka.records import encode_batch
from tests.twins.machine import Machine, OneThreadLoop

DATA = Path("/a-folder-of-the-twin-disk")
PORT = 9092
GROUPS = [f"group-{number}" for number in range(9)]
TOPICS: dict[str, dict[str, str]] = {
    "segments": {"storage.type": "EngineSegment"},
    "rows": {"storage.type": "EngineRocksDB"},
    "memory": {"storage.type": "EngineMemory", "memory.persist": "true", "segment.bytes": "1024"},
}
PARTITIONS = 5


def main() -> None:
    touched: list[str] = []

    def audit(event: str, args: tuple[object, ...]) -> None:
        if event.partition(".")[0] in ("open", "os", "shutil") and str(DATA) in str(args):
            touched.append(f"{event} {args}")

    sys.addaudithook(audit)
    machine = Machine()
    with asyncio.Runner(loop_factory=OneThreadLoop) as runner:
        runner.run(life(machine))
    assert not touched, touched
    assert not os.path.lexists(DATA)
    print(json.dumps(report(machine), indent=1))


@asynccontextmanager
async def running(machine: Machine) -> AsyncIterator[tuple[NodeCore, Client]]:
    flags = {
        "data.dir": str(DATA),
        "kafka.port": PORT,
        "kafka.advertised.host": "127.0.0.1",
        "kafka.advertised.port": PORT,
        "io.workers": 2,
    }
    core = NodeCore(load(flags=flags), doors=machine.doors())
    await core.start()
    front = KafkaFront(core.config, core)
    await front.start()
    options = ClientOptions(servers=(Server("127.0.0.1", PORT),))
    async with Client(options) as client:
        yield core, client
    await front.stop()
    await core.stop()


async def life(machine: Machine) -> None:
    """Write through the front, stop, and start again on what the twins hold."""
    async with running(machine) as (_, client):
        for topic, config in TOPICS.items():
            await client.create_topic(topic, PARTITIONS, configs=config)
            for partition in range(PARTITIONS):
                await client.produce(TopicPartition(topic, partition), batch(machine, b"one"))
        await use_transactions(client, machine)
    async with running(machine) as (_, client):
        for topic in TOPICS:
            place = TopicPartition(topic, 0)
            end = await client.list_offsets({place: -1})
            assert end[place] >= 1, (topic, end)
        await client.delete_topic("segments")
        await client.delete_topic("rows")


async def use_transactions(client: Client, machine: Machine) -> None:
    """Marks in many shards, offsets of many groups."""
    transaction = await client.begin("payments")
    for topic in ("segments", "rows"):
        for partition in range(PARTITIONS):
            await transaction.send(TopicPartition(topic, partition), [record(machine, b"two")])
    for group in GROUPS:
        for partition in range(PARTITIONS):
            place = TopicPartition("segments", partition)
            await transaction.commit_offset(group, place, 1)
    await transaction.end(commit=True)


def record(machine: Machine, value: bytes) -> Record:
    return Record(key=b"k", value=value, timestamp=machine.clock.now_ms())


def batch(machine: Machine, value: bytes) -> bytes:
    return encode_batch([record(machine, value)], now_ms=machine.clock.now_ms())


def report(machine: Machine) -> dict[str, object]:
    """Rows of metadata in the order in which they were written, and what is on the disk."""
    rows = [row for path, batch in machine.writes if path.name == "meta" for row in batch]
    contents = {path: machine.disk.content(path) for path in machine.disk.files()}
    return {
        "metadata": [str(row) for row in rows],
        "files": {str(path): sha256(data).hexdigest() for path, data in contents.items()},
    }


if __name__ == "__main__":
    main()
