"""The manifest of a topic: one JSON object that names its files. docs/formats/manifest.md has it.

It is written as a whole from what the Meta Service knows. Who reads a table by it needs no listing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stratamq.lake.declared import columns_text, merged, parse_columns
from stratamq.meta.tier.files import TierFile, TierObject
from stratamq.model.shard import split_shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import Offset, TimestampMs, TopicId

OBJECTS = ("parquet", "log", "index", "timeindex")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One stretch of a partition. `columns` are those of `data`, as a text; see lake.declared."""

    partition: int
    base_offset: Offset
    end_offset: Offset
    final: bool
    rows: int
    min_timestamp: TimestampMs
    max_timestamp: TimestampMs
    unparsed: int = 0
    misfits: int = 0
    columns: str = ""
    parquet: TierObject | None = None
    log: TierObject | None = None
    index: TierObject | None = None
    timeindex: TierObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A topic's files at one revision of the metadata, by partition and offset."""

    topic: str
    topic_id: TopicId
    revision: int
    partitions: int
    value_format: str = "none"
    value_schema: str = ""
    files: tuple[ManifestFile, ...] = ()

    @property
    def columns(self) -> str:
        """Those of the table: what any file has."""
        return table_columns(self.files)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def unparsed(self) -> int:
        return sum(file.unparsed for file in self.files)

    @property
    def misfits(self) -> int:
        return sum(file.misfits for file in self.files)


def table_columns(files: Iterable[TierFile | ManifestFile]) -> str:
    texts = dict.fromkeys(file.columns for file in files)
    return columns_text(merged(map(parse_columns, texts)))


def manifest_of(topic: Topic, files: Iterable[TierFile], revision: int) -> Manifest:
    found = sorted(map(_file_of, files), key=lambda file: (file.partition, file.base_offset))
    return Manifest(
        topic=topic.name,
        topic_id=topic.topic_id,
        revision=revision,
        partitions=topic.partitions,
        value_format=str(topic.config["lake.value.format"]),
        value_schema=str(topic.config["lake.value.schema"]),
        files=tuple(found),
    )


def _file_of(file: TierFile) -> ManifestFile:
    return ManifestFile(
        partition=split_shard_name(file.shard)[1],
        base_offset=file.base_offset,
        end_offset=file.end_offset,
        final=file.final,
        rows=file.rows,
        min_timestamp=file.min_timestamp,
        max_timestamp=file.max_timestamp,
        unparsed=file.unparsed,
        misfits=file.misfits,
        columns=file.columns,
        parquet=file.parquet,
        log=file.log,
        index=file.index,
        timeindex=file.timeindex,
    )
