"""`stratamq segment`: segment files of a data folder: list, dump, verify. They are only read."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from stratamq.cli.command import Report, show
from stratamq.cli.data_folder import FolderShard, Inspection, Partition, Topics, on_folder
from stratamq.cli.failing import Exit, fail
from stratamq.cli.formats import as_json
from stratamq.cli.progress import ProgressLine
from stratamq.cli.shard import shard_damage
from stratamq.cli.specs import time_text
from stratamq.cli.tables import counted, sized, table
from stratamq.client.cluster import TopicPartition
from stratamq.log.scan import Intact
from stratamq.log.stored import (
    SegmentDamage,
    StoredSegment,
    batches_of,
    stored_segments,
    summarize,
)
from stratamq.model.errors import CorruptBatch, InvalidInput
from stratamq.model.record import Record
from stratamq.wire.kafka.records import BatchHeader, decode_batch

segment_app = typer.Typer(
    help="Segment files of a data folder: list, dump, verify. Only reads.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


# -- list ------------------------------------------------------------------------------------------

TITLES = ("shard", "base", "end", "size", "batches", "records", "state", "where", "newest record")


@on_folder(segment_app, "list")
def list_segments(
    inspection: Inspection, topics: Topics = None, partition: Partition = None
) -> Report:
    """List segments with offsets, sizes and numbers of records, local ones and history."""
    data: list[dict[str, Any]] = []
    rows = []
    for shard in inspection.shards(topics, partition):
        for one in [*_history(shard), *_local(shard)]:
            data.append({"topic": shard.topic, "partition": shard.partition, **one})
            newest = None if one["max_timestamp"] < 0 else time_text(one["max_timestamp"])
            rows.append(
                (
                    *(shard.title, one["base_offset"], one["end_offset"], sized(one["bytes"])),
                    *(one["batches"], one["records"], one["state"], one["where"], newest),
                )
            )
    return Report({"segments": data}, table(TITLES, rows) if rows else ["no segments"])


def _history(shard: FolderShard) -> Iterator[dict[str, Any]]:
    """Final files whose offsets no local segment has any more."""
    local = [] if shard.folder is None else stored_segments(shard.folder)
    begin = local[0].base if local else None
    for file in shard.history or ():
        if file.final and (begin is None or file.base_offset < begin):
            yield {
                "shard": shard.name,
                "base_offset": file.base_offset,
                "end_offset": file.end_offset,
                "bytes": file.log_bytes,
                "batches": file.batches,
                "records": file.rows,
                "state": "sealed",
                "where": "history",
                "max_timestamp": file.max_timestamp,
            }


def _local(shard: FolderShard) -> Iterator[dict[str, Any]]:
    stored = {file.base_offset for file in shard.history or () if file.final}
    for one in [] if shard.folder is None else stored_segments(shard.folder):
        try:
            found = summarize(one)
        except FileNotFoundError:
            continue  # a running node removed it
        state = "active" if one.active else "sealed"
        yield {
            "shard": shard.name,
            "base_offset": one.base,
            "end_offset": found.end,
            "bytes": one.size_bytes,
            "batches": found.batches,
            "records": found.records,
            "state": state if found.readable or one.active else "damaged",
            "where": "local, history" if one.base in stored else "local",
            "max_timestamp": found.max_timestamp,
        }


# -- dump ------------------------------------------------------------------------------------------


class Dump(NamedTuple):
    """What is printed of a shard's batches: from an offset on, and whether with records."""

    first: int
    with_records: bool
    as_json: bool


@on_folder(segment_app, "dump")
def dump_segments(
    inspection: Inspection,
    topics: Topics = None,
    partition: Partition = None,
    segment: Annotated[
        int | None,
        typer.Option("--segment", metavar="BASE", help="Only this one.", show_default=False),
    ] = None,
    offset: Annotated[int, typer.Option("--offset", "-o", min=0, help="Begin there.")] = 0,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=1, help="End after so many lines.", show_default=False),
    ] = None,
    records: Annotated[bool, typer.Option("--records", help="Records, too.")] = False,
) -> None:
    """Print batches of segment files, a line for each; with --records also their records."""
    dump, is_damaged, left = Dump(offset, records, inspection.as_json), False, count
    for shard in inspection.shards(topics, partition):
        for one in [] if shard.folder is None else stored_segments(shard.folder):
            if segment not in (None, one.base) or one.limit <= offset:
                continue
            for line in _dumped(shard, one, dump, inspection.is_running):
                if left == 0:
                    return
                left = None if left is None else left - 1
                is_damaged |= line["kind"] == "damage"
                sys.stdout.write((json.dumps(line) if dump.as_json else _text(line)) + "\n")
    if is_damaged:
        raise SystemExit(Exit.FAILED)


def _dumped(
    shard: FolderShard, segment: StoredSegment, dump: Dump, is_running: bool
) -> Iterator[dict[str, Any]]:
    place = TopicPartition(shard.topic or shard.name, shard.partition or 0)
    try:
        for found in batches_of(segment):
            if isinstance(found, SegmentDamage):
                if is_running and segment.active:
                    return  # the node is writing it
                yield {"kind": "damage", **found.as_json()}
            elif found.header.last_offset >= dump.first:
                yield {
                    "kind": "batch",
                    "shard": shard.name,
                    "segment": segment.base,
                    **_batch(found),
                }
                if dump.with_records:
                    yield from _records(place, segment, found, dump.first)
    except FileNotFoundError:
        return  # a running node removed it


