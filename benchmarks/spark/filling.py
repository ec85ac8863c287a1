"""A node with a topic of JSON records, as an order service would write them, half of it cold."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from stratamq.client import BlockingClient, Client, TopicPartition, options_of
from stratamq.model.record import Record
from stratamq.model.types import TimestampMs
from stratamq.spark.union.snapshot import Snapshot, snapshot_of
from stratamq.wire.kafka.records import encode_batch
from tests.clients.node import running

TOPIC = "orders"
PARTITIONS = 4
BATCH = 500
RECORD_BYTES = 200
STORED_BYTES = 225
"""A record with its key, in a batch."""

SEGMENTS = 8
"""Of each partition: history is moved by the segment, so about half of it can be."""

CUSTOMERS = 100_000
COUNTRIES = ("AT", "BR", "CA", "DE", "IN", "JP")
START_MS = 1_767_225_600_000
SECONDS_MAX = 300
STEADY_S = 2.0
SCHEMA = """{"type": "record", "name": "Order", "fields": [
    {"name": "order", "type": "long"}, {"name": "customer", "type": "string"},
    {"name": "cents", "type": "long"}, {"name": "country", "type": "string"},
    {"name": "note", "type": "string"}]}"""
SQL_SCHEMA = "`order` long, customer string, cents long, country string, note string"
FLAGS = (
    *("--topic-flush", "os"),
    *("--tier-interval-ms", "200"),
    *("--lake-catalog-uri", "none"),
    *("--log-level", "warning"),
)


class Filled(NamedTuple):
    address: str
    records: int
    cut: Snapshot
    """As it stays: nothing is written or moved any more."""

    def moment_ms(self, share: float) -> int:
        """When so much of the topic had been written."""
        return START_MS + int(self.records // PARTITIONS * share)


@contextmanager
def node_with(records: int, folder: Path) -> Iterator[Filled]:
    with running(folder, *FLAGS) as node:
        asyncio.run(_fill(node.address, records))
        yield Filled(node.address, records, half_cold(node.address))


def record(number: int, chance: random.Random) -> Record:
    """By one of many customers, a millisecond after the last."""
    customer = f"customer-{chance.randrange(CUSTOMERS):06}"
    cents, country = chance.randrange(100, 100_000), chance.choice(COUNTRIES)
    text = (
        f'{{"order": {number}, "customer": "{customer}", "cents": {cents}, '
        f'"country": "{country}", "note": "'
    )
    note = chance.randbytes((RECORD_BYTES - len(text) - 2) // 2).hex()
    return Record(
        value=f'{text}{note}"}}'.encode(),
        key=customer.encode(),
        timestamp=TimestampMs(START_MS + number),
    )


async def _fill(address: str, records: int) -> None:
    share = records // PARTITIONS
    configs = {
        "retention.ms": "-1",
        "segment.bytes": str(share * STORED_BYTES // SEGMENTS),
        "local.retention.bytes": str(share * STORED_BYTES * (SEGMENTS + 2) // (2 * SEGMENTS)),
        "lake.value.format": "json",
        "lake.value.schema": SCHEMA,
    }
    async with Client(options_of(address, {})) as client:
        await client.create_topic(TOPIC, PARTITIONS, configs=configs)
        shares = [share + (at < records % PARTITIONS) for at in range(PARTITIONS)]
        await asyncio.gather(*(_send(client, at, count) for at, count in enumerate(shares)))


async def _send(client: Client, partition: int, count: int) -> None:
    chance = random.Random(partition)
    place = TopicPartition(TOPIC, partition)
    for start in range(0, count, BATCH):
        batch = [record(at, chance) for at in range(start, min(start + BATCH, count))]
        await client.produce(place, encode_batch(batch, now_ms=START_MS + start))


def half_cold(address: str) -> Snapshot:
    """When everything has moved that is to move."""
    ends = time.monotonic() + SECONDS_MAX
    with BlockingClient(options_of(address, {})) as client:
        seen, since = None, time.monotonic()
        while time.monotonic() < ends:
            cut = snapshot_of(client.call(client.asyncio.describe_lake(TOPIC)))
            if cut.ranges != seen:
                seen, since = cut.ranges, time.monotonic()
            if cut.files and time.monotonic() - since > STEADY_S:
                return cut
            time.sleep(0.1)
    raise RuntimeError("history was still on the move")
