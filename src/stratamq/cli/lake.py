"""`stratamq lake`: history on object storage, and topics as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import typer

from stratamq.cli.command import Invocation, Report, on_node
from stratamq.cli.tables import columns, sized
from stratamq.client import Client
from stratamq.lake.cost import GB, SEEDS_RATES, SEEDS_WORKLOAD, Rates, formula
from stratamq.model.errors import NotFound
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake, LakeFile, LakePartition

lake_app = typer.Typer(
    help="History on object storage, and topics as tables.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Topics = Annotated[list[str], typer.Argument(help="Topics.", show_default=False)]
SomeTopics = Annotated[
    list[str] | None, typer.Argument(help="Topics; all, if none is said.", show_default=False)
]


@on_node(lake_app, "flush")
async def flush(invocation: Invocation, topics: Topics) -> Report:
    """Make every decided record of topics visible in their tables now."""
    done = [await invocation.client.flush_lake(topic) for topic in topics]
    data = [{"topic": one.name, "rows": one.rows, "files": one.files} for one in done]
    return Report(
        {"tables": data},
        [f"{one.name}: {one.rows} rows in {one.files} files became visible" for one in done],
    )


@on_node(lake_app, "status")
async def status(invocation: Invocation, topics: SomeTopics = None) -> Report:
    """Where topics' records are: on local disks, on object storage, in their tables."""
    client = invocation.client
    found = await _lakes(client, topics or sorted((await client.cluster()).topics))
    store = found[0].store_url if found else None
    data = {"store": store, "topics": [as_json(one) for one in found]}
    if not found:
        return Report(data, ["no topics"])
    lines = columns([TITLES, *(row(one) for one in found)])
    return Report(data, [*lines, f"store: {store}", *underway(found)])


@on_node(lake_app, "cost")
async def cost(
    invocation: Invocation,
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
) -> Report:
    """What a year costs on local disks alone and with tiers, with the formula. The compression is
    that of the topics named, as they lie in the store."""
    lines = []
    if ratio is None and topics:
        ratio = packed(await _lakes(invocation.client, topics))
        lines = [f"{', '.join(topics)}: a byte of the log takes {ratio:.3f} in the store\n"]
    work = replace(
        SEEDS_WORKLOAD,
        bytes_per_day=gb_per_day * GB,
        days_kept=days,
        local_days=local_days,
        replicas=replicas,
        ratio=SEEDS_WORKLOAD.ratio if ratio is None else ratio,
    )
    rates = Rates(local_gb_month=local_rate, object_gb_month=store_rate, put_1000=put_rate)
    text = formula(work, rates)
    return Report({"ratio": work.ratio, "formula": text}, [*lines, text])


async def _lakes(client: Client, names: Iterable[str]) -> list[DescribedLake]:
    return [await client.describe_lake(name) for name in names]


def packed(lakes: Iterable[DescribedLake]) -> float:
    """As `ratio_of`, over several topics; NotFound when no segment of theirs has moved."""
    ratio = ratio_of(file for lake in lakes for part in lake.partitions for file in part.files)
    if ratio is None:
        raise NotFound("nothing of these topics is in the store yet: give --ratio")
    return ratio


def ratio_of(files: Iterable[LakeFile]) -> float | None:
    """Bytes in the store per byte of the log, of whole segments that were moved."""
    moved = [file for file in files if file.final and file.log_bytes]
    stored = sum(file.parquet_size + file.log_size for file in moved)
    return stored / sum(file.log_bytes for file in moved) if moved else None


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


class TopicTotals(NamedTuple):
    """One topic's figures, for people and for JSON. `moved_bytes` and `ratio` are those of whole
    segments, as in `lake cost`; `files` and `rows` are what the table shows, and `pending` ones
    are stored and will be in the table when it is next written."""

    local_bytes: int
    moved_bytes: int
    stored_bytes: int
    ratio: float | None
    files: int
    rows: int
    pending_files: int
    pending_rows: int
    unparsed: int


def totals(lake: DescribedLake) -> TopicTotals:
    files = [file for part in lake.partitions for file in part.files]
    shown = [file for file in files if not file.pending]
    return TopicTotals(
        local_bytes=sum(part.local_bytes for part in lake.partitions),
        moved_bytes=sum(file.log_bytes for file in files if file.final),
        stored_bytes=sum(file.parquet_size + file.log_size for file in files),
        ratio=ratio_of(files),
        files=len(shown),
        rows=sum(file.rows for file in shown),
        pending_files=len(files) - len(shown),
        pending_rows=sum(file.rows for file in files) - sum(file.rows for file in shown),
        unparsed=sum(file.unparsed for file in files),
    )


TITLES = (
    *("topic", "local", "moved", "stored", "ratio"),
    *("files", "rows", "pending", "unparsed", "table"),
)


def row(lake: DescribedLake) -> tuple[str, ...]:
    one = totals(lake)
    return (
        *(lake.name, sized(one.local_bytes), sized(one.moved_bytes), sized(one.stored_bytes)),
        "-" if one.ratio is None else f"{one.ratio:.2f}",
        *map(str, (one.files, one.rows, one.pending_rows, one.unparsed)),
        f"{lake.table or '-'} {visible(lake.partitions)}",
    )


def as_json(lake: DescribedLake) -> dict[str, Any]:
    return {
        "topic": lake.name,
        **totals(lake)._asdict(),
        "table": lake.table or None,
        "trouble": lake.trouble or None,
        "moving": [
            {
                "partition": part.partition_index,
                "step": part.moving,
                "done_bytes": part.moving_done,
                "total_bytes": part.moving_total,
            }
            for part in lake.partitions
            if part.moving
        ],
    }


def visible(partitions: Iterable[LakePartition]) -> str:
    """How much of what is decided the table shows."""
    shown = decided = 0
    for part in partitions:
        decided += max(part.last_stable_offset - part.start_offset, 0)
        shown += sum(
            file.end_offset - max(file.base_offset, part.start_offset)
            for file in part.files
            if file.parquet_key and not file.pending and file.end_offset > part.start_offset
        )
    return f"({shown / decided:.0%} of it)" if decided else "(empty)"
