"""`stratamq lake`: history on object storage, and topics as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, NamedTuple

import typer

from stratamq.cli.failing import fail
from stratamq.cli.reach import LOCAL, Properties, Servers, ask, options
from stratamq.client import Client
from stratamq.lake.cost import GB, SEEDS_RATES, SEEDS_WORKLOAD, Rates, formula
from stratamq.model.errors import NotFound
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake, FlushedLake, LakePartition

lake_app = typer.Typer(
    help="History on object storage, and topics as tables.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

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
        return await _lakes(client, topics or sorted((await client.cluster()).topics))

    found = ask(options(servers, properties), described)
    if not found:
        typer.echo("no topics")
        return
    for line in columns([TITLES, *(row(one) for one in found)]):
        typer.echo(line)
    typer.echo(f"store: {found[0].store_url}")
    for line in underway(found):
        typer.echo(line)


@lake_app.command("cost")
def cost(
    topics: SomeTopics = None,
    gb_per_day: Annotated[float, typer.Option(min=0, help="GB (10^9 bytes) written a day.")] = 1000,
    days: Annotated[float, typer.Option(min=0, help="Days that records are kept.")] = 365,
    local_days: Annotated[float, typer.Option(min=0, help="Of these, on local disks.")] = 7,
    replicas: Annotated[int, typer.Option(min=1, help="Copies on local disks.")] = 3,
    local_rate: Annotated[
        float, typer.Option(min=0, help="Local disk, per GB and month.")
    ] = SEEDS_RATES.local_gb_month,
    store_rate: Annotated[
        float, typer.Option(min=0, help="Object storage, per GB and month.")
    ] = SEEDS_RATES.object_gb_month,
    put_rate: Annotated[float, typer.Option(min=0, help="1000 uploads to the store.")] = 0,
    ratio: Annotated[
        float | None,
        typer.Option(min=0, help="Bytes in the store per byte of the log.", show_default=False),
    ] = None,
    servers: Servers = LOCAL,
    properties: Properties = None,
) -> None:
    """What a year costs on local disks alone and with tiers, with the formula. The compression is
    that of the topics named, as they lie in the store."""
    if ratio is None and topics:
        lakes = ask(options(servers, properties), lambda client: _lakes(client, topics))
        ratio = packed(lakes)
        typer.echo(f"{', '.join(topics)}: a byte of the log takes {ratio:.3f} in the store\n")
    work = replace(
        SEEDS_WORKLOAD,
        bytes_per_day=gb_per_day * GB,
        days_kept=days,
        local_days=local_days,
        replicas=replicas,
        ratio=SEEDS_WORKLOAD.ratio if ratio is None else ratio,
    )
    rates = Rates(local_gb_month=local_rate, object_gb_month=store_rate, put_1000=put_rate)
    typer.echo(formula(work, rates))


async def _lakes(client: Client, names: Iterable[str]) -> list[DescribedLake]:
    return [await client.describe_lake(name) for name in names]


def packed(lakes: Iterable[DescribedLake]) -> float:
    """Bytes in the store per byte of the log, of whole segments that were moved."""
    files = [file for lake in lakes for part in lake.partitions for file in part.files]
    moved = [file for file in files if file.final and file.log_bytes]
    if not moved:
        raise fail(NotFound("nothing of these topics is in the store yet: give --ratio"))
    stored = sum(file.parquet_size + file.log_size for file in moved)
    return stored / sum(file.log_bytes for file in moved)


def underway(lakes: Sequence[DescribedLake]) -> list[str]:
    """What is being moved just now, and what keeps it from going on."""
    lines = [
        f"moving: {lake.name}-{part.partition_index}, {part.moving}, "
        f"{sized(part.moving_done)} of {sized(part.moving_total)}"
        for lake in lakes
        for part in lake.partitions
        if part.moving
    ]
    return lines + [f"trouble: {text}" for text in {lake.trouble for lake in lakes} if text]


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
