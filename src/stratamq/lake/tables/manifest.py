"""The manifest of a topic: one JSON object that names its files. docs/formats/manifest.md has it.

It is written as a whole from what the Meta Service knows. A reader of a table needs no listing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stratamq.lake.declared import columns_text, merged, parse_columns
from stratamq.meta.tier.files import TierFile, TierObject
from stratamq.model.errors import InvalidInput
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
        """The columns of the table: those of all its files."""
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


VERSION = 1


def manifest_bytes(manifest: Manifest) -> bytes:
    """A file per line, so that people can read it and tools can compare it."""
    head = {
        "version": VERSION,
        "topic": manifest.topic,
        "topic_id": manifest.topic_id,
        "revision": manifest.revision,
        "partitions": manifest.partitions,
        "value": {"format": manifest.value_format, "schema": manifest.value_schema},
        "columns": _plain_columns(manifest.columns),
        "rows": manifest.rows,
        "unparsed": manifest.unparsed,
        "misfits": manifest.misfits,
    }
    lines = ",\n".join(f"  {_dumps(_plain_file(file))}" for file in manifest.files)
    fields = "".join(f" {_dumps(name)}: {_dumps(value)},\n" for name, value in head.items())
    return f'{{\n{fields} "files": [\n{lines}\n ]\n}}\n'.encode()


def _plain_file(file: ManifestFile) -> dict[str, Any]:
    objects = {name: getattr(file, name) for name in OBJECTS}
    return {
        "partition": file.partition,
        "base_offset": file.base_offset,
        "end_offset": file.end_offset,
        "final": file.final,
        "rows": file.rows,
        "min_timestamp": file.min_timestamp,
        "max_timestamp": file.max_timestamp,
        "unparsed": file.unparsed,
        "misfits": file.misfits,
        "columns": _plain_columns(file.columns),
        **{
            name: {"key": one.key, "size": one.size, "crc32c": f"{one.crc:08x}"}
            for name, one in objects.items()
            if one is not None
        },
    }


def _plain_columns(columns: str) -> Any:
    return json.loads(columns) if columns else []


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def parse_manifest(data: bytes) -> Manifest:
    """InvalidInput says what is wrong with it, and where."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"manifest: not JSON: {error}") from None
    version = found.get("version") if isinstance(found, dict) else None
    if version != VERSION:
        raise InvalidInput(f"manifest: version {version!r}, and only {VERSION} is known")
    top = _JsonReader(found, "manifest")
    value = top.part("value")
    return Manifest(
        topic=top.text("topic"),
        topic_id=TopicId(top.text("topic_id")),
        revision=top.number("revision"),
        partitions=top.number("partitions"),
        value_format=value.text("format"),
        value_schema=value.text("schema"),
        files=tuple(_parse_file(file) for file in top.parts("files")),
    )


def _parse_file(file: _JsonReader) -> ManifestFile:
    return ManifestFile(
        partition=file.number("partition"),
        base_offset=Offset(file.number("base_offset")),
        end_offset=Offset(file.number("end_offset")),
        final=file.flag("final"),
        rows=file.number("rows"),
        min_timestamp=TimestampMs(file.number("min_timestamp")),
        max_timestamp=TimestampMs(file.number("max_timestamp")),
        unparsed=file.number("unparsed"),
        misfits=file.number("misfits"),
        columns=columns_text(parse_columns(json.dumps(file.take("columns", list)))),
        **{name: file.object(name) for name in OBJECTS},
    )


class _JsonReader:
    """Takes fields of their types out of JSON, and says which one is missing or of another."""

    def __init__(self, found: Mapping[str, Any], where: str) -> None:
        self._found = found
        self._where = where

    def take(self, name: str, kind: type) -> Any:
        value = self._found.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            what = "is missing" if name not in self._found else f"is {value!r}"[:60]
            raise InvalidInput(f"{self._where}: {name} {what}, and should be a {kind.__name__}")
        return value

    def text(self, name: str) -> str:
        return str(self.take(name, str))

    def number(self, name: str) -> int:
        return int(self.take(name, int))

    def flag(self, name: str) -> bool:
        return bool(self.take(name, bool))

    def part(self, name: str) -> _JsonReader:
        return _JsonReader(self.take(name, dict), f"{self._where}: {name}")

    def parts(self, name: str) -> list[_JsonReader]:
        found = enumerate(self.take(name, list))
        return [_JsonReader({name: one}, self._where).part(name)._at(at) for at, one in found]

    def _at(self, number: int) -> _JsonReader:
        return _JsonReader(self._found, f"{self._where}[{number}]")

    def object(self, name: str) -> TierObject | None:
        if name not in self._found:
            return None
        one = self.part(name)
        try:
            crc = int(one.text("crc32c"), 16)
        except ValueError:
            raise InvalidInput(f"{one._where}: crc32c is no hexadecimal number") from None
        return TierObject(one.text("key"), one.number("size"), crc)
