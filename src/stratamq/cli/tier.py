"""`stratamq tier`: moving history to object storage: how far it is, and doing it now."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from stratamq.cli.command import Invocation, Report, on_node
from stratamq.cli.progress import ProgressLine
from stratamq.cli.tables import counted, sized, table
from stratamq.client.lake import run_tier
from stratamq.model.errors import TimedOut
from stratamq.tiering.outdated import is_outdated
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake, FlushedLake

tier_app = typer.Typer(
    help="Moving history to object storage: status, run.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
WAIT_MS = 1000
"""Between two looks at how far a run is."""

SomeTopics = Annotated[
    list[str] | None,
    typer.Argument(metavar="TOPIC...", help="Topics. Default: all.", show_default=False),
]
TITLES = ("topic", "local", "stored", "waiting", "bytes waiting", "moving", "to rewrite")


@on_node(tier_app, "status")
async def status(invocation: Invocation, topics: SomeTopics = None) -> Report:
    """What is on local disks, what is in the store, what waits to be moved, and the last error."""
    client = invocation.client
    names = topics or sorted((await client.cluster()).topics)
    lakes = [await client.describe_lake(name) for name in names]
    found = [as_json(one) for one in lakes]
    store = lakes[0].store_url if lakes else None
    trouble = next((one.trouble for one in lakes if one.trouble), None)
    rows = [
        (
            *(one["topic"], sized(one["local_bytes"]), sized(one["stored_bytes"])),
            *(one["waiting_segments"], sized(one["waiting_bytes"])),
            *(", ".join(part["step"] for part in one["moving"]) or None, one["outdated_files"]),
        )
        for one in found
    ]
    lines = [*table(TITLES, rows), f"store: {store}"] if rows else ["no topics"]
    if trouble:
        lines.append(f"last error: {trouble}")
    return Report({"store": store, "trouble": trouble, "topics": found}, lines)


def as_json(lake: DescribedLake) -> dict[str, Any]:
    parts = lake.partitions
    files = [file for part in parts for file in part.files]
    return {
        "topic": lake.name,
        "local_bytes": sum(part.local_bytes for part in parts),
        "stored_bytes": sum(file.parquet_size + file.log_size for file in files),
        "waiting_segments": sum(part.waiting_segments for part in parts),
        "waiting_bytes": sum(part.waiting_bytes for part in parts),
        "outdated_files": sum(
            is_outdated(file, part.deleted, part.start_offset)
            for part in parts
            for file in part.files
        ),
        "moving": [
            {
                "partition": part.partition_index,
                "step": part.moving,
                "done_bytes": part.moving_done,
                "total_bytes": part.moving_total,
            }
            for part in parts
            if part.moving
        ],
    }


@on_node(tier_app, "run")
async def run(
    invocation: Invocation,
    topics: SomeTopics = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0, help="Give up waiting then.")
    ] = 3600,
) -> Report:
    """Move what is due now, remove deleted records from history, and wait until that is done."""
    names = topics or sorted((await invocation.client.cluster()).topics)
    deadline_s = time.monotonic() + timeout_s
    done = [await _run(invocation, name, deadline_s) for name in names]
    data = [
        {
            "topic": one.name,
            "moved_segments": one.moved_segments,
            "moved_bytes": one.moved_bytes,
            "freed_bytes": one.freed_bytes,
            "rewritten_files": one.rewritten_files,
        }
        for one in done
    ]
    lines = [
        f"{one.name}: {counted(one.moved_segments, 'segment')} moved ({sized(one.moved_bytes)}), "
        f"{sized(one.freed_bytes)} freed here, {counted(one.rewritten_files, 'file')} rewritten"
        for one in done
    ]
    return Report({"topics": data}, lines or ["no topics"])


async def _run(invocation: Invocation, topic: str, deadline_s: float) -> FlushedLake:
    """The node goes on when this gives up, or is interrupted."""
    client, progress = invocation.client, ProgressLine()
    try:
        while True:
            done = await run_tier(client.router, topic, WAIT_MS)
            if done is not None:
                return done
            if time.monotonic() >= deadline_s:
                raise TimedOut(f"{topic}: it is not done yet; the node goes on with it")
            found = as_json(await client.describe_lake(topic))
            left = f"{sized(found['waiting_bytes'])} to move"
            steps = "".join(
                f", {one['step']} {sized(one['done_bytes'])} of {sized(one['total_bytes'])}"
                for one in found["moving"]
            )
            progress.update(f"{topic}: {left}{steps}")
    finally:
        progress.clear()