def _batch(found: Intact) -> dict[str, Any]:
    header = found.header
    return {
        "position": found.position,
        "bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "log_append_time": header.uses_log_append_time,
        "compression": _compression(header),
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc,
    }


def _compression(header: BatchHeader) -> str:
    try:
        return header.compression.name.lower()
    except InvalidInput:
        return "unknown"


def _records(
    place: TopicPartition, segment: StoredSegment, found: Intact, first: int
) -> Iterator[dict[str, Any]]:
    """A batch may match its CRC and still hold what no reader understands."""
    try:
        records: list[Record] = decode_batch(found.header, found.data)
    except InvalidInput as error:
        base = found.header.base_offset
        damage = SegmentDamage(segment.path, found.position, base, str(error))
        yield {"kind": "damage", **damage.as_json()}
        return
    for record in records:
        if record.offset >= first:
            yield {"kind": "record", **as_json(place, record)}


def _text(line: dict[str, Any]) -> str:
    if line["kind"] == "damage":
        where = f"byte {line['position']}, offset {line['offset']}"
        return f"damage {line['file']}: {where}: {line['text']}"
    if line["kind"] == "record":
        pair = f"key {_quoted(line['key'])} value {_quoted(line['value'])}"
        return f"  record {line['offset']} {line['time']} {pair}"
    flags = "".join(f", {name}" for name in ("transactional", "control") if line[name])
    return (
        f"batch {line['base_offset']}..{line['last_offset']} of segment {line['segment']}, "
        f"byte {line['position']}: {counted(line['records'], 'record')}, {line['bytes']} bytes, "
        f"{time_text(line['max_timestamp'])}, {line['compression']}, "
        f"leader epoch {line['leader_epoch']}{flags}"
    )


def _quoted(value: str | dict[str, str] | None) -> str:
    """On one line, whatever is in it; bytes that are no text as base64."""
    if value is None:
        return "null"
    return repr(value) if isinstance(value, str) else f"base64:{value['base64']}"


# -- verify ----------------------------------------------------------------------------------------


class Verified(NamedTuple):
    """What was read of a shard, and the damage in it: of a file as a whole, or at a byte."""

    segments: int
    batches: int
    records: int
    size_bytes: int
    damage: dict[object, dict[str, Any]]
    """By what makes it the same damage when it is found again."""


@on_folder(segment_app, "verify")
def verify_segments(
    inspection: Inspection, topics: Topics = None, partition: Partition = None
) -> None:
    """Check CRC and offsets of every batch. Damage ends it with code 1."""
    data: list[dict[str, Any]] = []
    lines: list[str] = []
    progress = ProgressLine()
    for shard in inspection.shards(topics, partition):
        if shard.folder is None:
            continue
        found = _verify(shard.folder, shard.title, progress)
        if found.damage and inspection.is_running:
            again = _verify(shard.folder, shard.title, progress)
            found = again._replace(
                damage={one: what for one, what in again.damage.items() if one in found.damage}
            )
        damage = list(found.damage.values())
        names = {"topic": shard.topic, "partition": shard.partition, "shard": shard.name}
        numbers = {"segments": found.segments, "batches": found.batches, "records": found.records}
        data.append({**names, **numbers, "bytes": found.size_bytes, "damage": damage})
        what = f"{counted(found.segments, 'segment')}, {counted(found.records, 'record')}"
        result = counted(len(damage), "damaged place") if damage else "ok"
        lines.append(f"{shard.title}: {what}, {sized(found.size_bytes)}: {result}")
        lines += [f"  {_text({'kind': 'damage', **one})}" for one in damage]
    progress.clear()
    show(Report({"shards": data}, lines or ["no segments"]), as_json=inspection.as_json)
    if first := next((one for shard in data for one in shard["damage"]), None):
        raise fail(CorruptBatch(_text({"kind": "damage", **first})))


def _verify(folder: Path, title: str, progress: ProgressLine) -> Verified:
    segments = stored_segments(folder)
    batches = records = size_bytes = 0
    damage: dict[object, dict[str, Any]] = {
        text: {"file": str(folder), "position": None, "offset": None, "text": text}
        for text in shard_damage(folder)
    }
    for segment in segments:
        try:
            for found in batches_of(segment):
                if isinstance(found, SegmentDamage):
                    damage[found.path, found.position] = found.as_json()
                    continue
                batches, records = batches + 1, records + found.header.record_count
                size_bytes += found.header.size_bytes
                progress.update(f"{title}: {sized(size_bytes)}")
        except FileNotFoundError:
            continue  # a running node removed it, else the list of files has missed it
        except OSError as error:
            text = f"it cannot be read: {error}"
            unread = SegmentDamage(segment.path, 0, segment.base, text)
            damage[segment.path, 0] = unread.as_json()
    return Verified(len(segments), batches, records, size_bytes, damage)
