"""Records as Python people write and read them. Text is taken anywhere and means UTF-8."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from stratamq.model.errors import InvalidRecord
from stratamq.model.record import Header, Record
from stratamq.model.types import NO_TIMESTAMP, Offset, TimestampMs

Text = bytes | str
Headers = Mapping[Text, Text | None] | Sequence[tuple[Text, Text | None]]
Tags = Text | Iterable[Text]
Timestamp = int | datetime
"""Milliseconds since 1970, or a datetime; one without a zone is local time, as datetime has it."""

RECORD_BYTES = 64
"""What a record costs in a batch in addition to its bytes, generously; so much for each header as
well."""


class Message(NamedTuple):
    """A stored record and where it is."""

    partition: int
    offset: Offset
    timestamp: TimestampMs
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    tags: tuple[bytes, ...]

    @property
    def text(self) -> str | None:
        """The value as text."""
        return None if self.value is None else self.value.decode()


def message_of(partition: int, record: Record) -> Message:
    return Message(
        partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        record.headers,
        record.tags,
    )


def record_of(
    value: Text | None,
    key: Text | None = None,
    headers: Headers = (),
    tags: Tags = (),
    timestamp: Timestamp | None = None,
) -> Record:
    return Record(
        value=bytes_of(value),
        key=bytes_of(key),
        headers=_headers(headers),
        tags=_tags(tags),
        timestamp=NO_TIMESTAMP if timestamp is None else timestamp_of(timestamp),
    )


def any_record(item: object) -> Record:
    """A Record, a value alone, or a mapping with the names that `produce` has."""
    if isinstance(item, Record):
        return item
    if isinstance(item, Mapping):
        try:
            return record_of(**{"value": None, **item})
        except TypeError as error:
            raise InvalidRecord(f"not a record: {error}") from None
    return record_of(item)  # type: ignore[arg-type]  # checked there


def bytes_of(text: Text | None) -> bytes | None:
    if text is None or isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, bytearray | memoryview):
        return bytes(text)
    raise InvalidRecord(f"bytes or text is wanted, not {type(text).__name__}")


def some_bytes(text: Text) -> bytes:
    """For look-ups, where nothing is not something."""
    found = bytes_of(text)
    if found is None:
        raise InvalidRecord("bytes or text is wanted, not None")
    return found


def timestamp_of(timestamp: Timestamp) -> TimestampMs:
    if isinstance(timestamp, datetime):
        return TimestampMs(round(timestamp.timestamp() * 1000))
    return TimestampMs(timestamp)


def _headers(headers: Headers) -> tuple[Header, ...]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((some_bytes(name), bytes_of(value)) for name, value in pairs)


def _tags(tags: Tags) -> tuple[bytes, ...]:
    if isinstance(tags, bytes | str):
        return (some_bytes(tags),)
    return tuple(some_bytes(tag) for tag in tags)


def in_batches(
    records: Iterable[Record], bytes_max: int, records_max: int
) -> Iterator[list[Record]]:
    """Runs that fit a batch of `bytes_max`; a record that does not fit one comes alone."""
    batch: list[Record] = []
    size = 0
    for record in records:
        weight = RECORD_BYTES + len(record.value or b"") + len(record.key or b"")
        for name, value in record.headers:
            weight += RECORD_BYTES + len(name) + len(value or b"")
        for tag in record.tags:
            weight += RECORD_BYTES + len(tag)
        if batch and (size + weight > bytes_max or len(batch) == records_max):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += weight
    if batch:
        yield batch
