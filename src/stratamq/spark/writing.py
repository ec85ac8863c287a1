"""What a writing task does: rows into batches, batches into one transaction that it leaves open."""

from __future__ import annotations

import itertools
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field

from stratamq.client import BlockingClient, TopicPartition, Transaction
from stratamq.model.errors import InvalidRecord
from stratamq.model.record import Record
from stratamq.spark.rows import Row
from stratamq.wire.kafka.partitioner import partition_for_key

BATCH_BYTES = 512 << 10
"""Half of what a topic takes by default."""

BATCH_RECORDS = 10_000
RECORD_BYTES = 20
"""Lengths and deltas, about."""

UNDER_WAY_MAX = 8
KEYS_MAX = 100_000


@dataclass(slots=True)
class _Pile:
    records: list[Record] = field(default_factory=list)
    size_bytes: int = 0


class TransactionWriter:
    """Everything that is added is in the transaction when `flush` returns."""

    def __init__(self, client: BlockingClient, transaction: Transaction) -> None:
        self._client, self._transaction = client, transaction
        self._piles: dict[TopicPartition, _Pile] = {}
        self._counts: dict[str, int] = {}
        self._turns: dict[str, itertools.count[int]] = {}
        self._current: dict[str, int] = {}
        self._of_keys: dict[tuple[str, bytes], TopicPartition] = {}
        self._under_way: deque[Future[int]] = deque()
        self.rows = 0

    @property
    def transaction(self) -> Transaction:
        return self._transaction

    def add(self, row: Row) -> None:
        place = self._place(row)
        pile = self._piles.setdefault(place, _Pile())
        pile.records.append(row.record)
        pile.size_bytes += _size(row.record)
        self.rows += 1
        if pile.size_bytes >= BATCH_BYTES or len(pile.records) >= BATCH_RECORDS:
            self._send(place)

    def flush(self) -> None:
        for place in list(self._piles):
            self._send(place)
        while self._under_way:
            self._under_way.popleft().result()

    def _send(self, place: TopicPartition) -> None:
        pile = self._piles.pop(place)
        self._current.pop(place.topic, None)  # rows without a key go elsewhere from now on
        if len(self._under_way) >= UNDER_WAY_MAX:
            self._under_way.popleft().result()
        self._under_way.append(self._client.start(self._transaction.send(place, pile.records)))

    def _place(self, row: Row) -> TopicPartition:
        count = self._counts.get(row.topic) or self._count(row.topic)
        if row.partition is not None:
            if not 0 <= row.partition < count:
                raise InvalidRecord(f"{row.topic!r} has {count} partitions, not {row.partition}")
            return TopicPartition(row.topic, row.partition)
        if row.record.key is not None:
            return self._of_key(row.topic, row.record.key, count)
        return TopicPartition(row.topic, self._any_partition(row.topic, count))

    def _of_key(self, topic: str, key: bytes, count: int) -> TopicPartition:
        """Keys come again and again, and hashing one costs more than looking it up."""
        known = self._of_keys.get((topic, key))
        if known is None:
            if len(self._of_keys) >= KEYS_MAX:
                self._of_keys.clear()
            known = TopicPartition(topic, partition_for_key(key, count))
            self._of_keys[topic, key] = known
        return known

    def _any_partition(self, topic: str, count: int) -> int:
        """The same for a while, so that batches get full."""
        found = self._current.get(topic)
        if found is None:
            found = self._current[topic] = next(self._turns[topic]) % count
        return found

    def _count(self, topic: str) -> int:
        described = self._client.call(self._client.asyncio.describe_topics([topic]))
        count = self._counts[topic] = len(described[topic].partitions)
        # Tasks begin at different partitions: their producer ids are as good as chance.
        self._turns[topic] = itertools.count(self._transaction.handle.producer_id)
        return count


def _size(record: Record) -> int:
    size = RECORD_BYTES + len(record.value or b"") + len(record.key or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"") + 2
    for tag in record.tags:
        size += len(tag) + 5
    return size
