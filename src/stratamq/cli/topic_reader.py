"""Which records of a topic to read, and reading them from several partitions."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import NamedTuple

from stratamq.cli.specs import OffsetSpec
from stratamq.client import EARLIEST, LATEST, Client, FetchLimits, TopicPartition
from stratamq.client.reading import ReadRecords, read_records
from stratamq.model.errors import OffsetOutOfRange, TopicNotFound

FETCH_BYTES_MAX = 1 << 20
WAIT_MS_MAX, WAIT_MS_MIN = 500, 20


class PartitionRange(NamedTuple):
    """What to read of a partition; without an end, for ever."""

    place: TopicPartition
    start: int
    end: int | None


Found = tuple[TopicPartition, ReadRecords]


class TopicReader:
    """Records of several partitions."""

    def __init__(
        self, client: Client, ranges: Sequence[PartitionRange], *, committed: bool
    ) -> None:
        self._client, self._ranges, self._committed = client, ranges, committed
        # A node answers the requests of a connection in their order: each waits for all before it.
        wait_ms = max(WAIT_MS_MAX // max(len(ranges), 1), WAIT_MS_MIN)
        self._limits = FetchLimits(bytes_max=FETCH_BYTES_MAX, wait_ms_max=wait_ms)

    async def in_order(self) -> AsyncGenerator[Found, None]:
        """One partition after the other."""
        for one in self._ranges:
            async for read in self._read(one):
                yield one.place, read

    async def follow(self) -> AsyncGenerator[Found, None]:
        """All partitions at once, as records come. A slow reader makes the fetches wait."""
        queue: asyncio.Queue[Found] = asyncio.Queue(1)

        async def fill(one: PartitionRange) -> None:
            async for read in self._read(one):
                if read.records:
                    await queue.put((one.place, read))

        filling = [asyncio.ensure_future(fill(one)) for one in self._ranges]
        try:
            while any(not task.done() for task in filling) or not queue.empty():
                taking = asyncio.ensure_future(queue.get())
                await asyncio.wait([taking, *filling], return_when=asyncio.FIRST_COMPLETED)
                for task in filling:
                    if task.done():
                        task.result()
                if not taking.done():
                    taking.cancel()
                    continue
                yield taking.result()
        finally:
            for task in filling:
                task.cancel()
            await asyncio.gather(*filling, return_exceptions=True)

    async def _read(self, one: PartitionRange) -> AsyncIterator[ReadRecords]:
        position = one.start
        while True:
            try:
                async for read in read_records(
                    self._client.router,
                    one.place,
                    position,
                    self._limits,
                    end=one.end,
                    committed=self._committed,
                ):
                    position = read.next_offset
                    yield read
            except OffsetOutOfRange as error:
                position = _after_deletion(error, position)
            else:
                return


def _after_deletion(error: OffsetOutOfRange, position: int) -> int:
    """Where the log begins now. The error is raised when that is not why reading stopped."""
    if error.start <= position:
        raise error
    left_out = f"offsets {position} to {error.start - 1} were deleted and are left out"
    sys.stderr.write(f"stratamq: {error.shard}: {left_out}\n")
    return error.start


async def partitions_of(
    client: Client, topic: str, partitions: Sequence[int] | None
) -> list[TopicPartition]:
    count = len((await client.describe_topics([topic]))[topic].partitions)
    for number in partitions or ():
        if number >= count:
            raise TopicNotFound(f"{topic!r} has {count} partitions, and no {number}")
    return [TopicPartition(topic, number) for number in sorted({*(partitions or range(count))})]


async def ranges_of(
    client: Client,
    places: Sequence[TopicPartition],
    start: OffsetSpec,
    times: tuple[int | None, int | None],
    *,
    follow: bool,
    committed: bool,
) -> list[PartitionRange]:
    """From `start`, or between two times in milliseconds, of which either may be None.

    OffsetOutOfRange when no partition reaches as far as the offset that was asked for.
    """

    async def at(when: int) -> dict[TopicPartition, int]:
        return await client.list_offsets(dict.fromkeys(places, when), committed=committed)

    firsts, ends = await at(EARLIEST), await at(LATEST)
    since, until = [{} if when is None else await at(when) for when in times]
    ranges: list[PartitionRange] = []
    for place in places:
        first, end = firsts[place], ends[place]
        begin = start.within(first, end)
        if place in since:
            begin = since[place] if since[place] >= 0 else end
        stop = until.get(place, -1)
        last = stop if stop >= 0 else None if follow else end
        ranges.append(PartitionRange(place, max(begin, first), last))
    if all(one.start > ends[one.place] for one in ranges):
        one = ranges[0]
        raise OffsetOutOfRange(str(one.place), one.start, firsts[one.place], ends[one.place])
    return [one._replace(start=min(one.start, ends[one.place])) for one in ranges]
