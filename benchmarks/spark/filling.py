"""A node with a topic of JSON records, as an order service would write them."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stratamq.client import Client, TopicPartition, options_of
from stratamq.model.record import Record
from stratamq.wire.kafka.records import encode_batch
from tests.clients.node import Node, running

TOPIC = "orders"
PARTITIONS = 4
BATCH = 500
RECORD_BYTES = 200
START_MS = 1_714_521_600_000


@contextmanager
def node_with(records: int, folder: Path) -> Iterator[Node]:
    """Its topic holds so many, all of them hot."""
    with running(folder, "--topic-flush", "os") as node:
        asyncio.run(_fill(node.address, records))
        yield node


def value(number: int, chance: random.Random) -> bytes:
    order = {
        "order": number,
        "customer": f"customer-{chance.randrange(10_000):05}",
        "cents": chance.randrange(100, 100_000),
        "country": chance.choice(["AT", "BR", "CA", "DE", "IN", "JP"]),
    }
    text = json.dumps(order)
    note = "x" * (RECORD_BYTES - len(text) - 12)
    return f'{text[:-1]}, "note": "{note}"}}'.encode()


async def _fill(address: str, records: int) -> None:
    async with Client(options_of(address, {})) as client:
        await client.create_topic(TOPIC, PARTITIONS, configs={"retention.ms": "-1"})
        shares = [records // PARTITIONS + (i < records % PARTITIONS) for i in range(PARTITIONS)]
        await asyncio.gather(*(_send(client, i, count) for i, count in enumerate(shares)))


async def _send(client: Client, partition: int, count: int) -> None:
    chance = random.Random(partition)
    place = TopicPartition(TOPIC, partition)
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        batch = [Record(value=value(i, chance), key=b"%d" % (i % 1000)) for i in numbers]
        await client.produce(place, encode_batch(batch, now_ms=START_MS + start))
