"""Clients at work, each with choices by seed, and a history of what they did."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random

from stratamq.client import Client, ClientOptions, TopicPartition
from stratamq.client.fetching import Fetched, FetchLimits, visible_batches
from stratamq.client.offsets import Undecided
from stratamq.client.options import Server
from stratamq.client.producing import Sender
from stratamq.model.errors import AlreadyExists, OffsetOutOfRange, StrataError
from stratamq.model.record import Record
from stratamq.wire.kafka.records import decode_batch, iter_batches
from tests.simulation.history import History, Log, Logs, Outcome, Read, Send, Txn
from tests.simulation.world import PORT

PARTITIONS = 2
GROUP = "readers"
LOOKS_MAX = 100
"""For the end of the last transaction, twice a second."""


def client_of(nodes: Sequence[str], *, patience_ms: int = 8_000) -> Client:
    servers = tuple(Server(name, PORT) for name in nodes)
    return Client(
        ClientOptions(
            servers=servers, request_ms_max=2_000, connect_ms_max=1_000, retry_ms_max=patience_ms
        )
    )


async def create_topics(client: Client, topics: Mapping[str, Mapping[str, str]]) -> None:
    for topic, configs in topics.items():
        with suppress(AlreadyExists):  # by a request whose answer was lost
            await client.create_topic(topic, PARTITIONS, configs=configs)


class Worker:
    """One client. Its requests are one after the other."""

    def __init__(
        self, name: str, nodes: Sequence[str], topics: Sequence[str], history: History, seed: str
    ) -> None:
        self._name, self._history = name, history
        self._chance = Random(f"{seed}/{name}")
        self._client = client_of(nodes, patience_ms=self._chance.choice((300, 2_000, 8_000)))
        self._places = [TopicPartition(topic, one) for topic in topics for one in range(PARTITIONS)]
        self._sender: Sender | None = None
        self._count = 0

    async def work(self, requests: int) -> None:
        for _ in range(requests):
            kind = self._chance.choices(
                (self._send, self._read, self._transact), weights=(6, 3, 1)
            )[0]
            try:
                await kind()
            except StrataError:
                self._sender = None  # what it sent last has no known outcome: it begins again
            if self._chance.random() < 0.2:
                await asyncio.sleep(self._chance.uniform(0, 0.5))
        self._client.close()

    def _new_send(self, place: TopicPartition, transaction: int | None = None) -> Send:
        self._count += 1
        value = f"{self._name}-{self._count}".encode()
        send = Send(self._name, place, value, transaction=transaction)
        self._history.sends.append(send)
        return send

    async def _send(self) -> None:
        place = self._chance.choice(self._places)
        if self._sender is None:
            self._sender = await self._client.sender()
        send = self._new_send(place)
        send.offset = await self._sender.send(place, [_record(send)])
        send.outcome = Outcome.DONE if send.offset >= 0 else Outcome.UNKNOWN

    async def _read(self) -> None:
        place, committed = self._chance.choice(self._places), self._chance.random() < 0.5
        bounds = await self._client.list_offsets({place: -1})
        offset = self._chance.randint(0, bounds[place])
        limits = FetchLimits(wait_ms_max=self._chance.choice((0, 100, 800)))
        try:
            fetched = await self._client.fetch(place, offset, limits, committed=committed)
        except OffsetOutOfRange:
            return  # the log was cut by retention, or lost what was not synced
        for at, value in values(fetched, committed=committed).items():
            self._history.reads[Read(place, at, value, committed)] = None

    async def _transact(self) -> None:
        number = len(self._history.transactions)
        transaction = Txn()
        self._history.transactions.append(transaction)
        under_way = await self._client.begin(f"id-{self._name}", timeout_ms=20_000)
        for place in self._chance.sample(self._places, 2):
            send = self._new_send(place, number)
            send.offset = await under_way.send(place, [_record(send)])
            send.outcome = Outcome.DONE
        if self._chance.random() < 0.5:
            key = (f"{GROUP}-{self._name}", self._places[0])
            transaction.offsets[key] = number
            await under_way.commit_offset(*key, number)
        commit = self._chance.random() < 0.7
        await under_way.end(commit=commit)
        transaction.outcome = Outcome.DONE if commit else Outcome.REFUSED


def _record(send: Send) -> Record:
    return Record(key=b"k", value=send.value)


def values(fetched: Fetched, *, committed: bool) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for header, batch in visible_batches(fetched.data, fetched.aborted if committed else ()):
        for one in decode_batch(header, batch):
            assert one.offset is not None
            assert one.value is not None
            found[one.offset] = bytes(one.value)
    return found


async def read_logs(nodes: Sequence[str], topics: Sequence[str], clients: Sequence[str]) -> Logs:
    """Everything that is there. Transactions that were left open have ended on return."""
    client = client_of(nodes, patience_ms=120_000)
    for name in clients:
        await client.fence(f"id-{name}")
    places = [TopicPartition(topic, one) for topic in topics for one in range(PARTITIONS)]
    partitions = {place: await _read_log(client, place) for place in places}
    offsets: dict[tuple[str, TopicPartition], int] = {}
    for name in clients:
        group = f"{GROUP}-{name}"
        for place, offset in (await _group_offsets(client, group)).items():
            offsets[group, place] = offset
    client.close()
    return Logs(partitions, offsets)


async def _read_log(client: Client, place: TopicPartition) -> Log:
    """With all that is committed: transactions take a while to end."""
    start = (await client.list_offsets({place: -2}))[place]
    for _ in range(LOOKS_MAX):
        end = (await client.list_offsets({place: -1}))[place]
        stable = (await client.list_offsets({place: -1}, committed=True))[place]
        if stable == end:
            break
        await asyncio.sleep(0.5)
    found: list[dict[int, bytes]] = []
    for committed, until in ((False, end), (True, stable)):
        records: dict[int, bytes] = {}
        offset = start
        while offset < until:
            fetched = await client.fetch(place, offset, committed=committed)
            records |= values(fetched, committed=committed)
            offset = _next_offset(fetched, offset)
        found.append(records)
    return Log(found[0], found[1], start, stable, end)


def _next_offset(fetched: Fetched, offset: int) -> int:
    for header, _ in iter_batches(fetched.data):
        offset = header.next_offset
    return offset


async def _group_offsets(client: Client, group: str) -> dict[TopicPartition, int]:
    while True:
        try:
            found = await client.group_offsets(group)
        except Undecided:
            await asyncio.sleep(0.1)
        else:
            return {place: one.offset for place, one in found.items()}
