"""`stratamq backup`: of a running node, or of the data folder of a stopped one (docs/backup.md)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from stratamq.cli.command import Invocation, Report
from stratamq.cli.failing import UsageError
from stratamq.cli.progress import ProgressLine
from stratamq.cli.tables import counted, sized
from stratamq.cli.user import ConfigFile, DataDir
from stratamq.client.admin.backup import back_up
from stratamq.model.config import load
from stratamq.model.errors import InvalidConfig, TimedOut

WAIT_MS = 1000
"""Between two looks at how far it is."""


async def make_backup(
    invocation: Invocation,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="NAME",
            help="A new folder: its name in the node's backup.folder, or with --data-dir its path.",
            show_default=False,
        ),
    ],
    wait: Annotated[
        bool, typer.Option("--wait", help="Begin none: wait for the one that was begun.")
    ] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0, help="Give up waiting then.")
    ] = 24 * 3600,
    data_dir: DataDir = None,
    config: ConfigFile = None,
) -> Report:
    """Make a backup of a running node on its own machine, or of a stopped node's data folder."""
    if data_dir or config:
        made = await asyncio.to_thread(_of_stopped, Path(to), data_dir, config)
    else:
        made = await _of_running(invocation, to, begins=not wait, timeout_s=timeout_s)
    return Report(made, lines_of(made))


async def _of_running(
    invocation: Invocation, name: str, *, begins: bool, timeout_s: float
) -> dict[str, Any]:
    """The node goes on when this gives up, or is interrupted."""
    router, progress = invocation.client.router, ProgressLine()
    deadline_s = time.monotonic() + timeout_s
    try:
        found = await back_up(router, name, begins=begins, wait_ms=WAIT_MS)
        while not found.is_done:
            if time.monotonic() >= deadline_s:
                raise TimedOut(f"{found.path} is not done yet; the node goes on with it")
            progress.update(f"{found.step}: {sized(found.done_bytes)}")
            found = await back_up(router, name, begins=False, wait_ms=WAIT_MS)
    finally:
        progress.clear()
    return {
        "path": found.path,
        "taken_ms": found.taken_ms,
        "topics": found.topics,
        "shards": found.shards,
        "files": found.files,
        "bytes": found.size_bytes,
        "unavailable": list(found.unavailable),
        "without_records": list(found.without_records),
        "store": found.store or None,
        "objects": found.objects,
    }


def _of_stopped(target: Path, data_dir: Path | None, config: Path | None) -> dict[str, Any]:
    from stratamq.node.backup import back_up_stopped

    progress, done = ProgressLine(), [0]

    def on_bytes(count: int) -> None:
        done[0] += count
        progress.update(f"copied and read: {sized(done[0])}")

    try:
        flags = {} if data_dir is None else {"data.dir": str(data_dir)}
        settings = load(config, os.environ, flags)
    except InvalidConfig as error:
        raise UsageError(str(error)) from None
    try:
        made = back_up_stopped(settings, target, int(time.time() * 1000), on_bytes)
    finally:
        progress.clear()
    return {
        "path": str(target.resolve()),
        "taken_ms": made.taken_ms,
        "topics": made.topics,
        "shards": made.shards,
        "files": len(made.files),
        "bytes": made.size_bytes,
        "unavailable": made.unavailable,
        "without_records": made.without_records,
        "store": made.store or None,
        "objects": made.objects,
    }


def lines_of(made: Mapping[str, Any]) -> Iterable[str]:
    yield (
        f"{made['path']}: {counted(made['topics'], 'topic')}, {counted(made['shards'], 'shard')},"
        f" {counted(made['files'], 'file')}, {sized(made['bytes'])}"
    )
    for name in made["unavailable"]:
        yield f"shard {name} is unavailable, and is in the backup as it is: see stratamq doctor"
    for name in made["without_records"]:
        yield f"topic {name} is in the backup without its records, which no disk of the node has"
    if made["objects"]:
        yield f"{counted(made['objects'], 'object')} of history stay in {made['store']}"
