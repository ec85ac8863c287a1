"""Fetches that run ahead of whoever decodes them: a node and a task work at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from stratamq.client import BlockingClient, Client, FetchLimits
from stratamq.client.fetching import Fetched
from stratamq.model.errors import OffsetOutOfRange, TimedOut, TopicRecreated
from stratamq.spark.looking import bounds
from stratamq.spark.losses import DataLoss, Losses
from stratamq.spark.planning import OffsetRange
from stratamq.wire.kafka.records import walk

AHEAD_MAX = 3
"""Answers that wait to be decoded; then no more is asked for."""

WAIT_MS = 500
EMPTY_MAX = 120
"""Answers without a batch, one after the other: a minute of them. The node is waiting for object
storage, or has no memory to spare for an answer; where records are gone, its answers say so and
lead on. When the limit is reached, the task fails with TimedOut, and Spark tries it again."""

SPARE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetching:
    """What is asked for, and what about records that are gone."""

    wanted: OffsetRange
    bytes_max: int
    committed: bool
    losses: Losses


class Answer(NamedTuple):
    """What lies before `offset` is not to be shown: another answer had it, or it was deleted."""

    offset: int
    fetched: Fetched


def answers(client: BlockingClient, asked: Fetching) -> Iterator[Answer]:
    """Until the range is covered. The next ones are on their way while one is used."""
    queue: asyncio.Queue[Answer | BaseException | None] = asyncio.Queue(AHEAD_MAX)
    filling = client.start(_fill(queue, client.asyncio, asked))
    try:
        while (found := client.call(queue.get())) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found
    finally:
        filling.cancel()


async def _fill(
    queue: asyncio.Queue[Answer | BaseException | None], client: Client, asked: Fetching
) -> None:
    try:
        async for answer in fetch_all(client, asked):
            await queue.put(answer)
    except Exception as error:  # raised where the answer is waited for
        await queue.put(error)
    else:
        await queue.put(None)


async def fetch_all(client: Client, asked: Fetching) -> AsyncIterator[Answer]:
    """Until the range is covered, one after the other."""
    wanted = asked.wanted
    offset, empty = wanted.start, 0
    while offset < wanted.stop:
        try:
            limits = FetchLimits(bytes_max=_size(asked, offset), wait_ms_max=WAIT_MS)
            fetched = await client.fetch(
                wanted.place, offset, limits, committed=asked.committed, topic_id=wanted.topic_id
            )
        except TopicRecreated as error:
            asked.losses.accept(error, "reads the new one from its beginning, next time")
            return
        except OffsetOutOfRange:
            offset = await _after_loss(client, asked, offset)
            continue
        after = _next_offset(fetched, offset)
        if after > offset:
            yield Answer(offset, fetched)
            offset, empty = after, 0
            continue
        empty += 1
        if empty > EMPTY_MAX:
            raise TimedOut(f"{wanted.place}: nothing came from {offset} to {wanted.stop - 1}")


def _size(asked: Fetching, offset: int) -> int:
    """No more than what is wanted has, about."""
    wanted = asked.wanted
    if not wanted.offset_bytes:
        return asked.bytes_max
    about = int((wanted.stop - offset) * wanted.offset_bytes * 1.1) + SPARE_BYTES
    return min(asked.bytes_max, about)


def _next_offset(fetched: Fetched, offset: int) -> int:
    spans = walk(fetched.data)
    return max(offset, spans[-1].last_offset + 1) if spans else offset


async def _after_loss(client: Client, asked: Fetching, offset: int) -> int:
    """Where to go on when the log no longer has the offset."""
    place = asked.wanted.place
    starts, ends = await bounds(client, [place], asked.committed)
    if asked.losses.fatal or starts[place] <= offset:
        raise DataLoss(place, offset, starts[place], ends[place])
    return min(starts[place], asked.wanted.stop)
