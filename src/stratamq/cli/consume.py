"""`stratamq consume`: records of a topic, by offset, time, key, tag or group."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated, NamedTuple

import typer

from stratamq.cli.command import Invocation
from stratamq.cli.failing import UsageError
from stratamq.cli.formats import Format, format_of
from stratamq.cli.specs import key_of, offset_spec, time_ms
from stratamq.cli.topic_reader import PartitionRange, TopicReader, partitions_of, ranges_of
from stratamq.client import Client, TopicPartition
from stratamq.client.admin.groups import GroupNotEmpty, describe_group, set_offsets
from stratamq.client.reading import ReadRecords
from stratamq.model.errors import NotFound
from stratamq.model.record import Record

COMMIT_S = 1.0


TopicName = Annotated[str, typer.Argument(help="The topic.", metavar="TOPIC", show_default=False)]
FirstOffset = Annotated[
    str | None,
    typer.Option(
        "--offset",
        "-o",
        metavar="OFFSET",
        help="Where to begin: a number, earliest, latest, or -N for the last N of each partition. "
        "Default: earliest; latest with -f.",
        show_default=False,
    ),
]
Partitions = Annotated[
    list[int] | None,
    typer.Option(
        "--partition",
        "-p",
        min=0,
        help="Only this one; may be repeated. Default: all.",
        show_default=False,
    ),
]
Key = Annotated[
    str | None, typer.Option("--key", help="Only records of this key.", show_default=False)
]
KeyBase64 = Annotated[
    str | None,
    typer.Option("--key-base64", help="The same, for a key that is no text.", metavar="BASE64"),
]
Tag = Annotated[
    str | None, typer.Option("--tag", help="Only records with this tag.", show_default=False)
]
FromTime = Annotated[
    str | None,
    typer.Option(
        "--from-time",
        metavar="TIME",
        help="Begin there: 2026-11-16T12:00 (UTC), with +01:00, -15m, or ms since 1970.",
        show_default=False,
    ),
]
ToTime = Annotated[
    str | None,
    typer.Option("--to-time", metavar="TIME", help="End before it.", show_default=False),
]
Count = Annotated[
    int | None,
    typer.Option("--count", "-n", min=1, help="End after so many.", show_default=False),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Wait for new records until Ctrl-C.")]
GroupName = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        help="Begin where this group is, and commit for it. It must have no members.",
        show_default=False,
    ),
]
FormatName = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="value (default), key-value, json, or a template such as '{offset} {key}: {value}'.",
        show_default=False,
    ),
]
Uncommitted = Annotated[
    bool, typer.Option("--uncommitted", help="Also records of open and aborted transactions.")
]


async def consume(
    invocation: Invocation,
    topic: TopicName,
    offset: FirstOffset = None,
    partition: Partitions = None,
    key: Key = None,
    key_base64: KeyBase64 = None,
    tag: Tag = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    count: Count = None,
    follow: Follow = False,
    group: GroupName = None,
    format: FormatName = "value",
    uncommitted: Uncommitted = False,
) -> None:
    """Print records of a topic: those that are there, or with -f also those to come."""
    if from_time is not None and offset is not None:
        raise UsageError("--offset and --from-time both say where to begin: give one of them")
    if follow and to_time is not None:
        raise UsageError("--follow waits for records to come and --to-time ends: give one of them")
    chosen = record_filter(key_of(key, key_base64), tag, from_time, to_time)
    start = offset_spec(offset or ("latest" if follow and not group else "earliest"))
    printer = RecordPrinter(format_of("json" if invocation.as_json else format), chosen, count)
    client, committed = invocation.client, not uncommitted
    places = await partitions_of(client, topic, partition)
    times = (chosen.from_ms, chosen.to_ms)
    ranges = await ranges_of(client, places, start, times, follow=follow, committed=committed)
    commits = None
    if group is not None:
        ranges = await _from_group(client, group, ranges)
        commits = GroupCommits(client, group)
    await _print(TopicReader(client, ranges, committed=committed), printer, commits, follow)


async def _print(
    reader: TopicReader, printer: RecordPrinter, commits: GroupCommits | None, follow: bool
) -> None:
    """What was printed is committed, also when Ctrl-C or a closed pipe ends it."""
    try:
        async with aclosing(reader.follow() if follow else reader.in_order()) as found:
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


def record_filter(
    key: bytes | None, tag: str | None, from_time: str | None, to_time: str | None
) -> RecordFilter:
    now_ms = time.time_ns() // 1_000_000
    return RecordFilter(
        key=key,
        tag=None if tag is None else os.fsencode(tag),
        from_ms=None if from_time is None else time_ms(from_time, now_ms),
        to_ms=None if to_time is None else time_ms(to_time, now_ms),
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
