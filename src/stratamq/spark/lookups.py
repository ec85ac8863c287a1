"""What the driver asks of the nodes: which topics, where they begin and end, how dense they are.

Nodes are asked for offsets by the names of topics, and a name may come to belong to another topic
at any time. So offsets are asked for between two looks at the ids: an id never comes back, and what
was found while it stayed the same belongs to it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from stratamq.client import EARLIEST, LATEST, Client, FetchLimits, TopicPartition
from stratamq.model.errors import OffsetOutOfRange, StrataError, TopicNotFound
from stratamq.spark.failures import DataLoss, Losses, recreated
from stratamq.spark.options import ReadOptions, Subscription
from stratamq.spark.positions import Positions
from stratamq.wire.kafka.protocol import NO_UUID
from stratamq.wire.kafka.records import iter_batches

SAMPLE_BYTES = 256 << 10
SAMPLED_OFFSETS_MIN = 10_000
"""Fewer than that are read by one task, whatever their size."""

SAMPLES_AT_ONCE = 16
LOOKS_MAX = 10

T = TypeVar("T")
Offsets = dict[TopicPartition, int]


class SeenTopics(NamedTuple):
    """Topics as they are at one moment: all their partitions, and by name their ids. Ids are left
    out where the nodes are too old for them."""

    places: tuple[TopicPartition, ...]
    ids: Mapping[str, bytes]


async def look(client: Client, topics: Subscription) -> SeenTopics:
    """TopicNotFound when there is none."""
    if topics.pattern is None:
        found = await client.describe_topics(topics.names)
    else:
        matching = re.compile(topics.pattern).fullmatch
        known = (await client.cluster()).topics
        found = {name: known[name] for name in sorted(known) if matching(name)}
        if not found:
            raise TopicNotFound(f"no topic matches {topics.pattern!r}")
    places = (
        TopicPartition(name, part.index)
        for name, topic in found.items()
        for part in topic.partitions
    )
    ids = {name: topic.topic_id for name, topic in found.items() if topic.topic_id != NO_UUID}
    return SeenTopics(tuple(places), ids)


async def ask_steady(
    client: Client, topics: Subscription, ask: Callable[[SeenTopics], Awaitable[T]]
) -> T:
    """What `ask` finds of the topics that it is given. It is called again when one of them was
    deleted and made again meanwhile: what it found may be of either."""
    seen = await look(client, topics)
    for _ in range(LOOKS_MAX):
        found = await ask(seen)
        now = await look(client, topics)
        if all(now.ids.get(name) == topic_id for name, topic_id in seen.ids.items()):
            return found
        seen = now
    raise StrataError(f"topics are deleted and made again all the time: {', '.join(seen.ids)}")


async def resolve(
    client: Client, places: Sequence[TopicPartition], positions: Positions, committed: bool
) -> Offsets:
    """An offset for each. A time after the last record means the end."""
    wanted = {place: positions.of(place) for place in places}
    asked = {place: one.value for place, one in wanted.items() if not one.is_offset}
    found = await client.list_offsets(asked, committed=committed)
    late = {place: LATEST for place, offset in found.items() if offset < 0}
    found.update(await client.list_offsets(late, committed=committed))
    return {place: one.value if one.is_offset else found[place] for place, one in wanted.items()}


async def bounds(
    client: Client, places: Iterable[TopicPartition], committed: bool
) -> tuple[Offsets, Offsets]:
    """Ask where the logs begin, and where they end for a reader of this kind."""
    asked = list(places)
    starts, ends = await asyncio.gather(
        client.list_offsets(dict.fromkeys(asked, EARLIEST)),
        client.list_offsets(dict.fromkeys(asked, LATEST), committed=committed),
    )
    return starts, ends


def of_these(positions: Positions, topics: SeenTopics, losses: Losses) -> Positions:
    """Without offsets that were written down of other topics with the same names."""
    others = recreated(positions.ids, topics.ids)
    for error in others:
        losses.accept(error, "reads all of the new one")
    return positions.without([error.name for error in others])


def must_be(positions: Positions, place: TopicPartition, options: ReadOptions) -> bool:
    """Whether the log has to have the offset: if it was named. What was asked for, such as the
    latest, may have moved since."""
    return options.losses.fatal and positions.of(place).is_offset


def within(offset: int, place: TopicPartition, start: int, end: int, *, strict: bool) -> int:
    """The offset itself, if the log has it; the nearest it has unless `strict`."""
    if start <= offset <= end:
        return offset
    if strict:
        raise DataLoss(place, offset, start, end)
    return min(max(offset, start), end)


async def densities(
    client: Client,
    begins: Mapping[TopicPartition, int],
    counts: Mapping[TopicPartition, int],
    offsets_min: int = SAMPLED_OFFSETS_MIN,
) -> dict[TopicPartition, float]:
    """About how many bytes an offset has, from a look at the first batches of large ranges."""
    few = asyncio.Semaphore(SAMPLES_AT_ONCE)

    async def one(place: TopicPartition) -> float:
        if counts[place] < offsets_min:
            return 0.0
        async with few:
            limits = FetchLimits(bytes_max=SAMPLE_BYTES, wait_ms_max=0)
            try:
                data = (await client.fetch(place, begins[place], limits)).data
                headers = [header for header, _ in iter_batches(data)]
                if not headers:
                    return 0.0
                return len(data) / (headers[-1].next_offset - headers[0].base_offset)
            except OffsetOutOfRange:
                return 0.0  # gone since; the read will say more about that

    places = list(begins)
    found = await asyncio.gather(*(one(place) for place in places))
    return dict(zip(places, found, strict=True))


async def cut(
    client: Client, options: ReadOptions, topics: SeenTopics
) -> dict[TopicPartition, tuple[int, int]]:
    """Ask once from where to where a batch reads, so that all tasks see the same topic."""
    places = topics.places
    starting = of_these(options.starting, topics, options.losses)
    ending = of_these(options.ending, topics, options.losses)
    starts, ends = await bounds(client, places, options.committed)
    begins = await resolve(client, places, starting, options.committed)
    stops = await resolve(client, places, ending, options.committed)
    found = {}
    for place in places:
        start, end = starts[place], ends[place]
        strict = must_be(starting, place, options)
        begin = within(begins[place], place, start, end, strict=strict)
        strict = must_be(ending, place, options)
        stop = within(stops[place], place, min(start, stops[place]), end, strict=strict)
        found[place] = (begin, max(begin, stop))
    return found
