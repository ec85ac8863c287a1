"""`stratamq group`: consumer groups of a running node, how far they are, and where they go on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import typer

from stratamq.cli.command import YES, Invocation, Report, confirm, on_node
from stratamq.cli.failing import UsageError
from stratamq.cli.specs import time_ms
from stratamq.cli.tables import counted, table
from stratamq.client import EARLIEST, LATEST, Client, TopicPartition
from stratamq.client.admin import groups
from stratamq.client.admin.groups import GroupNotEmpty, GroupView
from stratamq.model.errors import NotFound, TopicNotFound

group_app = typer.Typer(
    help="Consumer groups: list, describe, lag, reset, delete.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(help="The group.", metavar="GROUP", show_default=False)]
Names = Annotated[list[str], typer.Argument(help="Groups.", metavar="GROUP...", show_default=False)]


class GroupProgress(NamedTuple):
    """How far a group is in a partition. None: nothing committed, or the topic is gone."""

    place: TopicPartition
    committed: int | None
    end: int | None
    member: str | None

    @property
    def lag(self) -> int | None:
        """Records to come. None where nothing is committed, or the topic is gone."""
        if self.end is None or self.committed is None:
            return None
        return max(self.end - self.committed, 0)

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "committed": self.committed,
            "end": self.end,
            "lag": self.lag,
            "member": self.member,
        }


@on_node(group_app, "list")
async def list_groups(invocation: Invocation) -> Report:
    """List the groups that the caller may see."""
    found = await groups.list_groups(invocation.client.router)
    data = [
        {"name": one.name, "state": one.state, "type": one.kind, "protocol": one.protocol}
        for one in found
    ]
    rows = [(one.name, one.state, one.kind, one.protocol or None) for one in found]
    titles = ("group", "state", "type", "protocol")
    return Report({"groups": data}, table(titles, rows) if rows else ["no groups"])


@on_node(group_app, "describe")
async def describe_groups(invocation: Invocation, names: Names) -> Report:
    """Show state, members with their partitions, committed offsets and lag."""
    data: list[dict[str, Any]] = []
    lines: list[str] = []
    for name in dict.fromkeys(names):
        view = await groups.describe_group(invocation.client.router, name)
        progress = await _progress(invocation.client, view)
        data.append(_described(view, progress))
        lines += [*([""] if lines else ()), *_description(view, progress)]
    return Report({"groups": data}, lines)


@on_node(group_app, "lag")
async def show_lag(invocation: Invocation, name: Name) -> Report:
    """Show how many records a group has still to read, by partition and in all."""
    view = await groups.describe_group(invocation.client.router, name)
    progress = await _progress(invocation.client, view)
    total = _total(progress)
    data = {"group": name, "lag": total, "offsets": [one.as_json() for one in progress]}
    return Report(data, [*_offsets(progress), f"group {name}: lag {total} in all"])


@on_node(group_app, "reset")
async def reset_offsets(
    invocation: Invocation,
    name: Name,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC[:0,1]",
            show_default=False,
            help="Only this topic, or these partitions of it; may be repeated. Default: all "
            "that the group has committed.",
        ),
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the start.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", min=0, help="To an offset.", show_default=False)
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="TIME",
            show_default=False,
            help="To the first record at or after a time, such as 2026-11-16T12:00 (UTC) or -1h.",
        ),
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", help="By so many, back if negative.", show_default=False),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", "--yes", "-y", help="Do it; else the plan is shown only.")
    ] = False,
) -> Report:
    """Move a group without members to other offsets. Shows the plan; --execute applies it."""
    goal = ResetGoal(
        earliest=to_earliest,
        latest=to_latest,
        offset=to_offset,
        at_ms=None if to_datetime is None else time_ms(to_datetime, time.time_ns() // 1_000_000),
        shift=shift_by,
    )
    goal.check()
    client = invocation.client
    await _check_empty(client, name, may_be_new=bool(topic))
    current = {place: one.offset for place, one in (await client.group_offsets(name)).items()}
    places = await _wanted(client, topic) if topic else sorted(current)
    if not places:
        raise NotFound(f"group {name!r} has committed nothing: name a --topic")
    plan = await _plan(client, goal, places, current)
    if execute:
        await groups.set_offsets(client.router, name, plan)
    rows = [(*place, current.get(place), plan[place]) for place in places]
    offsets = [
        {"topic": place.topic, "partition": place.partition, "current": now, "new": new}
        for place, now, new in ((place, current.get(place), plan[place]) for place in places)
    ]
    done = f"group {name} reset" if execute else "nothing was changed: --execute applies this"
    return Report(
        {"group": name, "executed": execute, "offsets": offsets},
        [*table(("topic", "partition", "current", "new"), rows), done],
    )


@on_node(group_app, "delete")
async def delete_groups(invocation: Invocation, names: Names, yes: YES = False) -> Report:
    """Delete groups without members, with all their offsets."""
    router = invocation.client.router
    unique = list(dict.fromkeys(names))
    for name in unique:
        await _check_empty(invocation.client, name, may_be_new=False)
    confirm(f"Delete {', '.join(unique)} with all committed offsets?", yes)
    for name in unique:
        await groups.delete_group(router, name)
    return Report({"deleted": unique}, [f"group {name} deleted" for name in unique])


# -- reset -----------------------------------------------------------------------------------------


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


async def _check_empty(client: Client, name: str, *, may_be_new: bool) -> None:
    try:
        view = await groups.describe_group(client.router, name)
    except NotFound:
        if may_be_new:
            return
        raise
    if view.is_live:
        raise GroupNotEmpty(
            f"group {name!r} is in use: state {view.state}, "
            f"{counted(len(view.members), 'member')}. Stop its consumers first; "
            "`stratamq group describe` shows who and where they are."
        )


# -- progress --------------------------------------------------------------------------------------


async def _progress(client: Client, view: GroupView) -> list[GroupProgress]:
    """Of all partitions that the group has committed or that its members have."""
    committed = await client.group_offsets(view.name)
    owners = {place: one.member_id for one in view.members for place in one.assigned}
    places = sorted({*committed, *owners})
    topics = (await client.cluster()).topics
    alive = [
        place
        for place in places
        if place.topic in topics and place.partition < len(topics[place.topic].partitions)
    ]
    ends = await client.list_offsets(dict.fromkeys(alive, LATEST))
    return [
        GroupProgress(
            place,
            committed[place].offset if place in committed else None,
            ends.get(place),
            owners.get(place),
        )
        for place in places
    ]


def _total(progress: Iterable[GroupProgress]) -> int:
    return sum(one.lag or 0 for one in progress)


def _described(view: GroupView, progress: Sequence[GroupProgress]) -> dict[str, Any]:
    return {
        "name": view.name,
        "state": view.state,
        "type": view.kind,
        "assignor": view.assignor,
        "members": [
            {
                "id": one.member_id,
                "instance": one.instance_id,
                "client_id": one.client_id,
                "host": one.host,
                "partitions": [
                    {"topic": place.topic, "partition": place.partition} for place in one.assigned
                ],
            }
            for one in view.members
        ],
        "offsets": [one.as_json() for one in progress],
        "lag": _total(progress),
    }


def _description(view: GroupView, progress: Sequence[GroupProgress]) -> list[str]:
    members = [
        (one.member_id, one.client_id, one.host, " ".join(map(str, sorted(one.assigned))) or None)
        for one in view.members
    ]
    titles = ("member", "client id", "host", "partitions")
    return [
        f"group {view.name}: {view.state}, {view.kind}"
        + (f", assignor {view.assignor}" if view.assignor else ""),
        "",
        *(table(titles, members) if members else ["no members"]),
        "",
        *_offsets(progress),
    ]


def _offsets(progress: Sequence[GroupProgress]) -> list[str]:
    if not progress:
        return ["no offsets committed"]
    titles = ("topic", "partition", "committed", "end", "lag", "member")
    rows = [(*one.place, one.committed, one.end, one.lag, one.member) for one in progress]
    return table(titles, rows)
