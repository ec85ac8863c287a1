"""What a union read takes from where. Pure: one answer of a node in, one cut out.

Offsets of a partition from its start up to its last stable offset are each in exactly one place:

    a Parquet file of the object store      read by Spark
    a range that no such file has           read from the nodes: the log's end, and history that
                                            is stored as raw segments only

Files never overlap, and all of it comes from a single answer. So there is no gap and no duplicate,
whatever is sealed, moved, merged or retired afterwards: files that are named here outlive the query
(`tier.orphan.grace.ms`), and the nodes serve a range wherever its records are by then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stratamq.lake.declared import Column, columns_of, declared, merged, parse_columns
from stratamq.model.errors import InvalidConfig, StrataError
from stratamq.tiering.stores.options import parse_url
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake, LakeFile, LakePartition

S3_PACKAGE = "org.apache.hadoop:hadoop-aws"
S3_CLASS = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_SCHEMES = {"file": "file", "s3": "s3a", "hdfs": "hdfs"}
REGION = "us-east-1"
"""The region that a node assumes where none is set."""

CREDENTIALS = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
)
"""What Spark itself was given (it hands the driver's environment to executors), then AWS's own
ways, as nodes go them. Without the last, s3a would not look into AWS's files."""

_PATTERN = re.compile(r"([\\{}\[\]*?])")


def path_of(store_url: str, key: str) -> str:
    """The file itself: what would be a pattern to Spark is not one."""
    url = parse_url(store_url)
    folder = url.path.strip("/")
    path = f"{folder}/{key}" if folder else key
    return f"{_SCHEMES[url.scheme]}://{url.place}/" + _PATTERN.sub(r"\\\1", path)


def reached(lake: DescribedLake) -> Mapping[str, str]:
    """Return the settings by which Spark reaches the files of the node's store. No secret is in
    them."""
    if not lake.store_url.startswith("s3://"):
        return {}
    region = lake.s3_region or (REGION if lake.s3_endpoint else "")
    found = {
        "fs.s3a.endpoint": lake.s3_endpoint,
        "fs.s3a.endpoint.region": region,
        "fs.s3a.path.style.access": "true" if lake.s3_path_style else "",
        "fs.s3a.aws.credentials.provider": ",".join(CREDENTIALS),
    }
    return {name: value for name, value in found.items() if value}


def explained(error: Exception, store_url: str) -> Exception:
    """What keeps Spark from files, in a sentence where it is known."""
    text = str(error)
    if S3_CLASS in text:
        return InvalidConfig(
            f"Spark cannot read {store_url}: it was started without {S3_PACKAGE}; "
            f"`stratamq spark submit --s3` brings it, and so does --packages {S3_PACKAGE}:VERSION "
            "with the version of Spark's own Hadoop"
        )
    if "PATH_NOT_FOUND" in text:
        return StrataError(
            f"files of {store_url} are not there any more, or not on this machine: a store that is "
            "a folder has to be at the same place for Spark and for the nodes"
        )
    return error


OFFSET_BYTES = 1000.0
"""A guess, for what is not on a node's disk."""


class Range(NamedTuple):
    """Offsets `start..end - 1` of a partition."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    topic: str
    topic_id: bytes
    """Of the topic that was cut: from another one of its name nothing is read."""
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
    offset_bytes: float = OFFSET_BYTES
    """About how many bytes of messages there are to an offset."""
    as_of_ms: int | None = None
    since_ms: int | None = None
    timestamp_type: int = 0
    """What the topic's stamps are now: 0 the producer's, 1 the node's."""
    reached: Mapping[str, str] = field(default_factory=dict)
    """What Hadoop's file system has to know of the store."""


@dataclass(frozen=True, slots=True)
class Since:
    """A time, and by partition the first offset that is of that time or later; -1: none is."""

    ms: int
    offsets: Mapping[int, int]

    def cut(self, ranges: Iterable[Range]) -> Iterator[Range]:
        for one in ranges:
            first = self.offsets.get(one.partition, one.start)
            if 0 <= first < one.end:
                yield one._replace(start=max(first, one.start))


def snapshot_of(
    lake: DescribedLake, as_of_ms: int | None = None, since: Since | None = None
) -> Snapshot:
    """Decide what is read from where. With a time, files that have nothing of it are left out."""
    since_ms = since.ms if since else None
    parts = [_Part.of(one) for one in lake.partitions]
    files = [file for part in parts for file in part.files if _may_have(file, since_ms, as_of_ms)]
    ranges = [found for part in parts for found in part.ranges]
    now = columns_of(declared(lake.value_format, lake.value_schema))
    local = [one for one in lake.partitions if one.local_bytes and one.local_start_offset >= 0]
    local_offsets = sum(one.high_watermark - one.local_start_offset for one in local)
    local_bytes = sum(one.local_bytes for one in local)
    return Snapshot(
        topic=lake.name,
        topic_id=bytes(lake.topic_id),
        store_url=lake.store_url,
        value_format=lake.value_format,
        value_schema=lake.value_schema,
        columns=merged([now, *(parse_columns(file.columns) for file in files)]),
        files=tuple(files),
        starts={part.index: part.start for part in parts if part.begins_within},
        deleted={part.index: part.deleted for part in parts if part.deleted},
        ranges=tuple(since.cut(ranges) if since else ranges),
        offset_bytes=local_bytes / local_offsets if local_offsets > 0 else OFFSET_BYTES,
        as_of_ms=as_of_ms,
        since_ms=since_ms,
        timestamp_type=int(lake.log_append_time),
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
            deleted=tuple(
                offset
                for offset in lake.deleted
                if any(file.base_offset <= offset < file.end_offset for file in files)
            ),
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


def _may_have(file: LakeFile, since_ms: int | None, as_of_ms: int | None) -> bool:
    """A file without a single date has nothing of any time."""
    if not file.rows or (since_ms is not None and file.max_timestamp < since_ms):
        return False
    return as_of_ms is None or file.min_timestamp <= as_of_ms
