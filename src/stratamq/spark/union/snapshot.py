"""What a union read takes from where. Pure: one answer of a node in, one cut out.

Offsets of a partition from its start up to its last stable offset are each in exactly one place:

    a Parquet file of the object store      read by Spark
    a range that no such file has           read from the nodes: the log's end, and history that
                                            is kept as raw segments only

Files never overlap, and all of it comes from a single answer. So there is no gap and no duplicate,
whatever is sealed, moved, merged or retired afterwards: files that are named here outlive the query
(`tier.orphan.grace.ms`), and the nodes serve a range wherever its records are by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from stratamq.lake.declared import Column, columns_of, declared, merged, parse_columns
from stratamq.spark.union.places import reached
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake, LakeFile, LakePartition


class Range(NamedTuple):
    """Offsets `start..end - 1` of a partition."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    topic: str
    store_url: str
    value_format: str
    value_schema: str
    columns: tuple[Column, ...]
    """Typed columns of all files and of the schema there is now."""
    files: tuple[LakeFile, ...]
    starts: Mapping[int, int]
    """Where a partition begins within one of its files: what lies before it is gone."""
    deleted: Mapping[int, tuple[int, ...]]
    """Offsets that are still in the files and do not count."""
    ranges: tuple[Range, ...]
    """What the nodes are asked for."""
    as_of_ms: int | None = None
    reached: Mapping[str, str] = field(default_factory=dict)
    """What Hadoop's file system has to know of the store."""


def snapshot_of(lake: DescribedLake, as_of_ms: int | None = None) -> Snapshot:
    """With `as_of_ms`, files that have nothing of that time or before are left out."""
    parts = [_Part.of(one) for one in lake.partitions]
    files = [file for part in parts for file in part.files if _may_have(file, as_of_ms)]
    now = columns_of(declared(lake.value_format, lake.value_schema))
    return Snapshot(
        topic=lake.name,
        store_url=lake.store_url,
        value_format=lake.value_format,
        value_schema=lake.value_schema,
        columns=merged([now, *(parse_columns(file.columns) for file in files)]),
        files=tuple(files),
        starts={part.index: part.start for part in parts if part.begins_within},
        deleted={part.index: part.deleted for part in parts if part.deleted},
        ranges=tuple(found for part in parts for found in part.ranges),
        as_of_ms=as_of_ms,
        reached=reached(lake),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    index: int
    start: int
    files: tuple[LakeFile, ...]
    deleted: tuple[int, ...]
    ranges: tuple[Range, ...]

    @classmethod
    def of(cls, lake: LakePartition) -> _Part:
        start, end = lake.start_offset, lake.last_stable_offset
        files = tuple(
            file
            for file in sorted(lake.files, key=lambda file: file.base_offset)
            if file.parquet_key is not None and start < file.end_offset <= end
        )
        return cls(
            index=lake.partition_index,
            start=start,
            files=files,
            deleted=tuple(offset for offset in lake.deleted if _is_in(offset, files)),
            ranges=tuple(_between(lake.partition_index, start, end, files)),
        )

    @property
    def begins_within(self) -> bool:
        return bool(self.files) and self.files[0].base_offset < self.start


def _between(partition: int, start: int, end: int, files: Sequence[LakeFile]) -> Iterator[Range]:
    """What `files` leave out of start..end - 1."""
    at = start
    for file in files:
        if at < file.base_offset:
            yield Range(partition, at, file.base_offset)
        at = file.end_offset
    if at < end:
        yield Range(partition, at, end)


def _is_in(offset: int, files: Sequence[LakeFile]) -> bool:
    return any(file.base_offset <= offset < file.end_offset for file in files)


def _may_have(file: LakeFile, as_of_ms: int | None) -> bool:
    """A file without a single date has nothing of any time."""
    if not file.rows:
        return False
    return as_of_ms is None or file.min_timestamp <= as_of_ms


def rounds(cut: Snapshot) -> list[list[Range]]:
    """Reads from the nodes, each with one range of a partition at most; nearly always one will do.

    A partition without a range is not named at all: what a read does not need may be gone by then.
    """
    waiting: dict[int, list[Range]] = {}
    for one in cut.ranges:
        waiting.setdefault(one.partition, []).append(one)
    turns = zip_longest(*waiting.values())
    return [[one for one in turn if one is not None] for turn in turns]
