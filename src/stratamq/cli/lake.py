"""`stratamq lake`: history on object storage, and topics as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import typer

from stratamq.cli.reach import LOCAL, Properties, Servers, ask, options
from stratamq.client import Client
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake, FlushedLake, LakePartition

lake_app = typer.Typer(help=__doc__.splitlines()[0], no_args_is_help=True)

Topics = Annotated[list[str], typer.Argument(help="Topics.", show_default=False)]
SomeTopics = Annotated[
    list[str] | None, typer.Argument(help="Topics; all, if none is said.", show_default=False)
]


@lake_app.command("flush")
def flush(topics: Topics, servers: Servers = LOCAL, properties: Properties = None) -> None:
    """Make every decided record of topics visible in their tables now."""

    async def flushed(client: Client) -> list[FlushedLake]:
        return [await client.flush_lake(topic) for topic in topics]

    for one in ask(options(servers, properties), flushed):
        typer.echo(f"{one.name}: {one.rows} rows in {one.files} files became visible")


@lake_app.command("status")
def status(
    topics: SomeTopics = None, servers: Servers = LOCAL, properties: Properties = None
) -> None:
    """Where topics' records are: on local disks, on object storage, in their tables."""

    async def described(client: Client) -> list[DescribedLake]:
        names = topics or sorted((await client.cluster()).topics)
        return [await client.describe_lake(name) for name in names]

    found = ask(options(servers, properties), described)
    if not found:
        typer.echo("no topics")
        return
    for line in columns([TITLES, *(row(one) for one in found)]):
        typer.echo(line)
    typer.echo(f"store: {found[0].store_url}")


class Row(NamedTuple):
    topic: str
    local: str
    moved: str
    stored: str
    ratio: str
    files: str
    rows: str
    unread: str
    table: str


TITLES = Row("topic", "local", "moved", "stored", "ratio", "files", "rows", "unparsed", "table")


def row(lake: DescribedLake) -> Row:
    """`moved` is what of the log is on object storage alone or as well, `stored` what it takes
    there."""
    files = [file for part in lake.partitions for file in part.files]
    moved = sum(file.log_bytes for file in files)
    stored = sum(file.parquet_size + file.log_size for file in files)
    return Row(
        lake.name,
        sized(sum(part.local_bytes for part in lake.partitions)),
        sized(moved),
        sized(stored),
        f"{stored / moved:.2f}" if moved else "-",
        str(len(files)),
        str(sum(file.rows for file in files)),
        str(sum(file.unparsed for file in files)),
        f"{lake.table or '-'} {visible(lake.partitions)}",
    )


def visible(partitions: Iterable[LakePartition]) -> str:
    """How much of what is decided the table shows."""
    shown = decided = 0
    for part in partitions:
        decided += max(part.last_stable_offset - part.start_offset, 0)
        shown += sum(
            file.end_offset - max(file.base_offset, part.start_offset)
            for file in part.files
            if file.parquet_key and file.end_offset > part.start_offset
        )
    return f"({shown / decided:.0%} of it)" if decided else "(empty)"


def sized(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(one, widths, strict=True)).rstrip()
        for one in rows
    ]
