"""`stratamq topic`: list, create, describe, alter and delete topics of a running node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from stratamq.cli.command import YES, Invocation, Report, confirm, on_node
from stratamq.cli.failing import UsageError
from stratamq.cli.specs import pairs
from stratamq.cli.tables import counted, sized, table
from stratamq.client import EARLIEST, LATEST, Client, TopicPartition, TopicView
from stratamq.client.admin.topics import (
    ConfigValue,
    alter_configs,
    describe_configs,
    partition_sizes,
)
from stratamq.client.topics import DEFAULT
from stratamq.model.errors import AlreadyExists, Denied

topic_app = typer.Typer(
    help="List, create, describe, alter and delete topics.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(help="The topic.", metavar="TOPIC", show_default=False)]
Names = Annotated[list[str], typer.Argument(help="Topics.", metavar="TOPIC...", show_default=False)]
Configs = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME=VALUE",
        help="A config of the topic; may be repeated.",
        show_default=False,
    ),
]


@on_node(topic_app, "list")
async def list_topics(
    invocation: Invocation,
    internal: Annotated[bool, typer.Option("--internal", help="Internal topics, too.")] = False,
) -> Report:
    """List the topics that the caller may see."""
    views = (await invocation.client.cluster()).topics
    shown = [views[name] for name in sorted(views) if internal or not views[name].is_internal]
    rows = [(one.name, len(one.partitions), _replicas(one)) for one in shown]
    data = [
        {
            "name": one.name,
            "partitions": len(one.partitions),
            "replicas": _replicas(one),
            "internal": one.is_internal,
        }
        for one in shown
    ]
    lines = table(("topic", "partitions", "replicas"), rows) if rows else ["no topics"]
    return Report({"topics": data}, lines)


@on_node(topic_app, "create")
async def create_topic(
    invocation: Invocation,
    topic: Name,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="Default: the node's.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", "-r", min=1, help="Default: the node's.")
    ] = None,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="A topic of that name is no failure.")
    ] = False,
) -> Report:
    """Create a topic."""
    client, created = invocation.client, True
    configs = pairs(config or (), "--config")
    try:
        await client.create_topic(topic, partitions or DEFAULT, replicas or DEFAULT, configs)
    except AlreadyExists:
        if not if_not_exists:
            raise
        created = False
    view = (await client.describe_topics([topic]))[topic]
    count = len(view.partitions)
    data = {"topic": topic, "created": created, "partitions": count, "replicas": _replicas(view)}
    what = "created" if created else "exists already"
    return Report(data, [f"topic {topic} {what}, with {counted(count, 'partition')}"])


@on_node(topic_app, "describe")
async def describe_topics(
    invocation: Invocation,
    topics: Names,
    all_configs: Annotated[
        bool, typer.Option("--all-configs", help="Also configs that have their default.")
    ] = False,
) -> Report:
    """Show partitions, leaders, offsets, sizes, and the configs that differ from the default."""
    client = invocation.client
    views = await client.describe_topics(topics)
    data: list[dict[str, Any]] = []
    lines: list[str] = []
    for view in (views[name] for name in dict.fromkeys(topics)):
        partitions = await _partitions(client, view)
        configs = await _configs(client, view.name, all_configs)
        data.append(
            {
                "name": view.name,
                "id": view.topic_id.hex(),
                "internal": view.is_internal,
                "partitions": partitions,
                "configs": None if configs is None else _configs_json(configs),
            }
        )
        lines += [*([""] if lines else ()), *_described(view, partitions, configs)]
    return Report({"topics": data}, lines)


async def _partitions(client: Client, view: TopicView) -> list[dict[str, Any]]:
    places = [TopicPartition(view.name, part.index) for part in view.partitions]
    starts = await client.list_offsets(dict.fromkeys(places, EARLIEST))
    ends = await client.list_offsets(dict.fromkeys(places, LATEST))
    sizes = await _sizes(client, view)
    return [
        {
            "partition": place.partition,
            "leader": part.leader,
            "replicas": list(part.replicas),
            "isr": list(part.isr),
            "start": starts[place],
            "end": ends[place],
            "bytes": sizes.get(place),
        }
        for place, part in zip(places, view.partitions, strict=True)
    ]


@on_node(topic_app, "alter")
async def alter_topic(
    invocation: Invocation,
    topic: Name,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, help="How many it shall have: more than now."),
    ] = None,
    config: Configs = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(
            "--unset",
            metavar="NAME",
            help="A config that goes back to its default.",
            show_default=False,
        ),
    ] = None,
) -> Report:
    """Add partitions, set configs, or set them back to their defaults."""
    client, put, gone = invocation.client, pairs(config or (), "--config"), unset or []
    if not (partitions or put or gone):
        raise UsageError("nothing to alter: give --partitions, --config or --unset")
    if both := sorted(put.keys() & set(gone)):
        raise UsageError(f"{both[0]} cannot be both set and unset")
    await client.describe_topics([topic])
    if put or gone:
        await alter_configs(client.router, topic, put, gone)
    if partitions:
        await client.add_partitions(topic, partitions)
    count = len((await client.describe_topics([topic]))[topic].partitions)
    changes = [
        *([counted(count, "partition")] if partitions else ()),
        *(f"{name}={value}" for name, value in put.items()),
        *(f"{name} back to its default" for name in gone),
    ]
    data = {"topic": topic, "partitions": count, "set": put, "unset": gone}
    return Report(data, [f"topic {topic}: {', '.join(changes)}"])


@on_node(topic_app, "delete")
async def delete_topics(invocation: Invocation, topics: Names, yes: YES = False) -> Report:
    """Delete topics with all their records."""
    names = list(dict.fromkeys(topics))
    await invocation.client.describe_topics(names)
    confirm(f"Delete {', '.join(names)} with all records?", yes)
    for name in names:
        await invocation.client.delete_topic(name)
    return Report({"deleted": names}, [f"topic {name} deleted" for name in names])


def _replicas(view: TopicView) -> int:
    return max((len(part.replicas) for part in view.partitions), default=0)


async def _sizes(client: Client, view: TopicView) -> Mapping[TopicPartition, int]:
    """Empty for callers who may not see them."""
    try:
        return await partition_sizes(
            client.router, {view.name: [part.index for part in view.partitions]}
        )
    except Denied:
        return {}


async def _configs(client: Client, topic: str, with_defaults: bool) -> list[ConfigValue] | None:
    """None for callers who may not see them."""
    try:
        found = await describe_configs(client.router, topic)
    except Denied:
        return None
    return [one for one in found if with_defaults or not one.is_default]


def _configs_json(configs: list[ConfigValue]) -> dict[str, dict[str, str | None]]:
    return {one.name: {"value": one.value, "source": one.source} for one in configs}


def _described(
    view: TopicView, partitions: list[dict[str, Any]], configs: list[ConfigValue] | None
) -> list[str]:
    rows = [
        (
            *(one["partition"], one["leader"], _nodes(one["replicas"]), _nodes(one["isr"])),
            *(one["start"], one["end"]),
            None if one["bytes"] is None else sized(one["bytes"]),
        )
        for one in partitions
    ]
    titles = ("partition", "leader", "replicas", "isr", "start", "end", "size")
    if configs is None:
        shown = ["configs: not for this user to see"]
    elif configs:
        shown = table(
            ("config", "value", "from"), [(one.name, one.value, one.source) for one in configs]
        )
    else:
        shown = ["configs: all at their defaults"]
    return [
        f"topic {view.name}, id {view.topic_id.hex()}",
        "",
        *table(titles, rows),
        "",
        *shown,
    ]


def _nodes(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))
