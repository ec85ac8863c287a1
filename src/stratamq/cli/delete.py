"""`stratamq delete`: single records of a topic, by key or by offset."""

from __future__ import annotations

from typing import Annotated

import typer

from stratamq.cli.command import YES, Invocation, Report, confirm
from stratamq.cli.failing import UsageError
from stratamq.cli.formats import escaped
from stratamq.cli.specs import key_of
from stratamq.cli.tables import counted
from stratamq.client import Client, TopicPartition
from stratamq.client.admin.deleting import delete_by_key, delete_by_offset
from stratamq.model.errors import TopicNotFound

LATER = (
    "No reader sees them any more. Their bytes go later: from the log when compaction rewrites "
    "the sealed segment, from history and its table within an hour, or at once by `stratamq tier "
    "run` (docs/tables.md, Deleting for good)."
)


async def delete_records(
    invocation: Invocation,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)],
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="All records of this key.", show_default=False)
    ] = None,
    key_base64: Annotated[
        str | None,
        typer.Option("--key-base64", help="The same, for a key that is no text.", metavar="BASE64"),
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option("--offset", "-o", min=0, help="The record there.", show_default=False),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition", "-p", min=0, help="Only in this one. Default: all.", show_default=False
        ),
    ] = None,
    yes: YES = False,
) -> Report:
    """Delete records of a topic by key, or one by its offset."""
    wanted = key_of(key, key_base64)
    if (wanted is None) == (offset is None):
        raise UsageError("name what to delete: --key KEY, --key-base64 BASE64 or --offset N")
    places = await _places(invocation.client, topic, partition, one_of_them=offset is not None)
    what = f"all records of key {escaped(wanted)}" if wanted is not None else f"offset {offset}"
    where = topic if len(places) > 1 else str(places[0])
    confirm(f"Delete {what} of {where}? This cannot be undone.", yes)
    each, router = [], invocation.client.router
    for place in places:
        if wanted is not None:
            count = await delete_by_key(router, place, wanted)
        else:
            count = int(await delete_by_offset(router, place, offset or 0))
        each.append({"partition": place.partition, "deleted": count})
    total = sum(one["deleted"] for one in each)
    lines = [f"{topic}: {counted(total, 'record')} deleted", *([LATER] if total else [])]
    return Report({"topic": topic, "deleted": total, "partitions": each}, lines)


async def _places(
    client: Client, topic: str, partition: int | None, *, one_of_them: bool
) -> list[TopicPartition]:
    """All partitions, or the one that is named. An offset is in one of them only."""
    count = len((await client.describe_topics([topic]))[topic].partitions)
    if partition is None and one_of_them and count > 1:
        raise UsageError(f"{topic!r} has {count} partitions: --offset needs --partition")
    if partition is not None and partition >= count:
        raise TopicNotFound(f"{topic!r} has {counted(count, 'partition')}, and no {partition}")
    numbers = range(count) if partition is None else [partition]
    return [TopicPartition(topic, number) for number in numbers]
