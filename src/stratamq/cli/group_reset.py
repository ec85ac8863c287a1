"""`stratamq group reset`: where a group without members goes on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, NamedTuple

import typer

from stratamq.cli.command import Invocation, Report
from stratamq.cli.failing import UsageError
from stratamq.cli.group import Name, check_empty
from stratamq.cli.specs import time_ms
from stratamq.cli.tables import table
from stratamq.client import EARLIEST, LATEST, Client, TopicPartition
from stratamq.client.admin import groups
from stratamq.model.errors import NotFound, TopicNotFound

TopicPartitions = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC[:0,1]",
        help="Only this topic, or these partitions of it; may be repeated. Default: all that the "
        "group has committed.",
        show_default=False,
    ),
]
ToEarliest = Annotated[bool, typer.Option("--to-earliest", help="To the start.")]
ToLatest = Annotated[bool, typer.Option("--to-latest", help="To the end.")]
ToOffset = Annotated[
    int | None, typer.Option("--to-offset", min=0, help="To an offset.", show_default=False)
]
ToDatetime = Annotated[
    str | None,
    typer.Option(
        "--to-datetime",
        metavar="TIME",
        help="To the first record at or after a time, such as 2026-11-16T12:00 (UTC) or -1h.",
        show_default=False,
    ),
]
ShiftBy = Annotated[
    int | None,
    typer.Option("--shift-by", help="By so many, back if negative.", show_default=False),
]
Execute = Annotated[
    bool, typer.Option("--execute", "--yes", "-y", help="Do it; else the plan is shown only.")
]


async def reset_offsets(
    invocation: Invocation,
    name: Name,
    topic: TopicPartitions = None,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_offset: ToOffset = None,
    to_datetime: ToDatetime = None,
    shift_by: ShiftBy = None,
    execute: Execute = False,
) -> Report:
    """Move a group without members to other offsets. Shows the plan; --execute applies it."""
    now_ms = time.time_ns() // 1_000_000
    at_ms = None if to_datetime is None else time_ms(to_datetime, now_ms)
    goal = ResetGoal(to_earliest, to_latest, to_offset, at_ms, shift_by)
    goal.check()
    client = invocation.client
    await check_empty(client, name, may_be_new=bool(topic))
    current = {place: one.offset for place, one in (await client.group_offsets(name)).items()}
    places = await _wanted(client, topic) if topic else sorted(current)
    if not places:
        raise NotFound(f"group {name!r} has committed nothing: name a --topic")
    plan = await _plan(client, goal, places, current)
    if execute:
        await groups.set_offsets(client.router, name, plan)
    return _reset(name, current, plan, execute)


def _reset(
    name: str,
    current: Mapping[TopicPartition, int],
    plan: Mapping[TopicPartition, int],
    executed: bool,
) -> Report:
    titles = ("topic", "partition", "current", "new")
    rows = [(*place, current.get(place), new) for place, new in plan.items()]
    done = f"group {name} reset" if executed else "nothing was changed: --execute applies this"
    offsets = [dict(zip(titles, row, strict=True)) for row in rows]
    return Report(
        {"group": name, "executed": executed, "offsets": offsets}, [*table(titles, rows), done]
    )


class ResetGoal(NamedTuple):
    """Where a reset goes: exactly one of these is set."""

    earliest: bool = False
    latest: bool = False
    offset: int | None = None
    at_ms: int | None = None
    shift: int | None = None

    def check(self) -> None:
        given = [one for one in self if one is not None and one is not False]
        if len(given) != 1:
            raise UsageError(
                "say where to: one of --to-earliest, --to-latest, --to-offset, --to-datetime, "
                "--shift-by"
            )

    def within(self, current: int | None, start: int, end: int, at_time: int) -> int:
        """In a log that begins and ends there; -1 for `at_time` when no record is that new.

        A place outside the log becomes its nearest end, as in Kafka's own tool.
        """
        if self.earliest:
            return start
        if self.latest:
            return end
        if self.at_ms is not None:
            return at_time if at_time >= 0 else end
        wanted = self.offset
        if self.shift is not None:
            wanted = (start if current is None else current) + self.shift
        assert wanted is not None, "checked before"
        return min(max(wanted, start), end)


async def _wanted(client: Client, topics: Iterable[str]) -> list[TopicPartition]:
    """The partitions that `TOPIC` or `TOPIC:0,1` name."""
    places: set[TopicPartition] = set()
    for text in topics:
        name, colon, numbers = text.partition(":")
        count = len((await client.describe_topics([name]))[name].partitions)
        if colon and not all(one.isascii() and one.isdigit() for one in numbers.split(",")):
            raise UsageError(f"--topic {text!r} is not TOPIC or TOPIC:0,1")
        chosen = [int(one) for one in numbers.split(",")] if colon else range(count)
        for number in chosen:
            if number >= count:
                raise TopicNotFound(f"{name!r} has {count} partitions, and no {number}")
            places.add(TopicPartition(name, number))
    return sorted(places)


async def _plan(
    client: Client,
    goal: ResetGoal,
    places: Sequence[TopicPartition],
    current: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    starts = await client.list_offsets(dict.fromkeys(places, EARLIEST))
    ends = await client.list_offsets(dict.fromkeys(places, LATEST))
    times: Mapping[TopicPartition, int] = {}
    if goal.at_ms is not None:
        times = await client.list_offsets(dict.fromkeys(places, goal.at_ms))
    return {
        place: goal.within(current.get(place), starts[place], ends[place], times.get(place, -1))
        for place in places
    }
