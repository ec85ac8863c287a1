"""Records as lines: how `produce` reads them and `consume` writes them. Pure.

The JSON of a record that `consume` writes is the JSON that `produce --json-lines` reads. Bytes that
are not UTF-8 are `{"base64": "..."}` there.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from stratamq.cli.failing import UsageError
from stratamq.cli.specs import time_text
from stratamq.client.cluster import TopicPartition
from stratamq.model.record import Header, Record
from stratamq.model.types import NO_TIMESTAMP, TimestampMs

READ = frozenset({"key", "value", "headers", "tags", "timestamp"})
IGNORED = frozenset({"topic", "partition", "offset", "time"})
"""Fields of a record that was consumed and is produced again, elsewhere."""

Format = Callable[[TopicPartition, Record], bytes]
_FIELD = re.compile(r"\{(\w+)\}|\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


def text_of(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def escaped(data: bytes | None) -> str:
    """For people, on one line and in quotes, whatever is in it."""
    if data is None:
        return "null"
    try:
        return repr(data.decode())
    except UnicodeDecodeError:
        return repr(data)


def bytes_of(value: Any) -> bytes | None:
    """The reverse; JSON that is neither text nor bytes is stored as JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise UsageError(f"{value['base64']!r} is not base64") from None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def as_json(place: TopicPartition, record: Record) -> dict[str, Any]:
    return {
        "topic": place.topic,
        "partition": place.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "time": time_text(record.timestamp),
        "key": text_of(record.key),
        "value": text_of(record.value),
        "headers": [
            [name.decode("utf-8", "replace"), text_of(raw)] for name, raw in record.headers
        ],
        "tags": [text_of(tag) for tag in record.tags],
    }


def record_of_json(line: bytes) -> Record:
    """UsageError says what is wrong with the line."""
    try:
        read = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"it is not JSON ({error})") from None
    if not isinstance(read, dict) or not read.keys() & {"key", "value"}:
        raise UsageError('it is not an object with "value" or "key"')
    if unknown := sorted(read.keys() - READ - IGNORED):
        raise UsageError(f"{unknown[0]!r} is not one of {', '.join(sorted(READ))}")
    timestamp = read.get("timestamp", NO_TIMESTAMP)
    if type(timestamp) is not int:
        raise UsageError('"timestamp" must be milliseconds since 1970')
    return Record(
        value=bytes_of(read.get("value")),
        key=bytes_of(read.get("key")),
        headers=tuple(_headers(read.get("headers", ()))),
        tags=tuple(bytes_of(tag) or b"" for tag in read.get("tags", ())),
        timestamp=TimestampMs(timestamp),
    )


def _headers(given: Any) -> Iterable[Header]:
    pairs = given.items() if isinstance(given, dict) else given
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2 or not isinstance(pair[0], str):
            raise UsageError('"headers" must be [[name, value], ...] or an object')
        yield pair[0].encode(), bytes_of(pair[1])


def record_of_line(
    line: bytes, separator: bytes | None, headers: tuple[Header, ...], tags: tuple[bytes, ...]
) -> Record:
    key, value = None, line
    if separator:
        key, is_pair, value = line.partition(separator)
        if not is_pair:
            raise UsageError(f"it has no {separator.decode()!r} after a key")
    return Record(value=value, key=key, headers=headers, tags=tags)


def unescaped(text: str) -> str:
    r"""`\t`, `\n` and the like as the characters they stand for; shells leave them."""
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), text)


def format_of(text: str) -> Format:
    """`value`, `key-value`, `json`, or a template such as `{offset} {key}: {value}`."""
    if text == "value":
        return lambda place, record: (record.value or b"") + b"\n"
    if text == "key-value":
        return lambda place, record: (record.key or b"") + b"\t" + (record.value or b"") + b"\n"
    if text == "json":
        return lambda place, record: (
            json.dumps(as_json(place, record), ensure_ascii=False).encode() + b"\n"
        )
    if "{" not in text:
        raise UsageError(f"format {text!r} is not value, key-value, json, or a template with {{}}")
    return _template(text)


FIELDS: dict[str, Format] = {
    "topic": lambda place, record: place.topic.encode(),
    "partition": lambda place, record: b"%d" % place.partition,
    "offset": lambda place, record: b"%d" % record.offset,
    "timestamp": lambda place, record: b"%d" % record.timestamp,
    "time": lambda place, record: time_text(record.timestamp).encode(),
    "key": lambda place, record: record.key or b"",
    "value": lambda place, record: record.value or b"",
    "headers": lambda place, record: b",".join(
        name + b"=" + (value or b"") for name, value in record.headers
    ),
    "tags": lambda place, record: b",".join(record.tags),
}


def _template(text: str) -> Format:
    parts: list[bytes | Format] = []
    end = 0
    for found in _FIELD.finditer(text):
        parts.append(text[end : found.start()].encode())
        end = found.end()
        if found[2]:
            parts.append(_ESCAPES.get(found[2], found[0]).encode())
        elif found[1] in FIELDS:
            parts.append(FIELDS[found[1]])
        else:
            known = ", ".join(FIELDS)
            raise UsageError(f"{found[0]} in the format is not one of {known}")
    parts.append(text[end:].encode() + b"\n")

    def formatted(place: TopicPartition, record: Record) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(place, record) for part in parts)

    return formatted
