"""A record, as users see it."""

from __future__ import annotations

from typing import NamedTuple

from stratamq.model.types import NO_OFFSET, NO_TIMESTAMP, Offset, TimestampMs

TAG_HEADER = b"tag"
"""A tag is a record header of this name. It may be repeated."""

TTL_HEADER = b"ttl-ms"
"""Header with a record's own time to live, in decimal digits; see topic config `record.ttl.ms`."""

Header = tuple[bytes, bytes | None]


class Record(NamedTuple):
    """One message. A tuple, because millions are made and each must cost well under a microsecond.

    Keys, values and header values may be null, and a null is not an empty string. Header names are
    bytes: nothing forces them to be UTF-8. `tags` holds the values of the headers named `tag`, in
    order; `headers` holds all the others. `timestamp` -1 means "stamp it when it is written";
    `offset` is -1 until the record is stored.
    """

    value: bytes | None = None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    tags: tuple[bytes, ...] = ()
    timestamp: TimestampMs = NO_TIMESTAMP
    offset: Offset = NO_OFFSET
