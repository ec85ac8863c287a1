"""`stratamq shard`: the shards of a data folder, read from its files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from stratamq.cli.command import Report
from stratamq.cli.data_folder import FolderShard, Inspection, Partition, Topics, on_folder
from stratamq.cli.tables import sized, table
from stratamq.engine.inspection import inspect_shard
from stratamq.log import deletions, names
from stratamq.log.disk import ReadOnlyDisk, read_all
from stratamq.log.stored import stored_segments, stored_start, summarize

shard_app = typer.Typer(
    help="Shards of a data folder: list, describe. Only reads.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
TITLES = ("topic", "partition", "shard", "storage", "segments", "local", "history")


@on_folder(shard_app, "list")
def list_shards(
    inspection: Inspection, topics: Topics = None, partition: Partition = None
) -> Report:
    """List shards with their topics, segments and sizes."""
    found = [_as_json(one) for one in inspection.shards(topics, partition)]
    rows = [
        (
            *(one["topic"], one["partition"], one["shard"], one["storage"], one["segments"]),
            *(None if one[name] is None else sized(one[name]) for name in SIZES),
        )
        for one in found
    ]
    return Report({"shards": found}, table(TITLES, rows) if rows else ["no shards"])


SIZES = ("local_bytes", "history_bytes")


@on_folder(shard_app, "describe")
def describe_shards(
    inspection: Inspection, topics: Topics = None, partition: Partition = None
) -> Report:
    """Show where shards begin and end, who leads them, what was deleted, and damage."""
    data: list[dict[str, Any]] = []
    lines: list[str] = []
    for shard in inspection.shards(topics, partition):
        one = {**_as_json(shard), **_leader(inspection, shard), **_inside(shard.folder)}
        data.append(one)
        lines += (
            ["", f"{shard.title}: shard {shard.name}"]
            if lines
            else [f"{shard.title}: shard {shard.name}"]
        )
        hidden = ("topic", "partition", "shard", "damage")
        lines += [
            f"  {name.replace('_', ' ')}: {'-' if value is None else value}"
            for name, value in one.items()
            if name not in hidden
        ]
        lines += [f"  damage: {text}" for text in one["damage"]]
    return Report({"shards": data}, lines or ["no shards"])


def _as_json(shard: FolderShard) -> dict[str, Any]:
    segments = [] if shard.folder is None else stored_segments(shard.folder)
    history = shard.history
    return {
        "topic": shard.topic,
        "partition": shard.partition,
        "shard": shard.name,
        "storage": shard.storage,
        "segments": None if shard.folder is None else len(segments),
        "local_bytes": None if shard.folder is None else sum(one.size_bytes for one in segments),
        "history_bytes": None if history is None else sum(one.log_bytes for one in history),
    }


def _leader(inspection: Inspection, shard: FolderShard) -> dict[str, Any]:
    state = inspection.metadata
    segments = () if state is None else state.segments_of(shard.name)
    led = [one for one in segments if one.leader is not None]
    return {
        "leader": led[-1].leader if led else None,
        "leader_epoch": led[-1].leader_epoch if led else None,
        "replicas": list(led[-1].replicas) if led else None,
    }


def _inside(folder: Path | None) -> dict[str, Any]:
    """What the files of the folder say. `end` is where the batches of the newest segment end."""
    if folder is None:
        nothing = dict.fromkeys(("folder", "start", "local_start", "end", "deleted"))
        return {**nothing, "damage": []}
    segments = stored_segments(folder)
    return {
        "folder": str(folder),
        "start": stored_start(folder, names.START_OFFSET),
        "local_start": stored_start(folder, names.LOCAL_START),
        "end": summarize(segments[-1]).end if segments else None,
        "deleted": _deleted(folder / names.DELETIONS),
        "damage": list(shard_damage(folder)),
    }


def _deleted(path: Path) -> int:
    """Records that were deleted one by one and may still be in a file."""
    with contextlib.suppress(FileNotFoundError):
        return len(deletions.decode(read_all(ReadOnlyDisk(), path)).offsets)
    return 0


def shard_damage(folder: Path) -> Iterator[str]:
    """What can be seen without reading batches. A folder that cannot be read is damage as well."""
    try:
        yield from inspect_shard(folder)
    except OSError as error:
        yield f"{folder}: {error}"
