"""`stratamq group`: consumer groups of a running node, how far they are, and where they go on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import typer

from stratamq.cli.command import YES, Invocation, Report, confirm, on_node
from stratamq.cli.tables import counted, table
from stratamq.client import LATEST, Client, TopicPartition
from stratamq.client.admin import groups
from stratamq.client.admin.groups import GroupNotEmpty, GroupView
from stratamq.model.errors import NotFound

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


@on_node(group_app, "delete")
async def delete_groups(invocation: Invocation, names: Names, yes: YES = False) -> Report:
    """Delete groups without members, with all their offsets."""
    router = invocation.client.router
    unique = list(dict.fromkeys(names))
    for name in unique:
        await check_empty(invocation.client, name, may_be_new=False)
    confirm(f"Delete {', '.join(unique)} with all committed offsets?", yes)
    for name in unique:
        await groups.delete_group(router, name)
    return Report({"deleted": unique}, [f"group {name} deleted" for name in unique])


async def check_empty(client: Client, name: str, *, may_be_new: bool) -> None:
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
