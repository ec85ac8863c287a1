"""The bytes of a manifest. docs/formats/manifest.md has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stratamq.lake.declared import columns_text, parse_columns
from stratamq.lake.tables.manifest import OBJECTS, Manifest, ManifestFile
from stratamq.meta.tier.files import TierObject
from stratamq.model.errors import InvalidInput
from stratamq.model.types import Offset, TimestampMs, TopicId

VERSION = 1


def to_bytes(manifest: Manifest) -> bytes:
    """A file per line, so that people can read it and tools can compare it."""
    head = {
        "version": VERSION,
        "topic": manifest.topic,
        "topic_id": manifest.topic_id,
        "revision": manifest.revision,
        "partitions": manifest.partitions,
        "value": {"format": manifest.value_format, "schema": manifest.value_schema},
        "columns": _plain(manifest.columns),
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
        "columns": _plain(file.columns),
        **{
            name: {"key": one.key, "size": one.size, "crc32c": f"{one.crc:08x}"}
            for name, one in objects.items()
            if one is not None
        },
    }


def _plain(columns: str) -> Any:
    return json.loads(columns) if columns else []


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def parse(data: bytes) -> Manifest:
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
