"""`stratamq consume`: records of a topic, by offset, time, key, tag or group."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Annotated, NamedTuple

import typer

from stratamq.cli.command import Invocation
from stratamq.cli.failing import UsageError
from stratamq.cli.formats import Format, format_of
from stratamq.cli.specs import OffsetSpec, offset_spec, time_ms
from stratamq.client import EARLIEST, LATEST, Client, FetchLimits, TopicPartition
from stratamq.client.admin.groups import GroupNotEmpty, describe_group, set_offsets
from stratamq.client.reading import ReadRecords, read_records
from stratamq.model.errors import NotFound, OffsetOutOfRange, TopicNotFound
from stratamq.model.record import Record

COMMIT_S = 1.0
FETCH_BYTES_MAX = 1 << 20
WAIT_MS_MAX, WAIT_MS_MIN = 500, 20


async def consume(
    invocation: Invocation,
    topic: Annotated[str, typer.Argument(help="The topic.", metavar="TOPIC", show_default=False)],
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset",
            "-o",
            metavar="OFFSET",
            show_default=False,
            help="Where to begin: a number, earliest, latest, or -N for the last N of each "
            "partition. Default: earliest; latest with -f.",
        ),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition",
            "-p",
            min=0,
            show_default=False,
            help="Only this one; may be repeated. Default: all.",
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Only records of this key.", show_default=False)
    ] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", help="Only records with this tag.", show_default=False)
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option(
            "--from-time",
            metavar="TIME",
            show_default=False,
            help="Begin there: 2026-11-16T12:00 (UTC), with +01:00, -15m, or ms since 1970.",
        ),
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option("--to-time", metavar="TIME", help="End before it.", show_default=False),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=1, help="End after so many.", show_default=False),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for new records until Ctrl-C.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            show_default=False,
            help="Begin where this group is, and commit for it. It must have no members.",
        ),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            show_default=False,
            help="value (default), key-value, json, or a template such as '{offset} {key}: "
            "{value}'.",
        ),
    ] = "value",
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Also records of open and aborted transactions.")
    ] = False,
) -> None:
    """Print records of a topic: those that are there, or with -f also those to come."""
    if from_time is not None and offset is not None:
        raise UsageError("--offset and --from-time both say where to begin: give one of them")
    if follow and to_time is not None:
        raise UsageError("--follow waits for records to come and --to-time ends: give one of them")
    now_ms = time.time_ns() // 1_000_000
    chosen = RecordFilter(
        key=None if key is None else key.encode(),
        tag=None if tag is None else tag.encode(),
        from_ms=None if from_time is None else time_ms(from_time, now_ms),
        to_ms=None if to_time is None else time_ms(to_time, now_ms),
    )
    start = offset_spec(offset or ("latest" if follow and not group else "earliest"))
    printer = RecordPrinter(format_of("json" if invocation.as_json else format), chosen, count)
    client = invocation.client
    places = await _places(client, topic, partition)
    ranges = await _ranges(client, places, start, chosen, follow=follow, committed=not uncommitted)
    if group is not None:
        ranges = await _from_group(client, group, ranges)
    reading = TopicReader(client, ranges, committed=not uncommitted)
    commits = None if group is None else GroupCommits(client, group)
    try:
        async with aclosing(reading.follow() if follow else reading.in_order()) as found:
            async for place, read in found:
                position = printer.show(place, read)
                if commits is not None:
                    await commits.note(place, position)
                if printer.is_done:
                    return
    finally:
        if commits is not None:
            await commits.save()


class RecordFilter(NamedTuple):
    """Which records are printed."""

    key: bytes | None
    tag: bytes | None
    from_ms: int | None
    to_ms: int | None

    def has(self, record: Record) -> bool:
        return (
            (self.key is None or record.key == self.key)
            and (self.tag is None or self.tag in record.tags)
            and (self.from_ms is None or record.timestamp >= self.from_ms)
            and (self.to_ms is None or record.timestamp < self.to_ms)
        )


class RecordPrinter:
    """Prints records until there were enough of them."""

    def __init__(self, format: Format, chosen: RecordFilter, count: int | None) -> None:
        self._format, self._chosen, self._left = format, chosen, count

    @property
    def is_done(self) -> bool:
        return self._left == 0

    def show(self, place: TopicPartition, read: ReadRecords) -> int:
        """The offset after the last record that was looked at."""
        output, position = sys.stdout.buffer, read.next_offset
        for record in read.records:
            if self._chosen.has(record):
                output.write(self._format(place, record))
                if self._left is not None:
                    self._left -= 1
                if self.is_done:
                    position = record.offset + 1
                    break
        output.flush()
        return position


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
                if error.start <= position:
                    raise
                sys.stderr.write(
                    f"stratamq: {one.place}: offsets {position} to {error.start - 1} were deleted "
                    "and are left out\n"
                )
                position = error.start
            else:
                return


class GroupCommits:
    """How far a group has come, saved now and then and at the end."""

    def __init__(self, client: Client, group: str) -> None:
        self._client, self._group = client, group
        self._positions: dict[TopicPartition, int] = {}
        self._next_s = time.monotonic() + COMMIT_S

    async def note(self, place: TopicPartition, position: int) -> None:
        self._positions[place] = position
        if time.monotonic() >= self._next_s:
            await self.save()

    async def save(self) -> None:
        positions, self._positions = self._positions, {}
        self._next_s = time.monotonic() + COMMIT_S
        if positions:
            await set_offsets(self._client.router, self._group, positions)


async def _places(
    client: Client, topic: str, partitions: Sequence[int] | None
) -> list[TopicPartition]:
    count = len((await client.describe_topics([topic]))[topic].partitions)
    for number in partitions or ():
        if number >= count:
            raise TopicNotFound(f"{topic!r} has {count} partitions, and no {number}")
    return [TopicPartition(topic, number) for number in sorted({*(partitions or range(count))})]


async def _ranges(
    client: Client,
    places: Sequence[TopicPartition],
    start: OffsetSpec,
    chosen: RecordFilter,
    *,
    follow: bool,
    committed: bool,
) -> list[PartitionRange]:
    """OffsetOutOfRange when no partition reaches as far as the offset that was asked for."""

    async def at(when: int) -> dict[TopicPartition, int]:
        return await client.list_offsets(dict.fromkeys(places, when), committed=committed)

    firsts, ends = await at(EARLIEST), await at(LATEST)
    since = {} if chosen.from_ms is None else await at(chosen.from_ms)
    until = {} if chosen.to_ms is None else await at(chosen.to_ms)
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


async def _from_group(
    client: Client, group: str, ranges: Sequence[PartitionRange]
) -> list[PartitionRange]:
    """Where the group has not committed, as without it."""
    try:
        is_live = (await describe_group(client.router, group)).is_live
    except NotFound:
        is_live = False
    if is_live:
        raise GroupNotEmpty(
            f"group {group!r} has members: stop them, or consume without --group to look on"
        )
    committed = await client.group_offsets(group)
    return [
        one._replace(start=committed[one.place].offset) if one.place in committed else one
        for one in ranges
    ]
